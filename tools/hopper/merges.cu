// Stores that merge in L1, and what lines that leave it take: kernels for the profiler.
typedef unsigned long long u64;
typedef unsigned u32;
template <int N> __device__ __forceinline__ void multiply(u32& x, u32 k) {  // some four cycles each
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(k), "r"(k) : "memory");
}
#define PUT(AT) asm volatile("st.global.u32 [%0], %1;" ::"l"(AT), "r"(x) : "memory");
// Halves of the sectors of L lines and their other halves, with WAIT multiplications between; each of `count` turns has lines of its own.
// HOW 0: A A', 1: A B A', 2: A C A'; B are other sectors of the lines of A, C other lines.
template <int L, int HOW, int WAIT> __device__ __forceinline__ void turns(u32* out, int count, char* big, u32 k) {
    const u32 l = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int PER = 32 / L, STEP = PER * 8 < 32 ? 32 : PER * 8;
    if (l >= PER * L) return;
    u32 x = k;
    char* p = big + (u64)warp * (1 << 24) + (l / PER) * 4096 + (l % PER) * 8;
#pragma unroll 1
    for (int i = 0; i < count; i++, p += 1 << 18) {
        PUT(p)
        multiply<WAIT>(x, k);
        if (HOW == 1) { PUT(p + STEP) multiply<WAIT>(x, k); }
        if (HOW == 2) { PUT(p + (1 << 17)) multiply<WAIT>(x, k); }
        PUT(p + 4)
        multiply<100>(x, k);
    }
    if (x == 0x12345677) out[0] = 1;
}
#define TURNS(L, HOW, WAIT) extern "C" __global__ void turns_##L##_##HOW##_##WAIT(u32* out, int count, char* big, u32 k) { turns<L, HOW, WAIT>(out, count, big, k); }
#define WAITS(L, HOW) TURNS(L, HOW, 0) TURNS(L, HOW, 1) TURNS(L, HOW, 2) TURNS(L, HOW, 4) TURNS(L, HOW, 8) TURNS(L, HOW, 13) TURNS(L, HOW, 40) TURNS(L, HOW, 100)
#define ORDERS(L) WAITS(L, 0) WAITS(L, 1) WAITS(L, 2)
ORDERS(2) ORDERS(4) ORDERS(8) ORDERS(16)
TURNS(10, 0, 0) TURNS(11, 0, 0) TURNS(12, 0, 0) TURNS(13, 0, 0) TURNS(14, 0, 0) TURNS(15, 0, 0)
TURNS(24, 0, 0) TURNS(25, 0, 0) TURNS(26, 0, 0) TURNS(27, 0, 0) TURNS(28, 0, 0) TURNS(29, 0, 0) TURNS(30, 0, 0) TURNS(31, 0, 0) TURNS(32, 0, 0)
// Half words of a product's results, as warpgroups hold them, into columns 4096 bytes apart: 128 rows by 256 columns of each CTA.
// ORDER 0: a row's two columns, then those of the row eight below; 1: a row and that eight below, column by column; 2: all upper
// rows first; 3: 16 bytes of each lane, whole sectors.
template <int ORDER> __device__ __forceinline__ void results(char* c, u32 k) {
    const u32 tid = threadIdx.x % 128, lane = tid % 32, row = threadIdx.x / 128 * 64 + tid / 32 * 16 + lane / 4;
    char* p = c + (u64)(blockIdx.x / 8) * 256 + (u64)(blockIdx.x % 8) * 256 * 4096;
    u32 x = k;
    auto put = [&](u32 r, u32 column) { asm volatile("st.global.u16 [%0], %1;" ::"l"(p + (u64)column * 4096 + 2 * r), "h"((unsigned short)x) : "memory"); };
    multiply<50>(x, k);
#pragma unroll
    for (int h = 0; h < (ORDER == 2 ? 2 : 1); h++)
#pragma unroll
        for (int w = 0; w < 256; w += 16) {
            const u32 column = w + 2 * (tid % 4);
            if (ORDER == 3) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p + (u64)(w + threadIdx.x / 16) * 4096 + threadIdx.x % 16 * 16), "r"(x) : "memory");
            if (ORDER == 2) { put(row + 8 * h, column); put(row + 8 * h, column + 1); put(row + 8 * h, column + 8); put(row + 8 * h, column + 9); }
#pragma unroll
            for (int j = 0; j < 16; j += 8) {
                if (ORDER == 0) { put(row, column + j); put(row, column + j + 1); put(row + 8, column + j); put(row + 8, column + j + 1); }
                if (ORDER == 1) { put(row + 8, column + j); put(row, column + j); put(row + 8, column + j + 1); put(row, column + j + 1); }
            }
        }
}
#define RESULTS(ORDER) extern "C" __global__ void results_##ORDER(u32* out, char* c, u32 k) { results<ORDER>(c, k); }
RESULTS(0) RESULTS(1) RESULTS(2) RESULTS(3)
// 64 times 512 bytes of each warp, one behind the other: every lane writes 16 bytes, or 8 of each 16.
template <int HALF> __device__ __forceinline__ void spread(char* c, u32 k) {
    char* p = c + ((u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 32768 + threadIdx.x % 32 * 16;
#pragma unroll 4
    for (int i = 0; i < 64; i++, p += 512) {
        if (HALF) asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(p), "r"(k) : "memory");
        else asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(k) : "memory");
    }
}
extern "C" __global__ void spread_0(u32* out, char* c, u32 k) { spread<0>(c, k); }
extern "C" __global__ void spread_1(u32* out, char* c, u32 k) { spread<1>(c, k); }
