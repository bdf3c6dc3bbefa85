// Functions, switches, local arrays, constant banks and global variables: what a cubin says beside the code.

#include <cstdint>

__constant__ float table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
__constant__ int second[4];
__device__ int counter = 7;
__device__ float scratch[64];
__device__ int *pointer_to_counter = &counter;

struct Mixed {
    int32_t a;
    double b;
    char c[5];
};

__device__ __noinline__ float series(float x, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += __expf(x * i) / (x + i);
    return sum;
}

extern "C" __global__ void calls(float *out, const float *in, int n, Mixed mixed) {
    int t = threadIdx.x;
    out[t] = series(in[t] + table[t & 15], n) + mixed.b + mixed.a + mixed.c[t % 5] + second[t & 3];
    atomicAdd(&counter, 1);
    atomicAdd(pointer_to_counter, 2);
    scratch[t & 63] = out[t];
}

__device__ __noinline__ int depth(int n, const int *in) {
    int child = in[n];
    return child == 0 ? n : depth(child, in) * 3 + in[n + 1];
}

extern "C" __global__ void __launch_bounds__(128, 2) recursion(int *out, const int *in) {
    out[threadIdx.x] = depth(threadIdx.x, in);
}

__device__ int increment(int a) { return a + 1; }
__device__ int triple(int a) { return a * 3; }
__device__ __noinline__ int flip(int a) { return a ^ 5; }

typedef int (*Operation)(int);
__device__ Operation operations[3] = {increment, triple, flip};

extern "C" __global__ void indirect(int *out, int n) { out[threadIdx.x] = operations[n](threadIdx.x); }

__global__ void switching(int *out, const int *in, int n) {
    int t = threadIdx.x, r = in[t];
    switch (n) {
        case 0: r = r * 17; break;
        case 1: r = __popc(r); break;
        case 2: r = r / (n + r); break;
        case 3: r = __clz(r); break;
        case 4: r = __brev(r); break;
        case 5: r ^= in[r & 3]; break;
        case 6: r = in[r & 7] + 3; break;
        case 7: r = __ffs(r); break;
        case 8: r = r % 13; out[9] = 3; break;
        case 9: r -= 100; out[3] = r; break;
        default: r = 0;
    }
    out[t] = r;
}

extern "C" __global__ void __launch_bounds__(64) local_array(int *out, const int *in, int n) {
    int a[32];
    for (int i = 0; i < 32; ++i) a[i] = in[i * 3];
    for (int i = 0; i < n; ++i) a[(i * 7 + in[i]) & 31] += i;
    out[threadIdx.x] = a[n & 31];
}

template <int N>
__global__ void reversed(int *o) {
    __shared__ int s[N];
    s[threadIdx.x] = o[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = s[N - 1 - threadIdx.x];
}
template __global__ void reversed<32>(int *);
template __global__ void reversed<64>(int *);

namespace inner {
__global__ void assign(int *o) { *o = 1; }
}  // namespace inner

extern "C" __global__ void diverging(int *out, const int *in) {
    extern __shared__ int dynamic[];
    int t = threadIdx.x, sum = 0;
    dynamic[t] = in[t];
    __syncthreads();
    for (int i = 0; i < dynamic[t]; ++i) {
        if (dynamic[(t + i) & 31] > 100) break;
        if (dynamic[i & 31] & 1) sum += i * 3; else sum ^= in[sum & 31];
    }
    __syncwarp();
    if (sum < 0) return;
    if (t < 16) { __syncwarp(0xffff); sum += __shfl_xor_sync(0xffff, sum, 1); }
    out[t] = sum;
}
