// c = a b for n x n matrices: a CTA of 32 x 32 threads makes a tile of c from tiles in shared memory.
extern "C" __global__ void tiled_product(float *c, const float *a, const float *b, int n) {
    __shared__ float of_a[32][32], of_b[32][32];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        of_a[y][x] = a[row * n + k + x];
        of_b[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int j = 0; j < 32; ++j) sum += of_a[y][j] * of_b[j][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
