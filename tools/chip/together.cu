// CTAs that read the same, turn by turn: what of it is L2 asked for? By together.py.
#include <cuda_pipeline.h>

// `how`: 0 loads, 1 loads a turn ahead, 2 copies to shared memory, 3 copies a turn ahead. A turn is `each` pieces of 2 KB, which the next
// `sharing` CTAs read, too; every other piece, if `mixed`, those CTAs do whose numbers are equal modulo 8. Of a line `bytes` are read in
// a turn, and lie in rows of `pitch` bytes of shared memory.
extern "C" __global__ void together(const char *a, float *out, int how, int turns, int each, int mixed, int sharing, int bytes, int pitch,
                                    int compute, long range) {
    extern __shared__ __align__(128) char space[];
    int t = threadIdx.x, lanes = bytes / 16;
    const char *base = a + blockIdx.x / sharing * range;
    const char *other = a + (100L << 20) + (blockIdx.x / 64 * 8 + blockIdx.x % 8) * range;
    long at = bytes == 128 ? t * 16L : t / lanes * 4096L + t % lanes * 16, step = bytes == 128 ? 2048 : bytes;
    int to = t / 8 * pitch + t % 8 * 16;
    float f = t;
    float4 v = make_float4(0, 0, 0, 0), w;
    auto from = [&](int i, int k) { return (mixed && k % 2 ? other : base) + at + ((long)i * each + k) * step; };
    auto load = [&](int i) {
        for (int k = 0; how < 2 && k < each; k++) v = *(const float4 *)from(i, k);
        for (int k = 0; how >= 2 && k < each; k++) __pipeline_memcpy_async(space + (i % 2 * each + k) * 16 * pitch + to, from(i, k), 16);
        __pipeline_commit();
    };
    if (how % 2) load(0);
    for (int i = 0; i < turns; i++) {
        __syncthreads();
        w = v;
        if (how % 2 == 0) load(i), w = v;
        else if (i + 1 < turns) load(i + 1);
        else __pipeline_commit();
        if (how % 2) __pipeline_wait_prior(1);
        else __pipeline_wait_prior(0);
        __syncthreads();
        f += how < 2 ? w.x + w.y + w.z + w.w : *(float *)(space + i % 2 * each * 16 * pitch + to);
        for (int k = 0; k < compute; k++) f = f * 1.0001f + 0.5f;
    }
    out[blockIdx.x * 128 + t] = f;
}
