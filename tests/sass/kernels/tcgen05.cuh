// What the kernels with tensor memory share: addresses, descriptors, and tiles in shared memory.
#pragma once
#include <cstdint>

constexpr int N = 64, K = 16;

__device__ uint32_t at(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

// Matrices of 8 rows of 16 bytes without a swizzle: `near` bytes to the next 8 rows, `far` bytes to the next 8 of K.
// The address of a CTA in a cluster has the CTA's rank above its 18 bits.
__device__ uint64_t matrix(uint32_t address, uint32_t far, uint32_t near) {
    return (address & 0x3ffff) >> 4 | uint64_t(far >> 4) << 16 | uint64_t(near >> 4) << 32 | uint64_t(1) << 46;
}

__device__ void place(uint16_t* shared, const uint16_t* given, int rows) {
    for (int i = threadIdx.x; i < rows * K; i += blockDim.x) {
        int row = i / K, k = i % K;
        shared[k / 8 * rows * 8 + row * 8 + k % 8] = given[i];
    }
}

__device__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
