// float32: the math library, fast approximations, directed rounding, conversions.

#define OUT(e) out[n * k++ + t] = (e)

extern "C" __global__ void math(float *out, const float *as, const float *bs, const float *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t], b = bs[t], c = cs[t];
    OUT(sinf(a)); OUT(cosf(a)); OUT(tanf(a)); OUT(sinf(a * 1e6f)); OUT(asinf(a / 8)); OUT(acosf(a / 8)); OUT(atanf(a)); OUT(atan2f(a, b));
    OUT(sinhf(a)); OUT(coshf(a)); OUT(tanhf(a)); OUT(asinhf(a)); OUT(acoshf(1 + a * a)); OUT(atanhf(a / 8)); OUT(expf(a)); OUT(exp2f(a));
    OUT(exp10f(a)); OUT(expm1f(a)); OUT(logf(fabsf(a))); OUT(log2f(fabsf(a))); OUT(log10f(fabsf(a))); OUT(log1pf(fabsf(a)));
    OUT(powf(fabsf(a), b)); OUT(powf(a, 3.f)); OUT(sqrtf(fabsf(a))); OUT(rsqrtf(fabsf(a))); OUT(cbrtf(a)); OUT(hypotf(a, b)); OUT(erff(a));
    OUT(erfcf(a)); OUT(lgammaf(fabsf(a))); OUT(fmodf(a, b)); OUT(a / b); OUT(fmaf(a, b, c)); OUT(floorf(a)); OUT(ceilf(a)); OUT(truncf(a));
    OUT(rintf(a)); OUT(fminf(a, b)); OUT(fmaxf(a, b)); OUT(copysignf(a, b)); OUT(ldexpf(a, 3)); OUT(logbf(a)); OUT(normcdff(a));
    float i; int e;
    OUT(modff(a, &i)); OUT(i); OUT(frexpf(a, &e)); OUT(e);
}

extern "C" __global__ void fast(float *out, const float *as, const float *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t], b = bs[t];
    OUT(__sinf(a)); OUT(__cosf(a)); OUT(__expf(a)); OUT(__logf(fabsf(a))); OUT(__powf(fabsf(a), b)); OUT(__fdividef(a, b));
    OUT(__frsqrt_rn(fabsf(a))); float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); OUT(r);
}

extern "C" __global__ void rounding(float *out, const float *as, const float *bs, const float *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t], b = bs[t], c = cs[t], p = fabsf(a);
    OUT(__fadd_rn(a, b)); OUT(__fadd_rd(a, b)); OUT(__fadd_ru(a, b)); OUT(__fadd_rz(a, b));
    OUT(__fmul_rn(a, b)); OUT(__fmul_rd(a, b)); OUT(__fmul_ru(a, b)); OUT(__fmul_rz(a, b));
    OUT(__fmaf_rn(a, b, c)); OUT(__fmaf_rd(a, b, c)); OUT(__fmaf_ru(a, b, c)); OUT(__fmaf_rz(a, b, c));
    OUT(__fdiv_rn(a, b)); OUT(__fdiv_rd(a, b)); OUT(__fdiv_ru(a, b)); OUT(__fdiv_rz(a, b));
    OUT(__fsqrt_rn(p)); OUT(__fsqrt_rd(p)); OUT(__fsqrt_ru(p)); OUT(__fsqrt_rz(p)); OUT(__frcp_rn(a)); OUT(__frcp_ru(a));
    OUT(__saturatef(a)); OUT(fminf(a, b)); OUT(fmaxf(a, b));
}

extern "C" __global__ void to_integers(long long *out, const float *as, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t];
    OUT(__float2int_rn(a)); OUT(__float2int_rz(a)); OUT(__float2int_rd(a)); OUT(__float2int_ru(a)); OUT(__float2uint_rz(a));
    OUT(__float2ll_rn(a)); OUT(__float2ll_rd(a)); OUT((long long)__float2ull_rz(a)); OUT((short)(a / 1e6f)); OUT((unsigned char)fabsf(a / 1e8f));
}

extern "C" __global__ void from_integers(float *out, const long long *as, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    long long a = as[t];
    int i = a;
    OUT(__int2float_rn(i)); OUT(__int2float_rz(i)); OUT(__int2float_rd(i)); OUT(__int2float_ru(i)); OUT(__uint2float_rn(i));
    OUT(__ll2float_rn(a)); OUT(__ll2float_rz(a)); OUT(__ll2float_ru(a)); OUT(__ull2float_rd(a)); OUT((float)(short)i);
    OUT((float)(signed char)i); OUT((float)(unsigned char)(i >> 8));
}
