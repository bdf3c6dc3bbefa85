// float64: the math library, directed rounding, conversions.

#define OUT(e) out[n * k++ + t] = (e)

extern "C" __global__ void math(double *out, const double *as, const double *bs, const double *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    double a = as[t], b = bs[t], c = cs[t];
    OUT(sin(a)); OUT(cos(a)); OUT(tan(a)); OUT(sin(a * 1e10)); OUT(asin(a / 16)); OUT(acos(a / 16)); OUT(atan(a)); OUT(atan2(a, b));
    OUT(sinh(a)); OUT(cosh(a)); OUT(tanh(a)); OUT(asinh(a)); OUT(acosh(1 + a * a)); OUT(atanh(a / 16)); OUT(exp(a)); OUT(exp2(a));
    OUT(exp10(a)); OUT(expm1(a)); OUT(log(fabs(a))); OUT(log2(fabs(a))); OUT(log10(fabs(a))); OUT(log1p(fabs(a))); OUT(pow(fabs(a), b));
    OUT(sqrt(fabs(a))); OUT(rsqrt(fabs(a))); OUT(cbrt(a)); OUT(hypot(a, b)); OUT(erf(a)); OUT(erfc(a)); OUT(lgamma(fabs(a)));
    OUT(fmod(a, b)); OUT(floor(a)); OUT(ceil(a)); OUT(trunc(a)); OUT(rint(a)); OUT(fmin(a, b)); OUT(fmax(a, b)); OUT(copysign(a, b));
    OUT(ldexp(a, 3)); OUT(ilogb(a));
}

extern "C" __global__ void exact(double *out, const double *as, const double *bs, const double *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    double a = as[t], b = bs[t], c = cs[t];
    OUT(a + b); OUT(a * b); OUT(fma(a, b, c)); OUT(a / b); OUT(1 / a); OUT(sqrt(fabs(a))); OUT((double)(float)a); OUT((double)(int)a);
    OUT((double)(long long)(a * 1e9)); OUT((double)__double_as_longlong(a)); OUT((double)(unsigned long long)__double_as_longlong(a));
    OUT(__longlong_as_double(__double_as_longlong(a) ^ 1)); OUT(a < b ? a : c); OUT(__dadd_rd(a, b) <= a + b); OUT(__dadd_ru(a, b) >= a + b);
    OUT(a / 3); OUT(a / 1.4142135623730951);
}
