// Two CTAs of a cluster that reach each other's shared memory.
#include <cstdint>
#include "common.cuh"
#define ARRIVE asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define AWAIT asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define SYNC ARRIVE; AWAIT
#define FIXSYNC if (GOOD) { SYNC; } else __syncthreads()
#define RANK (blockIdx.x % 2)
#define OTHER (RANK ^ 1)
#define INIT(b, k) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(SHARED(b)), "r"(k) : "memory")
#define EXPECT(b, k) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(SHARED(b)), "r"(k) : "memory")
#define ARRIVE_AT(b, cta) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there(b, cta)) : "memory")
#define SEND(to, v, b) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" :: "r"(to), "r"(v), "r"(b) : "memory")
#define LOAD_ALL(to, from, bytes, b) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" \
    :: "r"(SHARED(to)), "l"(from), "r"(bytes), "r"(SHARED(b)), "h"((short)3) : "memory")
__device__ __forceinline__ unsigned there(const void *p, unsigned cta) {
    unsigned at; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(SHARED(p)), "r"(cta)); return at;
}
__device__ __forceinline__ int get(const int *p, unsigned cta) {
    int v; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(there(p, cta)) : "memory"); return v;
}
__device__ __forceinline__ void put(int *p, unsigned cta, int v) {
    asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(there(p, cta)), "r"(v) : "memory");
}
__device__ __forceinline__ void add(int *p, unsigned cta) {
    asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], 1;" :: "r"(there(p, cta)) : "memory");
}
__device__ __forceinline__ void wait(uint64_t *b, int parity) {
    int done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(SHARED(b)), "r"(parity) : "memory");
}

BODY(histogram_begins) {  // each CTA has half of the bins; nobody adds before they are 0
    __shared__ int bins[64]; SYNC; if (T < 64) bins[T] = 0;
    FIXSYNC; int v = in[blockIdx.x * 128 + T] * 7 % 128; add(bins + v % 64, v / 64);
    SYNC; if (T < 64) out[RANK * 64 + T] = bins[T];
}
PAIR(histogram_begins)

BODY(histogram_ends) {
    __shared__ int bins[64]; if (T < 64) bins[T] = 0;
    SYNC; int v = in[blockIdx.x * 128 + T] * 7 % 128; add(bins + v % 64, v / 64);
    FIXSYNC; if (T < 64) out[RANK * 64 + T] = bins[T];
    SYNC;
}
PAIR(histogram_ends)

BODY(neighbour_reads) {
    __shared__ int s[128]; SYNC; s[T] = in[T];
    FIXSYNC; out[blockIdx.x * 128 + T] = get(s + 127 - T, OTHER);
    SYNC;
}
PAIR(neighbour_reads)

BODY(neighbour_rounds) {  // between two rounds nobody overwrites what the other still reads
    __shared__ int s[128]; int sum = 0;
    for (int i = 0; i < n; i++) { s[T] = in[T] + i; SYNC; sum += get(s + T, OTHER); FIXSYNC; }
    out[blockIdx.x * 128 + T] = sum; SYNC;
}
PAIR(neighbour_rounds)

BODY(neighbour_writes) {
    __shared__ int s[128]; s[T] = 0; SYNC; put(s + 127 - T, OTHER, in[T]);
    FIXSYNC; out[blockIdx.x * 128 + T] = s[T];
    SYNC;
}
PAIR(neighbour_writes)

BODY(both_write) {  // one word, written by both CTAs
    __shared__ int s[128]; SYNC; s[T] = T;
    if (GOOD) { SYNC; } put(s + T, OTHER, T + 128); SYNC; out[blockIdx.x * 128 + T] = s[T];
}
PAIR(both_write)

BODY(between) {  // what is stored between arrival and wait is not there behind it
    __shared__ int s[128]; SYNC;
    if (GOOD) s[T] = in[T];
    ARRIVE; if (!GOOD) s[T] = in[T]; AWAIT;
    out[blockIdx.x * 128 + T] = get(s + T, OTHER); SYNC;
}
PAIR(between)

BODY(arrives_behind) {  // a store to the other CTA, and the arrival there that tells of it
    __shared__ int s[128]; __shared__ uint64_t b; if (T == 0) INIT(&b, 128);
    SYNC;
    if (GOOD) put(s + T, OTHER, in[T]);
    ARRIVE_AT(&b, OTHER);
    if (!GOOD) put(s + T, OTHER, in[T]);
    wait(&b, 0); out[blockIdx.x * 128 + T] = s[127 - T]; SYNC;
}
PAIR(arrives_behind)

BODY(barrier_made) {  // the other CTA's mbarrier is used once it is initialised
    __shared__ uint64_t b; SYNC; if (T == 0) INIT(&b, 1);
    FIXSYNC; if (T == 0) ARRIVE_AT(&b, OTHER);
    SYNC; wait(&b, 0); out[blockIdx.x * 128 + T] = T; SYNC;
}
PAIR(barrier_made)

BODY(sent) {
    __shared__ int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); EXPECT(&b, 512); }
    SYNC; SEND(there(s + T, OTHER), in[T], there(&b, OTHER));
    if (GOOD) wait(&b, 0);
    out[blockIdx.x * 128 + T] = s[T]; wait(&b, 0); SYNC;
}
PAIR(sent)

BODY(sent_again) {  // the sender waits until the receiver has read
    __shared__ int s[128]; __shared__ uint64_t full, empty; if (T == 0) { INIT(&full, 1); INIT(&empty, 128); }
    SYNC; int sum = 0;
    for (int i = 0; i < 2; i++) {
        if (T == 0) EXPECT(&full, 512);
        if (GOOD && i) wait(&empty, 0);
        SEND(there(s + T, OTHER), in[T], there(&full, OTHER));
        wait(&full, i & 1); sum += s[T ^ 1]; ARRIVE_AT(&empty, OTHER);
    }
    out[blockIdx.x * 128 + T] = sum; SYNC;
}
PAIR(sent_again)

BODY(multicast) {  // half of the copy comes from the other CTA
    __shared__ alignas(128) int s[128]; __shared__ uint64_t b; if (T == 0) { INIT(&b, 1); EXPECT(&b, 512); }
    SYNC; if (T == 0) LOAD_ALL(s + RANK * 64, in + RANK * 64, 256, &b);
    if (GOOD || T < 32) wait(&b, 0);
    out[blockIdx.x * 128 + T] = s[T]; wait(&b, 0); SYNC;
}
PAIR(multicast)

BODY(given_back) {  // a stage is given back to both CTAs, which both copy into it
    __shared__ alignas(128) int s[128]; __shared__ uint64_t full, empty;
    if (T == 0) { INIT(&full, 1); INIT(&empty, GOOD ? 2 : 1); }
    SYNC; int sum = 0;
    for (int i = 0; i < n; i++) {
        if (T == 0) {
            if (i) wait(&empty, i - 1 & 1);
            EXPECT(&full, 512); LOAD_ALL(s + RANK * 64, in + i * 128 + RANK * 64, 256, &full);
        }
        wait(&full, i & 1); sum += s[T];
        __syncthreads(); if (T < 2 && (GOOD || T == RANK)) ARRIVE_AT(&empty, T);
    }
    out[blockIdx.x * 128 + T] = sum; SYNC;
}
PAIR(given_back)

BODY(of_all) {  // global memory that the cluster's CTAs exchange
    out[blockIdx.x * 128 + T] = in[T];
    FIXSYNC; out[512 + blockIdx.x * 128 + T] = out[OTHER * 128 + T];
}
PAIR(of_all)
