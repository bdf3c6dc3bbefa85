// The same with piece p of row r where p XOR r % 8 was: no access has a conflict.
extern "C" __global__ void transpose_swizzled(const float4 *in, float *out)
{
    __shared__ float4 tile[32 * 8];
    const int t = threadIdx.x;

    int row = t / 8, piece = t % 8;
    tile[row * 8 + (piece ^ row % 8)] = in[t];
    __syncthreads();

    row = t % 32, piece = t / 32;
    const float4 four = tile[row * 8 + (piece ^ row % 8)];
    out[(4 * piece + 0) * 32 + row] = four.x;
    out[(4 * piece + 1) * 32 + row] = four.y;
    out[(4 * piece + 2) * 32 + row] = four.z;
    out[(4 * piece + 3) * 32 + row] = four.w;
}
