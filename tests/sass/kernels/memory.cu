// Loads, stores, copies, atomics, shuffles, votes and barriers.

#include <cstdint>

extern "C" __global__ void vectors(float4 *out, const float4 *__restrict__ in, float2 *pairs, volatile int *v) {
    __shared__ float4 tile[64];
    __shared__ float2 small[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    small[t] = pairs[t];
    __syncthreads();
    float4 q = tile[63 - t];
    float2 p = small[t ^ 5];
    q.x += p.x + __ldg(&in[t + 9].y) + v[t];
    out[t] = q;
    pairs[t] = make_float2(q.y, p.y);
    v[t + 1] = 3;
    out[t + 64] = __ldcs(in + t + 64);
    __stcg(out + t + 128, __ldca(in + t));
    __stwt(out + t + 192, __ldlu(in + t + 7));
}

extern "C" __global__ void generic(int *out, int *in, int n) {
    __shared__ int tile[64];
    int local[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int *p = n == 1 ? tile : n == 2 ? local : in;
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    p[n & 7] += 3;
    out[threadIdx.x] = p[(n + threadIdx.x) & 7] + __isShared(p) + __isGlobal(out + n) + local[n & 7];
    atomicAdd(p + 3, 1);
}

extern "C" __global__ void atomics(int *out, unsigned *u, float *f, double *d, unsigned long long *l) {
    __shared__ int s[32];
    __shared__ float sf[32];
    __shared__ unsigned long long sl[32];
    int t = threadIdx.x;
    s[t] = t;
    sf[t] = t;
    sl[t] = t;
    __syncthreads();
    atomicAdd(&s[t & 3], 1);
    out[t + 40] = atomicMax(&s[t & 7], t) + atomicCAS(&s[t & 1], 3, t) + atomicExch(&s[t & 15], 5) + atomicXor(&s[3], t);
    atomicAdd(&sf[t & 3], 1.5f);
    sl[t] += atomicAdd(&sl[t & 3], 7ull) + atomicCAS(&sl[t & 1], 3ull, 4ull) + atomicMin(&sl[2], 9ull);
    __syncthreads();
    atomicAdd(out + s[t], 1);
    out[t + 60] = atomicMin(out + 3, t) + atomicCAS(out + 5, t, 9) + atomicExch(out + 7, t) + atomicAnd(out + 9, t);
    atomicAdd(f + 1, sf[t]);
    atomicAdd(d + 1, 2.0);
    atomicAdd(l + 1, sl[t]);
    atomicMax(l + 3, sl[t]);
    atomicInc(u + 1, 7);
    u[t] = atomicDec(u + 2, 9) + atomicOr(u + 3, 1u << t) + atomicSub(u + 9, 3);
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    f[t + 3] = atomicExch(f + 2, 3.f) + atomicAdd(f + 9, 1.f);
}

extern "C" __global__ void lanes(int *out, const int *in) {
    int t = threadIdx.x, x = in[t];
    int y = __shfl_sync(~0u, x, 3) + __shfl_up_sync(~0u, x, 2) + __shfl_down_sync(~0u, x, t) + __shfl_xor_sync(~0u, x, 16);
    out[t] = y + __ballot_sync(~0u, x > 3) + __any_sync(~0u, x == 2) * 5 + __all_sync(~0u, x < 9) + __activemask();
    out[t + 32] = __match_any_sync(~0u, x) + __popc(__ballot_sync(~0u, y & 1));
    int all;
    out[t + 64] = __match_all_sync(~0u, x, &all) + all;
    out[t + 96] = __syncthreads_count(x > 2) + __syncthreads_and(x > 1) * 3 + __syncthreads_or(y > 1);
#if __CUDA_ARCH__ >= 800
    out[t + 128] = __reduce_add_sync(~0u, x) + __reduce_max_sync(~0u, y) + __reduce_xor_sync(~0u, (unsigned)x);
#endif
    asm volatile("bar.sync 1, 64;" ::: "memory");
    asm volatile("bar.arrive 2, 64;" ::: "memory");
    unsigned lane, warp, mask;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    out[t + 200] = lane + warp + mask + blockIdx.x * gridDim.y + blockDim.z;
    out[t + 300] = clock();
    reinterpret_cast<long long *>(out)[t + 400] = clock64();
    __nanosleep(20);
    if (out[t] == 77) __trap();
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void copies(float4 *out, const float4 *in, const float *scalars) {
    __shared__ float4 tile[2][64];
    __shared__ float rest[64];
    int t = threadIdx.x;
    unsigned a = __cvta_generic_to_shared(&tile[0][t]), b = __cvta_generic_to_shared(&tile[1][t]);
    unsigned c = __cvta_generic_to_shared(&rest[t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(in + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(b), "l"(in + t + 64), "r"(t & 15));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(c), "l"(scalars + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[t] = tile[0][63 - t];
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float4 q = tile[1][63 - t];
    q.x += rest[t ^ 1];
    out[t + 64] = q;
}
#endif
