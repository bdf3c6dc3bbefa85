// One lane arrives or releases for its warp: only its own stores are ordered, unless the warp has synchronized.
#include <cuda/ptx>
#include <cstdint>
#include "common.cuh"
namespace ptx = cuda::ptx;
__device__ __forceinline__ void wait(uint64_t *b, uint64_t token) { while (!ptx::mbarrier_test_wait(b, token)) {} }
// Every thread of the CTA, or one lane in place of its whole warp, arrives at a barrier of count 1 + 96.
__device__ __forceinline__ void met(uint64_t *b) { wait(b, ptx::mbarrier_arrive(b)); }
#define MADE(count) __shared__ uint64_t b; if (T == 0) ptx::mbarrier_init(&b, count); __syncthreads()

BODY(one_lane) {
    __shared__ int s[32]; MADE(97);
    if (WARP == 0) { s[LANE] = in[T]; FIXWARP; if (LANE == 0) ptx::mbarrier_arrive(&b); }
    else { met(&b); out[T] = s[31 - LANE]; }
}
PAIR(one_lane)

BODY(one_lane_parted) {  // that the lanes come together again behind a branch synchronizes nothing
    __shared__ int s[32]; MADE(97);
    if (WARP == 0) {
        if (in[T] & 1) s[LANE] = in[T] * n; else s[LANE] = in[T + 1] / n;
        FIXWARP;
        if (LANE == 7) ptx::mbarrier_arrive(&b);
    } else { met(&b); out[T] = s[31 - LANE]; }
}
PAIR(one_lane_parted)

BODY(one_lane_fence) {  // nor does a fence of every lane
    __shared__ int s[32]; MADE(97);
    if (WARP == 0) { s[LANE] = in[T]; __threadfence_block(); FIXWARP; if (LANE == 0) ptx::mbarrier_arrive(&b); }
    else { met(&b); out[T] = s[31 - LANE]; }
}
PAIR(one_lane_fence)

BODY(one_lane_half) {  // lanes 16 to 31 are not among those that have synchronized
    __shared__ int s[32]; MADE(97);
    if (WARP == 0) {
        s[LANE] = in[T];
        if (GOOD) __syncwarp();
        else if (in[T] * 0 + LANE < 16) __syncwarp(0xffff);
        if (LANE == 0) ptx::mbarrier_arrive(&b);
    } else { met(&b); out[T] = s[31 - LANE]; }
}
PAIR(one_lane_half)

BODY(one_lane_copies) {  // each lane has waited for its own copies
    __shared__ int s[32]; MADE(97);
    if (WARP == 0) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(s + LANE)), "l"(in + T) : "memory");
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        FIXWARP;
        if (LANE == 0) ptx::mbarrier_arrive(&b);
    } else { met(&b); out[T] = s[31 - LANE]; }
}
PAIR(one_lane_copies)

BODY(one_lane_global) {  // the stores are to global memory
    MADE(97);
    if (WARP == 0) { out[T] = in[T]; FIXWARP; if (LANE == 0) ptx::mbarrier_arrive(&b); }
    else { met(&b); out[T + 1000] = out[31 - LANE]; }
}
PAIR(one_lane_global)

BODY(one_lane_ring) {  // loads are done when a lane gives the stage back: that is no fault
    __shared__ int s[2][32]; __shared__ uint64_t full[2], empty[2];
    if (T < 2) { ptx::mbarrier_init(&full[T], 33); ptx::mbarrier_init(&empty[T], 32 + 1); }
    __syncthreads();
    if (WARP == 0) for (int k = 0; k < 3; k++) {
        if (k > 1) met(&empty[k & 1]);
        s[k & 1][LANE] = in[T + k];
        FIXWARP;
        if (LANE == 0) ptx::mbarrier_arrive(&full[k & 1]);
    } else if (WARP == 1) for (int k = 0; k < 3; k++) {
        met(&full[k & 1]);
        out[T] += s[k & 1][31 - LANE];
        if (k < 1 && LANE == 0) ptx::mbarrier_arrive(&empty[k & 1]);
    }
}
PAIR(one_lane_ring)

BODY(one_lane_flag) {  // a release by an atomic
    __shared__ int s[32]; __shared__ int flag; if (T == 0) flag = 0;
    __syncthreads();
    if (WARP == 0) {
        s[LANE] = in[T]; FIXWARP;
        if (LANE == 0) { __threadfence_block(); atomicExch(&flag, 1); }
    } else { while (atomicAdd(&flag, 0) == 0) {} __threadfence_block(); out[T] = s[31 - LANE]; }
}
PAIR(one_lane_flag)

BODY(one_lane_done) {  // and to another CTA
    __shared__ int last;
    if (WARP == 0) {
        out[32 * blockIdx.x + LANE] = in[T]; FIXWARP;
        if (LANE == 0) { __threadfence(); last = atomicAdd(&out[4000], 1) == 3; __threadfence(); }
    }
    __syncthreads();
    if (last) out[1000 + T] = out[T];
}
PAIR(one_lane_done)

#if __CUDA_ARCH__ >= 900
BODY(one_lane_expects) {  // the elected lane's copy ends the phase
    __shared__ alignas(128) int s[128]; __shared__ int table[32]; MADE(1);
    if (WARP == 0) {
        table[LANE] = in[T]; FIXWARP;
        if (LANE == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(SHARED(&b)) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                         ::"r"(SHARED(s)), "l"(in), "r"(SHARED(&b)) : "memory");
        }
    } else { while (!ptx::mbarrier_try_wait_parity(&b, 0)) {} out[T] = s[T] + table[31 - LANE]; }
}
PAIR(one_lane_expects)
#endif

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void phase(uint64_t *b, int parity) { while (!ptx::mbarrier_try_wait_parity(b, parity)) {} }

BODY(missed_phase) {  // nothing tells the producer that the waiters have looked
    __shared__ uint64_t full, empty;
    if (T == 0) { ptx::mbarrier_init(&full, 1); ptx::mbarrier_init(&empty, 96); }
    __syncthreads();
    if (T == 0) for (int k = 0; k < n; k++) {
        if (GOOD) phase(&empty, (k & 1) ^ 1);
        ptx::mbarrier_arrive(&full);
    } else if (T >= 32) for (int k = 0; k < n; k++) {
        phase(&full, k & 1);
        ptx::mbarrier_arrive(&empty);
    }
    out[T] = n;
}
PAIR(missed_phase)

BODY(missed_by_one) {  // one warp waits and does not arrive again
    __shared__ uint64_t b; if (T == 0) ptx::mbarrier_init(&b, GOOD ? 128 : 96);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (GOOD || WARP < 3) ptx::mbarrier_arrive(&b);
        phase(&b, k & 1);
    }
    out[T] = n;
}
PAIR(missed_by_one)

BODY(missed_at_once) {  // it waits for one phase, and more may be over
    __shared__ uint64_t b; if (T == 0) ptx::mbarrier_init(&b, 32);
    __syncthreads();
    if (WARP == 0) for (int k = 0; k < (GOOD ? 1 : 3); k++) { ptx::mbarrier_arrive(&b); phase(&b, k & 1); }
    else phase(&b, 0);
    out[T] = n;
}
PAIR(missed_at_once)
#endif
