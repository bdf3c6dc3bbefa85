// A 32x32 transpose through shared memory. PITCH is a row's floats: of 32 all lanes of a column meet in one bank.
#ifndef PITCH
#define PITCH 33
#endif

extern "C" __global__ void transpose(const float *in, float *out)
{
    __shared__ float tile[32 * PITCH];
    for (int row = threadIdx.y; row < 32; row += blockDim.y)
        tile[row * PITCH + threadIdx.x] = in[row * 32 + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += blockDim.y)
        out[row * 32 + threadIdx.x] = tile[threadIdx.x * PITCH + row];
}
