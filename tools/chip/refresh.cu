// refresh OUT: loads of chosen lines, one behind another in random order, flushed, 2,500 times: when each began, and what
// it took. OUT gets the numbers of lines and launches, the offsets, the clocks, and the cycles (see README.md).
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>
#include <algorithm>
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
__global__ void chase(const char *a, const unsigned *offsets, const int *order, int count,
                      long long *when, int *took, float *out) {
    float s = 0;
    for (int k = 0; k < count; k++) {
        const int i = order[k];
        const float *p = (const float *)(a + offsets[i]);
        const long long t0 = now();
        s += __ldcg(p);
        if (s == 123.f) out[0] = s;
        const long long t1 = now();
        when[i] = t0, took[i] = (int)(t1 - t0);
    }
}
__global__ void sweep(const float4* p, size_t count, float4* out) {
    float sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) sum += p[i].x;
    if (sum == 12345.f) out[0].x = sum;
}
int main(int, char **w) {
    char *a; float *out; float4 *other; unsigned *offsets; int *order, *took; long long *when;
    std::vector<unsigned> o;
    for (unsigned k = 0; k < 48; k++) o.push_back(k * 512);
    for (unsigned k = 0; k < 32; k++) o.push_back((8u << 20) + k * 8192);
    for (unsigned k = 0; k < 32; k++) o.push_back((16u << 20) + k * 65536);
    for (unsigned k = 0; k < 32; k++) o.push_back((32u << 20) + (k << 20));
    for (unsigned k = 0; k < 48; k++) o.push_back((128u << 20) + k * 128);
    const int n = o.size(), launches = 2500;
    cudaMalloc(&a, 256 << 20), cudaMalloc(&out, 64), cudaMalloc(&other, 256 << 20);
    cudaMalloc(&offsets, n * 4), cudaMalloc(&order, n * 4 * launches);
    cudaMalloc(&took, n * 4 * launches), cudaMalloc(&when, (size_t)n * 8 * launches);
    cudaMemset(a, 0, 256 << 20), cudaMemset(other, 0, 256 << 20);
    cudaMemcpy(offsets, o.data(), n * 4, cudaMemcpyHostToDevice);
    std::vector<int> ord(n * launches);
    unsigned seed = 1;
    for (int l = 0; l < launches; l++) {
        for (int i = 0; i < n; i++) ord[l * n + i] = i;
        for (int i = n - 1; i > 0; i--) {
            seed = seed * 1664525u + 1013904223u;
            std::swap(ord[l * n + i], ord[l * n + (seed >> 8) % (i + 1)]);
        }
    }
    cudaMemcpy(order, ord.data(), n * 4 * launches, cudaMemcpyHostToDevice);
    for (int l = 0; l < launches; l++) {
        sweep<<<1056, 256>>>(other, (256u << 20) / 16, (float4 *)out);
        chase<<<1, 1>>>(a, offsets, order + l * n, n, when + (size_t)l * n, took + l * n, out);
    }
    cudaDeviceSynchronize();
    std::vector<int> t(n * launches); std::vector<long long> h(n * launches);
    cudaMemcpy(t.data(), took, n * 4 * launches, cudaMemcpyDeviceToHost);
    cudaMemcpy(h.data(), when, (size_t)n * 8 * launches, cudaMemcpyDeviceToHost);
    FILE *f = fopen(w[1], "wb");
    fwrite(&n, 4, 1, f), fwrite(&launches, 4, 1, f), fwrite(o.data(), 4, n, f);
    fwrite(h.data(), 8, h.size(), f), fwrite(t.data(), 4, t.size(), f);
    fclose(f);
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
}
