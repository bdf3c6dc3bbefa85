// flushed BEFORE: launches three in a row, each behind other work, for the profiler (see README.md).
#include <cuda_runtime.h>
#include <cstdio>
#include <initializer_list>
#include <string>

__global__ void stream4(const float4* a, float4* b) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    float4 v = a[i];
    v.x *= 2.f;
    b[i] = v;
}
__global__ void read8(const float* a, float* b) {
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += a[(blockIdx.x * 256 + threadIdx.x + k * 270336) & 8388607];
    if (sum == 12345.f) b[0] = sum;
}
__global__ void tile(const float* a, float* b) {
    extern __shared__ float kept[];
    for (int k = 0; k < 32; k++) kept[threadIdx.x + k * 256] = a[(blockIdx.x * 8192 + threadIdx.x + k * 256) & 8388607];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += kept[((threadIdx.x + k * 7) & 255) + k * 256];
    b[blockIdx.x * 256 + threadIdx.x] = sum;
}
__global__ void sweep(const float4* p, size_t count, float4* out) {
    float sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) sum += p[i].x;
    if (sum == 12345.f) out[0].x = sum;
}

int main(int, char** words) {
    const std::string before = words[1];
    const size_t bytes = 256u << 20, other_bytes = 512u << 20;
    float *a, *b;
    float4 *other, *out;
    cudaMalloc(&a, bytes), cudaMalloc(&b, bytes), cudaMalloc(&other, other_bytes), cudaMalloc(&out, 64);
    cudaMemset(a, 0, bytes), cudaMemset(b, 0, bytes), cudaMemset(other, 0, other_bytes);
    auto prepare = [&] {
        if (before == "memset") cudaMemset(other, 0, other_bytes);
        if (before == "read") sweep<<<1056, 256>>>(other, other_bytes / 16, out);
    };
    for (int grid : {132, 528, 1056, 2112, 4224, 8448})
        for (int k = 0; k < 3; k++) {
            prepare(), stream4<<<grid, 256>>>((float4*)a, (float4*)b);
            prepare(), read8<<<grid, 256>>>(a, b);
            prepare(), tile<<<grid, 256, 32 << 10>>>(a, b);
        }
    cudaDeviceSynchronize();
    puts(cudaGetErrorString(cudaGetLastError()));
}
