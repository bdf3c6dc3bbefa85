// The half-precision product as it was published, C = A B with both row-major: steps of 128x256x32 in a loop over K,
// sums in halves. The A tile is 128 rows of 32 halves, the B tile 32 rows of 256; 8 warps of 64x64 each load matrices
// of 16x16, those of B transposed, and multiply by pairs of mma.m16n8k8. Rows are plain or padded by PAD halves.
#include <cuda_fp16.h>
#include <stdint.h>

#ifndef PAD
#define PAD 8
#endif

template <bool Transposed>
__device__ __forceinline__ void load_matrix(uint32_t (&r)[4], const half* at) {
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    if (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void multiply(uint32_t (&c)[2], uint32_t a0, uint32_t a1, uint32_t b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a0), "r"(a1), "r"(b));
}

template <int Pad>
__device__ __forceinline__ void gemm(const half* a, const half* b, half* c, int inner) {
    constexpr int pitch_a = 32 + Pad, pitch_b = 256 + Pad;
    extern __shared__ __align__(16) half shared[];
    half* sa = shared;
    half* sb = shared + 128 * pitch_a;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row0 = 64 * (warp / 4), column0 = 64 * (warp % 4);
    uint32_t sum[4][8][2] = {};
    for (int k0 = 0; k0 < inner; k0 += 32) {
        for (int piece = thread; piece < 128 * 4; piece += 256)
            *reinterpret_cast<uint4*>(&sa[pitch_a * (piece / 4) + 8 * (piece % 4)]) =
                *reinterpret_cast<const uint4*>(&a[inner * (piece / 4) + k0 + 8 * (piece % 4)]);
        for (int piece = thread; piece < 32 * 32; piece += 256)
            *reinterpret_cast<uint4*>(&sb[pitch_b * (piece / 32) + 8 * (piece % 32)]) =
                *reinterpret_cast<const uint4*>(&b[256 * (k0 + piece / 32) + 8 * (piece % 32)]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            uint32_t fa[4][4], fb[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrix<false>(fa[i], &sa[pitch_a * (row0 + 16 * i + lane % 16) + k + 8 * (lane / 16)]);
                load_matrix<true>(fb[i], &sb[pitch_b * (k + lane % 16) + column0 + 16 * i + 8 * (lane / 16)]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    multiply(sum[i][j], fa[i][0], fa[i][1], fb[j / 2][2 * (j % 2)]);
                    multiply(sum[i][j], fa[i][2], fa[i][3], fb[j / 2][2 * (j % 2) + 1]);
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int row = row0 + 16 * i + lane / 4, column = column0 + 8 * j + 2 * (lane % 4);
            *reinterpret_cast<uint32_t*>(&c[256 * row + column]) = sum[i][j][0];
            *reinterpret_cast<uint32_t*>(&c[256 * (row + 8) + column]) = sum[i][j][1];
        }
}

extern "C" __global__ void __launch_bounds__(256) gemm_nn_plain(const half* a, const half* b, half* c, int inner) {
    gemm<0>(a, b, c, inner);
}
extern "C" __global__ void __launch_bounds__(256) gemm_nn_padded(const half* a, const half* b, half* c, int inner) {
    gemm<PAD>(a, b, c, inner);
}
