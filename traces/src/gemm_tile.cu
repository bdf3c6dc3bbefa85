// One 128x256x32 step of a half-precision matrix product, C += A B, by 8 warps of 64x64 each.
// The A tile is 128 rows of 32 halves, the B tile 256 rows (columns of B) of 32 halves; matrices of 16x16 come by
// ldmatrix and go into pairs of mma.m16n8k8. Rows are plain (64 bytes), padded by 8 halves (80 bytes), or swizzled.
#include <cuda_fp16.h>
#include <stdint.h>

#ifndef PAD  // halves by which the padded rows are longer
#define PAD 8
#endif
constexpr int K = 32;

struct Plain {
    static constexpr int pitch = K;
    static __device__ int at(int row, int column) { return pitch * row + column; }
};
struct Padded {
    static constexpr int pitch = K + PAD;
    static __device__ int at(int row, int column) { return pitch * row + column; }
};
struct Swizzled {
    static constexpr int pitch = K;
    static __device__ int at(int row, int column) { return pitch * row + (column ^ (8 * (row / 2 % 4))); }
};

__device__ __forceinline__ void load_matrix(uint32_t (&r)[4], const half* at) {
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}

template <class Layout>
__device__ __forceinline__ void gemm_tile(const half* a, const half* b, float* c) {
    extern __shared__ __align__(16) half shared[];
    half* sa = shared;
    half* sb = shared + 128 * Layout::pitch;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    for (int piece = thread; piece < 128 * 4; piece += 256)
        *reinterpret_cast<uint4*>(&sa[Layout::at(piece / 4, 8 * (piece % 4))]) = reinterpret_cast<const uint4*>(a)[piece];
    for (int piece = thread; piece < 256 * 4; piece += 256)
        *reinterpret_cast<uint4*>(&sb[Layout::at(piece / 4, 8 * (piece % 4))]) = reinterpret_cast<const uint4*>(b)[piece];
    __syncthreads();
    const int row0 = 64 * (warp / 4), column0 = 64 * (warp % 4);
    float sum[4][8][4] = {};
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        uint32_t fa[4][4], fb[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            load_matrix(fa[i], &sa[Layout::at(row0 + 16 * i + lane % 16, k + 8 * (lane / 16))]);
            load_matrix(fb[i], &sb[Layout::at(column0 + 16 * i + lane % 16, k + 8 * (lane / 16))]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                multiply(sum[i][j], fa[i][0], fa[i][1], fb[j / 2][j % 2]);
                multiply(sum[i][j], fa[i][2], fa[i][3], fb[j / 2][2 + j % 2]);
            }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int row = row0 + 16 * i + lane / 4, column = column0 + 8 * j + 2 * (lane % 4);
            *reinterpret_cast<float2*>(&c[256 * row + column]) = make_float2(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<float2*>(&c[256 * (row + 8) + column]) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}

extern "C" __global__ void __launch_bounds__(256) gemm_tile_plain(const half* a, const half* b, float* c) {
    gemm_tile<Plain>(a, b, c);
}
extern "C" __global__ void __launch_bounds__(256) gemm_tile_padded(const half* a, const half* b, float* c) {
    gemm_tile<Padded>(a, b, c);
}
extern "C" __global__ void __launch_bounds__(256) gemm_tile_swizzled(const half* a, const half* b, float* c) {
    gemm_tile<Swizzled>(a, b, c);
}
