#define DESC(at) ((u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | ((sa(at) >> 4) & 0x3fff))
__device__ __forceinline__ void product64(float* d, u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b));
}
__device__ __forceinline__ void product64r(float* d, u32* x, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b));
}
__device__ __forceinline__ void product128(float* d, u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "l"(a), "l"(b));
}
__device__ __forceinline__ void product128r(float* d, u32* x, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b));
}
__device__ __forceinline__ void product256(float* d, u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) : "l"(a), "l"(b));
}
__device__ __forceinline__ void product256r(float* d, u32* x, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, {%128,%129,%130,%131}, %132, p, 1, 1, 0; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b));
}

// Arithmetic beside products of the same warps: until the arithmetic has issued, until all is done. HOW: which; products: groups of 4 in flight.
template <int N, int REG> __device__ __forceinline__ void one(float* d, u32* x, u64 a, u64 b) {
    if (N == 64) { if (REG) product64r(d, x, b); else product64(d, a, b); }
    if (N == 128) { if (REG) product128r(d, x, b); else product128(d, a, b); }
    if (N == 256) { if (REG) product256r(d, x, b); else product256(d, a, b); }
}
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
