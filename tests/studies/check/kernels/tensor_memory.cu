// D[128 x 64] = 2 A[128 x 16] B[64 x 16]^T in tensor memory, right and with one mistake each.
#include "../../../sass/kernels/tcgen05.cuh"

enum Fault {
    RIGHT, LEAKS, READ_AFTER_DEALLOC, NO_COMMIT, OTHER_BARRIER, NEXT_PHASE, NO_WAIT, NO_PROXY_FENCE, NO_STORE_WAIT,
    EARLY_DEALLOC, OVERWRITES_A, READS_NEXT, RIGHT_TWICE, RIGHT_STORED, RIGHT_ELECTED,
};

__device__ void wait(uint64_t* barrier, int parity) {
    asm volatile("{ .reg .pred p; AGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN_%=; }"
                 ::"r"(at(barrier)), "r"(parity) : "memory");
}

__device__ void multiply(uint32_t tensor, uint64_t left, uint64_t right, uint32_t instruction, int adds) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                 ::"r"(tensor), "l"(left), "l"(right), "r"(instruction), "r"(adds) : "memory");
}

__device__ void commit(uint64_t* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(barrier)) : "memory");
}

__device__ void give_back(uint32_t tensor) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tensor), "n"(N) : "memory");
}

__device__ void out(float* d, uint32_t tensor, int warp) {
    for (int n = 0; n < N; n += 4) {
        float r[4];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]) : "r"(tensor + (warp << 21) + n) : "memory");
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int j = 0; j < 4; j++) d[threadIdx.x * N + n + j] = r[j];
    }
}

// Ones in all columns of D, to which products are added.
__device__ void ones(uint32_t tensor, int warp) {
    for (int n = 0; n < N; n++)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
                     ::"r"(tensor + (warp << 21) + n), "f"(1.0f) : "memory");
}

template <Fault F> __device__ void product(const uint16_t* a, const uint16_t* b, float* d, uint32_t instruction) {
    __shared__ alignas(128) uint16_t shared_a[128 * K], shared_b[N * K];
    __shared__ uint64_t done[2], stored;
    __shared__ uint32_t columns;
    const int warp = threadIdx.x / 32;
    const bool stores = F == NO_STORE_WAIT || F == RIGHT_STORED || F == RIGHT_ELECTED;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(at(&stored)));
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&done[i])));
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(at(&columns)), "n"(N));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    place(shared_a, a, 128);
    place(shared_b, b, N);
    if (F != NO_PROXY_FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t tensor = columns;
    if (stores) {
        ones(tensor, warp);
        if (F != NO_STORE_WAIT) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
        if (F == RIGHT_ELECTED) {  // a lane of each warp arrives for it
            if (threadIdx.x % 32 == 7)
                asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&stored)) : "memory");
            wait(&stored, 0);
        } else {
            __syncthreads();
        }
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    }
    const uint64_t left = matrix(at(shared_a), 128 * 16, 128), right = matrix(at(shared_b), N * 16, 128);
    if (threadIdx.x == 0) {
        for (int adds = 0; adds < 2; adds++) multiply(tensor, left, right, instruction, adds || stores);
        if (F != NO_COMMIT) commit(&done[F == OTHER_BARRIER]);
    }
    if (F == OVERWRITES_A) shared_a[threadIdx.x] = 0;
    if (F == EARLY_DEALLOC && warp == 0) give_back(tensor);
    if (F != NO_WAIT && F != EARLY_DEALLOC) wait(&done[0], F == NEXT_PHASE);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (F == READ_AFTER_DEALLOC) {
        if (warp == 0) give_back(tensor);
        __syncthreads();
    }
    if (F != EARLY_DEALLOC) out(d, tensor, warp);
    if (F == READS_NEXT || F == RIGHT_TWICE) {  // a second product into D, which other warps may still read
        if (F == RIGHT_TWICE) {
            asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
            __syncthreads();
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        }
        if (threadIdx.x == 0) {
            multiply(tensor, left, right, instruction, 0);
            commit(&done[0]);
            multiply(tensor, left, right, instruction, 1);
            commit(&done[1]);
        }
        wait(&done[1], 0);
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        out(d, tensor, warp);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (F != LEAKS && F != READ_AFTER_DEALLOC && F != EARLY_DEALLOC && warp == 0) give_back(tensor);
}

// Rows of A to tensor memory and out of it. `fences`: before the copy; `waits`: for it.
__device__ void copied(const uint16_t* a, float* d, bool fences, bool waits) {
    __shared__ alignas(128) uint16_t shared_a[128 * K];
    __shared__ uint64_t done;
    __shared__ uint32_t columns;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&done)));
    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(at(&columns)), "n"(N));
    place(shared_a, a, 128);
    if (fences) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const uint32_t tensor = columns;
    if (threadIdx.x == 0) {
        for (int n = 0; n < N; n += 8)
            asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;"
                         ::"r"(tensor + n), "l"(matrix(at(shared_a), 128 * 16, 128)) : "memory");
        commit(&done);
    }
    if (waits) wait(&done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    out(d, tensor, warp);
    if (!waits) wait(&done, 0);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0) give_back(tensor);
}

#define COPIES(name, fences, waits) \
    extern "C" __global__ void name(const uint16_t* a, const uint16_t*, float* d, uint32_t) { \
        copied(a, d, fences, waits); \
    }
COPIES(right_copied, true, true)
COPIES(copied_unfenced, false, true)
COPIES(copied_unwaited, true, false)

#define KERNEL(name, fault) \
    extern "C" __global__ void name(const uint16_t* a, const uint16_t* b, float* d, uint32_t instruction) { \
        product<fault>(a, b, d, instruction); \
    }
KERNEL(right, RIGHT)
KERNEL(right_twice, RIGHT_TWICE)
KERNEL(right_stored, RIGHT_STORED)
KERNEL(right_elected, RIGHT_ELECTED)
KERNEL(leaks, LEAKS)
KERNEL(read_after_dealloc, READ_AFTER_DEALLOC)
KERNEL(no_commit, NO_COMMIT)
KERNEL(other_barrier, OTHER_BARRIER)
KERNEL(next_phase, NEXT_PHASE)
KERNEL(no_wait, NO_WAIT)
KERNEL(no_proxy_fence, NO_PROXY_FENCE)
KERNEL(no_store_wait, NO_STORE_WAIT)
KERNEL(early_dealloc, EARLY_DEALLOC)
KERNEL(overwrites_a, OVERWRITES_A)
KERNEL(reads_next, READS_NEXT)
