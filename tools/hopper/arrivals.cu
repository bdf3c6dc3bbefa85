// Warps of a warpgroup that come to their products one after another: nvcc -gencode arch=compute_90a,code=sm_90a -cubin.
// out: of each warp clocks before and behind wgmma.fence, behind the products, their group, the wait, in the last of 12 turns.
typedef unsigned u32;
typedef unsigned long long u64;
#define CLOCK(x) asm volatile("mov.u32 %0, %%clock;" : "=r"(x)::"memory");
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define OUT "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define R(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ALL R(0), R(4), R(8), R(12), R(16), R(20), R(24), R(28)
#define SHARED asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " OUT ", %32, %33, p, 1, 1, 0, 0; }" : ALL : "l"(A), "l"(B));
#define REGISTERS asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " OUT ", {%32,%32,%32,%32}, %33, p, 1, 1, 0; }" : ALL : "r"(z), "l"(B));
#define KERNEL(NAME, FENCES, PRODUCTS) \
    extern "C" __global__ void __launch_bounds__(256, 1) NAME(u32* out, int apart, u64 layout) { \
        extern __shared__ __align__(1024) char smem[]; \
        float d[32] = {}; u32 z; asm volatile("mov.u32 %0, 0;" : "=r"(z)); \
        const u32 s = (u32)__cvta_generic_to_shared(smem); \
        const u64 A = layout | (s >> 4 & 0x3fff), B = layout | ((s + 65536) >> 4 & 0x3fff); \
        for (int i = threadIdx.x; i < 131072 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0); \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
        u32 w = threadIdx.x / 32 % 4, t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4 = 0; \
        for (int t = 0; t < 12; t++) { \
            __syncthreads(); \
            u32 from; CLOCK(from) for (;;) { u32 q; CLOCK(q) if (q - from >= apart * w + 200) break; } \
            CLOCK(t0) FENCES CLOCK(t1) PRODUCTS CLOCK(t2) \
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); CLOCK(t3) \
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); CLOCK(t4) \
            for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i])); \
            if (threadIdx.x % 32 == 0 && threadIdx.x < 128) { u32* o = out + w * 8; o[0] = t0 - from; o[1] = t1 - from; o[2] = t2 - from; o[3] = t3 - from; o[4] = t4 - from; } \
        } \
        float x = 0; for (int i = 0; i < 32; i++) x += d[i]; if (x == 77) out[0] = 1; \
    }
KERNEL(shared, FENCE, SHARED)
KERNEL(registers, FENCE, REGISTERS)
KERNEL(eight, FENCE, SHARED SHARED SHARED SHARED SHARED SHARED SHARED SHARED)
KERNEL(fences, FENCE FENCE, SHARED FENCE SHARED FENCE)
