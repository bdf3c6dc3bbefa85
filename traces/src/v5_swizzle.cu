// C = A * B, 16x16x16 in half precision, row-major, by one warp: grid 1, block 32.
//
// Version 5: version 4 with every index into shared memory passed through the XOR
// swizzle<S=3, B=1, M=3>: the copies in, the ldmatrix rows, the result store and the
// copy out. In rows 4 to 7 and 12 to 15 the two 16-byte halves of a row change places,
// so eight consecutive rows start in eight different groups of four banks. No access
// conflicts any more, and no shared memory is spent on pads.
//
// There is no stmatrix before sm_90; the stand-in is that of version 4.

#include <cuda_fp16.h>
#include <cstdint>

#ifndef BITS  // of the swizzle; 0 leaves the tiles plain
#define BITS 1
#endif

namespace {

// XORs the B bits of `index` that start at bit M + S onto those that start at bit M.
template <int S, int B, int M>
__device__ int swizzle(int index) {
    return index ^ ((index >> S) & (((1 << B) - 1) << M));
}

__device__ void load_matrix_x4(uint32_t (&r)[4], const half* row) {
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ void load_matrix_x4_transposed(uint32_t (&r)[4], const half* row) {
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// Columns n to n + 7 of the product: d = a * {b0, b1}, 16x8x16, accumulated in half.
__device__ void multiply(uint32_t& d0, uint32_t& d1, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %8};"
                 : "=r"(d0), "=r"(d1)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
}

// Stands in for stmatrix.x4: `row` of lane 8 i + k is where row k of matrix i goes.
__device__ void store_matrix_x4(half* row, const uint32_t (&r)[4]) {
    const int t = threadIdx.x;
    const unsigned long long address = __cvta_generic_to_shared(row);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned long long target = __shfl_sync(0xffffffff, address, 8 * i + t / 4);
        reinterpret_cast<uint32_t*>(__cvta_shared_to_generic(target))[t % 4] = r[i];
    }
}

}  // namespace

extern "C" __global__ void v5_swizzle(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[16 * 16];
    __shared__ alignas(128) half sb[16 * 16];
    __shared__ alignas(128) half sc[16 * 16];
    const int t = threadIdx.x;
    const int piece = swizzle<3, BITS, 3>(8 * t);
    const int row = swizzle<3, BITS, 3>(16 * (t % 16) + 8 * (t / 16));

    *reinterpret_cast<uint4*>(&sa[piece]) = *reinterpret_cast<const uint4*>(&a[8 * t]);
    *reinterpret_cast<uint4*>(&sb[piece]) = *reinterpret_cast<const uint4*>(&b[8 * t]);
    __syncthreads();

    uint32_t ra[4], rb[4], rc[4];
    load_matrix_x4(ra, &sa[row]);
    load_matrix_x4_transposed(rb, &sb[row]);
    multiply(rc[0], rc[1], ra, rb[0], rb[1]);
    multiply(rc[2], rc[3], ra, rb[2], rb[3]);
    store_matrix_x4(&sc[row], rc);
    __syncthreads();

    *reinterpret_cast<uint4*>(&c[8 * t]) = *reinterpret_cast<const uint4*>(&sc[piece]);
}
