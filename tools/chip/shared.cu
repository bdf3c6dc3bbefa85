// CTAs that read the same from L2 as fast as they can: what of it is L2 asked for? By shared.py.
// The next `sharing` CTAs read the same `bytes`, each `lag` cycles later than the one before. If it `meets`, a CTA waits for its warps each 32 KiB.
extern "C" __global__ void __launch_bounds__(512) shared_stream(const char *a, float *out, int sharing, int bytes, int lag, int meets) {
    int t = threadIdx.x;
    const char *base = a + (long)(blockIdx.x / sharing) * bytes + t * 16;
    long until = clock64() + (long)lag * (blockIdx.x % sharing);
    while (clock64() < until) {}
    float4 s = make_float4(0, 0, 0, 0);
    for (int at = 0; at < bytes; at += 4 * 8192) {
        float4 v[4];
        #pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                         : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w) : "l"(base + at + k * 8192));
        #pragma unroll
        for (int k = 0; k < 4; k++) s.x += v[k].x + v[k].y, s.z += v[k].z + v[k].w;
        if (meets) __syncthreads();
    }
    out[blockIdx.x * 512 + t] = s.x + s.z;
}
