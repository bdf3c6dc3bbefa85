// float16 and bfloat16, two at a time and alone; eight-bit floats.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define OUT(e) out[n * k++ + t] = (e)

template <typename Pair> __device__ void arithmetic(Pair *out, const Pair *as, const Pair *bs, const Pair *cs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    Pair a = as[t], b = bs[t], c = cs[t];
    OUT(__hadd2(a, b)); OUT(__hsub2(a, b)); OUT(__hmul2(a, b)); OUT(__hfma2(a, b, c)); OUT(__hneg2(a)); OUT(__habs2(a));
    OUT(__hmin2(a, b)); OUT(__hmax2(a, b)); OUT(__heq2(a, b)); OUT(__hlt2(a, b)); OUT(h2floor(a)); OUT(h2ceil(a)); OUT(h2rint(a));
    OUT(__hadd2_sat(a, b)); OUT(__hfma2_relu(a, b, c));
}

template <typename Pair> __device__ void functions(Pair *out, const Pair *as, const Pair *bs, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    Pair a = as[t], b = bs[t], p = __habs2(a);
    OUT(h2exp(a)); OUT(h2exp2(a)); OUT(h2log(p)); OUT(h2log2(p)); OUT(h2sqrt(p)); OUT(h2rsqrt(p)); OUT(h2rcp(a)); OUT(h2sin(a));
    OUT(h2cos(a)); OUT(__h2div(a, b)); OUT(h2exp10(a));
}

extern "C" __global__ void half_functions(__half2 *out, const __half2 *a, const __half2 *b, int n) { functions(out, a, b, n); }

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void half_arithmetic(__half2 *out, const __half2 *a, const __half2 *b, const __half2 *c, int n) {
    arithmetic(out, a, b, c, n);
}
extern "C" __global__ void brain_arithmetic(
    __nv_bfloat162 *out, const __nv_bfloat162 *a, const __nv_bfloat162 *b, const __nv_bfloat162 *c, int n) {
    arithmetic(out, a, b, c, n);
}
extern "C" __global__ void brain_functions(__nv_bfloat162 *out, const __nv_bfloat162 *a, const __nv_bfloat162 *b, int n) {
    functions(out, a, b, n);
}
#endif

extern "C" __global__ void conversions(__half *out, const float *as, int *whole, float *wide, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t];
    OUT(__float2half_rn(a)); OUT(__float2half_rz(a)); OUT(__float2half_rd(a)); OUT(__float2half_ru(a)); OUT(__int2half_rn((int)a));
    OUT(__double2half((double)a)); OUT(__ushort2half_rn((unsigned short)fabsf(a)));
    __half h = __float2half(a);
    whole[t] = __half2int_rn(h); whole[n + t] = __half2int_rz(h); whole[2 * n + t] = __half2int_rd(h); whole[3 * n + t] = __half_as_short(h);
    wide[t] = __half2float(h); wide[n + t] = __bfloat162float(__float2bfloat16(a));
}

extern "C" __global__ void eight_bits(unsigned char *out, const float *as, float *back, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float a = as[t];
    __nv_fp8_e4m3 e(a);
    __nv_fp8_e5m2 f(a);
    __nv_fp8x4_e4m3 four(make_float4(a, -a, a / 3, a * 2));
    OUT(e.__x); OUT(f.__x); OUT(four.__x >> 24); OUT(__nv_cvt_double_to_fp8((double)a, __NV_SATFINITE, __NV_E5M2));
    back[t] = (float)e; back[n + t] = (float)f; back[2 * n + t] = ((float4)four).z;
}
