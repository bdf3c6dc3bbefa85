// Kernels that isolate what the SMs of a chip share.
#include <cstdint>
extern "C" __global__ void count_floats(float* a) { if (threadIdx.x == 0) atomicAdd(a, 1.f); }
extern "C" __global__ void count_ints(int* a) { if (threadIdx.x == 0) atomicAdd(a, 1); }
extern "C" __global__ void again(const float* a, float* b) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += a[(i + k * 270336) & 8388607];  // 270,336: the threads of 1,056 CTAs
    if (sum == 12345.f) b[0] = sum;
}
extern "C" __global__ void spill(int* out, int k) {
    int a[64], sum = threadIdx.x;
    for (int i = 0; i < 64; i++) a[(i * k) & 63] = sum + i;
    for (int i = 0; i < 64; i++) sum += a[(i * k + 1) & 63];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void bulk(const float* a, float* b) {
    __shared__ alignas(128) float tile[4096];
    __shared__ uint64_t full;
    uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full), to = (uint32_t)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" ::"r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16384, [%2];" ::"r"(to), "l"(a + blockIdx.x * 4096), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], 0; @!P bra W; }" ::"r"(bar) : "memory");
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += tile[k * 128 + threadIdx.x];
    if (sum == 12345.f) b[0] = sum;
}
extern "C" __global__ void load_once(const float* a, float* b) { b[blockIdx.x * 32 + threadIdx.x] = a[blockIdx.x * 32 + threadIdx.x]; }
extern "C" __global__ void copy(const float4* a, float4* b) {
    int i = blockIdx.x * 256 + threadIdx.x;
    b[i] = a[i];
}
extern "C" __global__ void few_stay(float* a, int first, int last) {
    if (blockIdx.x >= first && blockIdx.x < last) return;
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += a[(k * 32 + threadIdx.x) & 1023];
    a[threadIdx.x] = sum;
}
extern "C" __global__ void scale_rows(const float4* rows, const float4* by, float4* out, int width) {
    rows += (size_t)blockIdx.x * width, out += (size_t)blockIdx.x * width;
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 256) sum += rows[i].x;
    if (__syncthreads_or(sum == 12345.f)) return;
    for (int i = threadIdx.x; i < width; i += 256) {
        float4 v = by[i];
        v.x *= sum, v.y *= sum, v.z *= sum, v.w *= sum;
        out[i] = v;
    }
}
extern "C" __global__ void store_in_another_order(float* out, int tiles) {
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) out[(size_t)(t * 37 % tiles) * 1024 + threadIdx.x] = t;
}
extern "C" __global__ void rising(float* a, int each) {
    float x = a[threadIdx.x];
    for (int k = 0; k < each * (int)blockIdx.x; k++) x = sqrtf(x) + 2.f;
    a[blockIdx.x * 32 + threadIdx.x] = x;
}
extern "C" __global__ void part_of_a_table(const int* where, const float* table, float* out) {
    __shared__ int begin;
    if (threadIdx.x == 0) begin = where[blockIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += table[begin + k * 256 + threadIdx.x];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// One after another, tensors of 256 float4s a CTA are doubled in place.
extern "C" __global__ void double_each(float4 *a, float4 *b, float4 *c, int ctas)
{
    int tensor = blockIdx.x / ctas, i = (blockIdx.x - tensor * ctas) * 256 + threadIdx.x;
    float4 *x = tensor == 0 ? a : tensor == 1 ? b : c;
    float4 v = x[i];
    x[i] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
}
extern "C" __global__ void rows_behind_a_barrier(const float *scale, const float4 *rows, float *out, int sharing, int width) {
    __shared__ float by;
    if (threadIdx.x == 0) by = scale[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += rows[blockIdx.x / sharing * width + i].x;
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * by;
}
