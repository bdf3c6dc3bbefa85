// What one SM waits for lines by distance, how fast L2 adds to one word, and how long copies take of data that L2 lacks.
// nvcc -O3 -arch=sm_90 -o cold tools/chip/cold.cu && ./cold FOLDER: writes distance.csv, atomics.csv and cold.csv.
#include <cuda_fp16.h>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>
typedef unsigned long long u64;
__device__ __forceinline__ u64 timer() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

// The least of four latencies of each line, from the SM `target` alone.
__global__ void distance(const unsigned* p, int lines, int stride, unsigned target, unsigned* out, unsigned* lock) {
    __shared__ unsigned least[256];
    if (smid() != target || threadIdx.x || atomicAdd(lock, 1)) return;
    for (int l = 0; l < lines; l++) least[l] = 1u << 30;
    for (int r = 0; r < 4; r++)
        for (int l = 0; l < lines; l++) {
            unsigned t0, t1, v;
            asm volatile("mov.u32 %0, %%clock;\n\tld.global.cg.u32 %1,[%3];\n\tadd.u32 %1, %1, 1;\n\t"
                         "st.volatile.shared.u32 [%4], %1;\n\tmov.u32 %2, %%clock;"
                         : "=r"(t0), "=r"(v), "=r"(t1)
                         : "l"(p + (u64)l * stride), "r"((unsigned)__cvta_generic_to_shared(&least[255])) : "memory");
            least[l] = min(least[l], t1 - t0);
        }
    for (int l = 0; l < lines; l++) out[l] = least[l];
}

template <int OP> __global__ void atomics(void* p, int n, u64* record) {
    u64 begin = timer();
    if (threadIdx.x % 32 == 0)
        for (int i = 0; i < n; i++) {
            if (OP == 0) atomicAdd((int*)p, 1);
            if (OP == 1) atomicAdd((float*)p, 1.f);
            if (OP == 2) atomicAdd((double*)p, 1.);
            if (OP == 3) atomicAdd((__half2*)p, __half2(1, 1));
            if (OP == 4) atomicMax((int*)p, i);
            if (OP == 5) { int old = atomicCAS((int*)p, 0, i); asm volatile("" ::"r"(old)); }
        }
    __threadfence();
    if (threadIdx.x == 0) { record[blockIdx.x * 2] = begin; record[blockIdx.x * 2 + 1] = timer(); }
}

// MODE 0 reads a, 1 copies a to b, 2 adds a to b.
template <int MODE> __global__ void stream(const float4* a, float4* b, u64* record) {
    u64 begin = timer(), i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = a[i];
    if (MODE == 1) b[i] = v;
    if (MODE == 2) { float4 w = b[i]; v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w; b[i] = v; }
    if (MODE == 0 && v.x == 12345.f && v.y == 77.f) b[0] = v;
    __syncthreads();
    if (threadIdx.x == 0) { record[blockIdx.x * 2] = begin; record[blockIdx.x * 2 + 1] = timer(); }
}
__global__ void touch(float4* a, u64 n) {
    float sum = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) sum += a[i].x;
    if (sum == 12345.f) a[0].x = sum;
}

static u64* record;
static double span(int ctas) {
    std::vector<u64> all(2 * ctas);
    cudaMemcpy(all.data(), record, 16 * ctas, cudaMemcpyDeviceToHost);
    u64 first = ~0ull, last = 0;
    for (int i = 0; i < ctas; i++) first = std::min(first, all[2 * i]), last = std::max(last, all[2 * i + 1]);
    return double(last - first);
}
int main(int, char** given) {
    const u64 size = 1ull << 30;
    char *a, *b, *c;
    unsigned* out;
    cudaMalloc(&a, size), cudaMalloc(&b, size), cudaMalloc(&c, size), cudaMalloc(&record, 16 << 20), cudaMalloc(&out, 1 << 20);
    cudaMemset(a, 0, size), cudaMemset(b, 0, size), cudaMemset(c, 0, size);
    for (int i = 0; i < 200; i++) touch<<<1056, 256>>>((float4*)c, size / 16);
    auto open = [&](const char* name) { return fopen((std::string(given[1]) + "/" + name).c_str(), "w"); };
    FILE* to = open("distance.csv");
    fprintf(to, "stride_words,sm,mean_cycles,least_cycles,most_cycles\n");
    for (int stride : {32, 4096})
        for (unsigned sm = 0; sm < 132; sm++) {
            std::vector<unsigned> got(128);
            for (unsigned done = 0, tries = 0; !done && tries < 20; tries++) {
                cudaMemset(out + 1024, 0, 4);
                distance<<<1056, 32>>>((unsigned*)a, 128, stride, sm, out, out + 1024);
                cudaMemcpy(&done, out + 1024, 4, cudaMemcpyDeviceToHost);
            }
            cudaMemcpy(got.data(), out, 512, cudaMemcpyDeviceToHost);
            double sum = 0;
            for (unsigned n : got) sum += n;
            fprintf(to, "%d,%u,%.1f,%u,%u\n", stride, sm, sum / 128, *std::min_element(got.begin(), got.end()), *std::max_element(got.begin(), got.end()));
        }
    fclose(to), to = open("atomics.csv");
    fprintf(to, "operation,ctas,requests,nanoseconds\n");
    const char* names[] = {"add.s32", "add.f32", "add.f64", "add.f16x2", "max.s32", "cas"};
    for (int op = 0; op < 6; op++)
        for (int ctas : {132, 1056}) {
            double best = 1e18;
            for (int r = 0; r < 4; r++) {
                switch (op) {
                    case 0: atomics<0><<<ctas, 128>>>(a, 32, record); break;
                    case 1: atomics<1><<<ctas, 128>>>(a, 32, record); break;
                    case 2: atomics<2><<<ctas, 128>>>(a, 32, record); break;
                    case 3: atomics<3><<<ctas, 128>>>(a, 32, record); break;
                    case 4: atomics<4><<<ctas, 128>>>(a, 32, record); break;
                    case 5: atomics<5><<<ctas, 128>>>(a, 32, record); break;
                }
                best = std::min(best, span(ctas));
            }
            fprintf(to, "%s,%d,%d,%.0f\n", names[op], ctas, ctas * 4 * 32, best);
        }
    fclose(to), to = open("cold.csv");
    fprintf(to, "mode,mib,warm,nanoseconds\n");
    for (int mode = 0; mode < 3; mode++)
        for (u64 mib : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256})
            for (int warm : {1, 0}) {
                std::vector<double> took;
                for (int r = 0; r < 5; r++) {
                    if (!warm) touch<<<1056, 256>>>((float4*)c, size / 16);
                    int ctas = int((mib << 20) / 16 / 256);
                    if (mode == 0) stream<0><<<ctas, 256>>>((float4*)a, (float4*)b, record);
                    if (mode == 1) stream<1><<<ctas, 256>>>((float4*)a, (float4*)b, record);
                    if (mode == 2) stream<2><<<ctas, 256>>>((float4*)a, (float4*)b, record);
                    took.push_back(span(ctas));
                }
                std::sort(took.begin(), took.end());
                fprintf(to, "%s,%llu,%d,%.0f\n", mode == 0 ? "read" : mode == 1 ? "copy" : "add", mib, warm, took[2]);
            }
    fclose(to);
    return cudaGetLastError() != cudaSuccess;
}
