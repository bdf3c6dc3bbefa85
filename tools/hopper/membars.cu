// Fences of the GPU by several warps, each `apart` cycles behind the one before. out[TURNS * w + t]: cycles that warp w took in turn t.
// what: bits of what is before the fence: 1 a fence of the CTA, 2 a store, 4 seven more, 8 a store to shared memory, 16 a load; 32: no fence.
template <int WHAT> __device__ void membars(u32* out, u32* far, int apart, int beside) {
    __shared__ u32 near[256], began;
    const int warp = threadIdx.x / 32;
#pragma unroll 1
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        if (threadIdx.x == 0) began = clk() + 200;
        __syncthreads();
        const u32 at = *(volatile u32*)&began + warp * apart;
        while ((int)(clk() - at) < 0) {}
        u32 v = 0;
        if (WHAT & 16) v = *(volatile u32*)(far + 65536 + threadIdx.x);
        if (WHAT & 2) far[threadIdx.x] = t;
        if (WHAT & 4) for (int i = 1; i < 8; i++) far[1024 * i + threadIdx.x] = t;
        if (WHAT & 8) *(volatile u32*)(near + threadIdx.x) = t;
        const u32 a = clk();
        if (WHAT & 1) asm volatile("fence.acq_rel.cta;" ::: "memory");
        if (!(WHAT & 32) && warp < beside) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        const u32 b = clk();
        __syncthreads();
        if (threadIdx.x % 32 == 0) out[TURNS * warp + t] = b - a + (v == 77);
    }
}
#define OF(WHAT) extern "C" __global__ void membars_##WHAT(u32* out, u32* far, int apart, int beside) { membars<WHAT>(out, far, apart, beside); }
OF(0) OF(1) OF(2) OF(3) OF(6) OF(8) OF(9) OF(16) OF(17) OF(32) OF(33)
// The meeting of a cluster behind what kernels do before it; warps `apart` cycles one behind another.
template <int WHAT> __device__ void meets(u32* out, u32* far, int apart, int beside) {
    __shared__ u32 near[256], began;
    __shared__ u64 bar;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) init(&bar, 1 << 19);
#pragma unroll 1
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        if (threadIdx.x == 0) began = clk() + 200;
        __syncthreads();
        const u32 at = *(volatile u32*)&began + warp * apart;
        while ((int)(clk() - at) < 0) {}
        if (WHAT & 2) far[threadIdx.x + 4096 * blockIdx.x] = t;
        if (WHAT & 8) *(volatile u32*)(near + threadIdx.x) = t;
        if (WHAT & 64 && threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(&bar)) : "memory");
        const u32 a = clk();
        if (WHAT & 128) asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        else asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 b = clk();
        __syncthreads();
        if (threadIdx.x % 32 == 0 && blockIdx.x == 0) out[TURNS * warp + t] = b - a;
    }
}
#define MEETS(X, WHAT) extern "C" __global__ void __cluster_dims__(X, 1, 1) meets_##WHAT##_##X(u32* out, u32* far, int apart, int beside) { meets<WHAT>(out, far, apart, beside); }
#define EACH(X) MEETS(X, 0) MEETS(X, 2) MEETS(X, 8) MEETS(X, 64) MEETS(X, 128)
EACH(2) EACH(4) EACH(8)
