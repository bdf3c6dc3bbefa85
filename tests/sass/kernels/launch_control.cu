// Each CTA marks the tile of its place in the grid. It takes over CTAs that have not begun, and marks theirs, too.
// RIGHT, and with one mistake each.
#include <cstdint>

enum Fault { RIGHT, NO_WAIT, EXITS_UNANSWERED, ASKS_EARLY, PEER_EXITS, PEER_EXPECTS_NOTHING };

__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ void wait(uint64_t* barrier, int phase) {
    asm volatile(
        "{ .reg .pred p; AGAIN_%=: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], %1; @!p bra AGAIN_%=; }"
        ::"r"(at(barrier)), "r"(phase) : "memory");
}

template <bool ALL> __device__ void ask(uint4* answer, uint64_t* answered) {
    if (ALL)
        asm volatile(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
            "[%0], [%1];" ::"r"(at(answer)), "r"(at(answered)) : "memory");
    else
        asm volatile(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
            ::"r"(at(answer)), "r"(at(answered)) : "memory");
}

__device__ bool taken(const uint4* answer, uint3& tile) {
    uint32_t found;
    asm volatile(
        "{ .reg .pred p; .reg .b128 h; ld.shared.b128 h, [%4];"
        "  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h; selp.u32 %0, 1, 0, p;"
        "  @p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, h; }"
        : "=r"(found), "+r"(tile.x), "+r"(tile.y), "+r"(tile.z) : "r"(at(answer)) : "memory");
    return found;
}

// marks [tile, thread] = 1 + the CTA that marks it
template <Fault F, int CTAS> __device__ void body(uint32_t* marks, int asks) {
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t answered;
    uint32_t rank = 0;
    if (CTAS > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const uint32_t self = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&answered)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    __syncthreads();
    if (CTAS > 1) meet();
    uint3 tile = {blockIdx.x, blockIdx.y, blockIdx.z};
    for (int turn = 0;; turn++) {
        if (F == PEER_EXITS && rank == 1 && turn == 1) return;
        const bool asking = turn < asks;
        if (threadIdx.x == 0 && asking) {
            if (F != PEER_EXPECTS_NOTHING || rank == 0)
                asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 16;" ::"r"(at(&answered)));
        }
        if (CTAS > 1) meet();
        if (threadIdx.x == 0 && rank == 0 && asking) {
            asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;");
            ask<(CTAS > 1)>(&answer, &answered);
        }
        marks[(tile.x + gridDim.x * (tile.y + gridDim.y * tile.z)) * blockDim.x + threadIdx.x] += 1 + self;
        if (F == EXITS_UNANSWERED || !asking) return;
        if (F != NO_WAIT) wait(&answered, turn & 1);
        bool more = taken(&answer, tile);
        tile.x += rank;
        asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;");
        if (F != ASKS_EARLY) __syncthreads();
        if (CTAS > 1) meet();
        if (!more) break;
    }
}

#define KERNEL(name, fault, ctas) \
    extern "C" __global__ void __cluster_dims__(ctas, 1, 1) name(uint32_t* marks, int asks) { \
        body<fault, ctas>(marks, asks); \
    }
KERNEL(right, RIGHT, 1)
KERNEL(right_pair, RIGHT, 2)
KERNEL(no_wait, NO_WAIT, 1)
KERNEL(exits_unanswered, EXITS_UNANSWERED, 1)
KERNEL(asks_early, ASKS_EARLY, 1)
KERNEL(peer_exits, PEER_EXITS, 2)
KERNEL(peer_expects_nothing, PEER_EXPECTS_NOTHING, 2)
