// C = A * B, 16x16x16 in half precision, row-major, by one warp: grid 1, block 32.
//
// Version 2: through shared memory. Each thread copies 16 bytes of A and of B in
// and 16 bytes of C out. Rows of 16 halves are 32 bytes, so rows r and r + 4 start
// in the same bank: each of the four phases of a matrix load (8 rows of 16 bytes)
// takes two wavefronts, and so does each of the four 32-bit result stores.
// The 128-bit copies are free of conflicts.

#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void v2_shared_memory(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[16 * 16];
    __shared__ alignas(128) half sb[16 * 16];
    __shared__ alignas(128) half sc[16 * 16];
    const int t = threadIdx.x;

    *reinterpret_cast<uint4*>(&sa[8 * t]) = *reinterpret_cast<const uint4*>(&a[8 * t]);
    *reinterpret_cast<uint4*>(&sb[8 * t]) = *reinterpret_cast<const uint4*>(&b[8 * t]);
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fragment_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fragment_c;

    wmma::fill_fragment(fragment_c, __float2half(0.0f));
    wmma::load_matrix_sync(fragment_a, sa, 16);
    wmma::load_matrix_sync(fragment_b, sb, 16);
    wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
    wmma::store_matrix_sync(sc, fragment_c, 16, wmma::mem_row_major);
    __syncthreads();

    *reinterpret_cast<uint4*>(&c[8 * t]) = *reinterpret_cast<const uint4*>(&sc[8 * t]);
}
