// Kernels whose values NumPy computes to the bit, for benchmarks/execution.py: blocks of 256 threads, one value each.
#include <stdint.h>

extern "C" __global__ void fma_chain(const float* a, float* b) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float y = a[i];
    float x = y;
#pragma unroll 8
    for (int k = 0; k < 256; ++k) x = fmaf(x, 0.5f, y);
    b[i] = x;
}

extern "C" __global__ void hash_words(const uint32_t* a, uint32_t* b) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    uint32_t h = a[i];
#pragma unroll 4
    for (int k = 0; k < 64; ++k) {
        h ^= h >> 13;
        h = h * 2246822519u + i;
    }
    b[i] = h;
}

extern "C" __global__ void stream(const float4* a, float4* b) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float4 v = a[i];
    v.x *= 2.0f;
    v.w += 1.0f;
    b[i] = v;
}

extern "C" __global__ void turn_shared(const float* a, float* b) {
    __shared__ float t[256];
    const int i = threadIdx.x;
    t[i] = a[blockIdx.x * 256 + i];
    for (int k = 0; k < 16; ++k) {
        __syncthreads();
        const float x = t[(i * 33 + k) & 255];
        __syncthreads();
        t[i] = x + 1.0f;
    }
    b[blockIdx.x * 256 + i] = t[i];
}
