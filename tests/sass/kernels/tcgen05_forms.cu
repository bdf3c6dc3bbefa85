// D[128 x 64] by forms of tcgen05.mma: a sparse A, weight-stationary products, and an A that shifts; and mistakes.
#include "tcgen05.cuh"

enum Form { SPARSE, STATIONARY, SHIFTED };

__device__ void wait(uint64_t* barrier) {
    asm volatile("{ .reg .pred p; AGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN_%=; }"
                 ::"r"(at(barrier)) : "memory");
}

// `given`: two words of metadata, or eight words of A, for each lane. The columns of D begin at 0, those at 64.
template <Form F, bool Waits = true, bool Commits = true> __device__ void product(
    const uint16_t* a, const uint16_t* b, const uint32_t* given, float* d, uint32_t instruction, uint64_t mask) {
    constexpr int COLUMNS = 128, DEPTH = F == SPARSE ? 2 * K : K;
    __shared__ alignas(128) uint16_t shared_a[128 * K], shared_b[N * DEPTH];
    __shared__ uint64_t done;
    __shared__ uint32_t columns;
    const int warp = threadIdx.x / 32;
    place(shared_a, a, 128);
    for (int i = threadIdx.x; i < N * DEPTH; i += blockDim.x)
        shared_b[i % DEPTH / 8 * N * 8 + i / DEPTH * 8 + i % 8] = b[i];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&done)));
    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                     ::"r"(at(&columns)), "n"(COLUMNS));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t tensor = columns, more = tensor + N;
    for (int k = 0; k < (F == SPARSE ? 2 : F == SHIFTED ? 8 : 0); k++)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
                     ::"r"(more + (warp << 21) + k), "r"(given[threadIdx.x * (F == SPARSE ? 2 : 8) + k]) : "memory");
    if (Waits) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint64_t left = matrix(at(shared_a), 128 * 16, 128), right = matrix(at(shared_b), N * 16, 128);
    if (threadIdx.x == 0) {
        if (F == SPARSE)
            for (int adds = 0; adds < 2; adds++)
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;"
                             "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p; }"
                             ::"r"(tensor), "l"(left), "l"(right), "r"(more), "r"(instruction | adds), "r"(adds)
                             : "memory");
        if (F == STATIONARY) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
                         "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [%0], %1, %2, %3, p; }"
                         ::"r"(tensor), "l"(left), "l"(right), "r"(instruction), "r"(0) : "memory");
            asm volatile("{ .reg .pred p; setp.eq.b32 p, %4, %4;"
                         "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::lastuse [%0], %1, %2, %3, p, %5; }"
                         ::"r"(tensor), "l"(left), "l"(right), "r"(instruction), "r"(1), "l"(mask) : "memory");
        }
        if (F == SHIFTED) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, %4;"
                         "tcgen05.mma.cta_group::1.kind::f16.ashift [%0], [%1], %2, %3, p; }"
                         ::"r"(tensor), "r"(more), "l"(right), "r"(instruction), "r"(0) : "memory");
            asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(more) : "memory");
            asm volatile("{ .reg .pred p; setp.eq.b32 p, %4, %4;"
                         "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
                         ::"r"(tensor), "r"(more), "l"(right), "r"(instruction), "r"(0) : "memory");
            if (!Commits) asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(tensor) : "memory");
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                     ::"r"(at(&done)) : "memory");
    }
    if (Commits) wait(&done);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int n = 0; n < N; n++) {
        float r;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];"
                     : "=f"(r) : "r"(tensor + (warp << 21) + n) : "memory");
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        d[threadIdx.x * N + n] = r;
    }
    if (!Commits) wait(&done);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tensor), "n"(COLUMNS) : "memory");
}

#define KERNEL(name, ...) \
    extern "C" __global__ void name(const uint16_t* a, const uint16_t* b, const uint32_t* given, float* d, \
                                    uint32_t instruction, uint64_t mask) { \
        product<__VA_ARGS__>(a, b, given, d, instruction, mask); \
    }
KERNEL(sparse, SPARSE)
KERNEL(stationary, STATIONARY)
KERNEL(shifted, SHIFTED)
KERNEL(sparse_unstored, SPARSE, false)
KERNEL(shifted_unwaited, SHIFTED, true, false)
