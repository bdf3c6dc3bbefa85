// Races in global memory, barriers, unwritten memory, accesses that go wrong; each kernel with its clean twin.
#define K(name) extern "C" __global__ void name
#define T threadIdx.x
#define ALL (blockIdx.x * blockDim.x + T)

// -- global memory ---------------------------------------------------------------------------------------------------
K(ctas_write_bad)(float *out) { out[T] = blockIdx.x; }
K(ctas_write_good)(float *out) { out[ALL] = blockIdx.x; }

K(shift_bad)(float *x) { x[ALL + 1] = x[ALL] + 1; }
K(shift_good)(float *x) { x[ALL] = x[ALL] + 1; }

K(in_cta_bad)(float *x) { x[ALL] = T; float y = x[blockIdx.x * blockDim.x + 127 - T]; x[ALL + 512] = y; }
K(in_cta_good)(float *x) {
    x[ALL] = T; __syncthreads(); float y = x[blockIdx.x * blockDim.x + 127 - T]; x[ALL + 512] = y;
}

#define LAST(fence) \
    __shared__ bool last; \
    x[ALL] = T; \
    fence; \
    __syncthreads(); \
    if (T == 0) last = atomicAdd(n, 1) == gridDim.x - 1; \
    __syncthreads(); \
    if (last) { float sum = 0; for (int b = 0; b < gridDim.x; b++) sum += x[b * 128 + T]; x[512 + T] = sum; }
K(last_cta_bad)(float *x, unsigned *n) { LAST() }
K(last_cta_good)(float *x, unsigned *n) { LAST(__threadfence()) }

// The fence is only for the CTA.
K(last_cta_narrow_bad)(float *x, unsigned *n) { LAST(__threadfence_block()) }
K(last_cta_narrow_good)(float *x, unsigned *n) { LAST(__threadfence(); __threadfence_block()) }

K(plain_flag_bad)(float *x, unsigned *n) {
    if (blockIdx.x == 0) { x[T] = T; __threadfence(); if (T == 0) n[0] = 1; }
    else if (n[0] == 1) x[512 + T] = x[T];
}
K(plain_flag_good)(float *x, unsigned *n) {
    if (blockIdx.x == 0) { x[T] = T; __threadfence(); __syncthreads(); if (T == 0) atomicExch(n, 1); }
    else if (blockIdx.x == 1 && atomicAdd(n, 0) == 1) { __threadfence(); x[512 + T] = x[T]; }
}

K(sum_bad)(float *x) { x[512] += T; }
K(sum_good)(float *x) { atomicAdd(x + 512, T); }

// -- barriers ----------------------------------------------------------------------------------------------------------
K(two_barriers_bad)(int *out) {
    if (T < 64) asm volatile("bar.sync 1, 128;"); else asm volatile("bar.sync 2, 128;");
    out[T] = 1;
}
K(two_barriers_good)(int *out) {
    if (T < 64) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;");
    out[T] = 1;
}

K(miscounted_bad)(int *out) { if (T < 96) asm volatile("bar.sync 1, 128;"); out[T] = 1; }
K(miscounted_good)(int *out) { if (T < 96) asm volatile("bar.sync 1, 96;"); out[T] = 1; }

K(exits_bad)(int *out) { if (T >= 64) return; __syncthreads(); out[T] = 1; }
K(exits_good)(int *out) { __syncthreads(); if (T >= 64) return; out[T] = 1; }

K(endless_bad)(int *out, volatile int *flag) { if (T < 32) __syncthreads(); else while (*flag == 0) {} out[T] = 1; }
K(endless_good)(int *out, volatile int *flag) { __syncthreads(); while (*flag == 1) {} out[T] = 1; }

K(half_shuffle_bad)(int *out) {
    int x = out[T];
    if (T % 32 < 16) x = __shfl_xor_sync(0xffffffff, x, 1);
    out[T] = x;
}
K(half_shuffle_good)(int *out) {
    int x = out[T];
    if (T % 32 < 16) x = __shfl_xor_sync(0x0000ffff, x, 1);
    out[T] = x;
}

K(wrong_mask_bad)(int *out, unsigned mask) {
    int x = out[T];
    if (T % 32 < 16) x = __shfl_xor_sync(mask, x, 1);
    out[T] = x;
}
K(wrong_mask_good)(int *out, unsigned mask) {
    int x = out[T];
    if (T % 32 < 16) x = __shfl_xor_sync(~mask, x, 1);
    out[T] = x;
}

// -- unwritten memory ----------------------------------------------------------------------------------------------------
K(shared_unwritten_bad)(float *out) { __shared__ float s[128]; if (T) s[T] = T; __syncthreads(); out[T] = s[T]; }
K(shared_unwritten_good)(float *out) { __shared__ float s[128]; s[T] = T; __syncthreads(); out[T] = s[T]; }

K(local_unwritten_bad)(int *out, const int *in) {
    int a[64];
    for (int k = 1; k < 64; k++) a[(k * in[0]) & 63] = k;
    out[T] = a[in[T] & 63] + 1;
}
K(local_unwritten_good)(int *out, const int *in) {
    int a[64];
    for (int k = 0; k < 64; k++) a[(k * in[0]) & 63] = k;
    out[T] = a[in[T] & 63] + 1;
}

K(global_unwritten_bad)(float *x, float *out) { if (T < 100) x[T] = T; __syncthreads(); out[T] = x[T]; }
K(global_unwritten_good)(float *x, float *out) { x[T] = T; __syncthreads(); out[T] = x[T]; }

// -- accesses that go wrong --------------------------------------------------------------------------------------------------
K(past_end_bad)(float *x) { x[T + 1] = 1; }
K(past_end_good)(float *x) { x[T] = 1; }

K(before_start_bad)(float *x) { x[T] = x[(int)T - 1]; }
K(before_start_good)(float *x) { float y = T ? x[T - 1] : 0; __syncthreads(); x[T] = y; }

K(misaligned_bad)(char *x) { *(int *)(x + 4 * (T & 15) + 1) = 1; }
K(misaligned_good)(char *x) { if (T < 16) *(int *)(x + 4 * T) = 1; }

K(null_bad)(float *x, unsigned long long *y) { float *p = T == 77 ? (float *)y[0] : x; p[T] = 1; }
K(null_good)(float *x, unsigned long long *y) { float *p = T == 77 && y[0] ? (float *)y[0] : x; p[T] = 1; }

K(shared_outside_bad)(float *out) { extern __shared__ float s[]; s[T] = T; out[T] = s[T]; }
K(shared_outside_good)(float *out) { extern __shared__ float s[]; if (T < 64) { s[T] = T; out[T] = s[T]; } }

// From one argument's buffer into the other's: the difference is where they happen to lie.
K(foreign_bad)(float *x, float *y, long long distance) { x[T + distance] = 1; }
K(foreign_good)(float *x, float *y, long long distance) { y[T] = 1; }

K(two_wrongs_bad)(float *x) { __shared__ float s[128]; x[T + 64] = 1; s[T] = T; x[T] = s[127 - T]; }
K(two_wrongs_good)(float *x) { __shared__ float s[128]; s[T] = T; __syncthreads(); x[T] = s[127 - T]; }
