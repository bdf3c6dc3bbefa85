// Lines that one CTA reads again and again, more and more of them: which does L1 still have? Prints a row for each launch;
// the profiler counts l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum, whose difference between 10 passes and 2
// is that of 8 passes. nvcc -arch=sm_90 -o l1 l1.cu; ncu --cache-control none --clock-control none --metrics ... --csv ./l1
#include <cstdio>
#include <cuda_runtime.h>

enum { IN_TURN, A_SECTOR_EACH, PERMUTED, AT_RANDOM, BACK_AND_FORTH, APART };

__global__ void scan(const float* p, unsigned lines, size_t words_apart, int passes, int pattern, float* out) {
    float sum = 0;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int pass = 0; pass < passes; pass++) {
        if (pattern == A_SECTOR_EACH || pattern == APART) {
            for (unsigned k = threadIdx.x; k < lines; k += blockDim.x) {
                float v;
                asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v) : "l"(p + words_apart * k));
                sum += v;
            }
        } else {
            for (unsigned k = warp; k < lines; k += warps) {
                unsigned line = k;
                if (pattern == PERMUTED) line = (unsigned)(k * 7919ull % lines);
                if (pattern == AT_RANDOM) {
                    unsigned h = (k + pass * 1000003u) * 2654435761u;
                    h = (h ^ h >> 15) * 2246822519u;
                    line = (h ^ h >> 13) % lines;
                }
                if (pattern == BACK_AND_FORTH && pass % 2) line = lines - 1 - k;
                float v;
                asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v) : "l"(p + words_apart * line + lane));
                sum += v;
            }
        }
        __syncthreads();
    }
    if (sum == 12345.f) *out = sum;
}

int main() {
    float *p, *out;
    cudaMalloc(&p, 1ul << 28);
    cudaMalloc(&out, 4);
    cudaMemset(p, 0, 1ul << 28);
    const int carveouts[] = {0, 50};
    for (int carveout : carveouts) {
        cudaFuncSetAttribute(scan, cudaFuncAttributePreferredSharedMemoryCarveout, carveout);
        for (int pattern = IN_TURN; pattern <= BACK_AND_FORTH; pattern++)
            for (int kib = carveout ? 64 : 160; kib <= (carveout ? 280 : 480); kib += kib < 320 ? 8 : 32)
                for (int passes = 2; passes <= 10; passes += 8) {
                    scan<<<1, 1024>>>(p, kib * 8, 32, passes, pattern, out);
                    printf("%d,%d,%d,%d\n", carveout, pattern, kib, passes);
                }
    }
    cudaFuncSetAttribute(scan, cudaFuncAttributePreferredSharedMemoryCarveout, 0);
    for (size_t apart = 128; apart <= 1ul << 20; apart *= 2)
        for (unsigned lines = 4; lines <= 1536; lines = lines == 1024 ? 1536 : 2 * lines)
            for (int passes = 2; passes <= 10; passes += 8)
                if (apart * lines < 1ul << 28) {
                    scan<<<1, 1>>>(p, lines, apart / 4, passes, APART, out);
                    printf("%zu,%u,%d\n", apart, lines, passes);
                }
    return cudaDeviceSynchronize() != cudaSuccess;
}
