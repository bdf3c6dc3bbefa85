// What device code asks of the driver: printf, assert, malloc; and traps, specials, deep stacks.

#include <cassert>
#include <cstdio>

extern "C" __global__ void prints(int *out, const double *in, int n) {
    int t = threadIdx.x;
    if (t < n) printf("%d of %u: %f %5.2e %s %c %p %llx %%\n", t, blockDim.x, in[t], in[t] * 2, "text", 'x' + t, in, (unsigned long long)t << 33);
    out[t] = printf("hello\n") + 10 * printf("%d %ld\n", t, (long)-t);
}

extern "C" __global__ void asserts(int *out, const int *in, int n) {
    int t = threadIdx.x;
    assert(in[t] > n && "too small");
    out[t] = in[t];
}

extern "C" __global__ void traps(int *out, const int *in, int n) {
    if (in[threadIdx.x] < n) __trap();
    out[threadIdx.x] = in[threadIdx.x];
}

extern "C" __global__ void allocates(int *out, int n) {
    int t = threadIdx.x, *p = (int *)malloc(sizeof(int) * n), sum = 0;
    for (int i = 0; i < n; i++) p[i] = i * t;
    for (int i = 0; i < n; i++) sum += p[i];
    free(p);
    int *q = new int[4];
    q[t & 3] = sum;
    out[t] = q[t & 3];
    delete[] q;
}

extern "C" __global__ void exhausts(int *out) {
    int t = threadIdx.x;
    void *p = malloc(1 << 20);
    out[t] = p != nullptr;
    if (t == 40) free(p);
    if (t == 41) free((char *)p + 16);
}

extern "C" __global__ void frees_twice(void) { void *p = malloc(8); free(p); free(p); }

__device__ __noinline__ int deep(int n, const int *in) { int here[8]; for (int i = 0; i < 8; i++) here[i] = in[(n + i) & 7]; return n == 0 ? here[0] : deep(n - 1, in) + here[n & 7]; }
extern "C" __global__ void recurses(int *out, const int *in, int n) { out[threadIdx.x] = deep(n, in); }

extern "C" __global__ void unprinted(int *out, int n) {
    if (n > 100) printf("never\n");
    out[threadIdx.x] = n;
}

extern "C" __global__ void number_of_sms(unsigned *out) { asm("mov.u32 %0, %%nsmid;" : "=r"(*out)); }

extern "C" __global__ void wide_locals(float4 *out, const float4 *in, int n) {
    float4 kept[5];
    for (int i = 0; i < 5; i++) kept[(i + n) % 5] = in[i];
    out[threadIdx.x] = kept[(threadIdx.x + n) % 5];
}
