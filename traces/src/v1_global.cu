// C = A * B, 16x16x16 in half precision, row-major, by one warp: grid 1, block 32.
//
// Version 1: the WMMA fragments are filled straight from global memory and the
// result goes straight back. Nothing passes through shared memory, so there is
// no bank conflict to see: this is the baseline for the versions that follow.

#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void v1_global(const half* a, const half* b, half* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fragment_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fragment_c;

    wmma::fill_fragment(fragment_c, __float2half(0.0f));
    wmma::load_matrix_sync(fragment_a, a, 16);
    wmma::load_matrix_sync(fragment_b, b, 16);
    wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
    wmma::store_matrix_sync(c, fragment_c, 16, wmma::mem_row_major);
}
