// ldmatrix on a toy machine of 4 banks of 16 bytes (--set shared_memory.banks=4 --set shared_memory.bank_width_bytes=16):
// a tile of 4 rows of 16 halves, in two groups of 8. Lanes r and r + 4 of a phase give row r, so a matrix has 4 rows.
// Straight, rows r and r + 2 of a group meet in one bank; with the group XORed by r / 2, four rows lie in four banks.
#include <cuda_fp16.h>
#include <stdint.h>

template <bool Swizzled>
__device__ __forceinline__ void read_tile(const half* in, uint32_t* out) {
    __shared__ __align__(128) half tile[4 * 16];
    const int lane = threadIdx.x;
    const auto place = [](int row, int group) { return 16 * row + 8 * (Swizzled ? group ^ (row / 2) : group); };
    if (lane < 8)
        *reinterpret_cast<uint4*>(&tile[place(lane / 2, lane % 2)]) = *reinterpret_cast<const uint4*>(&in[8 * lane]);
    __syncthreads();
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[place(lane % 4, lane / 8 % 2)]));
    uint32_t r[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
    out[lane] = r[0];
    out[32 + lane] = r[1];
}

extern "C" __global__ void toy_ldmatrix_plain(const half* in, uint32_t* out) { read_tile<false>(in, out); }
extern "C" __global__ void toy_ldmatrix_swizzled(const half* in, uint32_t* out) { read_tile<true>(in, out); }
