// Barriers: those of the CTA by number and count, and mbarrier as C++ and as assembly.

#include <cuda/barrier>

extern "C" __global__ void named(int *out, const int *in, int pairs) {
    __shared__ int s[128];
    int t = threadIdx.x, warp = t / 32, r;
    s[t] = in[t];
    // Warps 0 and 1 meet at one barrier, 2 and 3 at another: the number is in a register.
    asm volatile("bar.sync %0, 64;" ::"r"(1 + warp / pairs) : "memory");
    r = s[t ^ 32];
    asm volatile("bar.sync %0, %1;" ::"r"(3 + warp / pairs), "r"(32 * pairs) : "memory");
    s[t] = r + 1;
    if (warp == 0) asm volatile("bar.arrive 5, 64;" ::: "memory");
    else if (warp == 1) { asm volatile("bar.sync 5, 64;" ::: "memory"); r += s[t - 32]; }
    asm volatile("barrier.sync %0;" ::"r"(6) : "memory");
    int all, count;
    asm volatile("{.reg .pred p, q; setp.gt.s32 p, %1, 0; bar.red.and.pred q, 7, p; selp.s32 %0, 1, 0, q;}" : "=r"(all) : "r"(r) : "memory");
    asm volatile("{.reg .pred p; setp.gt.s32 p, %1, 500; barrier.red.popc.u32 %0, 8, %2, p;}" : "=r"(count) : "r"(in[t]), "r"(128) : "memory");
    out[t] = r + 10000 * all + 100000 * count;
}

extern "C" __global__ void early(int *out, const int *in) {
    int t = threadIdx.x;
    if (in[t] < 0) return;
    __syncthreads();
    out[t] = in[t] + __syncthreads_count(1);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void arrivals(int *out, const int *in, int rounds) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ Barrier barrier;
    __shared__ int s[128];
    int t = threadIdx.x, n = blockDim.x;
    if (t == 0) init(&barrier, n);
    __syncthreads();
    for (int k = 0; k < rounds; k++) {
        cuda::memcpy_async(s + t, in + k * n + t, 4, barrier);
        auto token = barrier.arrive();
        barrier.wait(std::move(token));
        out[k * n + t] = s[n - 1 - t];
        barrier.arrive_and_wait();
    }
}

// Warp 0 produces, the others consume; two barriers, phases told apart by parity.
extern "C" __global__ void producer(int *out, const int *in, int rounds) {
    __shared__ unsigned long long full, empty;
    __shared__ int s[32];
    unsigned f = (unsigned)__cvta_generic_to_shared(&full), e = (unsigned)__cvta_generic_to_shared(&empty);
    int t = threadIdx.x, sum = 0;
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(f) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(e), "r"(blockDim.x - 32) : "memory");
    }
    __syncthreads();
    for (int k = 0; k < rounds; k++) {
        unsigned long long state;
        if (t < 32) {
            if (k) asm volatile("{.reg .pred p; W: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra W;}" ::"r"(e), "r"(k - 1 & 1) : "memory");
            s[t] = in[32 * k + t];
            asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(f) : "memory");
        } else {
            asm volatile("{.reg .pred p; V: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra V;}" ::"r"(f), "r"(k & 1) : "memory");
            sum += s[t * 7 & 31];
            asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(e) : "memory");
        }
    }
    out[t] = sum;
}

extern "C" __global__ void counted(int *out, const int *in) {
    __shared__ unsigned long long b;
    __shared__ __align__(16) int s[256];
    unsigned a = (unsigned)__cvta_generic_to_shared(&b), base = (unsigned)__cvta_generic_to_shared(s), pending;
    int t = threadIdx.x;
    unsigned long long state;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(a) : "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(base + 16 * t), "l"(in + 4 * t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(a) : "memory");
    asm volatile("{.reg .pred p; A: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra A;}" ::"r"(a) : "memory");
    out[t] = s[255 - t];
    // Lane after lane finds one less to come.
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(a) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
    out[64 + t] = pending;
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(a) : "memory");
}

extern "C" __global__ void dropping(int *out) {
    // Each warp leaves after as many phases as its number says: every phase takes fewer.
    __shared__ unsigned long long b;
    unsigned a = (unsigned)__cvta_generic_to_shared(&b);
    int t = threadIdx.x, phases = 0;
    unsigned long long state;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(a), "r"(blockDim.x) : "memory");
    __syncthreads();
    for (; phases < t / 32; phases++) {
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");
        asm volatile("{.reg .pred p; D: mbarrier.test_wait.shared.b64 p, [%0], %1; @!p bra D;}" ::"r"(a), "l"(state) : "memory");
    }
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");
    out[t] = phases;
}
#endif
