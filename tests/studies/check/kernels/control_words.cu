// No fault in them. Lanes of a warp that part use the same registers for other things; results of tensor
// instructions go to memory at once; a load and an addition into one register stand beside each other.
#include <mma.h>
typedef unsigned u32;

extern "C" __global__ void sides(const u32 *in, u32 *out, u32 n)
{
    __shared__ u32 a[64], b[64];
    const u32 t = threadIdx.x;
    if (t & 8) {
        for (u32 i = 0; i < n; ++i) a[(t + 8 * i) & 63] = in[t * n + i];
    } else {
        for (u32 i = 0; i < n + 1; ++i) b[(t + 8 * i) & 63] = in[t + i * 64] + 1;
    }
    __syncthreads();
    out[t] = a[t] + b[t ^ 1];
}

extern "C" __global__ void cases(const u32 *in, u32 *out, u32 n)
{
    const u32 t = threadIdx.x;
    u32 v = in[t];
    for (u32 i = 0; i < n; ++i) {
        switch (v & 7) {
        case 0: v = in[(v + i) & 1023] + 1; break;
        case 1: v = v * 5 + in[t + i]; break;
        case 2: v ^= out[t + 64]; break;
        case 3: v = __float_as_uint(__uint_as_float(v) * 1.5f) >> 3; break;
        case 4: v /= 3; break;
        default: v = (v << 1) + in[i];
        }
        if (v > 0xfffff) break;
    }
    out[t] = v;
}

extern "C" __global__ void chosen(const u32 *in, u32 *out, u32 n)
{
    __shared__ u32 s[64];
    const u32 t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    u32 v;
    if (t == 0) {
        v = 0;
        for (u32 i = 0; i < 4; ++i) v += s[i];
        s[60] = v;
    } else {
        v = s[61];
    }
    __syncthreads();
    out[t] = v + s[t / 32] * n;
}

extern "C" __global__ void product(const u32 *in, u32 *out, u32 n)
{
    using namespace nvcuda::wmma;
    __shared__ alignas(32) float s[256];
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    load_matrix_sync(a, (const half *)in, 16);
    load_matrix_sync(b, (const half *)in + 256, 16);
    mma_sync(c, a, b, c);
    store_matrix_sync((float *)out, c, 16, mem_row_major);
    mma_sync(c, b.num_elements ? a : a, b, c);
    store_matrix_sync(s, c, 16, mem_row_major);
    __syncthreads();
    out[512 + threadIdx.x] = __float_as_uint(s[threadIdx.x]) + n;
}

extern "C" __global__ void transposed(const u32 *in, u32 *out)
{
    __shared__ alignas(128) u32 s[512];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 512; i += 64) s[i] = in[i];
    __syncthreads();
    const u32 p = (u32)__cvta_generic_to_shared(s) + (t & 31) * 16;
    u32 b[4], a[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(p + 512));
    for (int i = 0; i < 4; ++i) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(b[i]));
    float d[4] = {};
    for (int i = 0; i < 4; i += 2)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i]), "r"(b[i + 1]));
    for (int i = 0; i < 4; ++i) out[i * 64 + t] = __float_as_uint(d[i]);
}
