// Lanes of a warp among each other: shuffles, votes, matches, reductions, cooperative groups.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

#define OUT(e) out[n * k++ + t] = (int)(e)
#define ALL 0xffffffff

extern "C" __global__ void shuffles(int *out, const int *in, double *wide, int n) {
    int t = threadIdx.x, x = in[t], k = 0;
    OUT(__shfl_sync(ALL, x, 5)); OUT(__shfl_sync(ALL, x, t + 1, 8)); OUT(__shfl_up_sync(ALL, x, 3)); OUT(__shfl_down_sync(ALL, x, 2, 16));
    OUT(__shfl_xor_sync(ALL, x, 7)); OUT(__shfl_sync(ALL, x, x & 31));
    wide[t] = __shfl_xor_sync(ALL, (double)x, 1) + __shfl_down_sync(ALL, (long long)x * x, 1);
    if (t & 1) { OUT(__shfl_sync(0xaaaaaaaa, x, 9)); OUT(__shfl_down_sync(0xaaaaaaaa, x, 2)); }
}

extern "C" __global__ void votes(int *out, const int *in, int n) {
    int t = threadIdx.x, x = in[t], k = 0, same;
    OUT(__ballot_sync(ALL, x & 1)); OUT(__any_sync(ALL, x == 7)); OUT(__all_sync(ALL, x < 5000)); OUT(__match_any_sync(ALL, x & 3));
    OUT(__match_all_sync(ALL, x >> 20, &same)); OUT(same); OUT(__activemask()); OUT(__match_any_sync(ALL, (long long)(x % 5) << 40));
    if (t & 1) { OUT(__ballot_sync(0xaaaaaaaa, x & 2)); OUT(__popc(__activemask())); }
    k = 10;
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    OUT(__popc(below & __ballot_sync(ALL, x > 0)));
    OUT(__syncthreads_count(x & 1)); OUT(__syncthreads_and(x < 100)); OUT(__syncthreads_or(x == in[3]));
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reductions(int *out, const int *in, int n) {
    int t = threadIdx.x, x = in[t], k = 0;
    OUT(__reduce_add_sync(ALL, x)); OUT(__reduce_min_sync(ALL, x)); OUT(__reduce_max_sync(ALL, (unsigned)x));
    OUT(__reduce_and_sync(ALL, (unsigned)x)); OUT(__reduce_or_sync(ALL, (unsigned)x)); OUT(__reduce_xor_sync(ALL, (unsigned)x));
    if (t % 32 % 3 == 0) OUT(__reduce_add_sync(0x49249249u, x));
}
#endif

extern "C" __global__ void groups(int *out, const int *in, float *sums, int n) {
    int t = threadIdx.x, x = in[t], k = 0;
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto four = cg::tiled_partition<4>(warp);
    OUT(cg::reduce(warp, x, cg::plus<int>())); OUT(cg::reduce(four, x, cg::greater<int>())); OUT(cg::inclusive_scan(warp, x));
    OUT(cg::exclusive_scan(four, x, cg::plus<int>())); OUT(four.shfl(x, 2)); OUT(four.meta_group_rank()); OUT(warp.ballot(x > 3));
    OUT(warp.match_any(x & 7));
    sums[t] = cg::reduce(warp, (float)x * 0.5f, cg::plus<float>());
    if (x & 1) {
        auto together = cg::coalesced_threads();
        OUT(together.thread_rank()); OUT(cg::reduce(together, x, cg::plus<int>())); OUT(together.shfl(x, 0));
    }
    k = 11;
    auto alike = cg::labeled_partition(warp, x % 3);
    OUT(alike.size()); OUT(cg::reduce(alike, x, cg::less<int>()));
    auto two = cg::binary_partition(warp, x > 50);
    OUT(two.num_threads());
    block.sync();
    OUT(block.thread_rank() + 1000 * block.size());
}

#if __CUDA_ARCH__ >= 800
// Their barriers are in shared memory that the system reserves.
extern "C" __global__ void large_groups(int *out, const int *in, int n) {
    __shared__ int kept[128];
    auto block = cg::this_thread_block();
    int t = block.thread_rank(), x = in[t], k = 0;
    kept[t] = x;
    auto two = cg::tiled_partition<64>(block);
    auto four = cg::tiled_partition<128>(block);
    OUT(cg::reduce(two, x, cg::plus<int>())); OUT(cg::reduce(four, x, cg::greater<int>())); OUT(cg::exclusive_scan(two, x));
    OUT(two.shfl(x, 33)); OUT(two.any(x == in[70])); OUT(kept[t ^ 64]);
    block.sync();
    kept[t] = two.thread_rank();
    two.sync();
    OUT(kept[t ^ 32]);
}
#endif

extern "C" __global__ void whole_grid(int *out, const int *in, int n) {
    auto grid = cg::this_grid();
    int t = grid.thread_rank(), k = 1;
    out[t] = in[t] + grid.size() * grid.is_valid();
    grid.sync();
    OUT(out[63 - t]);
    grid.sync();
    OUT(grid.num_threads());
}
