// D[256 x 64] = 2 A[256 x 16] B[64 x 16]^T by two CTAs: each has half of the rows of A and half of the columns of B.
#include "tcgen05.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    product(const uint16_t* a, const uint16_t* b, float* d, uint32_t instruction) {
    __shared__ alignas(128) uint16_t shared_a[128 * K], shared_b[N / 2 * K];
    __shared__ uint64_t done;
    __shared__ uint32_t columns;
    const int warp = threadIdx.x / 32;
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    place(shared_a, a + rank * 128 * K, 128);
    place(shared_b, b + rank * N / 2 * K, N / 2);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&done)));
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(at(&columns)), "n"(N));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("tcgen05.fence::before_thread_sync;");
    __syncthreads();
    meet();
    asm volatile("tcgen05.fence::after_thread_sync;");
    const uint32_t tensor = columns;
    if (rank == 0 && threadIdx.x == 0) {
        uint64_t left = matrix(at(shared_a), 128 * 16, 128), right = matrix(at(shared_b), N / 2 * 16, 128);
        for (int adds = 0; adds < 2; adds++)
            asm volatile(
                "{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                ::"r"(tensor), "l"(left), "l"(right), "r"(instruction), "r"(adds));
        asm volatile(
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
            ::"r"(at(&done)), "h"(static_cast<uint16_t>(3)));
    }
    asm volatile(
        "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(at(&done)));
    asm volatile("tcgen05.fence::after_thread_sync;");
    for (int n = 0; n < N; n += 4) {
        float r[4];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]) : "r"(tensor + (warp << 21) + n));
        asm volatile("tcgen05.wait::ld.sync.aligned;");
        for (int j = 0; j < 4; j++) d[(rank * 128 + threadIdx.x) * N + n + j] = r[j];
    }
    __syncthreads();
    meet();
    if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(tensor), "n"(N));
}
