// Matrices of every type that wmma and mma.sync have; ldmatrix, stmatrix, movmatrix.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <int M, int N, int K, class Type, class C, class Stored>
__device__ void product(C *out, const Stored *a, const Stored *b, const C *c) {
    wmma::fragment<wmma::matrix_a, M, N, K, Type, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, Type, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, M, N, K, C> sum;
    wmma::load_matrix_sync(left, a, K);
    wmma::load_matrix_sync(right, b, K);
    wmma::load_matrix_sync(sum, c, N, wmma::mem_row_major);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out, sum, N, wmma::mem_row_major);
}

#define PRODUCT(name, M, N, K, Type, C, Stored) \
    extern "C" __global__ void name(C *out, const Stored *a, const Stored *b, const C *c) { product<M, N, K, Type, C, Stored>(out, a, b, c); }

PRODUCT(half_half, 16, 16, 16, half, half, half)
PRODUCT(half_float, 16, 16, 16, half, float, half)
PRODUCT(half_tall, 32, 8, 16, half, float, half)
PRODUCT(half_broad, 8, 32, 16, half, float, half)
PRODUCT(signed_bytes, 16, 16, 16, signed char, int, signed char)
PRODUCT(unsigned_bytes, 8, 32, 16, unsigned char, int, unsigned char)
#if __CUDA_ARCH__ < 900
PRODUCT(signed_nibbles, 8, 8, 32, wmma::experimental::precision::s4, int, int)
PRODUCT(unsigned_nibbles, 8, 8, 32, wmma::experimental::precision::u4, int, int)
#endif
#if __CUDA_ARCH__ >= 800
PRODUCT(brain, 16, 16, 16, __nv_bfloat16, float, __nv_bfloat16)
PRODUCT(tf32, 16, 16, 8, wmma::precision::tf32, float, float)
PRODUCT(doubles, 8, 8, 4, double, double, double)
#endif

extern "C" __global__ void bits(int *out, const int *a, const int *b, const int *c) {
    wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> sum;
    wmma::load_matrix_sync(left, a, 128);
    wmma::load_matrix_sync(right, b, 128);
    wmma::load_matrix_sync(sum, c, 8, wmma::mem_row_major);
    wmma::bmma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out, sum, 8, wmma::mem_row_major);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void through_shared(unsigned *out, const uint4 *in) {
    __shared__ uint4 s[32];
    int t = threadIdx.x;
    unsigned at = (unsigned)__cvta_generic_to_shared(s + t), r[4];
    s[t] = in[t];
    __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; i++) out[4 * t + i] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
    for (int i = 0; i < 2; i++) out[128 + 2 * t + i] = r[i];
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[2]) : "r"(r[0]));
    out[192 + t] = r[2];
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(r[0]), "r"(r[1]) : "memory");
    __syncwarp();
    for (int i = 0; i < 2; i++) out[224 + 2 * t + i] = ((unsigned *)s)[2 * t + i];
#endif
}
#endif
