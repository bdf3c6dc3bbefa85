// Accesses to the next CTA's shared memory by all warps of all CTAs of a cluster, and multicasts: cycles until issued, there, and all have met.
// WHAT: 0, 1 loads of 32 and 128 bits, 2, 3 stores, 4, 5 st.async, `count` of each thread; 6 each CTA's share of `bytes` to all; 7 all of it by each, to itself.
template <int X, int WHAT> __device__ void between(u32* out, int count, const char* big, int bytes) {
    __shared__ u64 bar;
    u32 rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) init(&bar, 1);
    u32 there, bar_there, sum = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(sa(smem) + threadIdx.x * 16), "r"((rank + 1) % X));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_there) : "r"(sa(&bar)), "r"((rank + 1) % X));
    for (int i = threadIdx.x; i < 32768; i += blockDim.x) ((u32*)smem)[i] = i;
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll 1
    for (int t = 0; t < TURNS; t++) {
        const int words = WHAT % 2 ? 16 : 4;
        if (threadIdx.x == 0 && (WHAT == 4 || WHAT == 5)) expect(&bar, words * count * blockDim.x);
        if (threadIdx.x == 0 && WHAT >= 6) expect(&bar, bytes);
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 a = clk();
        if (WHAT < 6) {
#pragma unroll 4
            for (int i = 0; i < count; i++) {
                u32 v[4] = {};
                const u32 at = there + i % 4 * 8192;
                if (WHAT == 0) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v[0]) : "r"(at) : "memory");
                if (WHAT == 1) asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
                if (WHAT == 2) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at), "r"(t) : "memory");
                if (WHAT == 3) asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(t) : "memory");
                if (WHAT == 4) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(at), "r"(t), "r"(bar_there) : "memory");
                if (WHAT == 5) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];" ::"r"(at), "r"(t), "r"(bar_there) : "memory");
                sum += v[0] + v[1] + v[2] + v[3];
            }
        } else if (threadIdx.x == 0) {
            const int part = WHAT == 6 ? bytes / X : bytes;
            const u32 to = sa(smem) + (WHAT == 6 ? rank * part : 0);
            const char* from = big + (WHAT == 6 ? rank * part : 0);
            if (WHAT == 6) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(part), "r"(sa(&bar)), "h"((short)((1 << X) - 1)) : "memory");
            else asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(part), "r"(sa(&bar)) : "memory");
        }
        if (sum == 77) out[0] = 1;
        const u32 b = clk();
        if (WHAT >= 4) wait(&bar, t & 1);
        const u32 c = clk();
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 d = clk();
        if (blockIdx.x == 0) { TELL(0, a, b) TELL(1, a, c) TELL(2, a, d) }
    }
}
#define OF(X, WHAT) extern "C" __global__ void __cluster_dims__(X, 1, 1) between_##WHAT##_##X(u32* out, int count, const char* big, int bytes) { between<X, WHAT>(out, count, big, bytes); }
#define EACH(X) OF(X, 0) OF(X, 1) OF(X, 2) OF(X, 3) OF(X, 4) OF(X, 5) OF(X, 6) OF(X, 7)
EACH(2) EACH(4) EACH(8)
