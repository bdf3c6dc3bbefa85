// mbarriers, bulk copies, tensor copies, clusters: cycles of one SM, by clock reads around each. All kernels write
// `out[i]`, cycles of the i-th turn; turns before WARM warm caches. Sizes and counts are arguments.
typedef unsigned long long u64;
typedef unsigned u32;
#define WARM 4
#define TURNS 12

__device__ __forceinline__ u32 sa(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ u32 clk() { u32 c; asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory"); return c; }
__device__ __forceinline__ void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(b)) : "memory"); }
__device__ __forceinline__ void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ __forceinline__ bool test(u64* b, u32 parity) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(sa(b)), "r"(parity) : "memory");
    return done;
}
__device__ __forceinline__ bool attempt(u64* b, u32 parity) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(sa(b)), "r"(parity) : "memory");
    return done;
}
__device__ __forceinline__ void wait(u64* b, u32 parity) { while (!attempt(b, parity)) {} }
__device__ __forceinline__ void bulk(void* to, const void* from, u32 bytes, u64* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sa(to)), "l"(from), "r"(bytes), "r"(sa(b)) : "memory");
}
extern __shared__ __align__(1024) char smem[];

// What a warp pays for single operations on a barrier in shared memory, `count` of them in a row.
#define IN_A_ROW(NAME, BODY) \
    extern "C" __global__ void NAME(u32* out, int count) { \
        __shared__ u64 bar[64]; \
        if (threadIdx.x == 0) for (int i = 0; i < 64; i++) init(bar + i, 1 << 19); \
        __syncthreads(); \
        u32 sum = 0; \
        for (int t = 0; t < TURNS; t++) { \
            __syncwarp(); const u32 from = clk(); \
            for (int i = 0; i < count; i++) { BODY } \
            const u32 to = clk(); \
            if (threadIdx.x == 0) out[t] = to - from; \
        } \
        if (sum == 77) out[0] = 1; \
    }
IN_A_ROW(row_nothing, asm volatile("" ::"r"(i));)
IN_A_ROW(row_arrive, if (threadIdx.x == 0) arrive(bar);)
IN_A_ROW(row_expect, if (threadIdx.x == 0) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(sa(bar)), "r"(0) : "memory");)
IN_A_ROW(row_arrive_others, if (threadIdx.x == 0) arrive(bar + i % 64);)
IN_A_ROW(row_arrive_all, arrive(bar);)
IN_A_ROW(row_test, sum += test(bar, 1);)
IN_A_ROW(row_try_success, sum += attempt(bar, 1);)
IN_A_ROW(row_fence_async, asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)

// A warp arrives, `delay` cycles after both agreed; the other waits for it. out: when the waiter goes on, from the arrival.
template <int HOW>
__device__ void woken(u32* out, int delay) {
    __shared__ u64 bar;
    __shared__ u32 at;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        if (threadIdx.x / 32 == 0) {
            const u32 from = clk();
            while (clk() - from < delay) {}
            const u32 now = clk();
            if (threadIdx.x == 0) { arrive(&bar); at = now; }
        } else if (threadIdx.x / 32 == 1) {
            if (HOW == 0) wait(&bar, t & 1);
            if (HOW == 1) while (!test(&bar, t & 1)) {}
            if (HOW == 2) asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680; @!p bra L; }" ::"r"(sa(&bar)), "r"(t & 1) : "memory");
            const u32 now = clk();
            __threadfence_block();
            if (threadIdx.x == 32) out[t] = now - *(volatile u32*)&at;
        }
    }
}
extern "C" __global__ void woken_try(u32* out, int delay) { woken<0>(out, delay); }
extern "C" __global__ void woken_test(u32* out, int delay) { woken<1>(out, delay); }
extern "C" __global__ void woken_hint(u32* out, int delay) { woken<2>(out, delay); }

// `count` bulk copies of `bytes` each on one barrier; out: from the first one's issue to the barrier's phase; out[TURNS + t]: to the last one's issue.
extern "C" __global__ void bulk_load(u32* out, const char* from, int bytes, int count, int stride) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        const char* base = from + (u64)(stride ? t : 0) * stride;
        expect(&bar, bytes * count);
        const u32 began = clk();
        for (int i = 0; i < count; i++) bulk(smem + (i * bytes) % 65536, base + (u64)i * bytes, bytes, &bar);
        const u32 issued = clk();
        wait(&bar, t & 1);
        out[t] = clk() - began;
        out[TURNS + t] = issued - began;
    }
}
// The same back: from shared to global memory; until it is read (out) and until it is written (out[TURNS + t]).
extern "C" __global__ void bulk_store(u32* out, char* to, int bytes, int count, int reduce) {
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        const u32 began = clk();
        for (int i = 0; i < count; i++) {
            if (reduce) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to + (u64)i * bytes), "r"(sa(smem + (i * bytes) % 65536)), "r"(bytes) : "memory");
            else asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + (u64)i * bytes), "r"(sa(smem + (i * bytes) % 65536)), "r"(bytes) : "memory");
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        out[t] = clk() - began;
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        out[TURNS + t] = clk() - began;
    }
}
// `count` boxes of a tensor map by one thread; rank 1 to 3. `fresh`: another copy of the map each turn.
extern "C" __global__ void tensor_load(u32* out, const char* maps, int rank, int bytes, int count, int step, int fresh, int prefetch) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        const char* map = maps + (fresh ? t * 128 : 0);
        if (prefetch) {
            asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
            const u32 from = clk();
            while (clk() - from < 3000) {}
        }
        expect(&bar, bytes * count);
        const u32 began = clk();
        for (int i = 0; i < count; i++) {
            const u32 to = sa(smem + (i * bytes) % 65536);
            const int at = i * step;
            if (rank == 1) asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(to), "l"(map), "r"(at), "r"(sa(&bar)) : "memory");
            if (rank == 2) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(0), "r"(at), "r"(sa(&bar)) : "memory");
            if (rank == 3) asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(0), "r"(0), "r"(at), "r"(sa(&bar)) : "memory");
        }
        const u32 issued = clk();
        wait(&bar, t & 1);
        out[t] = clk() - began;
        out[TURNS + t] = issued - began;
    }
}
extern "C" __global__ void tensor_store(u32* out, const char* map, int bytes, int count, int step) {
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        const u32 began = clk();
        for (int i = 0; i < count; i++)
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(0), "r"(i * step), "r"(sa(smem + (i * bytes) % 65536)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        out[t] = clk() - began;
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        out[TURNS + t] = clk() - began;
    }
}
// A load of shared memory beside copies: cycles of `count` LDS.128 by warps while a bulk copy of `bytes` comes in.
extern "C" __global__ void beside(u32* out, const char* from, int bytes, int count) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    uint4 sum = {0, 0, 0, 0};
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        if (threadIdx.x == 0 && bytes) { expect(&bar, bytes); bulk(smem, from, bytes, &bar); }
        const u32 wait_from = clk();
        while (clk() - wait_from < 450) {}
        const u32 began = clk();
        for (int i = 0; i < count; i++) {
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(sa(smem + 65536 + threadIdx.x * 16)) : "memory");
            sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
        }
        if (sum.x == 77 && sum.y == 3) out[0] = 1;
        const u32 ended = clk();
        if (threadIdx.x == 0) { if (bytes) wait(&bar, t & 1); out[t] = ended - began; out[TURNS + t] = clk() - wait_from; }
    }
}
// Clusters: the barrier, loads and stores of the other CTA's shared memory, arrivals at its mbarrier, multicast.
#define CLUSTER(N) \
    extern "C" __global__ void __cluster_dims__(N, 1, 1) cluster_##N(u32* out, const char* from, int bytes) { \
        __shared__ u64 bar; \
        __shared__ u32 chain[32]; \
        u32 rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); \
        chain[threadIdx.x % 32] = 0; \
        if (threadIdx.x == 0) init(&bar, 1); \
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); \
        u32 there, bar_there; \
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(sa(chain)), "r"((rank + 1) % N)); \
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_there) : "r"(sa(&bar)), "r"((rank + 1) % N)); \
        for (int t = 0; t < TURNS; t++) { \
            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
            const u32 a = clk(); \
            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
            const u32 b = clk(); \
            u32 at = 0; \
            for (int i = 0; i < 16; i++) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + at) : "memory"); \
            const u32 c = clk(); \
            if (at == 77) out[0] = 1; \
            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
            const u32 d = clk(); \
            if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar_there) : "memory"); \
            wait(&bar, 0); \
            const u32 e = clk(); \
            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
            if (threadIdx.x == 0) expect(&bar, bytes); \
            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
            const u32 f = clk(); \
            if (rank == 0 && threadIdx.x == 0) \
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(sa(smem)), "l"(from), "r"(bytes), "r"(sa(&bar)), "h"((short)((1 << N) - 1)) : "memory"); \
            wait(&bar, 1); \
            const u32 g = clk(); \
            if (threadIdx.x == 0 && rank == N - 1) { out[t] = b - a; out[TURNS + t] = (c - b); out[2 * TURNS + t] = e - d; out[3 * TURNS + t] = g - f; } \
        } \
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
    }
CLUSTER(2) CLUSTER(4) CLUSTER(8)
