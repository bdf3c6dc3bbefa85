// What L1 has of what its SM stored: a CTA stores, and loads again. Prints a row for each launch; the profiler counts
// l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum and l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum.
// nvcc -arch=sm_90 -o stored stored.cu; ncu --cache-control all --clock-control none --metrics ... --csv ./stored
#include <cstdio>
#include <cuda_runtime.h>

typedef unsigned int word;
enum { CACHED, PAST_L1, STREAMED, WRITTEN_THROUGH, REDUCED };

template <int HOW> __device__ void store(word* p, word v) {
    if (HOW == CACHED) asm volatile("st.global.wb.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
    if (HOW == PAST_L1) asm volatile("st.global.cg.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
    if (HOW == STREAMED) asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
    if (HOW == WRITTEN_THROUGH) asm volatile("st.global.wt.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
    if (HOW == REDUCED) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ word load(const word* p) {
    word v;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

// Lane l of a warp means word (32 i + l) * apart; the first `stores` lanes store, all load `ahead` words further on.
// `loaded_before`: all lines are loaded in front; `between`: so many other lines are loaded between, or stored to.
template <int HOW> __global__ void again(word* p, word* other, word lines, word apart, word stores, word ahead,
                                         bool loaded_before, word between, bool stored_between, word* out) {
    const word lane = threadIdx.x;
    word sum = 0;
    if (loaded_before)
        for (word i = 0; i < lines; i++) sum += load(p + (i * 32 + lane) * apart);
    for (word i = 0; i < lines; i++)
        if (lane < stores) store<HOW>(p + (i * 32 + lane) * apart, i + sum);
    for (word i = 0; i < between; i++)
        if (stored_between) store<CACHED>(other + i * 32 + lane, i);
        else sum += load(other + i * 32 + lane);
    __syncthreads();
    for (word i = 0; i < lines; i++) sum += load(p + (i * 32 + lane) * apart + ahead);
    out[lane] = sum;
}

int main() {
    word *p, *other, *out;
    cudaMalloc(&p, 1 << 22);
    cudaMalloc(&other, 1 << 22);
    cudaMalloc(&out, 128);
    cudaMemset(p, 0, 1 << 22);
    cudaMemset(other, 0, 1 << 22);
#define RUN(how, lines, apart, stores, ahead, before, between, stored)                                                   \
    (again<how><<<1, 32>>>(p, other, lines, apart, stores, ahead, before, between, stored, out), cudaDeviceSynchronize(), \
     printf("%s,%d,%d,%d,%d,%d,%d,%d\n", #how, int(lines), int(apart), int(stores), int(ahead), before, int(between), stored))
    for (word lines : {64, 256, 512, 1024, 1536, 2048}) RUN(CACHED, lines, 1, 32, 0, 0, 0, 0);
    RUN(PAST_L1, 256, 1, 32, 0, 0, 0, 0);
    RUN(STREAMED, 256, 1, 32, 0, 0, 0, 0);
    RUN(WRITTEN_THROUGH, 256, 1, 32, 0, 0, 0, 0);
    RUN(REDUCED, 256, 1, 32, 0, 0, 0, 0);
    for (word apart : {2, 4, 8, 32})
        for (word ahead : {0, 1}) RUN(CACHED, 16, apart, 32, ahead, 0, 0, 0);
    for (word stores : {4, 8, 12, 16, 32}) RUN(CACHED, 64, 1, stores, 0, 0, 0, 0);
    for (word stores : {4, 12, 32}) RUN(CACHED, 64, 1, stores, 0, 1, 0, 0);
    for (word between : {256, 1024, 1536, 2048}) RUN(CACHED, 256, 1, 32, 0, 0, between, 0);
    for (word between : {256, 1024, 1536, 2048}) RUN(REDUCED, 512, 1, 0, 0, 1, between, 1);
}
