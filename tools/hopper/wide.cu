// What uses registers twice, or the tensor pipe, beside products. Stands behind products.cuh.
// HOW: 1 IMAD.WIDE, 2 IMAD.HI, 3 DFMA, 4 HMMA; COUNT of them, independent of each other.
template <int HOW, int COUNT> __device__ __forceinline__ void some(u64* w, u32* x, double* e, float* m) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (HOW == 1) asm volatile("mad.wide.s32 %0, %1, 7, %0;" : "+l"(w[i]) : "r"(x[i]));
        if (HOW == 2) asm volatile("mad.hi.u32 %0, %1, %2, %0;" : "+r"(x[i]) : "r"(x[i + 8]), "r"(x[i + 9]));
        if (HOW == 3) asm volatile("fma.rn.f64 %0, %1, %1, %0;" : "+d"(e[i]) : "d"(e[8]));
        if (HOW == 4) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};" : "+f"(m[4 * i]), "+f"(m[4 * i + 1]), "+f"(m[4 * i + 2]), "+f"(m[4 * i + 3]) : "r"(x[0]));
    }
}
#define FILL for (int i = 0; i < 8; i++) { w[i] = threadIdx.x * 11 + i; e[i] = threadIdx.x + i; m[4 * i] = m[4 * i + 1] = m[4 * i + 2] = m[4 * i + 3] = 0; } \
    for (int i = 0; i < 17; i++) x[i] = out[(threadIdx.x + i) % 192]; e[8] = threadIdx.x;
#define EMPTY for (int i = 0; i < 8; i++) sum += w[i] + e[i] + x[i] + m[4 * i] + m[4 * i + 1] + m[4 * i + 2] + m[4 * i + 3]; if (sum == 77) out[0] = 1;
// Each warpgroup has four products on their way. Warp k of `mask` waits until k * stagger + 120 cycles behind the start; then come the instructions.
// what: the number of a warp; or 8 more than it: until its products are done.
template <int N, int HOW, int COUNT> __device__ void within(u32* out, int mask, int stagger) {
    float d[N / 2], m[32], sum = 0; u64 w[8]; u32 x[17]; double e[9];
    for (int i = 0; i < N / 2; i++) d[i] = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    FILL
#pragma unroll 1
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 began = clk();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 4; i++) one<N, 0>(d, 0, a, b);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (stagger) while ((int)(clk() - began) < warp * stagger + 120);
        const u32 issued = clk();
        if (mask >> warp & 1) some<HOW, COUNT>(w, x, e, m);
        const u32 mid = clk();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const u32 to = clk();
        if (threadIdx.x % 32 == 0) { out[TURNS * warp + t] = mid - issued; out[TURNS * (8 + warp) + t] = to - began; }
    }
    for (int i = 0; i < N / 2; i++) sum += d[i];
    EMPTY
}
// The first warpgroup multiplies; the second one has the instructions, `stagger` cycles behind the start.
template <int N, int HOW, int COUNT> __device__ void apart(u32* out, int mask, int stagger) {
    float sum = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    if (warp < 4) {
        float d[N / 2];
        for (int i = 0; i < N / 2; i++) d[i] = 0;
#pragma unroll 1
        for (int t = 0; t < TURNS; t++) {
            asm volatile("bar.sync 1, 256;" ::: "memory");
            const u32 began = clk();
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int i = 0; i < 4; i++) one<N, 0>(d, 0, a, b);
            asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (threadIdx.x % 32 == 0) out[TURNS * (8 + warp) + t] = clk() - began;
        }
        for (int i = 0; i < N / 2; i++) sum += d[i];
        if (sum == 77) out[0] = 1;
    } else {
        float m[32]; u64 w[8]; u32 x[17]; double e[9];
        FILL
#pragma unroll 1
        for (int t = 0; t < TURNS; t++) {
            asm volatile("bar.sync 1, 256;" ::: "memory");
            const u32 began = clk();
            while ((int)(clk() - began) < stagger);
            const u32 issued = clk();
            if (mask >> warp & 1) some<HOW, COUNT>(w, x, e, m);
            if (threadIdx.x % 32 == 0) out[TURNS * warp + t] = clk() - issued;
        }
        EMPTY
    }
}
#define CASE(WHERE, N, HOW, COUNT) extern "C" __global__ void __launch_bounds__(256, 1) WHERE##_##N##_##HOW##_##COUNT(u32* out, int mask, int stagger) { WHERE<N, HOW, COUNT>(out, mask, stagger); }
#define SOME(WHERE, HOW) CASE(WHERE, 64, HOW, 1) CASE(WHERE, 128, HOW, 1) CASE(WHERE, 256, HOW, 1) CASE(WHERE, 64, HOW, 4) CASE(WHERE, 128, HOW, 4) CASE(WHERE, 256, HOW, 4)
#define MORE(WHERE, HOW) SOME(WHERE, HOW) CASE(WHERE, 128, HOW, 2) CASE(WHERE, 128, HOW, 3) CASE(WHERE, 128, HOW, 5) CASE(WHERE, 128, HOW, 8) CASE(WHERE, 256, HOW, 8)
MORE(within, 1) MORE(within, 2) SOME(within, 3) SOME(within, 4) SOME(apart, 1) SOME(apart, 3) SOME(apart, 4)
