// Single steps of pipelines of copies, barriers and products: cycles between clock reads. out[TURNS * k + t]: the k-th step in turn t.
typedef unsigned long long u64;
typedef unsigned u32;
#define TURNS 12
__device__ __forceinline__ u32 sa(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ u32 clk() { u32 c; asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory"); return c; }
__device__ __forceinline__ void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void inval(u64* b) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(sa(b)) : "memory"); }
__device__ __forceinline__ void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void wait(u64* b, u32 parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }" ::"r"(sa(b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load2d(void* to, const void* map, int x, int y, u64* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(sa(to)), "l"(map), "r"(x), "r"(y), "r"(sa(b)) : "memory");
}
extern __shared__ __align__(1024) char smem[];
#define TELL(k, from, to) if (threadIdx.x == 0) out[TURNS * (k) + t] = (to) - (from);
