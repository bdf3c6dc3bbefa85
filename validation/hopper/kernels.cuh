// Kernels of Hopper's asynchronous units; source.py puts the products (struct P) and one instance of a template a launch behind them.
#include <cstdint>
typedef unsigned long long u64;
typedef unsigned u32;
struct alignas(64) Map { char bytes[128]; };
#define DEV __device__ __forceinline__

DEV u32 sa(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
DEV void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(b)) : "memory"); }
DEV void arrive_at(u64* b, u32 rank) {
    asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }" ::"r"(sa(b)), "r"(rank) : "memory");
}
DEV void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
DEV void wait(u64* b, u32 parity) {
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }" ::"r"(sa(b)), "r"(parity) : "memory");
}
DEV void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEV void inits_seen() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void cluster_meets() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
DEV void load(void* to, const Map& m, int x, int y, u64* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(sa(to)), "l"(&m), "r"(x), "r"(y), "r"(sa(b)) : "memory");
}
DEV void load_all(void* to, const Map& m, int x, int y, u64* b, unsigned short ranks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(sa(to)), "l"(&m), "r"(x), "r"(y), "r"(sa(b)), "h"(ranks) : "memory");
}
DEV void store(const Map& m, int x, int y, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&m), "r"(x), "r"(y), "r"(sa(from)) : "memory");
}
DEV void add(const Map& m, int x, int y, const void* from) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&m), "r"(x), "r"(y), "r"(sa(from)) : "memory");
}
DEV void bulk_load(void* to, const void* from, u32 bytes, u64* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sa(to)), "l"(from), "r"(bytes), "r"(sa(b)) : "memory");
}
DEV void bulk_store(void* to, const void* from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(sa(from)), "r"(bytes) : "memory");
}
DEV void bulk_add(void* to, const void* from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(sa(from)), "r"(bytes) : "memory");
}
DEV void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEV void read_but() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
DEV void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void products_but() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> DEV void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <class D> DEV void keep(D& d) { asm volatile("" : "+f"(d)::"memory"); }
template <> DEV void keep<u32>(u32& d) { asm volatile("" : "+r"(d)::"memory"); }
template <> DEV void keep<int>(int& d) { asm volatile("" : "+r"(d)::"memory"); }
extern __shared__ __align__(1024) char smem[];

// K-major operand of `rows` rows: SW bytes of K a row and box, 0: 16 bytes, columns of core matrices one behind another.
template <int SW> DEV u64 descriptor(const char* p, int rows) {
    const u64 kind = SW == 128 ? 1 : SW == 64 ? 2 : SW == 32 ? 3 : 0, rows_of_8 = SW ? 8 * SW : 128;
    return kind << 62 | rows_of_8 >> 4 << 32 | (u64)(SW ? 1 : rows) << 16 | (sa(p) >> 4 & 0x3fff);
}
// The place of step k (32 bytes of K) of an operand whose boxes lie one behind another.
template <int SW> DEV const char* at(const char* p, int rows, int k) {
    return SW == 0 ? p + 32 * k * rows : p + 32 * k / SW * (rows * SW) + 32 * k % SW;
}
template <int SW, int KB> DEV void bring(char* to, const Map& m, int rows, int step, int row, u64* full, int element, int most = 256) {
    constexpr int line = SW ? SW : 16;
    for (int box = 0; box < KB / line; box++)
        for (int r = 0; r < rows; r += most) load(to + box * rows * line + r * line, m, (step * KB + box * line) / element, row + r, full);
}
template <class P, int SW, int KB> DEV void multiply(typename P::D (&d)[P::REGISTERS], const char* a, int a_rows, int first, const char* b) {
#pragma unroll
    for (int k = 0; k < KB / 32; k++)
        P::ss(d, descriptor<SW>(at<SW>(a, a_rows, k) + first * (SW ? SW : 16), a_rows), descriptor<SW>(at<SW>(b, P::N, k), P::N));
}
// Accumulators as they lie: two words of each of two rows a lane and 8 columns.
template <class P> DEV void put(typename P::D* out, typename P::D (&d)[P::REGISTERS], int row) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    constexpr int pitch = P::REGISTERS / 2 * 4;
#pragma unroll
    for (int i = 0; i < P::REGISTERS; i += 2) {
        const int r = row + warp * 16 + lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2;
        out[r * pitch + c] = d[i], out[r * pitch + c + 1] = d[i + 1];
    }
}

// A producer's thread, C warpgroups that multiply: each 64 rows of A, all of B. AHEAD: products of a step still at work when the next begins.
template <class P, int C, int SW, int KB, int STAGES, int AHEAD, int OUT, bool GIVE>
DEV void ring(const Map& ma, const Map& mb, const Map& mo, typename P::D* out, int steps) {
    constexpr int A = 64 * C * KB, B = P::N * KB, STAGE = (A + B + 1023) / 1024 * 1024;
    __shared__ u64 full[STAGES], empty[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) init(full + s, 1), init(empty + s, C);
    fence();
    __syncthreads();
    if (threadIdx.x / 128 == C) {
        if (GIVE) registers_down<40>();
        if (threadIdx.x % 128 == 0)
            for (int t = 0; t < steps; t++) {
                const int s = t % STAGES;
                wait(empty + s, t / STAGES % 2 ^ 1);
                expect(full + s, A + B);
                bring<SW, KB>(smem + s * STAGE, ma, 64 * C, t, blockIdx.x * 64 * C, full + s, P::BYTES);
                bring<SW, KB>(smem + s * STAGE + A, mb, P::N, t, 0, full + s, P::BYTES);
            }
    } else {
        if (GIVE) registers_up<232>();
        const int group = threadIdx.x / 128;
        typename P::D d[P::REGISTERS] = {};
        for (int t = 0; t < steps; t++) {
            const int s = t % STAGES;
            wait(full + s, t / STAGES % 2);
            products_begin();
            multiply<P, SW, KB>(d, smem + s * STAGE, 64 * C, group * 64, smem + s * STAGE + A);
            products_commit();
            products_but<AHEAD>();
            if (AHEAD == 0 && threadIdx.x % 128 == 0) arrive(empty + s);
            if (AHEAD && t && threadIdx.x % 128 == 0) arrive(empty + (t - 1) % STAGES);
        }
        products_but<0>();
#pragma unroll
        for (int i = 0; i < P::REGISTERS; i++) keep(d[i]);
        if (OUT == 0) put<P>(out, d, blockIdx.x * 64 * C + group * 64);
        else {  // by a tensor map of 32 columns, through shared memory, behind the ring
            char* tile = smem + STAGES * STAGE + group * 64 * P::N * 4;
            const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
            for (int i = 0; i < P::REGISTERS; i += 2) {
                const int r = warp * 16 + lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2, o = c / 32 * 8192 + r * 128 + c % 32 * 4;
                *(uint2*)(tile + (o ^ (o >> 7 & 7) << 4)) = make_uint2(*(u32*)&d[i], *(u32*)&d[i + 1]);
            }
            fence();
            asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
            if (threadIdx.x % 128 == 0) {
                for (int c = 0; c < P::N; c += 32) {
                    if (OUT == 1) store(mo, c, blockIdx.x * 64 * C + group * 64, tile + c * 256);
                    else add(mo, c, blockIdx.x * 64 * C + group * 64, tile + c * 256);
                }
                commit();
                read_but<0>();
            }
        }
    }
}

// All warps multiply; one thread asks for the stage that all have left, as compilers make it. Operand A from registers by ldmatrix if REG.
template <class P, int C, int SW, int KB, int STAGES, bool REG>
DEV void together(const Map& ma, const Map& mb, typename P::D* out, int steps) {
    constexpr int A = 64 * C * KB, B = P::N * KB, STAGE = (A + B + 1023) / 1024 * 1024;
    __shared__ u64 full[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) init(full + s, 1);
    fence();
    __syncthreads();
    const auto ask = [&](int t) {
        const int s = t % STAGES;
        expect(full + s, A + B);
        bring<SW, KB>(smem + s * STAGE, ma, 64 * C, t, blockIdx.x * 64 * C, full + s, P::BYTES);
        bring<SW, KB>(smem + s * STAGE + A, mb, P::N, t, 0, full + s, P::BYTES);
    };
    if (threadIdx.x == 0)
        for (int t = 0; t < STAGES - 1; t++) ask(t);
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    typename P::D d[P::REGISTERS] = {};
    for (int t = 0; t < steps; t++) {
        const int s = t % STAGES;
        wait(full + s, t / STAGES % 2);
        const char *a = smem + s * STAGE, *b = a + A;
        if constexpr (REG) {
            u32 f[KB / 32][4];
            const int row = group * 64 + warp * 16 + lane % 16;
#pragma unroll
            for (int k = 0; k < KB / 32; k++) {
                const u32 o = row * 128 + 32 * k + lane / 16 * 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(f[k][0]), "=r"(f[k][1]), "=r"(f[k][2]), "=r"(f[k][3]) : "r"(sa(a) + (o ^ (o >> 7 & 7) << 4)) : "memory");
            }
            products_begin();
#pragma unroll
            for (int k = 0; k < KB / 32; k++) P::rs(d, f[k], descriptor<SW>(at<SW>(b, P::N, k), P::N));
        } else {
            products_begin();
            multiply<P, SW, KB>(d, a, 64 * C, group * 64, b);
        }
        products_commit();
        products_but<0>();
        __syncthreads();
        if (threadIdx.x == 0 && t + STAGES - 1 < steps) ask(t + STAGES - 1);
    }
#pragma unroll
    for (int i = 0; i < P::REGISTERS; i++) keep(d[i]);
    put<P>(out, d, blockIdx.x * 64 * C + group * 64);
}

// Operands as they lie in tiles one behind another in global memory: HOW 0 by bulk copies without a map, 1 by loads and
// stores through registers, 2 by cp.async.
template <class P, int C, int KB, int STAGES, int HOW>
DEV void tiles(const char* ga, const char* gb, typename P::D* out, int steps) {
    constexpr int A = 64 * C * KB, B = P::N * KB, STAGE = (A + B + 1023) / 1024 * 1024;
    __shared__ u64 full[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) init(full + s, 1);
    fence();
    __syncthreads();
    const auto ask = [&](int t) {
        char* to = smem + t % STAGES * STAGE;
        const char *a = ga + (u64)(blockIdx.x * steps + t) * A, *b = gb + (u64)t * B;
        if (HOW == 0 && threadIdx.x == 0) {
            expect(full + t % STAGES, A + B);
            bulk_load(to, a, A, full + t % STAGES);
            bulk_load(to + A, b, B, full + t % STAGES);
        }
        if (HOW == 2) {
            for (int i = threadIdx.x * 16; i < A + B; i += blockDim.x * 16)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sa(to + i)), "l"(i < A ? a + i : b + i - A) : "memory");
        }
    };
    uint4 held[(A + B) / (C * 128 * 16)];
    const auto fetch = [&](int t) {
        const char *a = ga + (u64)(blockIdx.x * steps + t) * A, *b = gb + (u64)t * B;
#pragma unroll
        for (int i = 0; i < (A + B) / (C * 128 * 16); i++) {
            const int o = threadIdx.x * 16 + i * C * 128 * 16;
            held[i] = *(const uint4*)(o < A ? a + o : b + o - A);
        }
    };
    if (HOW == 1) fetch(0);
    else for (int t = 0; t < STAGES - 1; t++) {
        ask(t);
        if (HOW == 2) asm volatile("cp.async.commit_group;" ::: "memory");
    }
    const int group = threadIdx.x / 128;
    typename P::D d[P::REGISTERS] = {};
    for (int t = 0; t < steps; t++) {
        const int s = t % STAGES;
        char* at = smem + s * STAGE;
        if (HOW == 0) wait(full + s, t / STAGES % 2);
        if (HOW == 1) {
#pragma unroll
            for (int i = 0; i < (A + B) / (C * 128 * 16); i++) *(uint4*)(at + threadIdx.x * 16 + i * C * 128 * 16) = held[i];
            fence();
            __syncthreads();
            if (t + 1 < steps) fetch(t + 1);
        }
        if (HOW == 2) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            fence();
            __syncthreads();
        }
        products_begin();
        multiply<P, 128, KB>(d, at, 64 * C, group * 64, at + A);
        products_commit();
        products_but<0>();
        if (HOW != 1) {
            __syncthreads();
            if (t + STAGES - 1 < steps) ask(t + STAGES - 1);
            if (HOW == 2) asm volatile("cp.async.commit_group;" ::: "memory");
        }
    }
#pragma unroll
    for (int i = 0; i < P::REGISTERS; i++) keep(d[i]);
    put<P>(out, d, blockIdx.x * 64 * C + group * 64);
}

// Boxes of floats in, twice as much out. HOW 0: tensor maps, 1: bulk copies. OUT 0: stores, 1: reductions. WORK: threads double each number.
template <int SW, int ROWS, int STAGES, int HOW, int OUT, int WORK>
DEV void boxes(const Map& mi, const Map& mo, const float* from, float* to, int count) {
    constexpr int LINE = SW ? SW : 128, BYTES = ROWS * LINE;
    __shared__ u64 full[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) init(full + s, 1);
    fence();
    __syncthreads();
    const auto ask = [&](int t) {
        char* at = smem + t % STAGES * BYTES;
        expect(full + t % STAGES, BYTES);
        if (HOW == 0) load(at, mi, 0, (blockIdx.x * count + t) * ROWS, full + t % STAGES);
        else bulk_load(at, from + (u64)(blockIdx.x * count + t) * (BYTES / 4), BYTES, full + t % STAGES);
    };
    if (threadIdx.x == 0)
        for (int t = 0; t < STAGES - 1 && t < count; t++) ask(t);
    for (int t = 0; t < count; t++) {
        char* at = smem + t % STAGES * BYTES;
        if (WORK || threadIdx.x == 0) wait(full + t % STAGES, t / STAGES % 2);
        if (WORK) {
            for (int i = threadIdx.x * 16; i < BYTES; i += blockDim.x * 16) {
                float4 v = *(float4*)(at + i);
                v.x *= 2, v.y *= 2, v.z *= 2, v.w *= 2;
                *(float4*)(at + i) = v;
            }
            fence();
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            const int row = (blockIdx.x * count + t) * ROWS;
            float* out = to + (u64)(blockIdx.x * count + t) * (BYTES / 4);
            if (HOW == 0 && OUT == 0) store(mo, 0, row, at);
            if (HOW == 0 && OUT == 1) add(mo, 0, row, at);
            if (HOW == 1 && OUT == 0) bulk_store(out, at, BYTES);
            if (HOW == 1 && OUT == 1) bulk_add(out, at, BYTES);
            commit();
            if (t + STAGES - 1 < count) {
                read_but<1>();
                if (STAGES == 1) read_but<0>();
                ask(t + STAGES - 1);
            }
        }
    }
    if (threadIdx.x == 0) read_but<0>();
}

// Attention of 64 halves a head: C warpgroups of 64 queries, P::N keys a step, two stages; V is read as it lies (columns first).
template <class P, class V, int C>
DEV void attention(const Map& mq, const Map& mk, const Map& mv, float* out, int steps) {
    constexpr int KEYS = P::N, TILE = KEYS * 128;
    __shared__ u64 full[2], empty[2], queries;
    char* q = smem;
    char* ring = smem + C * 8192;
    if (threadIdx.x == 0) {
        init(&queries, 1);
        for (int s = 0; s < 2; s++) init(full + s, 1), init(empty + s, C * 128);
    }
    fence();
    __syncthreads();
    if (threadIdx.x / 128 == C) {
        if (threadIdx.x % 128 == 0) {
            expect(&queries, C * 8192);
            load(q, mq, 0, blockIdx.x * C * 64, &queries);
            for (int t = 0; t < steps; t++) {
                const int s = t % 2;
                wait(empty + s, t / 2 % 2 ^ 1);
                expect(full + s, 2 * TILE);
                load(ring + s * 2 * TILE, mk, 0, t * KEYS, full + s);
                load(ring + s * 2 * TILE + TILE, mv, 0, t * KEYS, full + s);
            }
        }
        return;
    }
    const int group = threadIdx.x / 128;
    float o[32] = {}, most[2] = {-1e30f, -1e30f}, sum[2] = {};
    wait(&queries, 0);
    for (int t = 0; t < steps; t++) {
        const int s = t % 2;
        const char *k = ring + s * 2 * TILE, *v = k + TILE;
        float x[P::REGISTERS] = {};
        wait(full + s, t / 2 % 2);
        products_begin();
        multiply<P, 128, 128>(x, q, C * 64, group * 64, k);
        products_commit();
        products_but<0>();
#pragma unroll
        for (int i = 0; i < P::REGISTERS; i++) keep(x[i]);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m = most[h];
#pragma unroll
            for (int i = 0; i < P::REGISTERS; i += 4) m = fmaxf(m, fmaxf(x[i + 2 * h], x[i + 2 * h + 1]));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
            const float scale = exp2f((most[h] - m) * 0.18f);
            most[h] = m;
            sum[h] *= scale;
#pragma unroll
            for (int i = 0; i < 32; i += 4) o[i + 2 * h] *= scale, o[i + 2 * h + 1] *= scale;
#pragma unroll
            for (int i = 0; i < P::REGISTERS; i += 4) {
                x[i + 2 * h] = exp2f((x[i + 2 * h] - m) * 0.18f), x[i + 2 * h + 1] = exp2f((x[i + 2 * h + 1] - m) * 0.18f);
                sum[h] += x[i + 2 * h] + x[i + 2 * h + 1];
            }
        }
        u32 p[P::REGISTERS / 2];
#pragma unroll
        for (int i = 0; i < P::REGISTERS / 2; i++) asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
        products_begin();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
            V::rs(o, *(u32(*)[4]) & p[4 * i], 1ull << 62 | 64ull << 32 | 1ull << 16 | (sa(v + i * 2048) >> 4 & 0x3fff));
        products_commit();
        products_but<0>();
#pragma unroll
        for (int i = 0; i < 32; i++) keep(o[i]);
        arrive(empty + s);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float l = sum[h];
        l += __shfl_xor_sync(~0u, l, 1);
        l += __shfl_xor_sync(~0u, l, 2);
#pragma unroll
        for (int i = 0; i < 32; i += 4) o[i + 2 * h] /= l, o[i + 2 * h + 1] /= l;
    }
    put<V>(out, o, blockIdx.x * C * 64 + group * 64);
}

// The ring with operand B shared by a cluster of X CTAs: each brings its part of B to all (EACH), or the first all of it.
template <class P, int X, int C, int KB, int STAGES, bool EACH>
DEV void shared_ring(const Map& ma, const Map& mb, typename P::D* out, int steps) {
    constexpr int A = 64 * C * KB, B = P::N * KB, STAGE = (A + B + 1023) / 1024 * 1024, PART = EACH ? P::N / X : P::N;
    __shared__ u64 full[STAGES], empty[STAGES];
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) init(full + s, 1), init(empty + s, EACH || rank == 0 ? C * X : C);
    inits_seen();
    cluster_meets();
    if (threadIdx.x / 128 == C) {
        if (threadIdx.x % 128 == 0)
            for (int t = 0; t < steps; t++) {
                const int s = t % STAGES;
                char* b = smem + s * STAGE + A;
                wait(empty + s, t / STAGES % 2 ^ 1);
                expect(full + s, A + B);
                bring<128, KB>(smem + s * STAGE, ma, 64 * C, t, blockIdx.x * 64 * C, full + s, P::BYTES);
                if (EACH || rank == 0)
                    for (int box = 0; box < KB / 128; box++)
                        load_all(b + box * P::N * 128 + (EACH ? rank * PART * 128 : 0), mb, (t * KB + box * 128) / P::BYTES, EACH ? rank * PART : 0, full + s, (1 << X) - 1);
            }
    } else {
        const int group = threadIdx.x / 128;
        typename P::D d[P::REGISTERS] = {};
        for (int t = 0; t < steps; t++) {
            const int s = t % STAGES;
            wait(full + s, t / STAGES % 2);
            products_begin();
            multiply<P, 128, KB>(d, smem + s * STAGE, 64 * C, group * 64, smem + s * STAGE + A);
            products_commit();
            products_but<0>();
            if (EACH && threadIdx.x % 128 < X) arrive_at(empty + s, threadIdx.x % 128);
            if (!EACH && threadIdx.x % 128 == 0) {
                arrive_at(empty + s, 0);
                if (rank) arrive(empty + s);
            }
        }
#pragma unroll
        for (int i = 0; i < P::REGISTERS; i++) keep(d[i]);
        put<P>(out, d, blockIdx.x * 64 * C + group * 64);
    }
    cluster_meets();
}

// Sums of columns over a cluster: each CTA sums its rows, then reads the others' sums (PUSH 0) or is sent them (1: st.async).
template <int X, int PUSH> DEV void sums(const float* from, float* to, int rows) {
    __shared__ float mine[X][256];
    __shared__ u64 there;
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        init(&there, 1);
        if (PUSH) expect(&there, X * 1024);
    }
    inits_seen();
    if (PUSH) cluster_meets();
    float sum = 0;
    for (int r = 0; r < rows; r++) sum += from[(blockIdx.x * rows + r) * 256 + threadIdx.x];
    if (PUSH) {
        for (int x = 0; x < X; x++)
            asm volatile("{ .reg .b32 a, b; mapa.shared::cluster.u32 a, %0, %3; mapa.shared::cluster.u32 b, %1, %3; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], %2, [b]; }" ::"r"(sa(&mine[rank][threadIdx.x])), "r"(sa(&there)), "r"(*(u32*)&sum), "r"(x) : "memory");
        wait(&there, 0);
    } else {
        mine[rank][threadIdx.x] = sum;
        cluster_meets();
    }
    float all = 0;
    for (int x = 0; x < X; x++) {
        float v;
        if (PUSH) v = mine[x][threadIdx.x];
        else asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a]; }" : "=f"(v) : "r"(sa(&mine[x][threadIdx.x])), "r"(x) : "memory");
        all += v;
    }
    to[blockIdx.x * 256 + threadIdx.x] = all;
    cluster_meets();
}
