"""A matrix product in tiles of shared memory by a kernel in CUDA C++."""

import cupy as cp
import numpy as np

SOURCE = r"""
template <int TILE>
__global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < n; start += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
N, TILE = 128, 16
module = cp.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=[f"product<{TILE}>"])
product = module.get_function(f"product<{TILE}>")

a, b = np.random.default_rng(0).standard_normal((2, N, N), dtype=np.float32)
c = cp.empty((N, N), cp.float32)
product((N // TILE, N // TILE), (TILE, TILE), (cp.asarray(a), cp.asarray(b), c, np.int32(N)))

print("largest error:", np.abs(cp.asnumpy(c) - a @ b).max())
