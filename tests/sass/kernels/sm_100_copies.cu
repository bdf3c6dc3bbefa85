// Copies that sm_100 has and sm_90 lacks.
#include <cuda.h>
#include <cstdint>

__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void wait(uint32_t barrier) {
    asm volatile("{ .reg .pred p; AGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN_%=; }"
                 ::"r"(barrier) : "memory");
}

__device__ void expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(barrier), "r"(bytes) : "memory");
}

// out = in[rows, column:column + 32], then to[rows] = these
extern "C" __global__ void gather(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap to,
                                  const int* rows, int column, float* out) {
    __shared__ alignas(128) float tile[4 * 32];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        expect(at(&full), sizeof tile);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
            ::"r"(at(tile)), "l"(&in), "r"(column), "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(at(&full))
            : "memory");
    }
    __syncthreads();
    wait(at(&full));
    for (int i = threadIdx.x; i < 4 * 32; i += blockDim.x) out[i] = tile[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile(
            "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];"
            ::"r"(at(tile)), "l"(&to), "r"(column), "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
    }
}

// out = the bytes in shared memory of a box of 8 rows of 128 elements of 4 bits, `bytes` of which the mbarrier counts
extern "C" __global__ void nibbles(const __grid_constant__ CUtensorMap in, int bytes, int column, uint8_t* out, int size) {
    __shared__ alignas(1024) uint8_t tile[8 * 128];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        expect(at(&full), bytes);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            ::"r"(at(tile)), "l"(&in), "r"(column), "r"(0), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    wait(at(&full));
    for (int i = threadIdx.x; i < size; i += blockDim.x) out[i] = tile[i];
}

// Both CTAs of a pair load 4 rows each, and signal the mbarrier of the first one, which tells the second.
extern "C" __global__ void __cluster_dims__(2, 1, 1) pair(const __grid_constant__ CUtensorMap in, float* out) {
    __shared__ alignas(128) float tile[4 * 32];
    __shared__ uint64_t full;
    const uint32_t rank = blockIdx.x % 2;
    if (threadIdx.x == 0 && rank == 0) expect(at(&full), 2 * sizeof tile);
    asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    if (threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];"
            ::"r"(at(tile)), "l"(&in), "r"(0), "r"(4 * rank), "r"(at(&full) & 0xFEFFFFFF) : "memory");
    if (rank == 0) wait(at(&full));
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    for (int i = threadIdx.x; i < 4 * 32; i += blockDim.x) out[rank * 4 * 32 + i] = tile[i];
}

// Each CTA of a pair loads 4 rows for both, and the mbarrier of the first one counts all that comes to either.
extern "C" __global__ void __cluster_dims__(2, 1, 1) spread(const __grid_constant__ CUtensorMap in, float* out) {
    __shared__ alignas(128) float tile[8 * 32];
    __shared__ uint64_t full;
    const uint32_t rank = blockIdx.x % 2;
    if (threadIdx.x == 0 && rank == 0) expect(at(&full), 2 * sizeof tile);
    asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    if (threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%2, %3}], [%4], %5;"
            ::"r"(at(tile + 4 * 32 * rank)), "l"(&in), "r"(0), "r"(4 * rank), "r"(at(&full) & 0xFEFFFFFF),
              "h"(static_cast<uint16_t>(3)) : "memory");
    if (rank == 0) wait(at(&full));
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    for (int i = threadIdx.x; i < 8 * 32; i += blockDim.x) out[rank * 8 * 32 + i] = tile[i];
}

// Both CTAs expect the bytes of their own boxes at the mbarrier of the first one, in two rounds.
extern "C" __global__ void __cluster_dims__(2, 1, 1) expecting(const __grid_constant__ CUtensorMap in, float* out) {
    __shared__ alignas(128) float tile[4 * 32];
    __shared__ uint64_t full;
    const uint32_t rank = blockIdx.x % 2, barrier = at(&full) & 0xFEFFFFFF;
    if (threadIdx.x == 0 && rank == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(at(&full)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    for (int round = 0; round < 2; round++) {
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
        if (threadIdx.x == 0) {
            asm volatile(
                "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                "[%0], [%1, {%2, %3}], [%4];"
                ::"r"(at(tile)), "l"(&in), "r"(0), "r"(8 * round + 4 * rank), "r"(barrier) : "memory");
            asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;"
                         ::"r"(barrier), "r"(static_cast<uint32_t>(sizeof tile)) : "memory");
        }
        if (rank == 0)
            asm volatile("{ .reg .pred p; AGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN_%=; }"
                         ::"r"(at(&full)), "r"(round) : "memory");
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
        for (int i = threadIdx.x; i < 4 * 32; i += blockDim.x) out[(2 * round + rank) * 4 * 32 + i] = tile[i];
    }
}

extern "C" __global__ void wide(const uint32_t* in, uint32_t* out) {
    uint32_t r[8];
    asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                 : "l"(in + 8 * threadIdx.x));
    asm volatile("st.global.v8.b32 [%8], {%7, %6, %5, %4, %3, %2, %1, %0};"
                 ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]),
                 "l"(out + 8 * threadIdx.x) : "memory");
}
