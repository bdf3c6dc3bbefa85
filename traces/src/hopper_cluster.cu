// Two CTAs of a cluster multiply the same A by halves of B: C = A B' of 128 x 256, 128 columns a CTA. Each asks for half
// of A's rows, and TMA's multicast puts them into the shared memory of both. For sm_90a.
#include "hopper.cu"

constexpr int CTAS = 2;

__device__ __forceinline__ void load_box_of_all(half* to, const CUtensorMap& map, int x, int y, u64* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(shared(to)), "l"(&map), "r"(x), "r"(y), "r"(shared(barrier)), "h"((short)((1 << CTAS) - 1)) : "memory");
}
// At the same mbarrier of a CTA of the cluster.
__device__ __forceinline__ void arrive_at(u64* barrier, u32 cta) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 ::"r"(shared(barrier)), "r"(cta) : "memory");
}
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// `empty` hears of both warpgroups of both CTAs: a stage is free when nobody multiplies what this CTA put anywhere.
extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) __launch_bounds__(384, 1)
product_multicast(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    __shared__ Ring ring;
    const int group = threadIdx.x / 128 - 1, steps = k / STEP, half_rows = ROWS / CTAS, cta = blockIdx.x;
    open(ring, 2 * CTAS);
    meet();
    if (group < 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int i = 0; i < steps; i++) {
                const int s = i % STAGES;
                half* stage = stages + s * STAGE;
                if (i >= STAGES) wait(ring.empty + s, i / STAGES - 1 & 1);
                expect(ring.full + s, STAGE * sizeof(half));
                load_box_of_all(stage + cta * half_rows * STEP, a, i * STEP, cta * half_rows, ring.full + s);
                load_box(stage + TILE, b, i * STEP, cta * ROWS, ring.full + s);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[64] = {};
        for (int i = 0; i < steps; i++) {
            wait(ring.full + i % STAGES, i / STAGES & 1);
            multiply_stage(d, stages + i % STAGES * STAGE, group);
            wait_all_but<1>();
            if (i && threadIdx.x % 128 < CTAS) arrive_at(ring.empty + (i - 1) % STAGES, threadIdx.x % 128);
        }
        wait_all_but<0>();
        store(c + cta * ROWS * ROWS, d, group);
    }
    meet();
}
