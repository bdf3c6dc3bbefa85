// C = A B' of half precision with float sums: CTAs of 128x128, steps of 32 along K, 8 warps of 64x32 each.
// Rows of the tiles are swizzled; matrices of 16x16 come by ldmatrix and go into mma.m16n8k16.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int TILE = 128, STEP = 32;

__device__ __forceinline__ int at(int row, int column) { return STEP * row + (column ^ (8 * (row / 2 % 4))); }

__device__ __forceinline__ void load_matrix(uint32_t (&r)[4], const half* from) {
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(256) half_product(const half* a, const half* b, float* c, int n, int k) {
    __shared__ __align__(16) half sa[TILE * STEP], sb[TILE * STEP];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row0 = 64 * (warp / 4), column0 = 32 * (warp % 4);
    a += TILE * blockIdx.y * k;
    b += TILE * blockIdx.x * k;
    float sum[4][4][4] = {};
    for (int first = 0; first < k; first += STEP) {
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            const int piece = thread + 256 * half_tile, row = piece / 4, column = 8 * (piece % 4);
            *reinterpret_cast<uint4*>(&sa[at(row, column)]) = *reinterpret_cast<const uint4*>(&a[row * k + first + column]);
            *reinterpret_cast<uint4*>(&sb[at(row, column)]) = *reinterpret_cast<const uint4*>(&b[row * k + first + column]);
        }
        __syncthreads();
#pragma unroll
        for (int part = 0; part < STEP; part += 16) {
            uint32_t fa[4][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) load_matrix(fa[i], &sa[at(row0 + 16 * i + lane % 16, part + 8 * (lane / 16))]);
#pragma unroll
            for (int j = 0; j < 2; ++j) load_matrix(fb[j], &sb[at(column0 + 16 * j + lane % 16, part + 8 * (lane / 16))]);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply(sum[i][j], fa[i], fb[j / 2][j % 2], fb[j / 2][2 + j % 2]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = TILE * blockIdx.y + row0 + 16 * i + lane / 4;
            const int column = TILE * blockIdx.x + column0 + 8 * j + 2 * (lane % 4);
            *reinterpret_cast<float2*>(&c[row * n + column]) = make_float2(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<float2*>(&c[(row + 8) * n + column]) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
