// Virtual threads in the kernels as they were published: a transpose with bounds over a grid of 32x32 tiles, a
// reduction whose threads load two numbers, a product with a loop over K and bounds. Thread t of a block of W works as
// v(t) = (t mod (W/n)) n + t div (W/n).

template <int N>
__device__ __forceinline__ int virtual_thread(int t, int width) {
    return (t % (width / N)) * N + t / (width / N);
}

template <int N, int Pitch>
__device__ __forceinline__ void transpose(const float* in, float* out, int width, int height) {
    __shared__ float tile[32][Pitch];
    const int v = virtual_thread<N>(threadIdx.x, 1024), vx = v % 32, vy = v / 32;
    int x = 32 * blockIdx.x + vx, y = 32 * blockIdx.y + vy;
    if (x < width && y < height) tile[vy][vx] = in[y * width + x];
    __syncthreads();
    x = 32 * blockIdx.y + vx;
    y = 32 * blockIdx.x + vy;
    if (x < height && y < width) out[y * height + x] = tile[vx][vy];
}

#define TRANSPOSE(name, n, pitch)                                                                          \
    extern "C" __global__ void written_transpose_##name(const float* in, float* out, int width, int height) { \
        transpose<n, pitch>(in, out, width, height);                                                       \
    }
TRANSPOSE(plain, 1, 32)
TRANSPOSE(padded, 1, 33)
TRANSPOSE(v2, 2, 32)
TRANSPOSE(v4, 4, 32)
TRANSPOSE(v8, 8, 32)

template <int N>
__device__ __forceinline__ void reduce(const float* in, float* out) {
    __shared__ float sdata[256];
    const int v = virtual_thread<N>(threadIdx.x, 256), i = 512 * blockIdx.x + threadIdx.x;
    sdata[v] = in[i] + in[i + 256];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (v < stride) sdata[v] += sdata[v + stride];
        __syncthreads();
    }
    if (v == 0) out[blockIdx.x] = sdata[0];
}

extern "C" __global__ void written_reduction_plain(const float* in, float* out) { reduce<1>(in, out); }
extern "C" __global__ void written_reduction_v4(const float* in, float* out) { reduce<4>(in, out); }

template <int N>
__device__ __forceinline__ void matmul(const float* a, const float* b, float* c, int rows, int columns, int inner) {
    __shared__ float as[32][32], bs[32][32];
    const int v = virtual_thread<N>(threadIdx.x, 1024), vx = v % 32, vy = v / 32;
    const int row = 32 * blockIdx.y + vy, column = 32 * blockIdx.x + vx;
    float sum = 0;
    for (int k0 = 0; k0 < inner; k0 += 32) {
        as[vy][vx] = row < rows && k0 + vx < inner ? a[row * inner + k0 + vx] : 0.0f;
        bs[vy][vx] = k0 + vy < inner && column < columns ? b[(k0 + vy) * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += as[vy][k] * bs[k][vx];
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

extern "C" __global__ void written_matmul_plain(const float* a, const float* b, float* c, int m, int n, int k) {
    matmul<1>(a, b, c, m, n, k);
}
extern "C" __global__ void written_matmul_v4(const float* a, const float* b, float* c, int m, int n, int k) {
    matmul<4>(a, b, c, m, n, k);
}
