// What the launch of a cluster costs, its barrier, its end. out[16 * CTA + k]: the k-th clock of each CTA's first warp; kept in registers until the end.
typedef unsigned u32;
__device__ __forceinline__ u32 clk() { u32 c; asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory"); return c; }
__device__ __forceinline__ u32 timer() { u32 c; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(c)::"memory"); return c; }
__device__ __forceinline__ void meets() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ void meets_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
#define TELL(k, c) if (threadIdx.x == 0) out[16 * blockIdx.x + (k)] = (c);
extern __shared__ char smem[];
#define OF(X, DIMS) \
    extern "C" __global__ void DIMS empty_##X(u32* out, int delay) {} \
    extern "C" __global__ void DIMS begins_##X(u32* out, int delay) { \
        const u32 a = clk(), g = timer(), b = clk(); \
        TELL(0, a) TELL(1, g) TELL(2, b) } \
    extern "C" __global__ void DIMS meets_##X(u32* out, int delay) { \
        const u32 a = clk(); meets(); \
        const u32 b = clk(); meets(); \
        const u32 c = clk(); meets_relaxed(); \
        const u32 d = clk(); meets_relaxed(); \
        const u32 e = clk(); \
        TELL(0, a) TELL(1, b) TELL(2, c) TELL(3, d) TELL(4, e) } \
    extern "C" __global__ void DIMS meets_once_##X(u32* out, int delay) { meets_relaxed(); } \
    extern "C" __global__ void DIMS late_##X(u32* out, int delay) { \
        const u32 a = clk(); \
        if (blockIdx.x == 0) while (clk() - a < delay) {} \
        TELL(0, a) } \
    extern "C" __global__ void DIMS late_meets_##X(u32* out, int delay) { \
        const u32 a = clk(); \
        if (blockIdx.x == 0) while (clk() - a < delay) {} \
        const u32 b = clk(); meets_relaxed(); \
        const u32 c = clk(); \
        TELL(0, a) TELL(1, b) TELL(2, c) }
OF(1, )
OF(2, __cluster_dims__(2, 1, 1))
OF(4, __cluster_dims__(4, 1, 1))
OF(8, __cluster_dims__(8, 1, 1))
