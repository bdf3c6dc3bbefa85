// CTA 0 waits for CTA 1 in the middle of what check follows: at a barrier, and with a value that nobody has written.

__device__ void wait_for_other(volatile int *flag) {
    if (blockIdx.x == 0) {
        while (flag[0] == 0) {
        }
    }
}

__device__ void let_other_go(volatile int *flag) {
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        flag[0] = 1;
    }
}

// Warp 1 is at its barrier when CTA 0 is set aside; warp 0 comes to another one when CTA 0 goes on.
extern "C" __global__ void two_barriers(int *flag, int *out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x < 32) {
            wait_for_other(flag);
            __syncthreads();
            out[threadIdx.x] = 1;
        } else {
            __syncthreads();
            out[threadIdx.x] = 2;
        }
    }
    let_other_go(flag);
}

// The value is in a register when CTA 0 is set aside, and used when it goes on.
extern "C" __global__ void unwritten_local(int *flag, int *out, int k) {
    volatile int local[16];
    local[k] = 1;
    int value = blockIdx.x == 0 ? local[k + 1] : local[k];
    wait_for_other(flag);
    out[blockIdx.x * blockDim.x + threadIdx.x] = value * 3;
    let_other_go(flag);
}
