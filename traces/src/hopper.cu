// Hopper's tensor cores and copies, one step after another: C = A B' of 128 x 128 with A and B in halves, K = 64 a step.
// First as on Ampere (cp.async, ldmatrix, mma), then with wgmma, with TMA, with warpgroups of their own; and an attention.
// Tiles have rows of 128 bytes, whose chunks of 16 bytes are exchanged by the row: TMA's swizzle of 128 bytes.
// For sm_90a.
#include <cuda.h>
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;
#ifndef STAGES
#define STAGES 4
#endif
constexpr int ROWS = 128, STEP = 64, TILE = ROWS * STEP, STAGE = 2 * TILE;

__device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// mbarriers: who is to come, and how many bytes.
__device__ __forceinline__ void initialise(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(barrier)) : "memory");
}
__device__ __forceinline__ void wait(u64* barrier, u32 parity) {
    u32 over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(shared(barrier)), "r"(parity) : "memory");
}

// A box of a tensor map that begins at column x and row y.
__device__ __forceinline__ void load_box(half* to, const CUtensorMap& map, int x, int y, u64* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(to)), "l"(&map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory");
}

// 16 bytes of a row of a tile by cp.async, to where TMA's swizzle has them.
__device__ __forceinline__ void load_tile(half* tile, const half* from, int k) {
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        const int row = i / 8, chunk = i % 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     ::"r"(shared(tile + row * STEP + (chunk ^ row % 8) * 8)), "l"(from + row * k + chunk * 8));
    }
}
__device__ __forceinline__ void load_stage(half* stage, const half* a, const half* b, int k) {
    load_tile(stage, a, k);
    load_tile(stage + TILE, b, k);
}

// A tile as wgmma's descriptor says it: rows of 128 bytes swizzled, 8 of them every 1024 bytes.
__device__ __forceinline__ u64 describe(const half* tile) {
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (shared(tile) & 0x3ffff) >> 4;
}
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int GROUPS> __device__ __forceinline__ void wait_all_but() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
__device__ __forceinline__ void multiply_64x128(float (&d)[64], u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p, 1, 1, 0, 0; }"
        : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_64x64(float (&d)[32], u64 a, u64 b, int keep) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p, 1, 1, 0, 0; }"
        : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(a), "l"(b), "r"(keep));
}
// A in registers, B with its columns in rows.
__device__ __forceinline__ void multiply_registers(float (&d)[32], const u32 (&a)[4], u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
        : SIXTEEN(d, 0), SIXTEEN(d, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// A step of K by a warpgroup: its 64 rows of A by all of B.
__device__ __forceinline__ void multiply_stage(float (&d)[64], const half* stage, int group) {
    const u64 a = describe(stage + group * 64 * STEP), b = describe(stage + TILE);
    fence();
    for (int i = 0; i < STEP / 16; i++) multiply_64x128(d, a + 2 * i, b + 2 * i);
    commit();
}
__device__ __forceinline__ void store(float* c, const float (&d)[64], int group) {
    const int row = group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 16; i++)
        for (int h = 0; h < 2; h++)
            *(float2*)(c + (row + 8 * h) * ROWS + 8 * i + column) = make_float2(d[4 * i + 2 * h], d[4 * i + 2 * h + 1]);
}

extern __shared__ __align__(1024) half stages[];

// The product of Ampere: 8 warps of 64 x 32 each.
extern "C" __global__ void __launch_bounds__(256, 1) product_mma(const half* a, const half* b, float* c, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, above = warp / 4 * 64, left = warp % 4 * 32;
    float d[4][4][4] = {};
    for (int s = 0; s < STAGES - 1; s++) {
        load_stage(stages + s * STAGE, a + s * STEP, b + s * STEP, k);
        asm volatile("cp.async.commit_group;");
    }
    for (int i = 0; i < k / STEP; i++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = i + STAGES - 1;
        if (next < k / STEP) load_stage(stages + next % STAGES * STAGE, a + next * STEP, b + next * STEP, k);
        asm volatile("cp.async.commit_group;");
        const half *left_tile = stages + i % STAGES * STAGE, *right_tile = left_tile + TILE;
        for (int j = 0; j < STEP / 16; j++) {
            u32 x[4][4], y[4][2];
            for (int m = 0; m < 4; m++) {
                const int row = above + 16 * m + lane % 16, chunk = 2 * j + lane / 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x[m][0]), "=r"(x[m][1]), "=r"(x[m][2]), "=r"(x[m][3])
                             : "r"(shared(left_tile + row * STEP + (chunk ^ row % 8) * 8)));
            }
            for (int n = 0; n < 4; n += 2) {
                const int row = left + 8 * n + lane / 16 * 8 + lane % 8, chunk = 2 * j + lane / 8 % 2;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(y[n][0]), "=r"(y[n][1]), "=r"(y[n + 1][0]), "=r"(y[n + 1][1])
                             : "r"(shared(right_tile + row * STEP + (chunk ^ row % 8) * 8)));
            }
            for (int m = 0; m < 4; m++)
                for (int n = 0; n < 4; n++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(d[m][n][0]), "+f"(d[m][n][1]), "+f"(d[m][n][2]), "+f"(d[m][n][3])
                                 : "r"(x[m][0]), "r"(x[m][1]), "r"(x[m][2]), "r"(x[m][3]), "r"(y[n][0]), "r"(y[n][1]));
        }
    }
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++)
            for (int h = 0; h < 2; h++)
                *(float2*)(c + (above + 16 * m + 8 * h + lane / 4) * ROWS + left + 8 * n + lane % 4 * 2) =
                    make_float2(d[m][n][2 * h], d[m][n][2 * h + 1]);
}

// The same copies; two warpgroups of 64 x 128, whose tensor cores read the tiles themselves.
extern "C" __global__ void __launch_bounds__(256, 1) product_wgmma(const half* a, const half* b, float* c, int k) {
    const int group = threadIdx.x / 128;
    float d[64] = {};
    for (int s = 0; s < STAGES - 1; s++) {
        load_stage(stages + s * STAGE, a + s * STEP, b + s * STEP, k);
        asm volatile("cp.async.commit_group;");
    }
    for (int i = 0; i < k / STEP; i++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        multiply_stage(d, stages + i % STAGES * STAGE, group);
        const int next = i + STAGES - 1;
        wait_all_but<1>();
        __syncthreads();
        if (next < k / STEP) load_stage(stages + next % STAGES * STAGE, a + next * STEP, b + next * STEP, k);
        asm volatile("cp.async.commit_group;");
    }
    wait_all_but<0>();
    store(c, d, group);
}

struct Ring {
    u64 full[STAGES], empty[STAGES];
};
__device__ __forceinline__ void open(Ring& ring, int consumers) {
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            initialise(ring.full + s, 1);
            initialise(ring.empty + s, consumers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}
// One thread asks for step i of both matrices.
__device__ __forceinline__ void ask(Ring& ring, const CUtensorMap& a, const CUtensorMap& b, int i) {
    const int s = i % STAGES;
    if (i >= STAGES) wait(ring.empty + s, i / STAGES - 1 & 1);
    expect(ring.full + s, STAGE * sizeof(half));
    load_box(stages + s * STAGE, a, i * STEP, 0, ring.full + s);
    load_box(stages + s * STAGE + TILE, b, i * STEP, 0, ring.full + s);
}

// TMA fills a ring of stages: `full` when a stage's bytes are there, `empty` when both warpgroups have multiplied it.
extern "C" __global__ void __launch_bounds__(256, 1)
product_tma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    __shared__ Ring ring;
    const int group = threadIdx.x / 128, steps = k / STEP;
    float d[64] = {};
    open(ring, 2);
    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES - 1; i++) ask(ring, a, b, i);
    for (int i = 0; i < steps; i++) {
        wait(ring.full + i % STAGES, i / STAGES & 1);
        multiply_stage(d, stages + i % STAGES * STAGE, group);
        wait_all_but<1>();
        if (i && threadIdx.x % 128 == 0) arrive(ring.empty + (i - 1) % STAGES);
        if (threadIdx.x == 0 && i + STAGES - 1 < steps) ask(ring, a, b, i + STAGES - 1);
    }
    wait_all_but<0>();
    store(c, d, group);
}

// The same with a warpgroup that does nothing but ask, and hands its registers to the two that multiply.
extern "C" __global__ void __launch_bounds__(384, 1)
product_warpgroups(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    __shared__ Ring ring;
    const int group = threadIdx.x / 128 - 1, steps = k / STEP;
    open(ring, 2);
    if (group < 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int i = 0; i < steps; i++) ask(ring, a, b, i);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[64] = {};
        for (int i = 0; i < steps; i++) {
            wait(ring.full + i % STAGES, i / STAGES & 1);
            multiply_stage(d, stages + i % STAGES * STAGE, group);
            wait_all_but<1>();
            if (i && threadIdx.x % 128 == 0) arrive(ring.empty + (i - 1) % STAGES);
        }
        wait_all_but<0>();
        store(c, d, group);
    }
}

// 64 queries of one head of 64, by one warpgroup; keys and values come 64 at a time into a ring of two stages.
constexpr int HEAD = 64, BOX = 64 * HEAD;
extern "C" __global__ void __launch_bounds__(128, 1)
attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
          const __grid_constant__ CUtensorMap v, float* out, int keys, float scale) {
    __shared__ u64 full[2], asked;
    half* const boxes = stages + BOX;
    if (threadIdx.x == 0) {
        initialise(full, 1);
        initialise(full + 1, 1);
        initialise(&asked, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const auto load = [&](int i) {
        expect(full + i % 2, 2 * BOX * sizeof(half));
        load_box(boxes + i % 2 * 2 * BOX, k, 0, i * 64, full + i % 2);
        load_box(boxes + i % 2 * 2 * BOX + BOX, v, 0, i * 64, full + i % 2);
    };
    if (threadIdx.x == 0) {
        expect(&asked, BOX * sizeof(half));
        load_box(stages, q, 0, 0, &asked);
        load(0);
        load(1);
    }
    float o[32] = {}, s[32], most[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
    wait(&asked, 0);
    for (int i = 0; i < keys / 64; i++) {
        const half* keys_tile = boxes + i % 2 * 2 * BOX;
        wait(full + i % 2, i / 2 & 1);
        const u64 a = describe(stages), b = describe(keys_tile), c = describe(keys_tile + BOX);
        fence();
        for (int j = 0; j < HEAD / 16; j++) multiply_64x64(s, a + 2 * j, b + 2 * j, j);
        commit();
        wait_all_but<0>();
        for (int h = 0; h < 2; h++) {
            float above = most[h];
            for (int j = 0; j < 32; j += 4) above = fmaxf(above, fmaxf(s[j + 2 * h], s[j + 2 * h + 1]) * scale);
            above = fmaxf(above, __shfl_xor_sync(~0u, above, 1));
            above = fmaxf(above, __shfl_xor_sync(~0u, above, 2));
            const float shrink = exp2f(most[h] - above);
            most[h] = above;
            sum[h] *= shrink;
            for (int j = 0; j < 32; j += 4)
                for (int n = 2 * h; n < 2 * h + 2; n++) {
                    s[j + n] = exp2f(s[j + n] * scale - above);
                    sum[h] += s[j + n];
                    o[j + n] *= shrink;
                }
        }
        fence();
        for (int j = 0; j < 4; j++) {
            u32 p[4];
            for (int n = 0; n < 4; n++) {
                const half2 pair = __floats2half2_rn(s[8 * j + 2 * n], s[8 * j + 2 * n + 1]);
                p[n] = *(const u32*)&pair;
            }
            multiply_registers(o, p, c + 128 * j);
        }
        commit();
        wait_all_but<0>();
        __syncthreads();
        if (threadIdx.x == 0 && i + 2 < keys / 64) load(i + 2);
    }
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int h = 0; h < 2; h++) {
        float total = sum[h] + __shfl_xor_sync(~0u, sum[h], 1);
        total += __shfl_xor_sync(~0u, total, 2);
        for (int j = 0; j < 8; j++)
            *(float2*)(out + (row + 8 * h) * HEAD + 8 * j + column) = make_float2(o[4 * j + 2 * h] / total, o[4 * j + 2 * h + 1] / total);
    }
}
