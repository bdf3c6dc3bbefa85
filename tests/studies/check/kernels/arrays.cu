// Arrays of shared memory that lie one behind the other: x_bad leaves one by its index, x_good stays within.
extern __shared__ int dynamic[];

// PTX with braces at the start of a line, which end no kernel.
extern "C" __global__ void braces_good(int *out) {
    __shared__ int a[32];
    __shared__ int b[32];
    int t = threadIdx.x % 32, v = 0;
    if (threadIdx.x < 32) a[t] = t, b[t] = -t;
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nsetp.eq.s32 p, %1, 0;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(v) : "r"(a[t]));
    if (v) out[threadIdx.x] = b[t];
}

__device__ __forceinline__ void shift(int *out, int by) {
    __shared__ int a[32];
    __shared__ int b[32];
    int t = threadIdx.x;
    if (t < 32) a[t] = t, b[t] = -t;
    __syncthreads();
    if (t < 32) out[t] = a[t + by] + b[31 - t];
}
extern "C" __global__ void next_bad(int *out) { shift(out, 8 + out[0]); }
extern "C" __global__ void next_good(int *out) { shift(out, 0 + out[0]); }

__device__ __forceinline__ void before(int *out, int by) {
    __shared__ float a[128];
    __shared__ double b[128];
    int t = threadIdx.x;
    a[t] = t, b[t] = 2;
    __syncthreads();
    out[t] = a[127 - t] + b[t - by];
}
extern "C" __global__ void before_bad(int *out) { before(out, 1 + out[0]); }
extern "C" __global__ void before_good(int *out) { before(out, 0 + out[0]); }

// One element past the end, by one thread.
__device__ __forceinline__ void count(int *out, int last) {
    __shared__ int bins[16];
    __shared__ int total[33];
    int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    if (t < 33) total[t] = t;
    __syncthreads();
    if (t == 64) bins[last] = 7;
    __syncthreads();
    out[t] = total[t % 33] + bins[t % 16];
}
extern "C" __global__ void one_bad(int *out) { count(out, 16 + out[0]); }
extern "C" __global__ void one_good(int *out) { count(out, 15 + out[0]); }

// From a static array into the dynamic ones behind it.
extern "C" __global__ void dynamic_bad(int *out) {
    __shared__ int a[64];
    dynamic[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 72) a[threadIdx.x] = 5;
    __syncthreads();
    out[threadIdx.x] = dynamic[127 - threadIdx.x] + a[threadIdx.x % 64];
}
extern "C" __global__ void dynamic_good(int *out) {
    __shared__ int a[64];
    dynamic[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 64) a[threadIdx.x] = 5;
    __syncthreads();
    out[threadIdx.x] = dynamic[127 - threadIdx.x] + a[threadIdx.x % 64];
}

// The address of b[t - 64] is that of a[t] in machine code.
extern "C" __global__ void folded_good(int *out) {
    __shared__ int a[64];
    __shared__ int b[64];
    int t = threadIdx.x;
    if (t < 64) a[t] = t;
    else b[t - 64] = t;
    __syncthreads();
    out[t] = t < 64 ? b[63 - t] : a[127 - t];
}

// One pointer, now to this array and now to that one.
extern "C" __global__ void swapped_good(int *out, int n) {
    __shared__ int a[128];
    __shared__ int b[128];
    int t = threadIdx.x, *now = a, *then = b;
    now[t] = t;
    __syncthreads();
    for (int i = 0; i < n; i++) {
        then[t] = now[t ^ 1] + 1;
        __syncthreads();
        int *other = now;
        now = then, then = other;
    }
    out[t] = now[t];
}

// An address that is rounded up within its array, and a structure whose members are arrays.
struct Both {
    int a[32], b[32];
};
extern "C" __global__ void whole_good(int *out, int n) {
    __shared__ char raw[512 + 127];
    __shared__ Both both;
    int t = threadIdx.x, *p = (int *)(((unsigned long long)raw + 127) & ~127ull);
    p[t] = t;
    if (t < 32) both.a[t] = t, both.b[t] = n;
    __syncthreads();
    out[t] = p[127 - t] + both.a[t % 32 + n];
}

// A read past the end whose value nobody uses.
extern "C" __global__ void unused_good(int *out) {
    __shared__ int a[32];
    __shared__ int b[32];
    int t = threadIdx.x;
    if (t < 32) a[t] = t, b[t] = -t;
    __syncthreads();
    if (t >= 32) return;
    int value = a[t + 8 + out[t]];
    out[t] = t < 24 ? value : b[t];
}

// Its only array: other kernels of this module have the others, and dynamic memory.
extern "C" __global__ void alone_good(int *out) {
    __shared__ int a[128];
    a[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = a[127 - threadIdx.x];
}
