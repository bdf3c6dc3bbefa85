// Integer, floating-point and conversion code of many kinds.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void integers(int *out, const int *in, int a, unsigned b) {
    int t = threadIdx.x, x = in[t];
    unsigned u = in[t + 1];
    int64_t wide = (int64_t)x * a + b;
    uint64_t uwide = (uint64_t)u * b ^ 0x123456789abcdefull;
    out[t] = x / a + x % a + u / b + u % b + x / 7 + u % 1000u;
    out[t + 1] = (int)(wide / (a + 3)) + (int)(uwide % (b | 1));
    out[t + 2] = min(x, a) + max((int)u, a) + abs(x) + __popc(u) + __clz(x) + __ffs(x) + __brev(u);
    out[t + 3] = __mulhi(x, a) + __umulhi(u, b) + __mul24(x, a) + __sad(x, a, u) + __usad(u, b, 3);
    out[t + 4] = __byte_perm(x, a, 0x3210 + t) + __funnelshift_l(x, a, t) + __funnelshift_rc(x, a, t);
    out[t + 5] = (x << t) + (x >> t) + (u >> t) + (int)(wide << t) + (int)(uwide >> t) + (int)(wide >> t);
    out[t + 6] = __dp4a(x, a, 5) + __dp4a(u, b, 7u) + __dp2a_lo(x, a, 3) + __vadd4(x, a) + __vabsdiffu4(u, b);
    out[t + 7] = (x & a) | (u ^ b) | ~(x | t) | ((x > a && u < b) || t == 3 ? 4 : 9) | (int)__brevll(wide);
    out[t + 8] = __popcll(wide) + __clzll(wide) + (int)(__mul64hi(wide, a)) + (wide < (int64_t)uwide);
    out[t + 9] = (int)__vimax3_s32(x, a, t) + __hadd(x, a) + __rhadd(x, a) + __viaddmax_s32(x, a, t);
    out[t + 10] = (x << 13 >> 20) + ((u >> 5) & 0x3ff) + __viaddmin_s32_relu(x, a, t) + __vminu2(x, a);
}

extern "C" __global__ void narrow(int8_t *a, uint8_t *b, int16_t *c, uint16_t *d, const int8_t *e, const uint16_t *f) {
    __shared__ uint8_t bytes[256];
    __shared__ int16_t shorts[256];
    int t = threadIdx.x;
    bytes[t] = e[t];
    shorts[t] = f[t];
    __syncthreads();
    a[t] = bytes[255 - t] + (int8_t)shorts[t ^ 3];
    b[t] = (uint8_t)(e[t + 1] * 3 / 2);
    c[t] = shorts[255 - t] >> 2;
    d[t] = f[t + 3] + (int8_t)bytes[t ^ 1];
}

extern "C" __global__ void floats(float *out, const float *in, float a, int n) {
    int t = threadIdx.x;
    float x = in[t], y = in[t + 1];
    out[t] = sinf(x) + cosf(y) + tanf(a);
    out[t + 1] = expf(x) + logf(y) + powf(x, a) + exp2f(x) + log2f(y) + expm1f(x);
    out[t + 2] = sqrtf(x) + rsqrtf(y) + cbrtf(a) + 1.f / x + x / y + __frcp_rz(x) + __fsqrt_ru(y);
    out[t + 3] = fmaf(x, y, a) + fminf(x, y) + fmaxf(y, a) + fabsf(x) - copysignf(y, a) + fmodf(x, a);
    out[t + 4] = floorf(x) + ceilf(y) + truncf(a) + rintf(x) + roundf(y) + fdimf(x, a);
    out[t + 5] = __sinf(x) + __cosf(y) + __expf(a) + __logf(x) + __fdividef(x, y) + tanhf(x) + erff(y);
    out[t + 6] = __fadd_rz(x, y) + __fmul_ru(x, a) + __fmaf_rd(x, y, a) + __saturatef(x) + atan2f(x, y);
    out[t + 7] = (x > y) + (x != a ? y : a) + isnan(x) + isinf(y) + signbit(a) + ldexpf(x, n) + hypotf(x, y);
}

extern "C" __global__ void doubles(double *out, const double *in, double a, float *narrow) {
    int t = threadIdx.x;
    double x = in[t], y = in[t + 1];
    out[t] = x * y + a;
    out[t + 1] = x / y + sqrt(a) + rsqrt(x) + 1.0 / y;
    out[t + 2] = sin(x) + exp(y) + log(a);
    out[t + 3] = fmin(x, y) + fmax(y, a) + fabs(x) + floor(y) + rint(a) + (x < y ? a : x);
    narrow[t] = (float)x + __double2float_rz(y) + (float)__double2hiint(x) + __double2loint(y);
}

extern "C" __global__ void conversions(int *out, const float *in, const double *wide, const int64_t *longs) {
    int t = threadIdx.x;
    float f = in[t];
    double d = wide[t];
    int64_t l = longs[t];
    out[t] = (int)f + (unsigned)f + (int)d + (unsigned)d + __float2int_rn(f) + __float2uint_ru(f);
    out[t + 1] = (int)(int64_t)f + (int)(uint64_t)d + (int8_t)f + (uint16_t)f + (uint8_t)d;
    reinterpret_cast<float *>(out)[t + 2] = (float)l + (float)(uint64_t)l + (float)(int)l + (float)(unsigned)l;
    reinterpret_cast<double *>(out)[t + 2] = (double)l + (double)(uint64_t)(l + 1) + (double)(int)l + (double)f;
    reinterpret_cast<float *>(out)[t + 9] = (float)(int8_t)l + (float)(uint8_t)(l >> 8) + (float)(int16_t)l;
    reinterpret_cast<half *>(out)[t + 70] = __hadd(__float2half(f), __hadd(__double2half(d), __int2half_rn((int)l)));
    reinterpret_cast<__nv_bfloat16 *>(out)[t + 99] = __float2bfloat16(f);
    out[t + 80] = __half2int_rz(reinterpret_cast<const half *>(in)[t + 5]) + __float_as_int(f);
    reinterpret_cast<float2 *>(out)[t + 120] = __half22float2(reinterpret_cast<const half2 *>(in)[t + 7]);
    reinterpret_cast<half2 *>(out)[t + 320] = __floats2half2_rn(f, in[t + 9]);
}

extern "C" __global__ void halves(half2 *out, const half2 *in, half a, __nv_bfloat162 *brain) {
    int t = threadIdx.x;
    half2 x = in[t], y = in[t + 1], s = __half2half2(a);
    out[t] = __hfma2(x, y, s);
    out[t + 1] = x + y * s - x;
    out[t + 2] = __hmax2(x, y) + __hmin2(y, s) + __habs2(x);
    out[t + 3] = h2exp(x) + h2sqrt(y) + h2sin(s) + h2rcp(x) + h2log(y);
    out[t + 4] = __hgt2(x, y) + __hne2(x, s);
    out[t + 5] = __lows2half2(x, y) + __highs2half2(x, y) + __lowhigh2highlow(s);
    out[t + 6] = __halves2half2(__low2half(x) + a, __hlt(a, __high2half(y)) ? a : __low2half(y));
    out[t + 7] = __hadd2_sat(x, y) + __hfma2_relu(x, y, s) + (__hbeq2(x, y) ? x : y) + h2ceil(x) + h2rint(y);
#if __CUDA_ARCH__ >= 800
    brain[t] = __hfma2(brain[t + 1], brain[t + 2], brain[t + 3]) + brain[t + 4] * __hmax2(brain[t], brain[t + 5]);
#endif
}
