// Shuffles that read lanes which take no part: in x_bad results depend on it, in x_good they do not.
// 48 threads: the last warp has 16 lanes.
__device__ __forceinline__ void sum_tail(int *out, int first) {
    int v = threadIdx.x + 1;
    unsigned mask = threadIdx.x < 32 ? 0xffffffff : 0xffff;
    for (int d = first; d; d >>= 1) v += __shfl_down_sync(mask, v, d);
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;
}
extern "C" __global__ void tail_bad(int *out) { sum_tail(out, 16); }
extern "C" __global__ void tail_good(int *out) { sum_tail(out, threadIdx.x < 32 ? 16 : 8); }

extern "C" __global__ void absent_bad(int *out) {
    int v = threadIdx.x * 3;
    if (threadIdx.x % 32 < 16) v = __shfl_sync(0x0000ffff, v, 20);
    out[threadIdx.x] = v;
}
extern "C" __global__ void absent_good(int *out) {
    int v = threadIdx.x * 3;
    if (threadIdx.x % 32 < 16) v = __shfl_sync(0x0000ffff, v, 12);
    out[threadIdx.x] = v;
}

extern "C" __global__ void exited_bad(int *out) {
    if (threadIdx.x >= 24) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffff, threadIdx.x * 3, 8);
}
extern "C" __global__ void exited_good(int *out) {
    if (threadIdx.x >= 24) return;
    int other = __shfl_xor_sync(0xffffff, threadIdx.x * 3, 8);
    out[threadIdx.x] = (threadIdx.x ^ 8) < 24 ? other : 0;
}

// The value from beyond the end goes on through sums and selects, and nobody keeps it.
extern "C" __global__ void scan_bad(int *out) {
    if (threadIdx.x >= 20) return;
    int v = threadIdx.x;
    for (int d = 1; d < 32; d *= 2) v += __shfl_down_sync(0xfffff, v, d);
    out[threadIdx.x] = v;
}
extern "C" __global__ void scan_good(int *out) {
    if (threadIdx.x >= 20) return;
    int v = threadIdx.x;
    for (int d = 1; d < 32; d *= 2) {
        int o = __shfl_down_sync(0xfffff, v, d);
        v = threadIdx.x + d < 20 ? v + o : v;
    }
    out[threadIdx.x] = v;
}

// Two lanes of a branch, then all: the mask comes from a slow constant, which the compiler knows to be in time.
extern "C" __global__ void masked_good(int *out) {
    __syncthreads();
    int lane = threadIdx.x & 31, local = lane, received = lane + 32;
    if ((lane & 15) == 0) {
        local += received;
        received = __shfl_xor_sync(0x00010001u, local, 16);
    }
    received = __shfl_up_sync(~0u, received, 8);
    __syncthreads();
    out[threadIdx.x] = received;
}

// All lanes are together, so that machine code has no mask.
extern "C" __global__ void unmasked_bad(int *out) {
    out[threadIdx.x] = __shfl_sync(0x0000ffff, threadIdx.x * 3, 20);
}
extern "C" __global__ void unmasked_good(int *out) {
    out[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x * 3, 20);
}
