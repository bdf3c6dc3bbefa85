// Arithmetic beside products of the same warps: until the arithmetic has issued, until all is done. HOW: which; products: groups of 4 in flight.
template <int N, int REG, int HOW> __device__ void busy(u32* out, int products, const char* from) {
    float d[N / 2];
    u32 x[4] = {0, 0, 0, 0};
    for (int i = 0; i < N / 2; i++) d[i] = 0;
    for (int i = threadIdx.x; i < 65536 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a = DESC(smem), b = DESC(smem + 32768);
    float f[8], g[8], h[8];
    for (int i = 0; i < 8; i++) { f[i] = threadIdx.x + i; g[i] = f[i] * 2; h[i] = f[i] * 3; }
    u32 p[8], q[8], r[8];
    for (int i = 0; i < 8; i++) { p[i] = threadIdx.x + i; q[i] = p[i] * 5; r[i] = p[i] * 7; }
    u64 w[8];
    for (int i = 0; i < 8; i++) w[i] = threadIdx.x * 11 + i;
    const u32 mine = sa(smem + 65536 + threadIdx.x % 128 * 16);
    const char* src = from + threadIdx.x % 128 * 16;
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 began = clk();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        if (products) {
#pragma unroll
            for (int i = 0; i < 4; i++) one<N, REG>(d, x, a, b);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        const u32 issued = clk();
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int k = i % 8;
            if (HOW == 0) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(f[k]) : "f"(g[k]), "f"(h[k]));
            if (HOW == 1) asm volatile("{ .reg .u32 z; add.u32 z, %0, %1; add.u32 %0, z, %2; }" : "+r"(p[k]) : "r"(q[k]), "r"(r[k]));
            if (HOW == 2) asm volatile("mad.lo.u32 %0, %1, %2, %0;" : "+r"(p[k]) : "r"(q[k]), "r"(r[k]));
            if (HOW == 3) asm volatile("xor.b32 %0, %0, %1;" : "+r"(p[k]) : "r"(q[k]));
            if (HOW == 4 && i < 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine + i % 8 * 2048), "l"(src + i % 8 * 2048) : "memory");
            if (HOW == 5) asm volatile("mov.b32 %0, %1;" : "=r"(p[k]) : "r"(q[k]));
            if (HOW == 6 && i < 16) asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(mine), "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]) : "memory");
            if (HOW == 8) asm volatile("{ .reg .u32 l, h; mov.b64 {l, h}, %0; mad.wide.u32 %0, l, %1, %0; }" : "+l"(w[k]) : "r"(r[k]));
            if (HOW == 7 && i < 16) asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3]) : "r"(mine) : "memory");
        }
        const u32 mid = clk();
        if (HOW == 4) asm volatile("cp.async.wait_all;" ::: "memory");
        const u32 copied = clk();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        const u32 to = clk();
        TELL(0, began, issued) TELL(1, issued, mid) TELL(2, mid, copied) TELL(3, copied, to) TELL(4, began, to)
    }
    float sum = 0;
    for (int i = 0; i < N / 2; i++) sum += d[i];
    for (int i = 0; i < 8; i++) sum += f[i] + p[i] + w[i];
    if (sum == 77) out[0] = 1;
}
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_0(u32* out, int products, const char* from) { busy<64, 0, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_1(u32* out, int products, const char* from) { busy<64, 0, 1>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_2(u32* out, int products, const char* from) { busy<64, 0, 2>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_3(u32* out, int products, const char* from) { busy<64, 0, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_4(u32* out, int products, const char* from) { busy<64, 0, 4>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_5(u32* out, int products, const char* from) { busy<64, 0, 5>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_6(u32* out, int products, const char* from) { busy<64, 0, 6>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_7(u32* out, int products, const char* from) { busy<64, 0, 7>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_s_8(u32* out, int products, const char* from) { busy<64, 0, 8>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_r_0(u32* out, int products, const char* from) { busy<64, 1, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_r_3(u32* out, int products, const char* from) { busy<64, 1, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_64_r_4(u32* out, int products, const char* from) { busy<64, 1, 4>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_0(u32* out, int products, const char* from) { busy<128, 0, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_1(u32* out, int products, const char* from) { busy<128, 0, 1>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_2(u32* out, int products, const char* from) { busy<128, 0, 2>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_3(u32* out, int products, const char* from) { busy<128, 0, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_4(u32* out, int products, const char* from) { busy<128, 0, 4>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_5(u32* out, int products, const char* from) { busy<128, 0, 5>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_6(u32* out, int products, const char* from) { busy<128, 0, 6>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_7(u32* out, int products, const char* from) { busy<128, 0, 7>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_s_8(u32* out, int products, const char* from) { busy<128, 0, 8>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_r_0(u32* out, int products, const char* from) { busy<128, 1, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_r_3(u32* out, int products, const char* from) { busy<128, 1, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_128_r_4(u32* out, int products, const char* from) { busy<128, 1, 4>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_0(u32* out, int products, const char* from) { busy<256, 0, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_1(u32* out, int products, const char* from) { busy<256, 0, 1>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_2(u32* out, int products, const char* from) { busy<256, 0, 2>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_3(u32* out, int products, const char* from) { busy<256, 0, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_4(u32* out, int products, const char* from) { busy<256, 0, 4>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_5(u32* out, int products, const char* from) { busy<256, 0, 5>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_6(u32* out, int products, const char* from) { busy<256, 0, 6>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_7(u32* out, int products, const char* from) { busy<256, 0, 7>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_s_8(u32* out, int products, const char* from) { busy<256, 0, 8>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_r_0(u32* out, int products, const char* from) { busy<256, 1, 0>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_r_3(u32* out, int products, const char* from) { busy<256, 1, 3>(out, products, from); }
extern "C" __global__ void __launch_bounds__(256, 1) busy_256_r_4(u32* out, int products, const char* from) { busy<256, 1, 4>(out, products, from); }

// A load by a tensor map behind a store that has not been read: until the store has been read, until the load is there.
extern "C" __global__ void turned(u32* out, const char* map, int rows, int order) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 0; t < TURNS; t++) {
        const u32 a = clk();
        expect(&bar, 128 * rows);
        if (order == 1) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(0), "r"(1024), "r"(sa(smem)) : "memory"); asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
        load2d(smem + 65536, map, 0, 0, &bar);
        if (order == 2) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(0), "r"(1024), "r"(sa(smem)) : "memory"); asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
        wait(&bar, t & 1);
        const u32 b = clk();
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        const u32 c = clk();
        TELL(0, a, b) TELL(1, a, c)
    }
}
// Stores of 16 bits with `ways` lanes to a bank, then a fence, then all meet.
template <int HOW> __device__ void crowded(u32* out, int ways, int count) {
    const u32 at = sa(smem) + (threadIdx.x % 32 / ways * 4 + threadIdx.x % ways * 128) + threadIdx.x / 32 * 8192;
    for (int t = 0; t < TURNS; t++) {
        __syncthreads();
        const u32 a = clk();
#pragma unroll 4
        for (int i = 0; i < count; i++) asm volatile("st.shared.u16 [%0], %1;" ::"r"(at + i % 4 * 2048), "h"((short)t) : "memory");
        const u32 b = clk();
        if (HOW == 1) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if (HOW == 2) __threadfence_block();
        const u32 c = clk();
        __syncthreads();
        const u32 d = clk();
        TELL(0, a, b) TELL(1, a, c) TELL(2, a, d)
    }
}
extern "C" __global__ void crowded_none(u32* out, int ways, int count) { crowded<0>(out, ways, count); }
extern "C" __global__ void crowded_fence(u32* out, int ways, int count) { crowded<1>(out, ways, count); }
extern "C" __global__ void crowded_block(u32* out, int ways, int count) { crowded<2>(out, ways, count); }
