// Columns of pixels by tensor maps of im2col: loaded with offsets, stored and reduced without, prefetched.
#include <cstdint>

__device__ uint32_t at(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

struct alignas(128) Map {
    char bytes[128];
};

#define LOAD(RANK, PLACE, OFFSETS) \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes" \
                 " [%0], [%1, " PLACE "], [%2], " OFFSETS ";" \
                 ::"r"(at(shared)), "l"(&map), "r"(at(&arrived)), "r"(c), "r"(w), "r"(h), "r"(z), "r"(n), \
                   "h"((uint16_t)off_w), "h"((uint16_t)off_h), "h"((uint16_t)off_z) : "memory")
#define STORE(OPERATION, RANK, PLACE) \
    asm volatile(OPERATION ".im2col_no_offs.bulk_group [%1, " PLACE "], [%0];" \
                 ::"r"(at(shared)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(z), "r"(n) : "memory")

extern "C" __global__ void load(const __grid_constant__ Map map, int rank, int c, int w, int h, int z, int n, int off_w,
                                int off_h, int off_z, int bytes, int all, uint8_t* out) {
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ uint64_t arrived;
    for (int i = threadIdx.x; i < all; i += blockDim.x) shared[i] = 0xee;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&arrived)));
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&arrived)), "r"(bytes));
        if (rank == 3) LOAD(3, "{%3, %4, %7}", "{%8}");
        if (rank == 4) LOAD(4, "{%3, %4, %5, %7}", "{%8, %9}");
        if (rank == 5) LOAD(5, "{%3, %4, %5, %6, %7}", "{%8, %9, %10}");
    }
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }"
                 ::"r"(at(&arrived)) : "memory");
    for (int i = threadIdx.x; i < all; i += blockDim.x) out[i] = shared[i];
}

// One column of an array of floats, which a second copy without offsets adds once more.
extern "C" __global__ void store(const __grid_constant__ Map map, int c, int w, int h, int n, const float* given,
                                 int count, int adds) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const int z = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) reinterpret_cast<float*>(shared)[i] = given[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%0, {%1, %2, %3, %4}], {%5, %5};"
                     ::"l"(&map), "r"(c), "r"(w), "r"(h), "r"(n), "h"((uint16_t)0));
        STORE("cp.async.bulk.tensor.4d.global.shared::cta", 4, "{%2, %3, %4, %6}");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        if (adds) STORE("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add", 4, "{%2, %3, %4, %6}");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
