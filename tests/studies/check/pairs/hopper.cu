// What sm_90 has: mbarriers, bulk copies, proxies.
#include <cstdint>
#include "common.cuh"
#define INIT(b, k) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(SHARED(b)), "r"(k) : "memory")
#define ARRIVED(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(SHARED(b)) : "memory")
#define EXPECT(b, k) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(SHARED(b)), "r"(k) : "memory")
#define LOAD(to, from, bytes, b) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
    :: "r"(SHARED(to)), "l"(from), "r"(bytes), "r"(SHARED(b)) : "memory")
#define STORE(to, from, bytes) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(SHARED(from)), "r"(bytes) : "memory")
#define COMMITTED asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define READ_BY(k) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(k) : "memory")
#define PROXY asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
__device__ __forceinline__ void wait(uint64_t *b, int parity) {
    int done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(SHARED(b)), "r"(parity) : "memory");
}

BODY(bulk_wait) {
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); PROXY; }
    __syncthreads();
    if (T == 0) { EXPECT(&b, 512); LOAD(s, in, 512, &b); }
    if (GOOD) wait(&b, 0);
    out[T] = s[127 - T];
    wait(&b, 0);
}
PAIR(bulk_wait)

BODY(bulk_two_rounds) {  // the second round waits for the first one's phase again
    __shared__ alignas(128) int s[2][128]; __shared__ uint64_t b[2]; if (T == 0) { INIT(&b[0], 1); INIT(&b[1], 1); PROXY; }
    __syncthreads();
    if (T == 0) { EXPECT(&b[0], 512); LOAD(s[0], in, 512, &b[0]); EXPECT(&b[1], 512); LOAD(s[1], in + 128, 512, &b[1]); }
    wait(&b[0], 0); out[T] = s[0][127 - T];
    if (GOOD) wait(&b[1], 0);
    out[128 + T] = s[1][127 - T];
    wait(&b[1], 0);
}
PAIR(bulk_two_rounds)

BODY(wrong_parity) {  // a phase that is over before the copy begins, or one that nobody ends
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); PROXY; }
    __syncthreads();
    if (T == 0) { EXPECT(&b, 512); LOAD(s, in, 512, &b); }
    wait(&b, GOOD ? 0 : 1); out[T] = s[127 - T];
}
PAIR(wrong_parity)

BODY(expects_too_much) {  // bytes that no copy brings
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); PROXY; }
    __syncthreads();
    if (T == 0) { EXPECT(&b, GOOD ? 512 : 528); LOAD(s, in, 512, &b); }
    wait(&b, 0); out[T] = s[127 - T];
}
PAIR(expects_too_much)

BODY(arrives_too_seldom) {  // one of each warp arrives where every thread was counted
    __shared__ uint64_t b; if (T == 0) INIT(&b, 128);
    __syncthreads();
    if (GOOD || LANE == 0) ARRIVED(&b);
    wait(&b, 0); out[T] = in[T];
}
PAIR(arrives_too_seldom)

BODY(mbarrier_not_there) {  // whoever uses an mbarrier has to know that it was initialised
    __shared__ uint64_t b; __shared__ int s[32]; if (T == 0) INIT(&b, 128);
    FIX;
    if (WARP == 0) s[LANE] = in[T];
    ARRIVED(&b); wait(&b, 0); out[T] = s[LANE];
}
PAIR(mbarrier_not_there)

BODY(mbarrier_not_there_bulk) {
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); PROXY; }
    FIX;
    if (T == 32) { EXPECT(&b, 512); LOAD(s, in, 512, &b); }
    __syncthreads();
    wait(&b, 0); out[T] = s[127 - T];
}
PAIR(mbarrier_not_there_bulk)

BODY(mbarrier_again) {  // initialised anew while others may still test it
    __shared__ uint64_t b; if (T == 0) INIT(&b, 128);
    __syncthreads();
    ARRIVED(&b); wait(&b, 0); FIX;
    if (T == 127) INIT(&b, 128);
    __syncthreads();
    ARRIVED(&b); wait(&b, 0); out[T] = n;
}
PAIR(mbarrier_again)

BODY(mbarrier_early) { __shared__ uint64_t b; __shared__ int s[64]; if (T == 0) INIT(&b, 64); __syncthreads(); if (T < 64) { if (GOOD) s[T] = in[T]; ARRIVED(&b); if (!GOOD) s[T] = in[T]; } else { wait(&b, 0); out[T] = s[T - 64]; } }
PAIR(mbarrier_early)

BODY(ring_early) {  // the consumers say empty before they have read
    __shared__ alignas(128) int s[2][128]; __shared__ uint64_t full[2], empty[2];
    if (T == 0) { for (int k = 0; k < 2; k++) { INIT(&full[k], 1); INIT(&empty[k], 96); } PROXY; }
    __syncthreads();
    if (WARP == 0) {
        if (LANE == 0) for (int k = 0; k < 6; k++) {
            wait(&empty[k & 1], (k >> 1 & 1) ^ 1);
            EXPECT(&full[k & 1], 512); LOAD(s[k & 1], in + 128 * k, 512, &full[k & 1]);
        }
    } else for (int k = 0; k < 6; k++) {
        wait(&full[k & 1], k >> 1 & 1);
        if (!GOOD) ARRIVED(&empty[k & 1]);
        out[T] += s[k & 1][(T * 5) % 128];
        if (GOOD) ARRIVED(&empty[k & 1]);
    }
}
PAIR(ring_early)

BODY(bulk_overwrites) {  // the copy comes where others still read
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; s[T] = in[T]; if (T == 0) { INIT(&b, 1); PROXY; }
    __syncthreads(); int v = s[127 - T]; FIX;
    if (T == 0) { EXPECT(&b, 512); LOAD(s, in + 128, 512, &b); }
    wait(&b, 0); out[T] = v + s[T];
}
PAIR(bulk_overwrites)

BODY(out_proxy) {  // the copy does not see stores without a proxy fence
    __shared__ alignas(128) int s[128]; s[T] = in[T]; if (GOOD) PROXY;
    __syncthreads(); if (T == 0) { STORE(out, s, 512); COMMITTED; READ_BY(0); }
}
PAIR(out_proxy)

BODY(out_proxy_issuer) {  // a fence of the thread that issues the copy, behind the barrier, will do
    __shared__ alignas(128) int s[128]; s[T] = in[T]; if (!GOOD && T == 64) PROXY;
    __syncthreads(); if (T == 0) { if (GOOD) PROXY; STORE(out, s, 512); COMMITTED; READ_BY(0); }
}
PAIR(out_proxy_issuer)

BODY(out_barrier) { __shared__ alignas(128) int s[128]; s[T] = in[T]; PROXY; FIX; if (T == 0) { STORE(out, s, 512); COMMITTED; READ_BY(0); } }
PAIR(out_barrier)

BODY(out_reuse) {  // written again while the copy may still read
    __shared__ alignas(128) int s[128];
    for (int k = 0; k < n; k++) {
        s[T] = in[T + k]; PROXY; __syncthreads();
        if (T == 0) { STORE(out + 128 * k, s, 512); COMMITTED; if (GOOD) READ_BY(0); }
        __syncthreads();
    }
    if (T == 0) READ_BY(0);
}
PAIR(out_reuse)

BODY(out_stages) {
    __shared__ alignas(128) int s[2][128];
    for (int k = 0; k < n; k++) {
        if (T == 0) READ_BY(GOOD ? 1 : 2);
        __syncthreads();
        s[k & 1][T] = in[T + k]; PROXY; __syncthreads();
        if (T == 0) { STORE(out + 128 * k, s[k & 1], 512); COMMITTED; }
    }
    if (T == 0) READ_BY(0);
}
PAIR(out_stages)

BODY(out_exit) { __shared__ alignas(128) int s[128]; s[T] = in[T]; PROXY; __syncthreads(); if (T == 0) { STORE(out, s, 512); COMMITTED; if (GOOD) READ_BY(0); } }
PAIR(out_exit)

BODY(out_twice) { __shared__ alignas(128) int s[128]; s[T] = in[T]; PROXY; __syncthreads(); if (T == 0) { STORE(out + (GOOD ? 128 * blockIdx.x : 0), s, 512); COMMITTED; READ_BY(0); } }
PAIR(out_twice)

BODY(out_and_plain) { __shared__ alignas(128) int s[128]; s[T] = in[T]; PROXY; __syncthreads(); if (T == 0) { STORE(out, s, 512); COMMITTED; READ_BY(0); } if (T == 64) out[GOOD ? 200 : 100] = 1; }
PAIR(out_and_plain)

BODY(in_and_plain) {  // the copy reads what another warp stores to global memory
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); PROXY; }
    __syncthreads();
    if (T == 0) { EXPECT(&b, 512); LOAD(s, out, 512, &b); }
    if (GOOD) { wait(&b, 0); __syncthreads(); }
    if (T == 70) out[70] = in[3];
    wait(&b, 0); out[1000 + T] = s[T];
}
PAIR(in_and_plain)
