// Kernels of whole grids: what people run at the sizes at which they run it, plain and tuned.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#define K extern "C" __global__ void
#define BY blockIdx.y
#define BX blockIdx.x
#define T threadIdx.x

__device__ __forceinline__ float warp_sum(float v) {
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}
__device__ __forceinline__ float cta_sum(float v) {  // of up to 1,024 threads, to all of them
    __shared__ float part[32];
    v = warp_sum(v);
    __syncthreads();
    if (T % 32 == 0) part[T / 32] = v;
    __syncthreads();
    return warp_sum(T % 32 < blockDim.x / 32 ? part[T % 32] : 0.f);
}

// Streams.
K add(const float *a, const float *b, float *c, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) c[i] = a[i] + b[i];
}
K copy4(const float4 *a, float4 *b, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) b[i] = a[i];
}
K triad_stride(const float4 *a, const float4 *b, float4 *c, float s, int n) {  // persistent CTAs
    for (int i = BX * blockDim.x + T; i < n; i += gridDim.x * blockDim.x) {
        float4 x = a[i], y = b[i];
        c[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
    }
}
K scale_in_place(float *a, float s, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) a[i] *= s;
}
K fill(float4 *a, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) a[i] = make_float4(1, 2, 3, 4);
}
K every(const float *a, float *b, int step, int n) {  // one of so many numbers
    int i = BX * blockDim.x + T;
    if (i < n) b[i] = a[(size_t)i * step];
}
K gather(const float *a, const int *where, float *b, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) b[i] = a[where[i]];
}
K half_gelu(const half2 *a, half2 *b, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) {
        float2 x = __half22float2(a[i]);
        x.x *= 1.f / (1.f + __expf(-1.702f * x.x));
        x.y *= 1.f / (1.f + __expf(-1.702f * x.y));
        b[i] = __float22half2_rn(x);
    }
}
K options(const float *price, const float *strike, float *call, int n) {  // arithmetic behind loads
    int i = BX * blockDim.x + T;
    if (i >= n) return;
    float s = price[i] + 2.f, x = strike[i] + 2.f, root = sqrtf(2.f), d1 = (__logf(s / x) + 0.04f) / (0.2f * root), d2 = d1 - 0.2f * root;
    call[i] = s * normcdff(d1) - x * __expf(-0.04f) * normcdff(d2);
}

// Sums, rows, transposes.
K sum_all(const float4 *a, float *out, int n) {
    float v = 0;
    for (int i = BX * blockDim.x + T; i < n; i += gridDim.x * blockDim.x) { float4 x = a[i]; v += x.x + x.y + x.z + x.w; }
    v = cta_sum(v);
    if (T == 0) atomicAdd(out, v);
}
K count_hits(const int *a, int *out, int n) {  // every thread at one address
    int i = BX * blockDim.x + T;
    if (i < n && a[i] >= 0) atomicAdd(out + (a[i] & 1), 1);
}
K histogram(const int *a, int *bins, int n) {  // 256 bins in shared memory
    __shared__ int mine[256];
    if (T < 256) mine[T] = 0;
    __syncthreads();
    for (int i = BX * blockDim.x + T; i < n; i += gridDim.x * blockDim.x) atomicAdd(mine + (a[i] & 255), 1);
    __syncthreads();
    if (T < 256) atomicAdd(bins + T, mine[T]);
}
K histogram_global(const int *a, int *bins, int n) {
    int i = BX * blockDim.x + T;
    if (i < n) atomicAdd(bins + a[i], 1);
}
K softmax_row(const float *a, float *b, int columns) {  // a CTA a row
    const float *row = a + (size_t)BX * columns;
    float v = 0;
    for (int i = T; i < columns; i += blockDim.x) v += __expf(row[i]);
    float whole = cta_sum(v);
    for (int i = T; i < columns; i += blockDim.x) b[(size_t)BX * columns + i] = __expf(row[i]) / whole;
}
K norm_warp(const float4 *a, float4 *b, int quads, int rows) {  // a warp a row
    int row = BX * (blockDim.x / 32) + T / 32;
    if (row >= rows) return;
    float v = 0, w = 0;
    for (int i = T % 32; i < quads; i += 32) {
        float4 x = a[(size_t)row * quads + i];
        v += x.x + x.y + x.z + x.w, w += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    float mean = warp_sum(v) / (4 * quads), scale = rsqrtf(warp_sum(w) / (4 * quads) - mean * mean + 1e-5f);
    for (int i = T % 32; i < quads; i += 32) {
        float4 x = a[(size_t)row * quads + i];
        b[(size_t)row * quads + i] = make_float4((x.x - mean) * scale, (x.y - mean) * scale, (x.z - mean) * scale, (x.w - mean) * scale);
    }
}
K matrix_vector(const float4 *a, const float4 *x, float *y, int quads) {
    float v = 0;
    for (int i = T; i < quads; i += blockDim.x) {
        float4 p = a[(size_t)BX * quads + i], q = x[i];
        v += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    v = cta_sum(v);
    if (T == 0) y[BX] = v;
}
K column_sums(const float *a, float *out, int rows, int columns) {
    int c = BX * blockDim.x + T;
    float v = 0;
    for (int r = BY * 64; r < min(rows, BY * 64 + 64); r++) v += a[(size_t)r * columns + c];
    atomicAdd(out + c, v);
}
K transpose_plain(const float *a, float *b, int n) {
    int x = BX * 32 + threadIdx.x, y = BY * 8 + threadIdx.y;
    b[(size_t)x * n + y] = a[(size_t)y * n + x];
}
K transpose_tile(const float *a, float *b, int n) {
    __shared__ float t[32][33];
    int x = BX * 32 + threadIdx.x, y = BY * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) t[threadIdx.y + i][threadIdx.x] = a[(size_t)(y + i) * n + x];
    __syncthreads();
    x = BY * 32 + threadIdx.x, y = BX * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) b[(size_t)(y + i) * n + x] = t[threadIdx.x][threadIdx.y + i];
}
K scan_cta(const int *a, int *b, int n) {
    extern __shared__ int t[];
    int i = BX * blockDim.x + T;
    t[T] = i < n ? a[i] : 0;
    for (int d = 1; d < blockDim.x; d *= 2) {
        __syncthreads();
        int v = T >= d ? t[T - d] : 0;
        __syncthreads();
        t[T] += v;
    }
    if (i < n) b[i] = t[T];
}
K sort_cta(const float *a, float *b) {  // bitonic, 1,024 keys
    __shared__ float t[1024];
    t[T] = a[BX * 1024 + T];
    for (int k = 2; k <= 1024; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            int o = T ^ j;
            if (o > T && ((t[T] > t[o]) == ((T & k) == 0))) { float v = t[T]; t[T] = t[o]; t[o] = v; }
        }
    __syncthreads();
    b[BX * 1024 + T] = t[T];
}

// Neighbours.
K heat2d(const float *a, float *b, int n) {
    int x = BX * 32 + threadIdx.x, y = BY * 8 + threadIdx.y;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        b[(size_t)y * n + x] = 0.2f * (a[(size_t)y * n + x] + a[(size_t)y * n + x - 1] + a[(size_t)y * n + x + 1] + a[(size_t)(y - 1) * n + x] + a[(size_t)(y + 1) * n + x]);
}
K heat3d(const float *a, float *b, int n) {  // a thread a column of planes
    int x = BX * 32 + threadIdx.x, y = BY * 8 + threadIdx.y;
    if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
    size_t plane = (size_t)n * n, at = plane + (size_t)y * n + x;
    for (int z = 1; z < n - 1; z++, at += plane)
        b[at] = 0.1f * (a[at - plane] + a[at] + a[at + plane] + a[at - 1] + a[at + 1] + a[at - n] + a[at + n]);
}
K convolve(const float *a, const float *w, float *b, int n) {  // 5 x 5, a tile in shared memory
    __shared__ float t[20][36];
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 20 * 36; i += 512) {
        int y = min(max((int)BY * 16 + i / 36 - 2, 0), n - 1), x = min(max((int)BX * 32 + i % 36 - 2, 0), n - 1);
        t[i / 36][i % 36] = a[(size_t)y * n + x];
    }
    __syncthreads();
    float v = 0;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) v += w[i * 5 + j] * t[threadIdx.y + i][threadIdx.x + j];
    b[(size_t)(BY * 16 + threadIdx.y) * n + BX * 32 + threadIdx.x] = v;
}
K sparse_rows(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {  // a warp a row
    int row = BX * (blockDim.x / 32) + T / 32;
    if (row >= rows) return;
    float v = 0;
    for (int i = starts[row] + T % 32; i < starts[row + 1]; i += 32) v += values[i] * x[columns[i]];
    v = warp_sum(v);
    if (T % 32 == 0) y[row] = v;
}
K bodies(const float4 *a, float4 *b, int n) {
    __shared__ float4 t[256];
    float4 me = a[BX * 256 + T], f = make_float4(0, 0, 0, 0);
    for (int k = 0; k < n; k += 256) {
        __syncthreads();
        t[T] = a[k + T];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; j++) {
            float x = t[j].x - me.x, y = t[j].y - me.y, z = t[j].z - me.z, r = rsqrtf(x * x + y * y + z * z + 1e-3f);
            r *= r * r * t[j].w;
            f.x += r * x, f.y += r * y, f.z += r * z;
        }
    }
    b[BX * 256 + T] = f;
}

// CTAs of unequal work.
K mandelbrot(int *out, int n, int most) {
    int x = BX * 32 + threadIdx.x, y = BY * 8 + threadIdx.y, k = 0;
    float cx = -2.f + 3.f * x / n, cy = -1.5f + 3.f * y / n, a = 0, b = 0;
    for (; k < most && a * a + b * b < 4.f; k++) { float t = a * a - b * b + cx; b = 2.f * a * b + cy; a = t; }
    out[(size_t)y * n + x] = k;
}
K lower_product(const float *a, const float *b, float *c, int n) {  // tiles above the diagonal have nothing to do
    if (BX > BY) return;
    __shared__ float s[32][33], t[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    float v[4] = {};
    for (int k = 0; k < n; k += 32) {
        for (int i = 0; i < 4; i++) {
            s[y + 8 * i][x] = a[(size_t)(BY * 32 + y + 8 * i) * n + k + x];
            t[y + 8 * i][x] = b[(size_t)(k + y + 8 * i) * n + BX * 32 + x];
        }
        __syncthreads();
        for (int j = 0; j < 32; j++)
            for (int i = 0; i < 4; i++) v[i] += s[y + 8 * i][j] * t[j][x];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) c[(size_t)(BY * 32 + y + 8 * i) * n + BX * 32 + x] = v[i];
}
K prefix_rows(const float *a, float *b, int n) {  // CTA i has i + 1 times 1,024 numbers to read
    float v = 0;
    for (int k = 0; k <= BX; k++) v += a[(size_t)k * 1024 + T];
    b[BX * 1024 + T] = v;
}
K some_leave(const float *a, float *b, int busy) {  // all but one of so many CTAs leave at once
    if (BX % busy) return;
    float v = a[BX * blockDim.x + T];
    for (int i = 0; i < 2000; i++) v = v * 1.0001f + 0.5f;
    b[BX * blockDim.x + T] = v;
}
K takes_turns(const float *a, float *b, int *next, int tiles) {  // a queue of tiles of unequal work
    __shared__ int tile;
    for (;;) {
        __syncthreads();
        if (T == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        if (tile >= tiles) return;
        float v = a[tile * 256 + T];
        for (int i = 0; i < 64 * (1 + tile % 16); i++) v = v * 1.0001f + 0.5f;
        b[tile * 256 + T] = v;
    }
}

// Products.
K product_plain(const float *a, const float *b, float *c, int n) {
    int x = BX * 16 + threadIdx.x, y = BY * 16 + threadIdx.y;
    float v = 0;
    for (int k = 0; k < n; k++) v += a[(size_t)y * n + k] * b[(size_t)k * n + x];
    c[(size_t)y * n + x] = v;
}
K product_tile(const float *a, const float *b, float *c, int n) {
    __shared__ float s[32][32], t[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    float v = 0;
    for (int k = 0; k < n; k += 32) {
        s[y][x] = a[(size_t)(BY * 32 + y) * n + k + x], t[y][x] = b[(size_t)(k + y) * n + BX * 32 + x];
        __syncthreads();
        for (int j = 0; j < 32; j++) v += s[y][j] * t[j][x];
        __syncthreads();
    }
    c[(size_t)(BY * 32 + y) * n + BX * 32 + x] = v;
}
K product_registers(const float *a, const float *b, float *c, int n) {  // 128 x 128 by 256 threads, 8 x 8 each
    __shared__ float s[8][128], t[8][128];
    float v[8][8] = {}, p[8], q[8];
    int tx = T % 16 * 4, ty = T / 16 * 4;
    a += (size_t)BY * 128 * n, b += BX * 128;
    for (int k = 0; k < n; k += 8) {
        float4 m = *(const float4 *)(a + (size_t)(T / 2) * n + k + T % 2 * 4);
        s[T % 2 * 4][T / 2] = m.x, s[T % 2 * 4 + 1][T / 2] = m.y, s[T % 2 * 4 + 2][T / 2] = m.z, s[T % 2 * 4 + 3][T / 2] = m.w;
        *(float4 *)&t[T / 32][T % 32 * 4] = *(const float4 *)(b + (size_t)(k + T / 32) * n + T % 32 * 4);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) {
            for (int i = 0; i < 4; i++) p[i] = s[j][ty + i], p[i + 4] = s[j][64 + ty + i], q[i] = t[j][tx + i], q[i + 4] = t[j][64 + tx + i];
            for (int i = 0; i < 8; i++)
                for (int l = 0; l < 8; l++) v[i][l] += p[i] * q[l];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < 8; l += 4)
            *(float4 *)(c + (size_t)(BY * 128 + i / 4 * 64 + ty + i % 4) * n + BX * 128 + l / 4 * 64 + tx) = make_float4(v[i][l], v[i][l + 1], v[i][l + 2], v[i][l + 3]);
}
using namespace nvcuda::wmma;
template <int M, int N, int STAGES> __device__ void tensor_product(const half *a, const half *b, float *c, int n, int by, int bx) {
    // M x N by eight warps, 32 deep, a ring of stages; rows padded by 8
    extern __shared__ __align__(128) half ring[];
    constexpr int A = M * 40, B = 32 * (N + 8), WM = M / 2, WN = N / 4;
    fragment<accumulator, 16, 16, 16, float> v[WM / 16][WN / 16];
    for (auto &row : v) for (auto &f : row) fill_fragment(f, 0.f);
    int w = T / 32, wm = w / 4 * WM, wn = w % 4 * WN;
    auto load = [&](int k, int stage) {
        half *s = ring + stage * (A + B), *t = s + A;
        for (int i = T; i < M * 4; i += 256) __pipeline_memcpy_async(s + i / 4 * 40 + i % 4 * 8, a + (size_t)(by * M + i / 4) * n + k + i % 4 * 8, 16);
        for (int i = T; i < 4 * N; i += 256) __pipeline_memcpy_async(t + i / (N / 8) * (N + 8) + i % (N / 8) * 8, b + (size_t)(k + i / (N / 8)) * n + bx * N + i % (N / 8) * 8, 16);
    };
    for (int i = 0; i < STAGES - 1; i++) { load(i * 32, i); __pipeline_commit(); }
    for (int k = 0, i = 0; k < n; k += 32, i++) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        if (k + 32 * (STAGES - 1) < n) load(k + 32 * (STAGES - 1), (i + STAGES - 1) % STAGES);
        __pipeline_commit();
        const half *s = ring + i % STAGES * (A + B), *t = s + A;
#pragma unroll
        for (int d = 0; d < 32; d += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> p[WM / 16];
            fragment<matrix_b, 16, 16, 16, half, row_major> q[WN / 16];
            for (int j = 0; j < WM / 16; j++) load_matrix_sync(p[j], s + (wm + 16 * j) * 40 + d, 40);
            for (int j = 0; j < WN / 16; j++) load_matrix_sync(q[j], t + d * (N + 8) + wn + 16 * j, N + 8);
            for (int j = 0; j < WM / 16; j++)
                for (int l = 0; l < WN / 16; l++) mma_sync(v[j][l], p[j], q[l], v[j][l]);
        }
    }
    for (int j = 0; j < WM / 16; j++)
        for (int l = 0; l < WN / 16; l++) store_matrix_sync(c + (size_t)(by * M + wm + 16 * j) * n + bx * N + wn + 16 * l, v[j][l], n, mem_row_major);
}
K tensor_64x64(const half *a, const half *b, float *c, int n) { tensor_product<64, 64, 2>(a, b, c, n, BY, BX); }
K tensor_128x128(const half *a, const half *b, float *c, int n) { tensor_product<128, 128, 3>(a, b, c, n, BY, BX); }
K tensor_128x64(const half *a, const half *b, float *c, int n) { tensor_product<128, 64, 4>(a, b, c, n, BY, BX); }
K tensor_grouped(const half *a, const half *b, float *c, int n, int group) {  // CTAs in columns of so many tiles
    int tiles = n / 128, per = group * tiles, first = BX / per * group;
    tensor_product<128, 128, 3>(a, b, c, n, first + BX % per % group, BX % per / group);
}
K tensor_plain(const half *a, const half *b, float *c, int n) {  // a warp a tile of 16 x 16, from global memory
    int by = (BX * 4 + T / 32) / (n / 16), bx = (BX * 4 + T / 32) % (n / 16);
    fragment<accumulator, 16, 16, 16, float> v;
    fill_fragment(v, 0.f);
    for (int k = 0; k < n; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> p;
        fragment<matrix_b, 16, 16, 16, half, row_major> q;
        load_matrix_sync(p, a + (size_t)by * 16 * n + k, n);
        load_matrix_sync(q, b + (size_t)k * n + bx * 16, n);
        mma_sync(v, p, q, v);
    }
    store_matrix_sync(c + (size_t)by * 16 * n + bx * 16, v, n, mem_row_major);
}

// Attention: 64 queries a CTA, heads of 64, four warps; `causal` CTAs stop at their diagonal.
template <bool CAUSAL> __device__ void attention(const half *q, const half *k, const half *v, float *o, int n) {
    extern __shared__ __align__(128) char space[];
    half *s = (half *)space, *kk = s + 64 * 72, *vv = kk + 64 * 72;
    float *w = (float *)(vv + 64 * 72), *sums = w + 64 * 68;
    half *p = (half *)(sums + 64);
    size_t head = (size_t)BY * n * 64;
    int warp = T / 32;
    for (int i = T; i < 512; i += 128) *(float4 *)(s + i / 8 * 72 + i % 8 * 8) = *(const float4 *)(q + head + (size_t)(BX * 64 + i / 8) * 64 + i % 8 * 8);
    if (T < 64) sums[T] = 0;
    fragment<accumulator, 16, 16, 16, float> out[4];
    for (auto &f : out) fill_fragment(f, 0.f);
    for (int at = 0; at < (CAUSAL ? BX * 64 + 64 : n); at += 64) {
        __syncthreads();
        for (int i = T; i < 512; i += 128) {
            __pipeline_memcpy_async(kk + i / 8 * 72 + i % 8 * 8, k + head + (size_t)(at + i / 8) * 64 + i % 8 * 8, 16);
            __pipeline_memcpy_async(vv + i / 8 * 72 + i % 8 * 8, v + head + (size_t)(at + i / 8) * 64 + i % 8 * 8, 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int j = 0; j < 4; j++) {
            fragment<accumulator, 16, 16, 16, float> r;
            fill_fragment(r, 0.f);
            for (int d = 0; d < 64; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> x;
                fragment<matrix_b, 16, 16, 16, half, col_major> y;
                load_matrix_sync(x, s + warp * 16 * 72 + d, 72);
                load_matrix_sync(y, kk + j * 16 * 72 + d, 72);
                mma_sync(r, x, y, r);
            }
            store_matrix_sync(w + warp * 16 * 68 + j * 16, r, 68, mem_row_major);
        }
        __syncwarp();
        for (int i = 0; i < 16; i++) {
            int row = warp * 16 + i;
            float x = __expf(w[row * 68 + T % 32] * 0.125f), y = __expf(w[row * 68 + 32 + T % 32] * 0.125f);
            if (CAUSAL && at + T % 32 > BX * 64 + row) x = 0;
            if (CAUSAL && at + 32 + T % 32 > BX * 64 + row) y = 0;
            p[row * 72 + T % 32] = __float2half(x), p[row * 72 + 32 + T % 32] = __float2half(y);
            float both = warp_sum(x + y);
            if (T % 32 == 0) sums[row] += both;
        }
        __syncwarp();
        for (int j = 0; j < 4; j++)
            for (int d = 0; d < 64; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> x;
                fragment<matrix_b, 16, 16, 16, half, row_major> y;
                load_matrix_sync(x, p + warp * 16 * 72 + d, 72);
                load_matrix_sync(y, vv + d * 72 + j * 16, 72);
                mma_sync(out[j], x, y, out[j]);
            }
    }
    for (int j = 0; j < 4; j++) store_matrix_sync(w + warp * 16 * 68 + j * 16, out[j], 68, mem_row_major);
    __syncwarp();
    for (int i = 0; i < 16; i++) {
        int row = warp * 16 + i;
        for (int d = T % 32; d < 64; d += 32) o[head + (size_t)(BX * 64 + row) * 64 + d] = w[row * 68 + d] / sums[row];
    }
}
K attention_full(const half *q, const half *k, const half *v, float *o, int n) { attention<false>(q, k, v, o, n); }
K attention_causal(const half *q, const half *k, const half *v, float *o, int n) { attention<true>(q, k, v, o, n); }
