// Barriers that threads reach at different places, and such as look like it.
#define LINE s[threadIdx.x] = n; __syncthreads(); out[threadIdx.x] = s[127 - threadIdx.x]

extern "C" __global__ void branches_bad(int *out) {
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 64) {
        out[threadIdx.x] = 1;
        __syncthreads();
        s[threadIdx.x] += 1;
    } else {
        __syncthreads();
    }
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void branches_good(int *out) {
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 64) out[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x < 64) s[threadIdx.x] += 1;
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}

// A function with a barrier, called by half of the warps here and by the others there.
__device__ __forceinline__ int exchanged(int *s, int value) {
    s[threadIdx.x] = value;
    __syncthreads();
    return s[127 - threadIdx.x];
}
extern "C" __global__ void calls_bad(int *out) {
    __shared__ int s[128];
    int value;
    if (threadIdx.x < 64)
        value = exchanged(s, out[threadIdx.x]);
    else
        value = exchanged(s, 7) * 3;
    out[threadIdx.x] = value;
}
extern "C" __global__ void calls_good(int *out) {
    __shared__ int s[128];
    int value = exchanged(s, threadIdx.x < 64 ? out[threadIdx.x] : 7);
    out[threadIdx.x] = threadIdx.x < 64 ? value : value * 3;
}

// One leaves the loop a round earlier, and waits behind it.
extern "C" __global__ void rounds_bad(int *out) {
    __shared__ int s[128];
    int rounds = threadIdx.x < 64 ? 3 : 2;
    s[threadIdx.x] = 0;
    for (int i = 0; i < rounds; i++) {
        s[threadIdx.x] += i;
        __syncthreads();
    }
    if (threadIdx.x >= 64) __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void rounds_good(int *out) {
    __shared__ int s[128];
    int rounds = threadIdx.x < 64 ? 3 : 2;
    s[threadIdx.x] = 0;
    for (int i = 0; i < 3; i++) {
        if (i < rounds) s[threadIdx.x] += i;
        __syncthreads();
    }
    out[threadIdx.x] = s[127 - threadIdx.x];
}

// Two barriers of one line.
extern "C" __global__ void line_bad(int *out) {
    __shared__ int s[128];
    int n = out[threadIdx.x];
    if (threadIdx.x < 64) { n += 5; LINE; } else { LINE; }
}
extern "C" __global__ void line_good(int *out) {
    __shared__ int s[128];
    int n = out[threadIdx.x];
    if (threadIdx.x < 64) { n += 5; } LINE;
}

// An unrolled loop that warps enter at different rounds.
extern "C" __global__ void unrolled_good(int *out, int n) {
    __shared__ int s[2][128];
    int sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x / 64; i < n + threadIdx.x / 64; i++) {
        s[i % 2][threadIdx.x] = i;
        __syncthreads();
        sum += s[i % 2][threadIdx.x ^ 1];
    }
    out[threadIdx.x] = sum;
}

// Barriers with a count, or with a number of their own, may stand at several places, and so may barrier.sync.
extern "C" __global__ void roles_good(int *out) {
    __shared__ int s[128];
    if (threadIdx.x < 64) {
        s[threadIdx.x] = 1;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
        asm volatile("bar.sync 2, 128;" ::: "memory");
        asm volatile("bar.sync 3;" ::: "memory");
        asm volatile("barrier.sync 0;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[threadIdx.x] = s[threadIdx.x - 64];
        asm volatile("bar.sync 2, 128;" ::: "memory");
        asm volatile("bar.sync 3;" ::: "memory");
        asm volatile("barrier.sync 0;" ::: "memory");
    }
}

// Two roles of 64 threads, which meet by a barrier of 64 threads each: by the same one here.
template <int OTHER> __device__ void meets(int *out) {
    __shared__ int s[128];
    for (int i = 0; i < 3; i++) {
        s[threadIdx.x] = i;
        if (threadIdx.x < 64)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        else
            asm volatile("bar.sync %0, 64;" ::"n"(OTHER) : "memory");
        out[threadIdx.x] += s[threadIdx.x ^ 63];
        if (threadIdx.x < 64)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        else
            asm volatile("bar.sync %0, 64;" ::"n"(OTHER) : "memory");
    }
}
extern "C" __global__ void shared_number_bad(int *out) { meets<1>(out); }
extern "C" __global__ void shared_number_good(int *out) { meets<2>(out); }

// A barrier number that one role uses after the other, with a barrier for all between.
extern "C" __global__ void number_again_good(int *out) {
    __shared__ int s[128];
    s[threadIdx.x] = 1;
    if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    __syncthreads();
    if (threadIdx.x >= 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = s[threadIdx.x ^ 63];
}
