// One warp reads 16x16 matrices out of a tile of 32 halves a row with ldmatrix.
// xor_tile_plain keeps rows straight: every row starts in bank 0 or 16, and eight rows meet in the same banks.
// xor_tile_swizzled passes every shared offset through f(offset) = offset ^ ((offset & (3 << 5)) >> 2): row r of
// eight halves-groups lands in column group (group ^ r % 4), so an 8x8 matrix takes its rows from four column groups.
#include <cuda_fp16.h>
#include <stdint.h>

__device__ __forceinline__ int straight(int offset) { return offset; }
__device__ __forceinline__ int swizzled(int offset) { return offset ^ ((offset & (3 << 5)) >> 2); }

template <int (*Place)(int)>
__device__ __forceinline__ void read_tile(const half* in, uint32_t* out, half* tile) {
    const int lane = threadIdx.x;
    // 16 rows of 32 halves: two 16-byte pieces a lane.
    for (int piece = 0; piece < 2; ++piece) {
        const int offset = 8 * (lane + 32 * piece);
        *reinterpret_cast<uint4*>(&tile[Place(offset)]) = *reinterpret_cast<const uint4*>(&in[offset]);
    }
    __syncthreads();
    for (int part = 0; part < 2; ++part) {
        const int row = lane % 16, column = 16 * part + 8 * (lane / 16);
        const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[Place(32 * row + column)]));
        uint32_t r[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
        for (int i = 0; i < 4; ++i) out[32 * (4 * part + i) + lane] = r[i];
    }
}

extern "C" __global__ void xor_tile_plain(const half* in, uint32_t* out) {
    __shared__ __align__(16) half tile[16 * 32];
    read_tile<straight>(in, out, tile);
}

extern "C" __global__ void xor_tile_swizzled(const half* in, uint32_t* out) {
    __shared__ __align__(16) half tile[16 * 32];
    read_tile<swizzled>(in, out, tile);
}
