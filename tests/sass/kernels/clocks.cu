// Kernels that read the clock, and save what they find.

typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u32 clk()
{
    u32 t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory");
    return t;
}

// Each warp saves the clock before each of its dependent loads.
extern "C" __global__ void chase(u32 *out, const u32 *chain, int reads)
{
    const u32 warp = threadIdx.x / 32, warps = blockDim.x / 32;
    u32 *mine = out + (blockIdx.x * warps + warp) * reads;
    u32 p = chain[threadIdx.x];
    for (int i = 0; i < reads; ++i) {
        const u32 t = clk();
        p = chain[p + warp];
        if (threadIdx.x % 32 == 0) mine[i] = t;
        if (p == 1000) mine[i] = 0;
    }
}

// Lanes of a warp part, and read the clock on each way.
extern "C" __global__ void parting(u32 *out, const u32 *chain)
{
    const u32 t0 = clk();
    u32 t1 = 0, t2 = 0;
    if (threadIdx.x % 32 < 5) {
        t1 = clk() + chain[threadIdx.x];
        t2 = clk();
    } else if (threadIdx.x % 32 < 9) {
        t1 = clk();
        __syncwarp(0x1e0);
        t2 = clk();
    } else {
        t1 = clk();
    }
    const u32 t3 = clk();
    u32 *mine = out + 4 * threadIdx.x;
    mine[0] = t0;
    mine[1] = t1;
    mine[2] = t2;
    mine[3] = t3;
}

// Every word of both clocks, in the order of the reads.
extern "C" __global__ void words(u64 *out)
{
    u32 lo, hi, timer_lo, timer_hi;
    u64 timer;
    const u64 t = clock64();
    asm volatile("mov.u32 %0, %%clock;" : "=r"(lo) :: "memory");
    asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(hi) :: "memory");
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(timer) :: "memory");
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(timer_lo) :: "memory");
    asm volatile("mov.u32 %0, %%globaltimer_hi;" : "=r"(timer_hi) :: "memory");
    out[0] = t;
    out[1] = lo;
    out[2] = hi;
    out[3] = timer;
    out[4] = timer_lo;
    out[5] = timer_hi;
}

// Waits for the clock.
extern "C" __global__ void spin(u64 *out, u32 *rounds, int cycles)
{
    const u64 from = clock64();
    u32 n = 0;
    while (clock64() < from + cycles) ++n;
    out[blockIdx.x * blockDim.x + threadIdx.x] = clock64() - from;
    rounds[blockIdx.x * blockDim.x + threadIdx.x] += n;
}

// Stores to an element that the clock chooses.
extern "C" __global__ void scatter(u32 *out, int places)
{
    out[clk() / 16 % places] = 1;
}

__device__ u32 launches;

// Changes its arguments and a variable in place.
extern "C" __global__ void adds(u32 *total, u32 *before, u32 *out)
{
    const u32 t = clk();
    total[threadIdx.x] += 1;
    if (threadIdx.x == 0) *before = atomicAdd(&launches, 1u);
    out[threadIdx.x] = clk() - t;
}

// CTA 0 looks at a word and at the clock until CTA 1 has stored.
extern "C" __global__ void waits(volatile u32 *flag, u32 *out, const u32 *work)
{
    if (blockIdx.x == 0) {
        const u32 first = clk();
        u32 t;
        do t = clk(); while (*flag == 0);
        if (threadIdx.x == 0) {
            out[0] = first;
            out[1] = t;
            out[2] = clk();
        }
    } else {
        u32 x = threadIdx.x;
        for (int i = 0; i < 300; ++i) x = work[x % 64];
        __threadfence();
        if (threadIdx.x == 0) {
            out[3] = clk() + x;
            *flag = 1;
        }
    }
}

extern "C" __global__ void prints(const u32 *chain)
{
    const u32 t = clk();
    const u32 x = chain[threadIdx.x];
    if (threadIdx.x == 0) printf("%u cycles to load %u\n", clk() - t, x);
}

extern "C" __global__ void seldom(u32 *out, int n)
{
    for (int i = 3; i < n; ++i) {
        out[threadIdx.x] = clk();
        __syncthreads();
    }
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2) mates(u32 *out)
{
    const u32 t0 = clk();
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    const u32 t1 = clk();
    u32 *mine = out + 2 * ((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    if (threadIdx.x % 32 == 0) {
        mine[0] = t0;
        mine[1] = t1;
    }
}
#endif
