// gaps: launches that wait, load or store on 1 to 264 SMs, six times in a row each, for the profiler (see README.md).
#include <cuda_runtime.h>
#include <cstdio>
#include <initializer_list>

__device__ void spin(int cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
__global__ void nothing() {}
__global__ void noparam() { spin(1500); }
__global__ void param(int cycles) { spin(cycles); }
__global__ void loads(int cycles, const int* p) { spin(cycles + *p); }
__global__ void owns(int cycles, const int* p) { spin(cycles + p[blockIdx.x * 1024 + threadIdx.x]); }
__global__ void stores(int cycles, int* p) { spin(cycles), p[blockIdx.x * 1024 + threadIdx.x] = cycles; }

int main() {
    int* p;
    cudaMalloc(&p, 4 << 20), cudaMemset(p, 0, 4 << 20);
    for (int kind = 0; kind < 6; kind++)
        for (int ctas : {1, 2, 4, 8, 12, 16, 24, 32, 48, 66, 80, 100, 116, 132, 264})
            for (int k = 0; k < 6; k++) {
                if (kind == 0) nothing<<<ctas, 256>>>();
                if (kind == 1) noparam<<<ctas, 256>>>();
                if (kind == 2) param<<<ctas, 256>>>(1500);
                if (kind == 3) loads<<<ctas, 256>>>(1500, p);
                if (kind == 4) owns<<<ctas, 256>>>(1500, p);
                if (kind == 5) stores<<<ctas, 256>>>(1500, p);
            }
    cudaDeviceSynchronize();
    puts(cudaGetErrorString(cudaGetLastError()));
}
