// The 16x16 products of versions 4 and 5 with the article's own stand-in for stmatrix: the lanes shuffle a generic
// pointer, an integer of 64 bits that the compiler knows nothing about, so that they must store by generic address
// (ST.E in place of STS). These stores go to shared memory all the same, and count as such.
//
//   v4_generic      version 4 so
//   v5_generic      version 5 so, its WMMA fragments filled by ldmatrix, and with no barrier between the result's
//                   store and the copy out: right only because one warp in lockstep does both
//   v4_generic_k32  version 4 with 32 rows of B, two steps
//   v4_generic_row  version 4 by four warps: each makes 16 columns of a result whose rows are 64 halves

#include <cuda_fp16.h>
#include <cstdint>
#include <mma.h>

using namespace nvcuda;

namespace {

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

// Columns n to n + 7: d = a * {b0, b1} + d, 16x8x16, accumulated in half.
__device__ void multiply(uint32_t& d0, uint32_t& d1, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d0), "+r"(d1)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Stands in for stmatrix.x4: `row` of lane 8 i + k is where row k of matrix i goes, a generic pointer.
__device__ void store_matrix_x4(half* row, const uint32_t (&r)[4]) {
    const int lane = threadIdx.x % 32;
    const uint64_t mine = reinterpret_cast<uint64_t>(row);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint64_t target = __shfl_sync(0xffffffff, mine, 8 * i + lane / 4);
        reinterpret_cast<uint32_t*>(target)[lane % 4] = r[i];
    }
}

__device__ void copy_8(half* to, const half* from) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}

__device__ void multiply_16x16(uint32_t (&rc)[4], const half* a, const half* b) {
    uint32_t ra[4], rb[4];
    load_matrix_x4(ra, a);
    load_matrix_x4_transposed(rb, b);
    multiply(rc[0], rc[1], ra, rb[0], rb[1]);
    multiply(rc[2], rc[3], ra, rb[2], rb[3]);
}

}  // namespace

extern "C" __global__ void v4_generic(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[16 * 16], sb[16 * 16], sc[16 * 16];
    const int t = threadIdx.x;
    const int row = 16 * (t % 16) + 8 * (t / 16);
    copy_8(&sa[8 * t], &a[8 * t]);
    copy_8(&sb[8 * t], &b[8 * t]);
    __syncthreads();
    uint32_t rc[4] = {};
    multiply_16x16(rc, &sa[row], &sb[row]);
    store_matrix_x4(&sc[row], rc);
    __syncthreads();
    copy_8(&c[8 * t], &sc[8 * t]);
}

extern "C" __global__ void v5_generic(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[16 * 16], sb[16 * 16], sc[16 * 16];
    const int t = threadIdx.x;
    const int piece = swizzle<3, 1, 3>(8 * t);
    const int row = swizzle<3, 1, 3>(16 * (t % 16) + 8 * (t / 16));
    copy_8(&sa[piece], &a[8 * t]);
    copy_8(&sb[piece], &b[8 * t]);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fragment_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fragment_c;
    wmma::fill_fragment(fragment_c, __float2half(0.0f));
    load_matrix_x4(*reinterpret_cast<uint32_t(*)[4]>(fragment_a.x), &sa[row]);
    load_matrix_x4_transposed(*reinterpret_cast<uint32_t(*)[4]>(fragment_b.x), &sb[row]);
    wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
    store_matrix_x4(&sc[row], *reinterpret_cast<uint32_t(*)[4]>(fragment_c.x));
    copy_8(&c[8 * t], &sc[piece]);
}

extern "C" __global__ void v4_generic_k32(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[2][16 * 16], sb[2][16 * 16], sc[16 * 16];
    const int t = threadIdx.x;
    const int row = 16 * (t % 16) + 8 * (t / 16);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        copy_8(&sa[k][8 * t], &a[32 * (t / 2) + 16 * k + 8 * (t % 2)]);
        copy_8(&sb[k][8 * t], &b[256 * k + 8 * t]);
    }
    __syncthreads();
    uint32_t rc[4] = {};
#pragma unroll
    for (int k = 0; k < 2; ++k) multiply_16x16(rc, &sa[k][row], &sb[k][row]);
    store_matrix_x4(&sc[row], rc);
    __syncthreads();
    copy_8(&c[8 * t], &sc[8 * t]);
}

extern "C" __global__ void v4_generic_row(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[4][16 * 16], sb[4][16 * 16], sc[16 * 64];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = 16 * (t % 16) + 8 * (t / 16);
    copy_8(&sa[warp][8 * t], &a[8 * t]);
    copy_8(&sb[warp][8 * t], &b[64 * (t / 2) + 16 * warp + 8 * (t % 2)]);
    __syncthreads();
    uint32_t rc[4] = {};
    multiply_16x16(rc, &sa[warp][row], &sb[warp][row]);
    store_matrix_x4(&sc[64 * (t % 16) + 16 * warp + 8 * (t / 16)], rc);
    __syncthreads();
    copy_8(&c[8 * threadIdx.x], &sc[8 * threadIdx.x]);
}
