// What a __syncwarp() of the whole warp does in a branch that only some lanes take.
//     nvcc -arch=sm_90 syncwarp.cu -o syncwarp && ./syncwarp > syncwarp.txt     # on an H200
// Each variant runs in a process of its own with a limit of time. Of some lanes: the clock before and after the
// __syncwarp(), both from the start and -1 where the lane does not come there, the clock at the end, and a value.
#ifndef __CUDACC_RTC__
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#endif
#define WS(mask) asm volatile("bar.warp.sync %0;" :: "n"(mask) : "memory")
__device__ __forceinline__ long long now() { long long c; asm volatile("mov.u64 %0, %%clock64;" : "=l"(c) :: "memory"); return c; }
__device__ __noinline__ void work(long long n) { long long s = now(); while (now() - s < n) {} }
template <int V, int T> __global__ void k(long long *out, int *values, volatile int *flag, int zero) {
    __shared__ volatile int s[64];
    const int t = threadIdx.x;
    long long start = now(), a = 0, b = 0;
    int v = t + 100;
    s[t] = t; s[t + 32] = 0;
    WS(0xffffffff);
    if (V == 0) { if (t < 2 + zero) { s[t] += s[t + 2]; a = now(); WS(0xffffffff); b = now(); v += s[t ^ 1]; } }      // numba
    if (V == 1) { if (t < 2 + zero) { a = now(); WS(0xffffffff); b = now(); v += s[t]; } else { work(100000); v += s[3]; } }
    if (V == 2) { if (t < 2 + zero) { a = now(); WS(0x0000000f); b = now(); v += s[t]; } else { work(100000); v += s[3]; } }
    if (V == 3) { if (t < 2 + zero) { a = now(); WS(0xffffffff); b = now(); *flag = 1; }                       // others wait for the flag
                  else { if (t < 16) while (*flag == 0) {} v += s[3]; } }
    if (V == 4) { if (t < 2 + zero) { work(100000); a = now(); WS(0xffffffff); b = now(); v += s[t]; }         // others: not in a branch,
                  if (t >= 16) { v += s[t]; work(50000); WS(0xffffffff); v += s[t - 16]; } }                   // and a second branch
    if (V == 5) { if (t < 8 + zero) { if (t < 2 + zero) { a = now(); WS(0xffffffff); b = now(); v += s[t]; }   // two levels
                                      else work(1000 * t); s[t + 32] = 1; } else { work(100000); v += s[3]; } }
    if (V == 6) { if (t < 2 + zero) { a = now(); v = __shfl_sync(0xffffffffu, v, 1 + 4 * (t & 1)); b = now(); } } // reads lanes 1 and 5
    if (V == 7) { if (t < 2 + zero) { work(20000); a = now(); WS(0xffffffff); b = now(); v += 1; }             // both sides, twice on one
                  else { work(100 * t); a = now(); WS(0xffffffff); b = now(); v += 2; work(3000); WS(0xffffffff); v += 3; } }
    if (V == 8) { if (t < 2 + zero) { a = now(); WS(0xffffffff); b = now(); v += s[t]; *flag = 1; }            // BSYNC lanes only after 50000
                  else if (t < 30) { v += s[3]; } else { work(50000); v += s[4]; } }
    if (V == 9) {                                                                                 // numba's shape: a branch
        if (t >= zero) {                                                                          // for all, a part inside
            if (t < 2) { s[t] += s[t + 2]; a = now(); WS(0xffffffff); b = now(); }
            if (t == 0) { v += s[0] + s[1]; }
        } else { for (int i = 0; i < t; i++) { v += s[i]; s[i + 1] = v; } }
        if (zero == 0 && t < 5) v += 1000;
    }
    if (T == 0) WS(0xffffffff);     // what follows the branch: a warp's barrier (the branch ends in a BSYNC),
    if (T == 1) __syncthreads();    // a CTA's barrier (WARPSYNC.ALL, BAR.SYNC), or nothing (T == 2)
    long long c = now();
    out[3 * t] = a ? a - start : -1; out[3 * t + 1] = b ? b - start : -1; out[3 * t + 2] = c - start; values[t] = v;
}
#ifdef __CUDACC_RTC__
#define OF(V) template __global__ void k<V, 0>(long long *, int *, volatile int *, int); \
    template __global__ void k<V, 1>(long long *, int *, volatile int *, int); \
    template __global__ void k<V, 2>(long long *, int *, volatile int *, int);
OF(0) OF(3) OF(6) OF(9)
#else
template <int V, int T> void go() {
    long long *out; int *values, *flag;
    cudaMallocManaged(&out, 96 * 8); cudaMallocManaged(&values, 128); cudaMallocManaged(&flag, 4); *flag = 0;
    k<V, T><<<1, 32>>>(out, values, flag, 0);
    for (int i = 0; i < 20 && cudaStreamQuery(0) == cudaErrorNotReady; i++) usleep(100000);
    cudaError_t e = cudaStreamQuery(0);
    if (e != cudaSuccess) { printf("variant %d.%d: %s\n", V, T, e == cudaErrorNotReady ? "HANGS" : cudaGetErrorString(e)); fflush(stdout); _exit(1); }
    printf("variant %d.%d: ends\n", V, T);
    for (int t : {0, 1, 2, 5, 8, 15, 16, 30, 31})
        printf("  lane %2d: before %6lld after %6lld end %6lld value %d\n", t, out[3 * t], out[3 * t + 1], out[3 * t + 2], values[t]);
}
template <int V> void pick(int t) { if (t == 0) go<V, 0>(); else if (t == 1) go<V, 1>(); else go<V, 2>(); }
int main(int n, char **arg) {
    if (n == 1) { for (int v = 0; v < 30; v++) { char c[4096]; snprintf(c, sizeof c, "timeout 30 %s %d %d", arg[0], v / 3, v % 3); fflush(stdout); system(c); } return 0; }
    void (*all[])(int) = {pick<0>, pick<1>, pick<2>, pick<3>, pick<4>, pick<5>, pick<6>, pick<7>, pick<8>, pick<9>};
    all[atoi(arg[1])](atoi(arg[2]));
}
#endif
