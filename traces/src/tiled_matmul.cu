// Tiled float matrix product P = M N by 16x16 blocks; `width` is a multiple of 16.
// straight: tiles filled as Ms[ty][tx], used as Ms[ty][k] Ns[k][tx], every warp reads rows or one word.
// conflict: the roles swapped, tiles filled as Ms[tx][ty], P[x * width + y] written: columns of 16 words, 8 ways.
// padded: conflict with rows of 17 words. Each with static and with dynamic shared memory.

#ifndef PITCH  // words from row to row of the padded kernels
#define PITCH 17
#endif

template <int Pitch, bool Swapped>
__device__ __forceinline__ void tiled(const float* m, const float* n, float* p, int width, float* ms, float* ns) {
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int a = Swapped ? tx : ty, b = Swapped ? ty : tx;
    const int row = 16 * blockIdx.y + a, column = 16 * blockIdx.x + b;
    float sum = 0;
    for (int tile = 0; tile < width / 16; ++tile) {
        ms[Pitch * a + b] = m[row * width + 16 * tile + b];
        ns[Pitch * a + b] = n[(16 * tile + a) * width + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += ms[Pitch * a + k] * ns[Pitch * k + b];
        __syncthreads();
    }
    p[row * width + column] = sum;
}

extern __shared__ float tiles[];

#define TILED(name, pitch, swapped)                                                                      \
    extern "C" __global__ void name##_static(const float* m, const float* n, float* p, int width) {      \
        __shared__ float ms[16 * pitch], ns[16 * pitch];                                                 \
        tiled<pitch, swapped>(m, n, p, width, ms, ns);                                                   \
    }                                                                                                    \
    extern "C" __global__ void name##_dynamic(const float* m, const float* n, float* p, int width) {     \
        tiled<pitch, swapped>(m, n, p, width, tiles, tiles + 16 * pitch);                                \
    }

TILED(tiled_straight, 16, false)
TILED(tiled_conflict, 16, true)
TILED(tiled_padded, PITCH, true)
