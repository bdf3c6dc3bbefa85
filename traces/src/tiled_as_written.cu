// The tiled product as it was published: the kernels with dynamic shared memory take the block's size at run time, so
// the compiler can neither unroll the inner product nor turn its indices into offsets. Beside them the baseline
// without shared memory, and the padded static kernel with its slip: it loads N's tile from M and computes M M.

extern __shared__ float tiles[];

extern "C" __global__ void tiled_none(const float* m, const float* n, float* p, int width) {
    const int row = 16 * blockIdx.y + threadIdx.y, column = 16 * blockIdx.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < width; ++k) sum += m[row * width + k] * n[k * width + column];
    p[row * width + column] = sum;
}

extern "C" __global__ void written_straight(const float* m, const float* n, float* p, int width, int size) {
    float* ms = tiles;
    float* ns = tiles + size * size;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = size * blockIdx.y + ty, column = size * blockIdx.x + tx;
    float sum = 0;
    for (int tile = 0; tile < width / size; ++tile) {
        ms[ty * size + tx] = m[row * width + tile * size + tx];
        ns[ty * size + tx] = n[(tile * size + ty) * width + column];
        __syncthreads();
        for (int k = 0; k < size; ++k) sum += ms[ty * size + k] * ns[k * size + tx];
        __syncthreads();
    }
    p[row * width + column] = sum;
}

extern "C" __global__ void written_conflict(const float* m, const float* n, float* p, int width, int size) {
    float* ms = tiles;
    float* ns = tiles + size * size;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = size * blockIdx.x + tx, y = size * blockIdx.y + ty;
    float sum = 0;
    for (int tile = 0; tile < width / size; ++tile) {
        ms[tx * size + ty] = m[x * width + tile * size + ty];
        ns[tx * size + ty] = n[(tile * size + tx) * width + y];
        __syncthreads();
        for (int k = 0; k < size; ++k) sum += ms[tx * size + k] * ns[k * size + ty];
        __syncthreads();
    }
    p[x * width + y] = sum;
}

extern "C" __global__ void written_padded(const float* m, const float* n, float* p, int width, int size) {
    const int pitch = size + 1;
    float* ms = tiles;
    float* ns = tiles + size * pitch;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = size * blockIdx.x + tx, y = size * blockIdx.y + ty;
    float sum = 0;
    for (int tile = 0; tile < width / size; ++tile) {
        ms[tx * pitch + ty] = m[x * width + tile * size + ty];
        ns[tx * pitch + ty] = n[(tile * size + tx) * width + y];
        __syncthreads();
        for (int k = 0; k < size; ++k) sum += ms[tx * pitch + k] * ns[k * pitch + ty];
        __syncthreads();
    }
    p[x * width + y] = sum;
}

extern "C" __global__ void written_padded_slip(const float* m, const float* n, float* p, int width) {
    __shared__ float ms[16][17], ns[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = 16 * blockIdx.x + tx, y = 16 * blockIdx.y + ty;
    float sum = 0;
    for (int tile = 0; tile < width / 16; ++tile) {
        ms[tx][ty] = m[x * width + 16 * tile + ty];
        ns[tx][ty] = m[(16 * tile + tx) * width + y];  // the slip: n is never read
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += ms[tx][k] * ns[k][ty];
        __syncthreads();
    }
    p[x * width + y] = sum;
}
