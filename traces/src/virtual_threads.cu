// Virtual threads: thread t of a block of W works as v(t) = (t mod (W/n)) n + t div (W/n).
// Transposes of a 32x32 float tile by 1024 threads, a reduction of 256 numbers, and a product of 32x32 float tiles.

#ifndef PITCH  // words from row to row of the padded transpose
#define PITCH 33
#endif

template <int N>
__device__ __forceinline__ int virtual_thread(int t, int width) {
    return (t % (width / N)) * N + t / (width / N);
}

template <int N, int Pitch>
__device__ __forceinline__ void transpose(const float* in, float* out) {
    __shared__ float tile[32 * Pitch];
    const int v = virtual_thread<N>(threadIdx.x, 1024), x = v % 32, y = v / 32;
    tile[Pitch * y + x] = in[32 * y + x];
    __syncthreads();
    out[32 * y + x] = tile[Pitch * x + y];
}

extern "C" __global__ void transpose_plain(const float* in, float* out) { transpose<1, 32>(in, out); }
extern "C" __global__ void transpose_padded(const float* in, float* out) { transpose<1, PITCH>(in, out); }
extern "C" __global__ void transpose_v2(const float* in, float* out) { transpose<2, 32>(in, out); }
extern "C" __global__ void transpose_v4(const float* in, float* out) { transpose<4, 32>(in, out); }
extern "C" __global__ void transpose_v8(const float* in, float* out) { transpose<8, 32>(in, out); }
extern "C" __global__ void transpose_v16(const float* in, float* out) { transpose<16, 32>(in, out); }

template <int N>
__device__ __forceinline__ void reduce(const float* in, float* out) {
    __shared__ float sdata[256];
    const int v = virtual_thread<N>(threadIdx.x, 256);
    sdata[v] = in[256 * blockIdx.x + v];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (v < stride) sdata[v] += sdata[v + stride];
        __syncthreads();
    }
    if (v == 0) out[blockIdx.x] = sdata[0];
}

extern "C" __global__ void reduction_plain(const float* in, float* out) { reduce<1>(in, out); }
extern "C" __global__ void reduction_v4(const float* in, float* out) { reduce<4>(in, out); }

template <int N>
__device__ __forceinline__ void matmul(const float* a, const float* b, float* c) {
    __shared__ float as[32][32], bs[32][32];
    const int v = virtual_thread<N>(threadIdx.x, 1024), x = v % 32, y = v / 32;
    as[y][x] = a[32 * y + x];
    bs[y][x] = b[32 * y + x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum += as[y][k] * bs[k][x];
    c[32 * y + x] = sum;
}

extern "C" __global__ void matmul_plain(const float* a, const float* b, float* c) { matmul<1>(a, b, c); }
extern "C" __global__ void matmul_v4(const float* a, const float* b, float* c) { matmul<4>(a, b, c); }
