// Mistakes with mbarriers, each with its corrected twin.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cstdint>
namespace cg = cooperative_groups;

#define ARRIVALS(name, lacking)                                                                                        \
    extern "C" __global__ void name(const int *in, int *out) {                                                         \
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;                                                        \
        if (threadIdx.x == 0) init(&bar, blockDim.x + lacking);                                                        \
        __syncthreads();                                                                                               \
        for (int i = 0; i < in[2]; i++) bar.arrive_and_wait();                                                         \
        out[threadIdx.x] = in[threadIdx.x];                                                                            \
    }
ARRIVALS(one_arrival_too_few, 1)
ARRIVALS(all_arrivals, 0)

extern "C" __global__ void groups(const int *in, int *out) {
    __shared__ int s[128];
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<16>(block);
    const int t = block.thread_rank();
    s[t] = in[t];
    tile.sync();
    int v = s[tile.meta_group_rank() * 16 + (tile.thread_rank() ^ 5)];
    v = cg::reduce(tile, v, cg::plus<int>());
    v = cg::coalesced_threads().shfl(v, 0);
    block.sync();
    s[t] = v;
    block.sync();
    out[t] = s[127 - t];
}

#define TESTED(name, use)                                                                                              \
    extern "C" __global__ void name(const int *in, int *out) {                                                         \
        __shared__ uint64_t bar;                                                                                       \
        __shared__ int s[128];                                                                                         \
        if (threadIdx.x == 0) cuda::ptx::mbarrier_init(&bar, 128);                                                     \
        __syncthreads();                                                                                               \
        s[threadIdx.x] = in[threadIdx.x];                                                                              \
        const uint64_t token = cuda::ptx::mbarrier_arrive(&bar);                                                       \
        bool over = cuda::ptx::mbarrier_test_wait(&bar, token);                                                        \
        use;                                                                                                           \
        out[threadIdx.x] = s[127 - threadIdx.x];                                                                       \
    }
TESTED(tested, )
TESTED(tested_in_part, over = over && in[0]; asm volatile("" ::"r"((int)over)))
TESTED(tested_again, while (!cuda::ptx::mbarrier_test_wait(&bar, token)) {})
TESTED(tested_until_over, while (!over) over = cuda::ptx::mbarrier_test_wait(&bar, token))

#if __CUDA_ARCH__ >= 900
#define AT(p) (unsigned)__cvta_generic_to_shared(p)

__device__ __forceinline__ void made(uint64_t *bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(AT(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t *bar) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(AT(bar)) : "memory");
}

__device__ __forceinline__ void wait(uint64_t *bar, int parity) {
    int done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(AT(bar)), "r"(parity) : "memory");
    }
}

// Right: two producer warps take turns at three stages; one lane of each warp arrives for it, and nobody is accused.
extern "C" __global__ void right_ring(const int *in, int *out) {
    constexpr int STAGES = 3;
    __shared__ int s[STAGES][32];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x == 0) for (int k = 0; k < STAGES; k++) { made(&full[k], 1); made(&empty[k], 2); }
    __syncthreads();
    if (warp < 2) {
        for (int k = warp; k < 12; k += 2) {
            wait(&empty[k % STAGES], k / STAGES & 1 ^ 1);
            s[k % STAGES][lane] = in[32 * k + lane];
            if (k & 2) tile.sync(); else __syncwarp();
            if (lane == 0) arrive(&full[k % STAGES]);
        }
    } else {
        int sum = 0;
        for (int k = 0; k < 12; k++) {
            wait(&full[k % STAGES], k / STAGES & 1);
            sum += s[k % STAGES][31 - lane];
            if (lane == 5) arrive(&empty[k % STAGES]);  // loads are done when their warp goes on
        }
        out[threadIdx.x] = sum;
    }
}

// Right: a barrier between the stores and the arrival of one thread for all; half of a warp that is all that is left.
extern "C" __global__ void right_arrivals(const int *in, int *out) {
    __shared__ int s[64], half[16];
    __shared__ uint64_t bars[2];
    if (threadIdx.x == 0) { made(&bars[0], 1); made(&bars[1], 1); }
    __syncthreads();
    if (threadIdx.x < 64) {
        s[threadIdx.x] = in[threadIdx.x];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (threadIdx.x == 40) arrive(&bars[0]);
    } else if (threadIdx.x < 96) {
        if (threadIdx.x >= 80) return;
        half[threadIdx.x - 64] = in[threadIdx.x];
        __syncwarp(0xffff);
        if (threadIdx.x == 70) arrive(&bars[1]);
    } else {
        wait(&bars[0], 0);
        wait(&bars[1], 0);
        out[threadIdx.x] = s[127 - threadIdx.x] + s[127 - threadIdx.x + 32] + half[threadIdx.x % 16];
    }
}
#endif
