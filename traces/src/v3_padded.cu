// C = A * B, 16x16x16 in half precision, row-major, by one warp: grid 1, block 32.
//
// Version 3: version 2 with the rows of A and B in shared memory padded from 16 to
// 24 halves (48 bytes). Eight consecutive rows now start in eight different groups
// of four banks, and the matrix loads are free of conflicts. The 128-bit copies in
// pay for it: they walk across the pads and take twice their wavefronts. C stays
// unpadded, so its result stores conflict as before.

#include <mma.h>

using namespace nvcuda;

#ifndef PITCH  // halves from row to row
#define PITCH 24
#endif
constexpr int padded_row = PITCH;

extern "C" __global__ void v3_padded(const half* a, const half* b, half* c) {
    __shared__ alignas(128) half sa[16 * padded_row];
    __shared__ alignas(128) half sb[16 * padded_row];
    __shared__ alignas(128) half sc[16 * 16];
    const int t = threadIdx.x;
    const int padded = padded_row * (t / 2) + 8 * (t % 2);

    *reinterpret_cast<uint4*>(&sa[padded]) = *reinterpret_cast<const uint4*>(&a[8 * t]);
    *reinterpret_cast<uint4*>(&sb[padded]) = *reinterpret_cast<const uint4*>(&b[8 * t]);
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fragment_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fragment_c;

    wmma::fill_fragment(fragment_c, __float2half(0.0f));
    wmma::load_matrix_sync(fragment_a, sa, padded_row);
    wmma::load_matrix_sync(fragment_b, sb, padded_row);
    wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
    wmma::store_matrix_sync(sc, fragment_c, 16, wmma::mem_row_major);
    __syncthreads();

    *reinterpret_cast<uint4*>(&c[8 * t]) = *reinterpret_cast<const uint4*>(&sc[8 * t]);
}
