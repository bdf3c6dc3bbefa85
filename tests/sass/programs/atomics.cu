// Atomics of every kind, on global and shared memory; locks.

#include <cuda/atomic>
#include <cuda_fp16.h>

typedef unsigned long long Long;

template <typename Word> __device__ void all_of_them(Word *s, Long *q, int x) {
    atomicAdd((int *)s, x); atomicSub((int *)s + 1, x); atomicMin((int *)s + 2, x); atomicMax((int *)s + 3, x);
    atomicAnd((unsigned *)s + 4, (unsigned)x | 0xff00); atomicOr((unsigned *)s + 5, 1u << (x & 31)); atomicXor((unsigned *)s + 6, (unsigned)x);
    atomicInc((unsigned *)s + 7, 17); atomicDec((unsigned *)s + 8, 9); atomicMin((unsigned *)s + 9, (unsigned)x);
    atomicMax((unsigned *)s + 10, (unsigned)x); atomicExch((int *)s + 11, 5); atomicCAS((int *)s + 12, 0, 8);
    atomicAdd(q, (Long)x * x); atomicMin((long long *)q + 1, (long long)x * 7); atomicMax(q + 2, (Long)x); atomicAnd(q + 3, ~(1ull << (x & 63)));
    atomicOr(q + 4, 1ull << (x & 63)); atomicXor(q + 5, (Long)x << 20); atomicExch(q + 6, 9ull); atomicCAS(q + 7, 0ull, 3ull);
}

extern "C" __global__ void on_global(int *words, Long *longs, float *floats, double *doubles, __half2 *halves, int *tickets, const int *in) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, x = in[t];
    all_of_them(words, longs, x);
    atomicAdd(floats, (float)x);
    atomicAdd(doubles, (double)x);
    atomicAdd(halves, __floats2half2_rn(1, 2));
    tickets[t] = atomicAdd(words + 13, 1);
    atomicAdd_system(words + 14, 1);
    atomicAdd_block(words + 15, 2);
}

extern "C" __global__ void on_shared(int *words, Long *longs, float *floats, int *tickets, const int *in) {
    __shared__ int s[16];
    __shared__ Long q[8];
    __shared__ float f;
    __shared__ double d;
    int t = threadIdx.x, x = in[t];
    if (t < 16) s[t] = words[t];
    if (t < 8) q[t] = longs[t];
    if (t == 0) { f = 0; d = 0; }
    __syncthreads();
    all_of_them(s, q, x);
    atomicAdd(&f, (float)x);
    atomicAdd(&d, (double)x);
    tickets[t] = atomicAdd(s + 13, 1);
    __syncthreads();
    if (t < 16) words[t] = s[t];
    if (t < 8) longs[t] = q[t];
    if (t == 0) { floats[0] = f; floats[1] = d; }
}

__device__ __noinline__ int add(int *p, int v) { return atomicAdd(p, v); }
__device__ __noinline__ Long swap(Long *p, Long v) { return atomicExch(p, v); }
extern "C" __global__ void on_generic(int *out, Long *longs, const int *in) {
    __shared__ int s;
    __shared__ Long q;
    int t = threadIdx.x;
    if (t == 0) { s = 0; q = 0; }
    __syncthreads();
    add(t & 1 ? &s : out, in[t]);
    swap(t & 2 ? &q : longs, 7);
    __syncthreads();
    if (t == 0) { out[1] = s; longs[1] = q; }
}

extern "C" __global__ void standard(int *out, Long *total, const int *in) {
    int t = threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device> r(*out);
    r.fetch_add(in[t], cuda::memory_order_relaxed);
    cuda::atomic_ref<Long, cuda::thread_scope_system> w(*total);
    Long e = w.load();
    while (!w.compare_exchange_weak(e, e + in[t])) {}
    cuda::atomic_ref<unsigned char, cuda::thread_scope_block> c(*((unsigned char *)(out + 1) + (t & 3)));
    c.fetch_add(1);
}

extern "C" __global__ void histogram(unsigned *out, const unsigned char *in, int n) {
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(bins + in[i], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(out + i, bins[i]);
}

// Every lane takes the lock once; and warps hand a flag around.
extern "C" __global__ void locks(int *lock, int *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            out[0] += t;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    for (int k = 0; k < 12; k++) {
        if (threadIdx.x / 32 == (k ^ 1) % 2) {
            while (flag != k) __nanosleep(20);
            if (threadIdx.x % 32 == 0) { out[1 + k] = 10 * (threadIdx.x / 32) + k; __threadfence_block(); flag = k + 1; }
            __syncwarp();
        }
    }
}
