// Order without barriers for all: flags, locks, tickets, the last CTA, named barriers; the bad twin lacks one piece.
#include <cuda/atomic>
#include "common.cuh"
#define VOLATILE(x) (*(volatile int *)&(x))

BODY(ready) {  // one warp waits for another at a volatile flag
    __shared__ int s[32], flag; if (T == 0) flag = 0;
    __syncthreads();
    if (WARP == 0) { s[LANE] = in[T]; if (GOOD) __threadfence_block(); __syncwarp(); if (LANE == 0) VOLATILE(flag) = 1; }
    else { while (VOLATILE(flag) == 0) {} __threadfence_block(); out[T] = s[LANE]; }
}
PAIR(ready)

BODY(ready_atomic) {
    __shared__ int s[32], flag; if (T == 0) flag = 0;
    __syncthreads();
    if (WARP == 3) { s[LANE] = in[T]; if (GOOD) __threadfence_block(); __syncwarp(); if (LANE == 0) atomicExch(&flag, 1); }
    else { while (atomicAdd(&flag, 0) == 0) {} __threadfence_block(); out[T] = s[LANE]; }
}
PAIR(ready_atomic)

BODY(ready_ref) {
    __shared__ int s[32], flag; if (T == 0) flag = 0;
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_block> f(flag);
    if (WARP == 1) { s[LANE] = in[T]; __syncwarp(); if (LANE == 0) f.store(1, GOOD ? cuda::memory_order_release : cuda::memory_order_relaxed); }
    else if (WARP == 2) { while (f.load(cuda::memory_order_acquire) == 0) {} out[T] = s[LANE]; }
}
PAIR(ready_ref)

BODY(acknowledged) {  // the writer must not go on before the reader says that it has read
    __shared__ int s[32], full, taken; if (T == 0) full = taken = 0;
    __syncthreads();
    if (WARP == 0) for (int k = 1; k <= n; k++) {
        s[LANE] = in[LANE + k]; __threadfence_block(); __syncwarp();
        if (LANE == 0) atomicExch(&full, k);
        if (GOOD) { while (atomicAdd(&taken, 0) < k) {} __threadfence_block(); }
        __syncwarp();
    } else if (WARP == 1) for (int k = 1; k <= n; k++) {
        while (atomicAdd(&full, 0) < k) {} __threadfence_block();
        out[T] += s[LANE]; __threadfence_block(); __syncwarp();
        if (LANE == 0) atomicExch(&taken, k);
        __syncwarp();
    }
}
PAIR(acknowledged)

BODY(lock_shared) {
    __shared__ int lock, sum; if (T == 0) lock = sum = 0;
    __syncthreads();
    if (T % 64 == 0) {
        if (GOOD) { while (atomicCAS(&lock, 0, 1)) {} __threadfence_block(); }
        VOLATILE(sum) = VOLATILE(sum) + in[T];
        if (GOOD) { __threadfence_block(); atomicExch(&lock, 0); }
    }
    __syncthreads(); out[T] = sum;
}
PAIR(lock_shared)

BODY(lock_without_fence) {
    __shared__ int lock, sum; if (T == 0) lock = sum = 0;
    __syncthreads();
    if (T % 64 == 0) {
        while (atomicCAS(&lock, 0, 1)) {}
        if (GOOD) __threadfence_block();
        VOLATILE(sum) = VOLATILE(sum) + in[T];
        if (GOOD) __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads(); out[T] = sum;
}
PAIR(lock_without_fence)

BODY(lock_global) {
    if (T == 0) {
        while (atomicCAS(&out[4000], 0, 1)) {}
        if (GOOD) __threadfence();
        VOLATILE(out[4001]); out[4001] += in[blockIdx.x];
        if (GOOD) __threadfence();
        atomicExch(&out[4000], 0);
    }
}
PAIR(lock_global)

BODY(ticket) {
    __shared__ int next, serving, sum; if (T == 0) next = serving = sum = 0;
    __syncthreads();
    if (T % 64 == 0) {
        int mine = atomicAdd(&next, 1);
        if (GOOD) { while (atomicAdd(&serving, 0) != mine) {} __threadfence_block(); }
        VOLATILE(sum) = VOLATILE(sum) + in[T];
        __threadfence_block(); atomicAdd(&serving, 1);
    }
    __syncthreads(); out[T] = sum;
}
PAIR(ticket)

BODY(last_cta) {
    __shared__ bool last;
    if (T == 0) { out[blockIdx.x] = in[blockIdx.x] + 1; if (GOOD) __threadfence(); last = atomicAdd(&out[4000], 1) == gridDim.x - 1; }
    __syncthreads();
    if (last) { if (T == 0) { __threadfence(); int sum = 0; for (int k = 0; k < gridDim.x; k++) sum += out[k]; out[3000] = sum; } }
}
PAIR(last_cta)

BODY(last_cta_all) {  // every thread has a part
    __shared__ bool last;
    out[blockIdx.x * blockDim.x + T] = in[T] + blockIdx.x;
    __threadfence(); FIX;
    if (T == 0) last = atomicInc((unsigned *)&out[4000], gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last) { __threadfence(); int sum = 0; for (int k = 0; k < gridDim.x; k++) sum += out[k * blockDim.x + (T + 64) % 128]; out[3000 + T] = sum; }
}
PAIR(last_cta_all)

BODY(last_cta_resets) {  // the counter, by a plain store: whose atomic was the last comes behind the others'
    if (T == 0) {
        out[blockIdx.x] = in[blockIdx.x]; __threadfence();
        bool last = atomicInc((unsigned *)&out[4000], gridDim.x) == gridDim.x - 1;
        if (last) out[4001] = out[4000];
        if (last || !GOOD) out[4000] = 0;
    }
}
PAIR(last_cta_resets)

BODY(last_cta_ref) {
    __shared__ bool last;
    out[blockIdx.x * blockDim.x + T] = in[T]; __syncthreads();
    if (T == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> count(out[4000]);
        last = count.fetch_add(1, GOOD ? cuda::memory_order_acq_rel : cuda::memory_order_relaxed) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) for (int k = 0; k < gridDim.x; k++) out[3000 + T] += out[k * blockDim.x + T];
}
PAIR(last_cta_ref)

BODY(chain_released) {
    if (T == 0) {
        if (blockIdx.x) { while (VOLATILE(out[4000 + blockIdx.x - 1]) == 0) {} __threadfence(); }
        out[100 + blockIdx.x] = in[blockIdx.x] + (blockIdx.x ? out[99 + blockIdx.x] : 0);
        if (GOOD) __threadfence();
        VOLATILE(out[4000 + blockIdx.x]) = 1;
    }
}
PAIR(chain_released)

BODY(chain_scope) {  // a fence for the CTA alone does not reach the next one
    if (T == 0) {
        if (blockIdx.x) { while (atomicAdd(&out[4000 + blockIdx.x - 1], 0) == 0) {} __threadfence(); }
        out[100 + blockIdx.x] = in[blockIdx.x] + (blockIdx.x ? out[99 + blockIdx.x] : 0);
        if (GOOD) __threadfence(); else __threadfence_block();
        atomicExch(&out[4000 + blockIdx.x], 1);
    }
}
PAIR(chain_scope)

BODY(own_part) { int i = blockIdx.x * blockDim.x + T; out[GOOD ? i : i - blockIdx.x] = in[i] + blockIdx.x; }
PAIR(own_part)

BODY(shifted) { int i = blockIdx.x * blockDim.x + T; int v = in[i]; out[i] = v; if (!GOOD) v = out[i + 1]; __syncthreads(); out[1024 + i] = v; }
PAIR(shifted)

BODY(sum_of_ctas) { if (T == 0) { if (GOOD) atomicAdd(&out[0], in[blockIdx.x]); else out[0] += in[blockIdx.x]; } }
PAIR(sum_of_ctas)

BODY(sum_read_early) { if (T == 0) atomicAdd(&out[0], in[blockIdx.x]); if (!GOOD && T == 64) out[10 + blockIdx.x] = out[0]; }
PAIR(sum_read_early)

BODY(many_flags) {  // a flag for each of 128 threads
    __shared__ int s[128], f[128]; f[T] = 0;
    __syncthreads();
    if (T < 64) { s[T] = in[T]; if (GOOD) __threadfence_block(); atomicExch(&f[T], 1); }
    else { while (atomicAdd(&f[T - 64], 0) == 0) {} __threadfence_block(); out[T] = s[T - 64]; }
}
PAIR(many_flags)

BODY(flags_of_all) {  // 128 flags by one instruction, each for another thread
    __shared__ int s[128], f[128]; f[T] = 0;
    __syncthreads();
    s[T] = in[T]; if (GOOD) __threadfence_block(); atomicExch(&f[T], 1);
    while (atomicAdd(&f[(T + 40) % 128], 0) == 0) {} __threadfence_block(); out[T] = s[(T + 40) % 128];
}
PAIR(flags_of_all)

BODY(global_flags) {
    if (T < 64) { out[T] = in[T]; if (GOOD) __threadfence(); atomicExch(&out[4000 + T], 1); }
    else { while (atomicAdd(&out[4000 + T - 64], 0) == 0) {} __threadfence(); out[T] = out[T - 64] + 1; }
}
PAIR(global_flags)

BODY(counted) {  // the loop looks n times and sums: it waits for nobody
    __shared__ int c; if (T == 0) c = 1;
    __syncthreads();
    int v = 0; if (WARP < 2) for (int k = 0; k < n; k++) v += VOLATILE(c);
    FIX;
    if (T == 100) VOLATILE(c) = 7;
    out[T] = v;
}
PAIR(counted)

// Named barriers.
#define SYNC(b, c) asm volatile("bar.sync %0, %1;" :: "n"(b), "n"(c) : "memory")
#define ARRIVE(b, c) asm volatile("bar.arrive %0, %1;" :: "n"(b), "n"(c) : "memory")

BODY(two_halves) { __shared__ int s[128]; s[T] = in[T]; if (T < 64) { if (GOOD) SYNC(1, 64); out[T] = s[63 - T]; } else { SYNC(2, 64); out[T] = s[191 - T]; } }
PAIR(two_halves)

BODY(wrong_half) { __shared__ int s[128]; s[T] = in[T]; if (T < 64) { SYNC(1, 64); } else { SYNC(2, 64); } if (GOOD) __syncthreads(); out[T] = s[127 - T]; }
PAIR(wrong_half)

BODY(producer) {  // full and empty, as CUTLASS's older pipelines have them
    __shared__ int s[64];
    for (int k = 0; k < n; k++) {
        if (T < 64) { if (GOOD || k == 0) SYNC(1, 128); s[T] = in[T + k]; ARRIVE(2, 128); if (!GOOD && k + 1 < n) SYNC(3, 128); }
        else { if (GOOD || k == 0) ARRIVE(1, 128); SYNC(2, 128); if (!GOOD && k + 1 < n) ARRIVE(3, 128); out[T] += s[127 - T]; }
    }
}
PAIR(producer)

BODY(arrives_early) { __shared__ int s[64]; if (T < 64) { if (GOOD) s[T] = in[T]; ARRIVE(1, 128); if (!GOOD) s[T] = in[T]; } else { SYNC(1, 128); out[T] = s[T - 64]; } }
PAIR(arrives_early)

BODY(three_stages) {  // each warp hands its tile to the next one
    __shared__ int s[3][32];
    if (WARP == 0) { s[0][LANE] = in[T]; ARRIVE(1, 64); }
    else if (WARP == 1) { SYNC(1, 64); s[1][LANE] = s[0][31 - LANE]; ARRIVE(2, 64); }
    else if (WARP == 2) { SYNC(2, 64); if (GOOD) s[2][LANE] = s[1][31 - LANE]; ARRIVE(3, 64); if (!GOOD) s[2][LANE] = s[1][31 - LANE]; }
    else { SYNC(3, 64); out[T] = s[2][LANE]; }
}
PAIR(three_stages)

// Asynchronous copies of sm_80.
#define COPY4(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(SHARED(to)), "l"(from) : "memory")
#define COPY16(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(SHARED(to)), "l"(from) : "memory")
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(k) asm volatile("cp.async.wait_group %0;" :: "n"(k) : "memory")

BODY(copy_wait) { __shared__ int s[128]; COPY4(&s[T], in + T); COMMIT; if (GOOD) WAIT(0); __syncthreads(); out[T] = s[127 - T]; }
PAIR(copy_wait)

BODY(copy_barrier) { __shared__ int s[128]; COPY4(&s[T], in + T); COMMIT; WAIT(0); FIX; out[T] = s[127 - T]; }
PAIR(copy_barrier)

BODY(copy_own) { __shared__ int4 s[128]; COPY16(&s[T], in + 4 * T); COMMIT; if (GOOD) WAIT(0); out[T] = s[T].x; }
PAIR(copy_own)

BODY(copy_order) { __shared__ int s[128]; COPY4(&s[T], in + T); COMMIT; if (GOOD) { WAIT(0); __syncthreads(); } else { __syncthreads(); WAIT(0); } out[T] = s[127 - T]; }
PAIR(copy_order)

BODY(copy_stages) {  // one group too many may still be under way
    __shared__ int s[3][128];
    for (int k = 0; k < 2; k++) { COPY4(&s[k][T], in + 128 * k + T); COMMIT; }
    for (int k = 0; k < 6; k++) {
        WAIT(GOOD ? 1 : 2); __syncthreads();
        out[T] += s[k % 3][127 - T];
        if (k < 4) COPY4(&s[(k + 2) % 3][T], in + 128 * (k + 2) + T);
        COMMIT;
    }
}
PAIR(copy_stages)

BODY(copy_reuse) {  // two buffers filled two ahead: the next copy goes where others still read
    __shared__ int s[2][128];
    COPY4(&s[0][T], in + T); COMMIT;
    for (int k = 0; k < n; k++) {
        COPY4(&s[(k + 1) & 1][T], in + 128 * (k + 1) + T); COMMIT;
        WAIT(1); __syncthreads();
        out[T] += s[k & 1][127 - T];
        FIX;
    }
}
PAIR(copy_reuse)

BODY(copy_tail) {  // no commit in the last rounds, so that the count no longer says which are done
    __shared__ int s[3][128];
    for (int k = 0; k < 2; k++) { COPY4(&s[k][T], in + 128 * k + T); COMMIT; }
    for (int k = 0; k < 3; k++) {
        WAIT(1); __syncthreads(); out[T] += s[k][127 - T];
        if (k == 0) COPY4(&s[2][T], in + 256 + T);
        if (k == 0 || GOOD) COMMIT;
    }
}
PAIR(copy_tail)

BODY(copy_over_store) { __shared__ int s[128]; s[127 - T] = n; FIX; COPY4(&s[T], in + T); COMMIT; WAIT(0); __syncthreads(); out[T] = s[T]; }
PAIR(copy_over_store)

BODY(copy_warps) {  // warps copy in groups of their own
    __shared__ int s[128]; if (WARP < 2) { COPY4(&s[T], in + T); COPY4(&s[T + 64], in + T + 64); COMMIT; if (WARP == 0 || GOOD) WAIT(0); }
    __syncthreads(); out[T] = s[T ^ 96];
}
PAIR(copy_warps)
