// Lanes of a warp that meet in shared memory; bad twins lack what makes that more than luck.
#include <cooperative_groups.h>
#include "common.cuh"
namespace cg = cooperative_groups;


BODY(neighbours) { __shared__ int s[128]; s[T] = in[T]; FIXWARP; out[T] = s[T ^ 1]; }
PAIR(neighbours)

BODY(warp_war) { __shared__ int s[128]; s[T] = in[T]; __syncwarp(); int v = s[T ^ 8]; FIXWARP; s[T] = v; __syncwarp(); out[T] = s[T ^ 4]; }
PAIR(warp_war)

BODY(warp_tree) { __shared__ int s[128]; s[T] = in[T]; __syncwarp(); for (int d = 16; d; d >>= 1) { if (LANE < d) s[T] += s[T + d]; FIXWARP; } if (LANE == 0) out[WARP] = s[T]; }
PAIR(warp_tree)

BODY(warp_transpose) {
    __shared__ int t[4][8][9];
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < 2; j++) t[WARP][LANE / 8 + 4 * j][LANE % 8] = in[T + k + j];
        __syncwarp();
        for (int j = 0; j < 2; j++) out[T] += t[WARP][LANE % 8][LANE / 8 + 4 * j];
        FIXWARP;
    }
}
PAIR(warp_transpose)

BODY(leader) { __shared__ int s[4]; if (LANE == 0) s[WARP] = in[WARP]; FIXWARP; out[T] = s[WARP]; }
PAIR(leader)

BODY(warp_list) {
    __shared__ int list[4][32]; int found = 0;
    for (int k = 0; k < 2; k++) {
        bool hit = in[32 * k + LANE] & 1; unsigned m = __ballot_sync(~0u, hit);
        if (hit) list[WARP][found + __popc(m & ((1u << LANE) - 1))] = LANE;
        found += __popc(m);
    }
    FIXWARP;
    for (int k = LANE; k < found; k += 32) out[T] += list[WARP][k];
}
PAIR(warp_list)

BODY(matrices) {
    __shared__ alignas(16) int s[4][128];
    for (int k = 0; k < 4; k++) s[WARP][32 * k + LANE] = in[T + k];
    FIXWARP;
    int r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(SHARED(&s[WARP][4 * LANE])) : "memory");
    out[T] = r[0] + r[1] + r[2] + r[3];
}
PAIR(matrices)

BODY(parted) {  // half the lanes write behind a branch, the others read where all are together again
    __shared__ int s[128];
    if (LANE < 16) { for (int k = 0; k < n; k++) s[T] = in[T + k]; }
    FIXWARP;
    out[T] = s[T & ~16];
}
PAIR(parted)

BODY(tile16) { __shared__ int s[128]; auto tile = cg::tiled_partition<16>(cg::this_thread_block()); s[T] = in[T]; if (GOOD) tile.sync(); out[T] = s[T ^ 15]; }
PAIR(tile16)

// Threads of different warps again: tiles that are too small, and masks that do not reach.
BODY(warp_for_block) { __shared__ int s[128]; s[T] = in[T]; if (GOOD) __syncthreads(); else __syncwarp(); out[T] = s[(T + 32) % 128]; }
PAIR(warp_for_block)

BODY(block_group) { __shared__ int s[128]; auto block = cg::this_thread_block(); s[T] = in[T]; if (GOOD) block.sync(); out[T] = s[127 - T]; }
PAIR(block_group)

BODY(tile32_for_block) {
    __shared__ int s[128]; auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<32>(block);
    s[T] = in[T]; if (GOOD) block.sync(); else tile.sync();
    out[T] = s[T ^ 64];
}
PAIR(tile32_for_block)

BODY(tile_sums) {
    __shared__ int s[8]; auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int v = in[T]; for (int d = 8; d; d >>= 1) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) s[tile.meta_group_rank()] = v;
    FIX;
    if (T == 0) { int sum = 0; for (int k = 0; k < 8; k++) sum += s[k]; out[0] = sum; }
}
PAIR(tile_sums)

BODY(matrix_tile) {  // ldmatrix of a tile that the whole CTA brings, and brings anew
    __shared__ alignas(16) int s[512]; int r[4], sum = 0;
    for (int k = 0; k < n; k++) {
        ((int4 *)s)[T] = ((const int4 *)in)[T + k];
        __syncthreads();
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(SHARED(&s[4 * (T ^ 32)])) : "memory");
        sum += r[0] ^ r[3]; FIX;
    }
    out[T] = sum;
}
PAIR(matrix_tile)
