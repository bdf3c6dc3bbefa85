// Calls, recursion, pointers to functions, switches, loops, local arrays.

struct Body { float x, y, z; int tag; double weights[3]; };

__device__ __noinline__ Body mixed(Body a, const Body &b, int k) {
    Body r = a;
    r.x += b.y * k;
    r.weights[k % 3] = b.weights[(k + 1) % 3] - a.weights[0];
    r.tag ^= b.tag;
    return r;
}
extern "C" __global__ void structs(Body *out, const Body *in, Body extra, int n) {
    int t = threadIdx.x;
    out[t] = mixed(in[t], extra, n + t);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ int even(int n);
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
extern "C" __global__ void recursion(int *out, int n) {
    int t = threadIdx.x;
    out[t] = fibonacci(n + t % 4);
    out[32 + t] = ackermann(2, t % 4);
    out[64 + t] = even(t % 16);
}

__device__ void sort(int *a, int low, int high) {
    if (low >= high) return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) { int x = a[i]; a[i++] = a[j]; a[j--] = x; }
    }
    sort(a, low, j);
    sort(a, i, high);
}
extern "C" __global__ void quicksort(int *data, int n) { sort(data + threadIdx.x * n, 0, n - 1); }

struct Shape { __device__ virtual float area(float s) const = 0; };
struct Square : Shape { __device__ float area(float s) const override { return s * s; } };
struct Circle : Shape { float k; __device__ Circle(float k) : k(k) {} __device__ float area(float s) const override { return k * s * s; } };
extern "C" __global__ void virtuals(float *out, const float *in, int n) {
    int t = threadIdx.x;
    Square square;
    Circle circle(3.0f + n);
    const Shape *shape = t % 2 ? (const Shape *)&square : (const Shape *)&circle;
    out[t] = shape->area(in[t]);
}

typedef int (*Operation)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int power(int a, int b) { int r = 1; for (int i = 0; i < b % 5; ++i) r *= a; return r; }
__device__ Operation table[3] = {plus, times, power};
__constant__ Operation constants[3] = {power, plus, times};
extern "C" __global__ void pointers(int *out, const int *a, const int *b, const int *which) {
    int t = threadIdx.x;
    out[t] = table[which[t]](a[t], b[t]) + constants[which[t]](b[t], a[t]);
}

extern "C" __global__ void switching(int *out, const int *in, const int *how) {
    int t = threadIdx.x, r = in[t];
    switch (how[t]) {
        case 0: r += 1; break;
        case 1: r *= 3;
        case 2: r ^= 0x55; break;
        case 3: for (int i = 0; i < 7; i++) r += i * r; break;
        case 4: r = -r; break;
        case 5: r = r / 3; break;
        case 6: r = __popc(r); break;
        case 7: { int k = r; while (k & 1) k >>= 1; r = k; } break;
        case 8: r = r * r; break;
        case 9: r = ~r; break;
        case 10: r <<= 3; break;
        case 11: return;
        case 1000: r = 2; break;
        default: r = 0;
    }
    out[t] = r;
}

extern "C" __global__ void loops(int *out, const int *in, int n) {
    int t = threadIdx.x, s = 0;
    for (int i = 0; i < in[t]; i++) {
        if (i % 3 == 0) continue;
        for (int j = i;; j++) {
            if (j > n) break;
            if ((j ^ t) & 8) { s += j; if (s > 1000) goto done; } else s -= 1;
        }
    }
done:
    out[t] = s;
    if (s < 0) return;
    __syncwarp(__activemask());
    int v = in[t] + 1, steps = 0;
    do { v = v & 1 ? 3 * v + 1 : v >> 1; steps++; } while (v != 1 && steps < 200);
    out[32 + t] = steps;
}

template <class F> __device__ __noinline__ int twice(F f, int x) { return f(f(x)); }
extern "C" __global__ void lambdas(int *out, const int *in, int n) {
    int t = threadIdx.x, sum = n;
    out[t] = twice([=](int x) { return x * n + t; }, in[t]);
    out[32 + t] = twice([&](int x) { sum += x; return sum; }, in[t]);
}

extern "C" __global__ void local_arrays(int *out, const int *in, int n) {
    int t = threadIdx.x, h[64], stack[24];
    for (int i = 0; i < 64; i++) h[i] = in[i * t & 63];
    for (int i = 0; i < n; i++) { int k = h[i & 63] * 7 & 63, q = h[k]; h[k] = h[k + t & 63]; h[k + t & 63] = q; stack[i] = k; }
    int s = 0;
    for (int i = 0; i < 64; i++) s = s * 31 + h[i];
    for (int i = n - 1; i >= 0; i--) s = s * 3 + stack[i];
    out[t] = s;
}

// More values than registers where these are few.
extern "C" __global__ void spills(unsigned *out, const unsigned *in) {
    unsigned r[48];
#pragma unroll
    for (int i = 0; i < 48; i++) r[i] = in[threadIdx.x + 32 * i];
#pragma unroll 1
    for (int k = 0; k < 3; k++) {
#pragma unroll
        for (int i = 0; i < 48; i++) r[i] = r[i] * r[(i * 7 + 1) % 48] + r[(i * 5 + 3) % 48];
    }
#pragma unroll
    for (int i = 0; i < 48; i++) out[threadIdx.x + 32 * i] = r[i];
}

extern "C" __global__ void places(int *out) {
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z, cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = x + blockDim.x * (y + blockDim.y * z);
    out[cta * blockDim.x * blockDim.y * blockDim.z + thread] = x + 10 * y + 100 * z + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
}

template <int N, typename T> __global__ void scaled(T *out, const T *in) { out[threadIdx.x] = in[threadIdx.x] * N; }
template __global__ void scaled<3, int>(int *, const int *);
template __global__ void scaled<5, short>(short *, const short *);
