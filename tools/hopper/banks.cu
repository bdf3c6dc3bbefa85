// What instructions read and write of the banks of L1 and shared memory: `count` of each by every warp of a CTA.
typedef unsigned long long u64;
typedef unsigned u32;
__device__ __forceinline__ u32 sa(const void* p) { return (u32)__cvta_generic_to_shared(p); }
extern __shared__ __align__(1024) char smem[];
struct alignas(64) Map { char bytes[128]; };
#define LANE const u32 l = threadIdx.x % 32; const u32 s = sa(smem); (void)l; (void)s;
#define ROW(NAME, ...) extern "C" __global__ void NAME(u32* out, int count, char* big) { \
    u32 sum = 0; LANE \
    _Pragma("unroll 1") for (int i = 0; i < count; i++) { __VA_ARGS__ } \
    if (sum == 0x12345677) out[0] = 1; }
#define LDS1(ADDR) u32 v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(ADDR + 4096 * i) : "memory"); sum += v;
#define LDS2(ADDR) u32 v, w; asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v), "=r"(w) : "r"(ADDR) : "memory"); sum += v + w;
#define LDS4(ADDR) u32 v, w, x, y; asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(ADDR + 4096 * i) : "memory"); sum += v + w + x + y;
ROW(nothing, asm volatile("" ::"r"(i));)
ROW(lds, LDS1(s + 4 * l))
ROW(lds_same, LDS1(s))
ROW(lds_half, if (l < 16) { LDS1(s + 4 * l) })
ROW(lds_one, if (l == 0) { LDS1(s + 4 * l) })
ROW(lds_stride2, LDS1(s + 8 * l))
ROW(lds_stride32, LDS1(s + 128 * l))
ROW(lds_pairs, LDS1(s + 4 * (l / 2)))
ROW(lds_byte, u32 v; asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(s + l) : "memory"); sum += v;)
ROW(lds64, LDS2(s + 8 * l))
ROW(lds64_same, LDS2(s))
ROW(lds128, LDS4(s + 16 * l))
ROW(lds128_same, LDS4(s))
ROW(lds128_stride2, LDS4(s + 32 * l))
#define STS1(ADDR) asm volatile("st.shared.u32 [%0], %1;" ::"r"(ADDR), "r"(i) : "memory");
ROW(sts, STS1(s + 4 * l))
ROW(sts_same, STS1(s))
ROW(sts_half, if (l < 16) STS1(s + 4 * l))
ROW(sts_one, if (l == 0) STS1(s))
ROW(sts_stride2, STS1(s + 8 * l))
ROW(sts_stride32, STS1(s + 128 * l))
ROW(sts_byte, asm volatile("st.shared.u8 [%0], %1;" ::"r"(s + l), "r"(i) : "memory");)
ROW(sts_short, asm volatile("st.shared.u16 [%0], %1;" ::"r"(s + 2 * l), "h"((short)i) : "memory");)
ROW(sts64, asm volatile("st.shared.v2.u32 [%0], {%1, %1};" ::"r"(s + 8 * l), "r"(i) : "memory");)
ROW(sts128, asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(s + 16 * l), "r"(i) : "memory");)
ROW(ldsm1, u32 v; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(s + 16 * l) : "memory"); sum += v;)
ROW(ldsm4, u32 v, w, x, y; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(s + 16 * l) : "memory"); sum += v + w + x + y;)
ROW(stsm4, asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(s + 16 * l), "r"(i) : "memory");)
ROW(stsm4_trans, asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(s + 16 * l), "r"(i) : "memory");)
ROW(atoms, u32 v; asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(v) : "r"(s + 4 * l), "r"(i) : "memory"); sum += v;)
ROW(atoms_same, u32 v; asm volatile("atom.shared.exch.b32 %0, [%1], %2;" : "=r"(v) : "r"(s), "r"(l) : "memory"); sum += v;)
ROW(atoms_one, if (l == 0) { u32 v; asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(v) : "r"(s), "r"(i) : "memory"); sum += v; })
ROW(reds, asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(s + 4 * l), "r"(i) : "memory");)
ROW(atoms_cas, u32 v; asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(v) : "r"(s + 4 * l), "r"(0), "r"(i) : "memory"); sum += v;)
#define LDG1(HOW, ADDR) u32 v; asm volatile("ld.global" HOW ".u32 %0, [%1];" : "=r"(v) : "l"(ADDR) : "memory"); sum += v;
#define LDG4(HOW, ADDR) u32 v, w, x, y; asm volatile("ld.global" HOW ".v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "l"(ADDR) : "memory"); sum += v + w + x + y;
ROW(ldg_miss, LDG1(".ca", big + 4096 * i + 4 * l))
ROW(ldg_hit, LDG1(".ca", big + 4 * l))
ROW(ldg_cg, LDG1(".cg", big + 4096 * i + 4 * l))
ROW(ldg_half_miss, if (l < 16) { LDG1(".ca", big + 4096 * i + 4 * l) })
ROW(ldg_half_hit, if (l < 16) { LDG1(".ca", big + 4 * l) })
ROW(ldg_same_miss, LDG1(".ca", big + 4096 * i))
ROW(ldg_same_hit, LDG1(".ca", big))
ROW(ldg_spread_miss, LDG1(".ca", big + 4096 * i + 32 * l))
ROW(ldg_spread_hit, LDG1(".ca", big + 32 * l))
ROW(ldg_lines_hit, LDG1(".ca", big + 128 * l))
ROW(ldg_byte_hit, u32 v; asm volatile("ld.global.ca.u8 %0, [%1];" : "=r"(v) : "l"(big + l) : "memory"); sum += v;)
ROW(ldg64_hit, u32 v, w; asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(v), "=r"(w) : "l"(big + 8 * l) : "memory"); sum += v + w;)
ROW(ldg128_miss, LDG4(".ca", big + 4096 * i + 16 * l))
ROW(ldg128_hit, LDG4(".ca", big + 16 * l))
ROW(ldg128_same_hit, LDG4(".ca", big))
ROW(ldg128_half_hit, if (l < 16) { LDG4(".ca", big + 16 * l) })
#define STG1(ADDR) asm volatile("st.global.u32 [%0], %1;" ::"l"(ADDR), "r"(i) : "memory");
ROW(stg, STG1(big + 4096 * i + 4 * l))
ROW(stg_half, if (l < 16) STG1(big + 4096 * i + 4 * l))
ROW(stg_one, if (l == 0) STG1(big + 4096 * i))
ROW(stg_two, if (l < 2) STG1(big + 4096 * i + 4 * l))
ROW(stg_two_apart, if (l < 2) STG1(big + 4096 * i + 128 * l))
ROW(stg_even, STG1(big + 4096 * i + 8 * l))
ROW(stg_sectors, STG1(big + 4096 * i + 32 * l))
ROW(stg_lines, STG1(big + 4096 * i + 128 * l))
ROW(stg_8by4, STG1(big + 4096 * i + 512 * (l / 4) + 8 * (l % 4)))
ROW(stg_same, STG1(big + 4096 * i))
ROW(stg_byte, asm volatile("st.global.u8 [%0], %1;" ::"l"(big + 4096 * i + l), "r"(i) : "memory");)
ROW(stg_short, asm volatile("st.global.u16 [%0], %1;" ::"l"(big + 4096 * i + 2 * l), "h"((short)i) : "memory");)
ROW(stg_short_8by4, asm volatile("st.global.u16 [%0], %1;" ::"l"(big + 16384 * i + 4096 * (l % 4) + 2 * (l / 4)), "h"((short)i) : "memory");)
ROW(stg64, asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(big + 4096 * i + 8 * l), "r"(i) : "memory");)
ROW(stg64_8by4, asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(big + 4096 * i + 512 * (l / 4) + 8 * (l % 4)), "r"(i) : "memory");)
ROW(stg128, asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(big + 4096 * i + 16 * l), "r"(i) : "memory");)
ROW(red, asm volatile("red.global.add.u32 [%0], %1;" ::"l"(big + 4096 * i + 4 * l), "r"(i) : "memory");)
ROW(red_one, if (l == 0) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(big + 4096 * i + 4 * l), "r"(i) : "memory");)
ROW(red_spread, asm volatile("red.global.add.u32 [%0], %1;" ::"l"(big + 4096 * i + 32 * l), "r"(i) : "memory");)
ROW(atomg, u32 v; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(v) : "l"(big + 4096 * i + 4 * l), "r"(i) : "memory"); sum += v;)
ROW(atomg_one, if (l == 0) { u32 v; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(v) : "l"(big + 4096 * i), "r"(i) : "memory"); sum += v; })
ROW(atomg_exch, u32 v; asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(v) : "l"(big + 4096 * i + 4 * l), "r"(i) : "memory"); sum += v;)
#define CP(HOW, BYTES, FROM, TO, READ) asm volatile("cp.async." HOW ".shared.global [%0], [%1], " BYTES ", %2; cp.async.wait_all;" ::"r"(TO), "l"(FROM), "r"(READ) : "memory");
ROW(cp4, CP("ca", "4", big + 4096 * i + 4 * l, s + 4 * l, 4))
ROW(cp4_hit, CP("ca", "4", big + 4 * l, s + 4 * l, 4))
ROW(cp4_zero, CP("ca", "4", big + 4096 * i + 4 * l, s + 4 * l, 0))
ROW(cp16_ca, CP("ca", "16", big + 4096 * i + 16 * l, s + 16 * l, 16))
ROW(cp16_ca_hit, CP("ca", "16", big + 16 * l, s + 16 * l, 16))
ROW(cp16_ca_zero, CP("ca", "16", big + 16 * l, s + 16 * l, 0))
ROW(cp16_cg, CP("cg", "16", big + 4096 * i + 16 * l, s + 16 * l, 16))
ROW(cp16_cg_half, if (l < 16) CP("cg", "16", big + 4096 * i + 16 * l, s + 16 * l, 16))
ROW(cp16_cg_zero, CP("cg", "16", big + 4096 * i + 16 * l, s + 16 * l, 0))
ROW(cp16_cg_part, CP("cg", "16", big + 4096 * i + 16 * l, s + 16 * l, 8))
ROW(cp16_cg_conflict, CP("cg", "16", big + 4096 * i + 16 * l, s + 128 * l, 16))
ROW(shfl, sum += __shfl_xor_sync(~0u, sum + i, 1);)
ROW(mb_arrive, if (l == 0) { if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 100;" ::"r"(s) : "memory"); asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(s) : "memory"); })
ROW(mb_init, if (l == 0) { asm volatile("mbarrier.init.shared.b64 [%0], 100;" ::"r"(s + 8 * i) : "memory"); })
ROW(mb_test, if (l == 0) { if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 100;" ::"r"(s) : "memory"); u32 v; asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "r"(s) : "memory"); sum += v; })
ROW(mb_test_all, if (i == 0) { if (l == 0) asm volatile("mbarrier.init.shared.b64 [%0], 100;" ::"r"(s) : "memory"); __syncwarp(); } u32 v; asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "r"(s) : "memory"); sum += v;)
__device__ __forceinline__ void wait(u32 b, u32 parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }" ::"r"(b), "r"(parity) : "memory");
}
#define BAR const u32 b = s + 196608; asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.proxy.async;" ::"r"(b) : "memory");
#define EXPECT(N) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(N) : "memory");
extern "C" __global__ void bulk_load(u32* out, int count, char* big, int bytes) {
    LANE if (threadIdx.x) return; BAR
    for (int i = 0; i < count; i++) {
        EXPECT(bytes)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(s), "l"(big + 65536 * i), "r"(bytes), "r"(b) : "memory");
        wait(b, i & 1);
    }
}
#define DONE asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
extern "C" __global__ void bulk_store(u32* out, int count, char* big, int bytes) {
    LANE if (threadIdx.x) return;
    for (int i = 0; i < count; i++) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(big + 65536 * i), "r"(s), "r"(bytes) : "memory"); DONE }
}
extern "C" __global__ void bulk_add(u32* out, int count, char* big, int bytes) {
    LANE if (threadIdx.x) return;
    for (int i = 0; i < count; i++) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(big + 65536 * i), "r"(s), "r"(bytes) : "memory"); DONE }
}
extern "C" __global__ void bulk_add_half(u32* out, int count, char* big, int bytes) {
    LANE if (threadIdx.x) return;
    for (int i = 0; i < count; i++) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(big + 65536 * i), "r"(s), "r"(bytes) : "memory"); DONE }
}
#define TENSOR(D, AT) extern "C" __global__ void tensor_load##D(u32* out, int count, char* big, int bytes, const __grid_constant__ Map m) { \
    LANE if (threadIdx.x) return; BAR \
    for (int i = 0; i < count; i++) { EXPECT(bytes) \
        asm volatile("cp.async.bulk.tensor." #D "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" AT "}], [%2];" ::"r"(s), "l"(&m), "r"(b), "r"(i), "r"(0) : "memory"); \
        wait(b, i & 1); } } \
    extern "C" __global__ void tensor_store##D(u32* out, int count, char* big, int bytes, const __grid_constant__ Map m) { \
    LANE if (threadIdx.x) return; \
    for (int i = 0; i < count; i++) { asm volatile("cp.async.bulk.tensor." #D "d.global.shared::cta.tile.bulk_group [%1, {" AT "}], [%0];" ::"r"(s), "l"(&m), "r"(0), "r"(i), "r"(0) : "memory"); DONE } }
TENSOR(1, "%4")
TENSOR(2, "%4, %3")
TENSOR(3, "%4, %4, %3")
TENSOR(4, "%4, %4, %4, %3")
TENSOR(5, "%4, %4, %4, %4, %3")
extern "C" __global__ void tensor_add2(u32* out, int count, char* big, int bytes, const __grid_constant__ Map m) {
    LANE if (threadIdx.x) return;
    for (int i = 0; i < count; i++) { asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%1, {%3, %2}], [%0];" ::"r"(s), "l"(&m), "r"(i), "r"(0) : "memory"); DONE }
}
extern "C" __global__ void tensor_out2(u32* out, int count, char* big, int bytes, const __grid_constant__ Map m) {  // half outside
    LANE if (threadIdx.x) return; BAR
    for (int i = 0; i < count; i++) { EXPECT(bytes)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(s), "l"(&m), "r"(b), "r"(-32), "r"(i) : "memory");
        wait(b, i & 1); }
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast2(u32* out, int count, char* big, int bytes, const __grid_constant__ Map m) {
    LANE const u32 b = s + 196608;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b) : "memory");
    u32 rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int i = 0; i < count; i++) {
        if (threadIdx.x == 0) EXPECT(bytes)
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        if (threadIdx.x == 0 && rank == 0) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(s), "l"(&m), "r"(b), "r"(0), "r"(i), "h"((unsigned short)3) : "memory");
        wait(b, i & 1);
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
#define REMOTE(NAME, ...) extern "C" __global__ void __cluster_dims__(2, 1, 1) NAME(u32* out, int count, char* big, int bytes) { \
    u32 sum = 0; LANE const u32 b = s + 196608; u32 rank, r, rb; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); \
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b) : "memory"); \
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(s), "r"(rank ^ 1)); \
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(rb) : "r"(b), "r"(rank ^ 1)); \
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
    for (int i = 0; i < count; i++) { __VA_ARGS__ } \
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); \
    if (sum == 0x12345677) out[0] = 1; }
REMOTE(remote_ld, u32 v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(r + 4 * l + 128 * i) : "memory"); sum += v;)
REMOTE(remote_st, asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(r + 4 * l + 128 * i), "r"(i) : "memory");)
REMOTE(remote_atom, u32 v; asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(v) : "r"(r + 4 * l + 128 * i), "r"(i) : "memory"); sum += v;)
REMOTE(remote_async, if (threadIdx.x == 0) EXPECT(128) __syncwarp(); asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(r + 4 * l + 128 * i), "r"(i), "r"(rb) : "memory"); wait(b, i & 1); asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");)
REMOTE(remote_arrive, if (threadIdx.x == 0) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(rb) : "memory");)
REMOTE(remote_nothing, asm volatile("" ::"r"(i));)
#define WG(NAME, N, REGS, OUTS, REST, ...) extern "C" __global__ void NAME(u32* out, int count, char* big, int bytes) { LANE \
    float d[N / 2] = {}; const u64 a = 1ull << 62 | 64ull << 32 | 1ull << 16 | (s >> 4 & 0x3fff), e = 1ull << 62 | 64ull << 32 | 1ull << 16 | ((s + 32768) >> 4 & 0x3fff); (void)a; \
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); \
    for (int i = 0; i < count; i++) { asm volatile(REGS OUTS REST : __VA_ARGS__); } \
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory"); \
    for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(d[i])); if (d[0] == 1.2345f) out[0] = 1; }
WG(wgmma8_s, 8, "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 ", "{%0, %1, %2, %3}", ", %4, %5, p, 1, 1, 0, 0; }", "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(e))
WG(wgmma8_r, 8, "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 ", "{%0, %1, %2, %3}", ", {%5, %5, %5, %5}, %4, p, 1, 1, 0; }", "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(e), "r"(0))
// Sleeps: turns one behind another, and by whom. out: cycles of each turn; how: 0 all lanes the same, 1 lane l sleeps for l + 1 times as long, 2 half of the lanes
extern "C" __global__ void sleeps(u32* out, int nanoseconds, char* big, int how) {
    LANE const u32 warp = threadIdx.x / 32;
    u32 t = nanoseconds;
    if (how == 1) t = l == 7 ? nanoseconds : nanoseconds / 8;
    if (how == 2 && l >= 16) t = 0;
    u64 g0; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g0));
    for (int i = 0; i < 24; i++) {
        u32 a, b;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(a)::"memory");
        asm volatile("nanosleep.u32 %0;" ::"r"(t) : "memory");
        asm volatile("mov.u32 %0, %%clock;" : "=r"(b)::"memory");
        if (l == 0) out[warp * 64 + i] = b - a, out[warp * 64 + 32 + i] = a;
    }
}
// Stores: pairs of stores that write the two halves of the same sectors. L lines each; ORDER 0: A A', 1: A B A' B', 2: four then their others; 3: all then all others.
template <int L, int ORDER> __device__ __forceinline__ void pairs(char* big, int pairs_, int i) {
    const u32 l = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int PER = 32 / L;  // lanes of a line
    char* p = big + (u64)warp * (1 << 20) + (l / PER) * 4096 + (l % PER) * 8;
    constexpr int STEP = PER * 8 < 32 ? 32 : PER * 8;
#define PUT(k, h) asm volatile("st.global.u32 [%0], %1;" ::"l"(p + (k) * STEP + 4 * (h)), "r"(i) : "memory");
    for (int k = 0; k < pairs_; k += 4) {
        if (ORDER == 0) { PUT(k, 0) PUT(k, 1) PUT(k + 1, 0) PUT(k + 1, 1) PUT(k + 2, 0) PUT(k + 2, 1) PUT(k + 3, 0) PUT(k + 3, 1) }
        if (ORDER == 1) { PUT(k, 0) PUT(k + 1, 0) PUT(k, 1) PUT(k + 1, 1) PUT(k + 2, 0) PUT(k + 3, 0) PUT(k + 2, 1) PUT(k + 3, 1) }
        if (ORDER == 2) { PUT(k, 0) PUT(k + 1, 0) PUT(k + 2, 0) PUT(k + 3, 0) PUT(k, 1) PUT(k + 1, 1) PUT(k + 2, 1) PUT(k + 3, 1) }
    }
}
#define STORES(L) \
    extern "C" __global__ void stores_##L##_0(u32* out, int count, char* big, int bytes) { u32 a = clock(); pairs<L, 0>(big, count, bytes); u32 b = clock(); if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = b - a; } \
    extern "C" __global__ void stores_##L##_1(u32* out, int count, char* big, int bytes) { u32 a = clock(); pairs<L, 1>(big, count, bytes); u32 b = clock(); if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = b - a; } \
    extern "C" __global__ void stores_##L##_2(u32* out, int count, char* big, int bytes) { u32 a = clock(); pairs<L, 2>(big, count, bytes); u32 b = clock(); if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = b - a; }
STORES(1) STORES(2) STORES(4) STORES(8) STORES(16) STORES(32)
// One warp stores at a time, in the order of a list of nibbles: warp w stores to block `what` half h: script entries (warp, block, half), a barrier between them or not.
extern "C" __global__ void script(u32* out, int count, char* big, int lines, u64 s0, u64 s1, int gap) {
    const u32 l = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int per = 32 / lines;
    for (int k = 0; k < count; k++) {
        const u32 e = (u32)((k < 8 ? s0 >> 8 * k : s1 >> 8 * (k - 8)) & 255);  // warp * 16 + block * 2 + half
        __syncthreads();
        if (warp == e >> 4) {
            char* p = big + (e >> 1 & 7) * (1 << 20) + (l / per) * 4096 + (l % per) * 8 + 4 * (e & 1);
            asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(k) : "memory");
        }
        if (gap) { const u32 from = clock(); while (clock() - from < gap) {} }
    }
}
// The same without barriers: each warp goes through the list alone, its own entries only, in one go.
extern "C" __global__ void stream(u32* out, int count, char* big, int lines, int apart) {
    const u32 l = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int per = 32 / lines;
    __syncthreads();
    if (apart) { const u32 from = clock(); while (clock() - from < apart * warp) {} }
    char* p = big + (u64)warp * (1 << 20) + (l / per) * 4096 + (l % per) * 8;
#pragma unroll 4
    for (int k = 0; k < count; k++) {
        asm volatile("st.global.u32 [%0], %1;" ::"l"(p + k * 256), "r"(k) : "memory");
        asm volatile("st.global.u32 [%0], %1;" ::"l"(p + k * 256 + 4), "r"(k) : "memory");
    }
}
