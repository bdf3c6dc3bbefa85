// A 4x4 transpose for a toy machine of 4 banks (run it with --set shared_memory.banks=4): 16 threads write rows and
// read columns. Straight, a column lies in one bank; with the column index XORed by the row, in four.

extern "C" __global__ void toy_transpose_plain(const float* in, float* out) {
    __shared__ float tile[16];
    const int x = threadIdx.x % 4, y = threadIdx.x / 4;
    tile[4 * y + x] = in[4 * y + x];
    __syncthreads();
    out[4 * y + x] = tile[4 * x + y];
}

extern "C" __global__ void toy_transpose_swizzled(const float* in, float* out) {
    __shared__ float tile[16];
    const int x = threadIdx.x % 4, y = threadIdx.x / 4;
    tile[4 * y + (x ^ y)] = in[4 * y + x];
    __syncthreads();
    out[4 * y + x] = tile[4 * x + (y ^ x)];
}
