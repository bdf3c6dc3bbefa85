// The product of hopper.cu by the tensor memory of sm_100: C = A B' of 128 x 128 with A and B in halves, K = 64 a step.
// One thread asks TMA for boxes, one multiplies, and four warps store D from tensor memory. For sm_100a.
#include <cuda.h>
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;
#ifndef STAGES
#define STAGES 4
#endif
constexpr int ROWS = 128, STEP = 64, TILE = ROWS * STEP, STAGE = 2 * TILE, COLUMNS = 128;

__device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void initialise(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void wait(u64* barrier, u32 parity) {
    u32 over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(shared(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load_box(half* to, const CUtensorMap& map, int x, u64* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(to)), "l"(&map), "r"(x), "r"(0), "r"(shared(barrier)) : "memory");
}

// A tile as tcgen05's descriptor has it: rows of 128 bytes swizzled, 8 of them every 1024 bytes.
__device__ __forceinline__ u64 describe(const half* tile) {
    return 2ull << 61 | 1ull << 46 | 64ull << 32 | (shared(tile) & 0x3ffff) >> 4;
}
// D of 128 x 128 in float32, from A and B in halves.
constexpr u32 INSTRUCTION = 1 << 4 | COLUMNS / 8 << 17 | ROWS / 16 << 24;

__device__ __forceinline__ void multiply(u32 d, u64 a, u64 b, bool adds) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                 ::"r"(d), "l"(a), "l"(b), "r"(INSTRUCTION), "r"((int)adds) : "memory");
}
// The mbarrier learns of the end of all products so far.
__device__ __forceinline__ void commit(u64* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 ::"r"(shared(barrier)) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
product_tcgen05(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) half stages[];
    __shared__ u64 full[STAGES], empty[STAGES], done;
    __shared__ u32 tensor;
    const int warp = threadIdx.x / 32, steps = k / STEP;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) initialise(full + i, 1), initialise(empty + i, 1);
        initialise(&done, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (warp == 2) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared(&tensor)), "n"(COLUMNS));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const u32 d = tensor;
    if (threadIdx.x == 0) {
        for (int i = 0; i < steps; i++) {
            if (i >= STAGES) wait(empty + i % STAGES, i / STAGES - 1 & 1);
            half* stage = stages + i % STAGES * STAGE;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         ::"r"(shared(full + i % STAGES)), "r"(STAGE * 2) : "memory");
            load_box(stage, a, i * STEP, full + i % STAGES);
            load_box(stage + TILE, b, i * STEP, full + i % STAGES);
        }
    } else if (threadIdx.x == 32) {
        for (int i = 0; i < steps; i++) {
            wait(full + i % STAGES, i / STAGES & 1);
            const half* stage = stages + i % STAGES * STAGE;
            for (int n = 0; n < STEP; n += 16)
                multiply(d, describe(stage + n), describe(stage + TILE + n), i + n > 0);
            commit(empty + i % STAGES);
        }
        commit(&done);
    }
    __syncwarp();
    wait(&done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int n = 0; n < COLUMNS; n += 8) {
        float r[8];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7])
                     : "r"(d + (warp << 21) + n));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        float4* row = reinterpret_cast<float4*>(c + threadIdx.x * COLUMNS + n);
        row[0] = make_float4(r[0], r[1], r[2], r[3]), row[1] = make_float4(r[4], r[5], r[6], r[7]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 2) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(d), "n"(COLUMNS));
}
