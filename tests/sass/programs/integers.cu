// Integer arithmetic as source code has it: what the compiler makes of it is long sequences of short instructions.

#define OUT(e) out[n * k++ + t] = (e)

extern "C" __global__ void division(int *out, const int *as, const int *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0, a = as[t], b = bs[t];
    unsigned ua = a, ub = b, un = n;
    OUT(a / b); OUT(a % b); OUT(ua / ub); OUT(ua % ub); OUT(a / 7); OUT(a % 10); OUT(ua / 1000u); OUT(a / -3); OUT(a / n); OUT(ua % un);
}

extern "C" __global__ void wide(long long *out, const long long *as, const long long *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    long long a = as[t], b = bs[t];
    unsigned long long ua = a, ub = b;
    OUT(a / b); OUT(a % b); OUT(ua / ub); OUT(ua % ub); OUT(a / 7); OUT(a % 1000003); OUT(a * b); OUT(__mul64hi(a, b));
    OUT(__umul64hi(ua, ub)); OUT(a << (b & 63)); OUT(a >> (b & 63)); OUT(ua >> (b & 63)); OUT(min(a, b)); OUT(max(ua, ub));
    OUT(llabs(a)); OUT(__popcll(a) + 100 * __clzll(a) + 10000 * __ffsll(b)); OUT(__brevll(a)); OUT(a < b ? 1 : ua < ub ? 2 : 3);
}

extern "C" __global__ void very_wide(unsigned long long *out, const unsigned long long *as, const unsigned long long *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    __int128 a = ((__int128)(long long)as[t] << 64) | bs[t], b = ((__int128)(long long)bs[t] >> 5) * as[t] | 1;
    __int128 all[] = {a + b, a - b, a * b, a / b, a % b, a >> (as[t] & 127), a << (bs[t] & 127), (__int128)(a < b)};
    for (auto v : all) { OUT((unsigned long long)v); OUT((unsigned long long)(v >> 64)); }
}

extern "C" __global__ void bits(unsigned *out, const unsigned *as, const unsigned *bs, const unsigned *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    unsigned a = as[t], b = bs[t], c = cs[t];
    int ia = a, ib = b, ic = c;
    OUT(__popc(a)); OUT(__clz(a)); OUT(__ffs(a)); OUT(__brev(a)); OUT(__funnelshift_l(a, b, c)); OUT(__funnelshift_r(a, b, c));
    OUT(__funnelshift_lc(a, b, c & 63)); OUT(__funnelshift_rc(a, b, c & 63)); OUT(__byte_perm(a, b, c & 0x7777)); OUT(__mulhi(ia, ib));
    OUT(__umulhi(a, b)); OUT(__mul24(ia, ib)); OUT(__umul24(a, b)); OUT(__sad(ia, ib, c)); OUT(__usad(a, b, c)); OUT(__hadd(ia, ib));
    OUT(__rhadd(ia, ib)); OUT(__uhadd(a, b)); OUT(__urhadd(a, b)); OUT(__dp4a(ia, ib, ic)); OUT(__dp4a(a, b, c));
    OUT(__dp2a_lo(ia, ib, ic)); OUT(__dp2a_hi(a, b, c)); OUT(ia >> (c & 31)); OUT((a & b) | (~a & c)); OUT(a ^ b ^ c);
    OUT(min(min(ia, ib), ic)); OUT(abs(ia)); OUT((unsigned)(signed char)a + (unsigned short)b - (short)c);
}

#define ASM(text) { unsigned r; asm(text " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); OUT(r); }

extern "C" __global__ void assembly(unsigned *out, const unsigned *as, const unsigned *bs, const unsigned *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    unsigned a = as[t], b = bs[t], c = cs[t];
    ASM("mad.hi.s32") ASM("mad.hi.u32") ASM("mad24.lo.s32") ASM("bfe.u32") ASM("bfe.s32") ASM("prmt.b32.f4e") ASM("prmt.b32.rc8")
    ASM("vabsdiff4.u32.u32.u32") ASM("vabsdiff4.u32.u32.u32.add") ASM("dp4a.s32.u32") ASM("sad.s32") ASM("shf.l.clamp.b32")
    { unsigned r; asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); OUT(r); }
    { unsigned r; asm("sub.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); OUT(r); }
    { unsigned r, q; asm("{add.cc.u32 %0, %2, %3; addc.u32 %1, %4, %2;}" : "=r"(r), "=r"(q) : "r"(a), "r"(b), "r"(c)); OUT(r); OUT(q); }
    { unsigned r, q; asm("{sub.cc.u32 %0, %2, %3; subc.u32 %1, %4, %2;}" : "=r"(r), "=r"(q) : "r"(a), "r"(b), "r"(c)); OUT(r); OUT(q); }
    { unsigned r; asm("bfi.b32 %0, %1, %2, %3, 11;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 31)); OUT(r); }
    { unsigned r; asm("cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"(a)); OUT(r); }
    { unsigned r; asm("{.reg .b16 h; cvt.sat.s16.s32 h, %1; cvt.s32.s16 %0, h;}" : "=r"(r) : "r"(a)); OUT(r); }
}

// Two or four numbers to a word.
extern "C" __global__ void video(unsigned *out, const unsigned *as, const unsigned *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    unsigned a = as[t], b = bs[t];
    OUT(__vadd2(a, b)); OUT(__vadd4(a, b)); OUT(__vsub2(a, b)); OUT(__vsub4(a, b)); OUT(__vaddss2(a, b)); OUT(__vaddss4(a, b));
    OUT(__vaddus2(a, b)); OUT(__vaddus4(a, b)); OUT(__vsubss2(a, b)); OUT(__vsubus4(a, b)); OUT(__vabsdiffu2(a, b));
    OUT(__vabsdiffu4(a, b)); OUT(__vabsdiffs4(a, b)); OUT(__vmaxs2(a, b)); OUT(__vmaxu4(a, b)); OUT(__vmins4(a, b)); OUT(__vminu2(a, b));
    OUT(__vavgs2(a, b)); OUT(__vavgu4(a, b)); OUT(__vhaddu2(a, b)); OUT(__vneg2(a)); OUT(__vnegss4(a)); OUT(__vabs4(a)); OUT(__vabsss2(a));
    OUT(__vcmpeq4(a, b)); OUT(__vcmpges2(a, b)); OUT(__vcmpgtu4(a, b)); OUT(__vcmplts4(a, b)); OUT(__vcmpne2(a, b));
    OUT(__vsetleu2(a, b)); OUT(__vsetgts4(a, b)); OUT(__vsads2(a, b)); OUT(__vsadu4(a, b));
}
