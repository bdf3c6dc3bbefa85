// Memory: vectors, bytes, constants, generic pointers, shared memory under several names, asynchronous copies.

#include <cuda_pipeline.h>

__constant__ int numbers[64] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ double halves[4] = {1.5, 2.5};
__constant__ unsigned char small[5] = {1, 2, 3, 4, 5};
__device__ int variable[4] = {1, 2, 3, 4};
__device__ char text[] = "hello";
__device__ int *pointer = variable + 1;

extern "C" __global__ void vectors(float4 *out, const float4 *in, double2 *doubles, uchar4 *bytes, short2 *shorts, float3 *three) {
    int t = threadIdx.x;
    float4 v = in[t];
    out[t] = make_float4(v.w, v.z, v.y, v.x);
    doubles[t] = make_double2(v.x, v.y * 2.0);
    uchar4 c = bytes[t];
    bytes[t] = make_uchar4(c.w, c.x, c.y, c.z);
    shorts[t].x += shorts[t].y;
    float3 f = three[t];
    three[t] = make_float3(f.z, f.x, f.y);
}

extern "C" __global__ void constants(int *out, const int *in) {
    int t = threadIdx.x, i = in[t];
    out[t] = numbers[i & 63] + (int)(2 * halves[i & 3]) + small[i % 5] + numbers[7] + variable[i & 3] + text[i % 5] + *pointer;
}

struct Large { int values[300]; };
extern "C" __global__ void large_parameter(int *out, Large large, int n) { out[threadIdx.x] = large.values[threadIdx.x * n] + large.values[299]; }

extern "C" __global__ void bytes(unsigned char *out, const unsigned char *in, const short *shorts, int n) {
    int t = threadIdx.x;
    out[t] = in[3 * t] + in[3 * t + 1];
    out[n + t] = shorts[t] >> 4;
    memcpy(out + 2 * n + 5 * t, in + 5 * t, 5);
}

extern "C" __global__ void hints(int *out, const int *__restrict__ in, volatile int *kept, int n) {
    int t = threadIdx.x, x = __ldg(in + t) + __ldcg(in + t) + __ldcs(in + t) + __ldcv(in + t), y;
    __stcg(out + t, x);
    __stcs(out + n + t, x + 1);
    kept[t] = kept[t] + 1;
    __threadfence();
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(y) : "l"(in + t));
    asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(out + 2 * n + t), "r"(x + y) : "memory");
}

__device__ __noinline__ int at(const int *p) { return *p; }
__device__ __noinline__ void put(int *p, int v) { *p = v; }
extern "C" __global__ void generic(int *out, const int *in, int n) {
    __shared__ int shared[64];
    int t = threadIdx.x, local[4];
    shared[t] = in[t];
    for (int i = 0; i < 4; i++) local[i] = in[t] + i;
    __syncthreads();
    const int *p = t % 4 == 0 ? shared + (t & 15) : t % 4 == 1 ? local + (t & 3) : t % 4 == 2 ? in + (t & 7) : numbers + (t & 7);
    out[t] = at(p);
    out[n + t] = (__isShared(p) ? 1 : 0) + (__isLocal(p) ? 2 : 0) + (__isGlobal(p) ? 4 : 0) + (__isConstant(p) ? 8 : 0);
    __syncthreads();
    put(t & 1 ? shared + t : out + 2 * n + t, 5);
    out[3 * n + t] = shared[t];
}

extern "C" __global__ void dynamic(int *out, const int *in, int n) {
    extern __shared__ unsigned char raw[];
    int t = threadIdx.x, back = n - 1 - t;
    int *ints = (int *)raw;
    float *floats = (float *)(raw + 4 * n);
    double *doubles = (double *)(raw + 8 * n);
    ints[t] = in[t]; floats[t] = in[t] * .5f; doubles[t] = in[t] * .25;
    __syncthreads();
    out[t] = ints[back] + (int)(2 * floats[back]) + (int)(4 * doubles[back]) + raw[back];
    __syncthreads();
    raw[t] = t;
    __syncthreads();
    out[n + t] = ((short *)raw)[t / 2] + ((signed char *)raw)[back];
    unsigned size, total;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    out[2 * n + t] = size + 100000 * (total >= size && total < size + 256);
}

extern "C" __global__ void transpose(float *out, const float *in, int rows, int columns) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < rows && y < columns) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

struct View { char kind; int *data; short extent[2]; struct { char flag; double scale; } more; char last; };

extern "C" __global__ void structures(View out, View in, int n) {
    int t = threadIdx.x;
    if (t < n) out.data[t] = in.data[t] * (int)in.more.scale + in.extent[1] + out.extent[0] + in.more.flag + in.last + out.kind;
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void pipeline(float *out, const float *in, int n) {
    __shared__ float stages[4][64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) { __pipeline_memcpy_async(&stages[i][t], in + i * 64 + t, 4); __pipeline_commit(); }
    float sum = 0;
    for (int i = 0; i < n; i++) {
        if (i + 3 < n) __pipeline_memcpy_async(&stages[(i + 3) & 3][t], in + (i + 3) * 64 + t, 4, t & 1 ? 4 : 0);
        __pipeline_commit();
        __pipeline_wait_prior(3);
        __syncthreads();
        sum += stages[i & 3][63 - t];
        __syncthreads();
    }
    out[t] = sum;
}

extern "C" __global__ void copies(int *out, const int *in) {
    __shared__ __align__(16) int shared[512];
    unsigned base = (unsigned)__cvta_generic_to_shared(shared);
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + 16 * t), "l"(in + 4 * t));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(base + 1024 + 8 * t), "l"(in + 2 * t), "r"(t % 9));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(base + 1536 + 4 * t), "l"(in + t));
    asm volatile("{.reg .pred p; setp.eq.s32 p, %2, 3; cp.async.cg.shared.global [%0], [%1], 16, p;}" ::"r"(base + 16 * t), "l"(in + 4 * t), "r"(t));
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
    __syncthreads();
    for (int i = 0; i < 7; i++) out[i * 64 + t] = shared[i * 64 + t];
}
#endif
