// Fences between stores of shared memory and asynchronous reads; stores a thread of 16 bytes before them.
template <int HOW> __device__ void fences(u32* out, int stores) {
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 a = clk();
        for (int i = 0; i < stores; i++) ((uint4*)smem)[threadIdx.x + i * blockDim.x] = make_uint4(t, t, t, t);
        if (HOW == 1) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if (HOW == 2) asm volatile("fence.proxy.async;" ::: "memory");
        if (HOW == 3) __threadfence_block();
        const u32 b = clk();
        __syncthreads();
        const u32 c = clk();
        TELL(0, a, b) TELL(1, a, c)
    }
}
extern "C" __global__ void fence_none(u32* out, int n) { fences<0>(out, n); }
extern "C" __global__ void fence_shared(u32* out, int n) { fences<1>(out, n); }
extern "C" __global__ void fence_async(u32* out, int n) { fences<2>(out, n); }
extern "C" __global__ void fence_block(u32* out, int n) { fences<3>(out, n); }

// A barrier initialised, met, given up, met.
extern "C" __global__ void given(u32* out) {
    __shared__ u64 bar[4];
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 a = clk();
        __syncthreads();
        const u32 b = clk();
        if (threadIdx.x == 0) init(bar, 1);
        __syncthreads();
        const u32 c = clk();
        if (threadIdx.x == 0) expect(bar, 0);
        __syncthreads();
        const u32 d = clk();
        if (threadIdx.x == 0) inval(bar);
        __syncthreads();
        const u32 e = clk();
        TELL(0, a, b) TELL(1, b, c) TELL(2, c, d) TELL(3, d, e)
    }
}
// A tensor map made in shared memory, copied out, fenced; groups of copies that are empty; the first copy with it, the second.
extern "C" __global__ void map_made(u32* out, const uint4* from, char* maps, int bytes) {
    __shared__ u64 bar;
    __shared__ __align__(128) char map[128];
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    for (int t = 0; t < TURNS; t++) {
        char* to = maps + 128 * t;
        if (threadIdx.x < 8) ((uint4*)map)[threadIdx.x] = from[threadIdx.x];
        __syncthreads();
        const u32 a = clk();
        if (threadIdx.x < 32) asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to), "r"(sa(map)) : "memory");
        const u32 b = clk();
        __syncthreads();
        const u32 c = clk();
        if (threadIdx.x < 32) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
        const u32 d = clk();
        __syncthreads();
        const u32 e = clk();
        if (threadIdx.x < 32) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(to) : "memory");
        const u32 f = clk();
        __syncthreads();
        const u32 g = clk();
        if (threadIdx.x == 0) { expect(&bar, bytes); load2d(smem, to, 0, 0, &bar); }
        wait(&bar, 0);
        const u32 h = clk();
        __syncthreads();
        const u32 i = clk();
        if (threadIdx.x == 0) { expect(&bar, bytes); load2d(smem, to, 0, 0, &bar); }
        wait(&bar, 1);
        const u32 j = clk();
        TELL(0, a, b) TELL(1, a, c) TELL(2, c, d) TELL(3, c, e) TELL(4, e, f) TELL(5, e, g) TELL(6, g, h) TELL(7, i, j)
    }
}
// A step of a loop as compilers make it: all warps meet, one thread sends a copy, all meet, all wait.
extern "C" __global__ void stepwise(u32* out, const char* map, int bytes, int copies) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 a = clk();
        if (threadIdx.x == 0) expect(&bar, bytes * copies);
        __syncthreads();
        const u32 b = clk();
        for (int i = 0; i < copies; i++) {
            if (threadIdx.x == 0) load2d(smem + i * bytes, map, 0, i * 64, &bar);
            __syncthreads();
        }
        const u32 c = clk();
        wait(&bar, t & 1);
        const u32 d = clk();
        TELL(0, a, b) TELL(1, b, c) TELL(2, c, d) TELL(3, a, d)
    }
}
// Products in a row: when each has been issued, when all are done. 64 x N x 16, halves, A in shared memory.
#define WG64 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }"
__device__ __forceinline__ void product(float* d, u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; " WG64
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}
#define DESC(at) ((u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | ((sa(at) >> 4) & 0x3fff))
extern "C" __global__ void __launch_bounds__(256, 1) ahead(u32* out) {
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        u32 c[8];
        const u32 from = clk();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 8; i++) { product(d, a, b); c[i] = clk(); }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const u32 to = clk();
        for (int i = 0; i < 8; i++) TELL(i, from, c[i])
        TELL(8, from, to)
    }
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += d[i];
    if (sum == 77) out[0] = 1;
}
// Products of one warpgroup beside what another does to shared memory.
template <int HOW> __device__ void beside(u32* out, const char* from, int products, int count) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    const u32 mine = sa(smem + 65536 + (threadIdx.x % 128) * 16);
    uint4 v = {0, 0, 0, 0}, s = {0, 0, 0, 0};
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 began = clk();
        if (threadIdx.x < 128) {
#pragma unroll 1
            for (int g = 0; g < products; g++) {
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int i = 0; i < 4; i++) product(d, a, b);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        } else {
#pragma unroll 4
            for (int i = 0; i < count; i++) {
                if (HOW == 1) { asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(mine) : "memory"); s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
                if (HOW == 2) asm volatile("st.shared.v4.u32 [%4], {%0, %1, %2, %3};" ::"r"(s.x), "r"(s.y), "r"(s.z), "r"(s.w), "r"(mine) : "memory");
                if (HOW == 3) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine + (i % 8) * 2048), "l"(from + (threadIdx.x % 128) * 16 + (i % 8) * 2048) : "memory");
                if (HOW == 4 && threadIdx.x == 128) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sa(smem + 65536 + (i % 8) * 8192)), "l"(from + (i % 8) * 8192), "r"(8192), "r"(sa(&bar)) : "memory");
            }
            if (HOW == 3) asm volatile("cp.async.wait_all;" ::: "memory");
            if (HOW == 4 && threadIdx.x == 128) { expect(&bar, 8192 * count); }
            if (HOW == 4) wait(&bar, t & 1);
        }
        const u32 ended = clk();
        if (threadIdx.x % 128 == 0) out[TURNS * (threadIdx.x / 128) + t] = ended - began;
    }
    float sum = s.x + s.y + s.z + s.w;
    for (int i = 0; i < 32; i++) sum += d[i];
    if (sum == 77) out[0] = 1;
}
extern "C" __global__ void __launch_bounds__(256, 1) beside_loads(u32* out, const char* from, int products, int count) { beside<1>(out, from, products, count); }
extern "C" __global__ void __launch_bounds__(256, 1) beside_stores(u32* out, const char* from, int products, int count) { beside<2>(out, from, products, count); }
extern "C" __global__ void __launch_bounds__(256, 1) beside_copies(u32* out, const char* from, int products, int count) { beside<3>(out, from, products, count); }
extern "C" __global__ void __launch_bounds__(256, 1) beside_bulk(u32* out, const char* from, int products, int count) { beside<4>(out, from, products, count); }
// Waits of groups of products: `each` products a group, all but `keep` groups waited for after each.
template <int EACH, int KEEP> __device__ void groups(u32* out, int count) {
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 from = clk();
#pragma unroll 1
        for (int g = 0; g < count; g++) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int i = 0; i < EACH; i++) product(d, a, b);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(KEEP) : "memory");
        }
        const u32 mid = clk();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const u32 to = clk();
        TELL(0, from, mid) TELL(1, from, to)
    }
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += d[i];
    if (sum == 77) out[0] = 1;
}
#define GROUPS(E, K) extern "C" __global__ void __launch_bounds__(256, 1) groups_##E##_##K(u32* out, int count) { groups<E, K>(out, count); }
GROUPS(1, 0) GROUPS(1, 1) GROUPS(2, 0) GROUPS(2, 1) GROUPS(4, 0) GROUPS(4, 1)
// Boxes stored by a tensor map in a loop as compilers make it: stores, a fence, a meeting, the copy, a wait for the one before.
extern "C" __global__ void stored(u32* out, const char* map, int rows, int keep) {
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 a = clk();
        for (int i = 0; i < 4; i++) {
            for (int k = threadIdx.x; k < rows * 8; k += blockDim.x) ((uint4*)smem)[k] = make_uint4(t, t, t, t);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            if (threadIdx.x == 0) {
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(0), "r"(i * rows), "r"(sa(smem)) : "memory");
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            __syncthreads();
        }
        const u32 b = clk();
        TELL(0, a, b)
    }
}
