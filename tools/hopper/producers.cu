// Threads that ask for boxes as producers do: a wait that is over, bytes expected, copies; and what boxes of narrow lines take.
struct alignas(64) Map { char bytes[128]; };
__device__ __forceinline__ void over(u64* b) {
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 1; @p bra D; bra W; D: }" ::"r"(sa(b)) : "memory");
}
// `steps` steps of EACH boxes: 0 until the last is asked for, 1 until all are there.
template <int EACH> __device__ void asks(u32* out, const Map& map, int bytes, int steps, int rows) {
    __shared__ u64 full[16], empty[16];
    if (threadIdx.x == 0)
        for (int i = 0; i < 16; i++) init(full + i, 1), init(empty + i, 1);
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        const u32 a = clk();
        for (int s = 0; s < steps; s++) {
            over(empty + s);
            expect(full + s, EACH * bytes);
#pragma unroll
            for (int i = 0; i < EACH; i++) load2d(smem + i * bytes, &map, 0, (s * EACH + i) * rows, full + s);
        }
        const u32 b = clk();
        for (int s = 0; s < steps; s++) wait(full + s, t & 1);
        const u32 c = clk();
        TELL(0, a, b) TELL(1, a, c)
    }
}
extern "C" __global__ void asks_1(u32* out, const __grid_constant__ Map map, int bytes, int steps, int rows) { asks<1>(out, map, bytes, steps, rows); }
extern "C" __global__ void asks_2(u32* out, const __grid_constant__ Map map, int bytes, int steps, int rows) { asks<2>(out, map, bytes, steps, rows); }
extern "C" __global__ void asks_4(u32* out, const __grid_constant__ Map map, int bytes, int steps, int rows) { asks<4>(out, map, bytes, steps, rows); }
// Boxes out: stores, or reductions. 0 until the last is asked for, 1 until all have been read.
template <int ADD> __device__ void sends(u32* out, const Map& map, int count, int rows) {
    if (threadIdx.x) return;
    for (int i = 0; i < 32768; i += 16) *(uint4*)(smem + i) = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int t = 0; t < TURNS; t++) {
        const u32 a = clk();
        for (int i = 0; i < count; i++) {
            if (ADD) asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(0), "r"(i * rows), "r"(sa(smem)) : "memory");
            else asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(0), "r"(i * rows), "r"(sa(smem)) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        const u32 b = clk();
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        const u32 c = clk();
        TELL(0, a, b) TELL(1, a, c)
    }
}
extern "C" __global__ void sends_stores(u32* out, const __grid_constant__ Map map, int count, int rows) { sends<0>(out, map, count, rows); }
extern "C" __global__ void sends_sums(u32* out, const __grid_constant__ Map map, int count, int rows) { sends<1>(out, map, count, rows); }
// A cluster of two: 0 sixteen dependent loads of the other's shared memory, 1 sixteen in a row, 2 a store that is told of there and back (st.async),
// 3 an arrival there and back, 4 the barrier of the cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) others(u32* out) {
    __shared__ u64 bar;
    __shared__ u32 words[64];
    u32 rank, there, bar_there;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    words[threadIdx.x] = words[threadIdx.x + 32] = 0;
    if (threadIdx.x == 0) init(&bar, 1);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(sa(words)), "r"(rank ^ 1));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar_there) : "r"(sa(&bar)), "r"(rank ^ 1));
    u32 phase = 0;
    for (int t = 0; t < TURNS; t++) {
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 a = clk();
        u32 at = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + at) : "memory");
        asm volatile("" ::"r"(at) : "memory");
        const u32 b = clk() + at;
        u32 v[16], sum = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v[i]) : "r"(there + threadIdx.x * 4) : "memory");
#pragma unroll
        for (int i = 0; i < 16; i++) sum += v[i];
        asm volatile("" ::"r"(sum) : "memory");
        const u32 c = clk() + sum;
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 d = clk();
        for (int k = 0; k < 8; k++) {  // each in turn
            if ((k & 1) == rank) {
                if (threadIdx.x == 0) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there + 128), "r"(0), "r"(bar_there) : "memory");
            } else {
                if (threadIdx.x == 0) expect(&bar, 4);
                wait(&bar, phase);
                phase ^= 1;
            }
        }
        const u32 e = clk();
        for (int k = 0; k < 8; k++) {
            if ((k & 1) == rank) {
                if (threadIdx.x == 0) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar_there) : "memory");
            } else {
                wait(&bar, phase);
                phase ^= 1;
            }
        }
        const u32 f = clk();
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 g = clk();
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        const u32 h = clk();
        if (rank == 0) { TELL(0, a, b) TELL(1, b, c) TELL(2, d, e) TELL(3, e, f) TELL(4, g, h) }
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
