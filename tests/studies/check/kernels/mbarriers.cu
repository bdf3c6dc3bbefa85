// Mistakes with mbarriers and bulk copies; -D FIXED is right.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cstdint>
namespace cg = cooperative_groups;

extern "C" __global__ void one_arrival_too_few(const int *in, int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
#ifdef FIXED
    if (threadIdx.x == 0) init(&bar, blockDim.x);
#else
    if (threadIdx.x == 0) init(&bar, blockDim.x + 1);
#endif
    __syncthreads();
    for (int i = 0; i < in[2]; i++) bar.arrive_and_wait();
    out[threadIdx.x] = in[threadIdx.x];
}

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
