// Instructions beside copies and products: registers handed over, caches told, prefetches, sleeps. See steps_common.cuh, which stands before it.
#define ROW(NAME, BODY) \
    extern "C" __global__ void NAME(u32* out, int count, char* big) { \
        u32 sum = 0; \
        for (int t = 0; t < TURNS; t++) { \
            __syncthreads(); const u32 from = clk(); \
            for (int i = 0; i < count; i++) { BODY } \
            const u32 to = clk(); \
            TELL(0, from, to) \
        } \
        if (sum == 77) out[0] = 1; \
    }
ROW(row_nothing, asm volatile("" ::"r"(i));)
ROW(row_prefetch_l2, asm volatile("prefetch.global.L2 [%0];" ::"l"(big + 128 * i) : "memory");)
ROW(row_prefetch_l1, asm volatile("prefetch.global.L1 [%0];" ::"l"(big + 128 * i) : "memory");)
ROW(row_discard, asm volatile("discard.global.L2 [%0], 128;" ::"l"(big + 65536 + 128 * i) : "memory");)
ROW(row_priority, asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(big + 128 * i) : "memory");)
ROW(row_relaxed, u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(big + 4 * sum) : "memory"); sum += v;)
ROW(row_acquire, u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(big + 4 * sum) : "memory"); sum += v;)
ROW(row_acquire_l1, u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(big + 4 * sum) : "memory"); sum += v; asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(big + 4096 + 4 * sum) : "memory"); sum += v;)
ROW(row_cached, u32 v; asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(big + 4096 + 4 * sum) : "memory"); sum += v;)
ROW(row_fence_gpu, asm volatile("fence.acq_rel.gpu;" ::: "memory");)
ROW(row_fence_sc, asm volatile("fence.sc.gpu;" ::: "memory");)
ROW(row_fence_cluster, asm volatile("fence.acq_rel.cluster;" ::: "memory");)
ROW(row_fence_cta, asm volatile("fence.acq_rel.cta;" ::: "memory");)
ROW(row_isspacep, u32 v; asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "l"(big + sum) : "memory"); sum += v;)
ROW(row_isspacep_many, u32 v; asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "l"(big + i) : "memory"); sum += v;)
ROW(row_dependents_wait, asm volatile("griddepcontrol.wait;" ::: "memory");)
ROW(row_dependents_launch, asm volatile("griddepcontrol.launch_dependents;" ::: "memory");)
ROW(row_sleep, asm volatile("nanosleep.u32 %0;" ::"r"(sum) : "memory");)
extern "C" __global__ void sleeps(u32* out, int nanoseconds, char* big) {
    for (int t = 0; t < TURNS; t++) {
        __syncthreads(); const u32 from = clk();
        asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
        const u32 to = clk();
        TELL(0, from, to)
    }
}
// `count` prefetches by a thread, then a bulk copy of 1,024 bytes: what they take to issue, and when that is there. Of lines that L2 has.
#define PREFETCHES(NAME, BODY, ...) \
    extern "C" __global__ void NAME(u32* out, int count, char* big, int bytes, int step __VA_ARGS__) { \
        __shared__ u64 bar; \
        if (threadIdx.x) return; \
        init(&bar, 1); \
        for (int t = 0; t < TURNS; t++) { \
            expect(&bar, 1024); \
            const u32 from = clk(); \
            for (int i = 0; i < count; i++) { BODY } \
            const u32 issued = clk(); \
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sa(smem)), "l"(big + (1 << 24)), "r"(1024), "r"(sa(&bar)) : "memory"); \
            wait(&bar, t & 1); \
            const u32 to = clk(); \
            TELL(0, from, issued) TELL(1, issued, to) \
        } \
    }
PREFETCHES(prefetch_bulk, asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(big + i * bytes), "r"(bytes) : "memory");)
struct alignas(64) Map { char bytes[128]; };
#define COMMA ,
PREFETCHES(prefetch_tensor, asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&m), "r"(0), "r"(i * step) : "memory");, COMMA const __grid_constant__ Map m)
PREFETCHES(prefetch_map, asm volatile("prefetch.tensormap [%0];" ::"l"(&m) : "memory");, COMMA const __grid_constant__ Map m)
// Registers: a warpgroup gives and takes; one waits for what another gives `delay` cycles later.
extern "C" __global__ void __launch_bounds__(384, 1) gives(u32* out, int delay, char* big) {
    __shared__ u32 at;
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        if (threadIdx.x / 128 == 0) {
            const u32 a = clk();
            asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
            const u32 b = clk();
            asm volatile("setmaxnreg.inc.sync.aligned.u32 168;" ::: "memory");
            const u32 c = clk();
            TELL(0, a, b) TELL(1, b, c)
        }
        __syncthreads();
        if (threadIdx.x / 128 == 0) {
            const u32 from = clk();
            while (clk() - from < delay) {}
            const u32 now = clk();
            asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
            if (threadIdx.x == 0) at = now;
        } else {
            const u32 a = clk();
            asm volatile("setmaxnreg.inc.sync.aligned.u32 232;" ::: "memory");
            const u32 b = clk();
            __threadfence_block();
            asm volatile("bar.sync 1, 256;" ::: "memory");
            if (threadIdx.x == 128) out[TURNS * 2 + t] = b - a, out[TURNS * 3 + t] = b - *(volatile u32*)&at;
            asm volatile("setmaxnreg.dec.sync.aligned.u32 168;" ::: "memory");
        }
        __syncthreads();
        if (threadIdx.x / 128 == 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 168;" ::: "memory");
    }
}
