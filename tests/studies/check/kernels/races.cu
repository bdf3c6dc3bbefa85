// Data races in shared memory, each kernel with its clean twin.
#define K(name) extern "C" __global__ void name
#define T threadIdx.x

K(neighbour_bad)(float *out) { __shared__ float s[128]; s[T] = T; out[T] = s[127 - T]; }
K(neighbour_good)(float *out) { __shared__ float s[128]; s[T] = T; __syncthreads(); out[T] = s[127 - T]; }

// The second round overwrites what others still read.
K(reuse_bad)(float *out) {
    __shared__ float s[128];
    for (int k = 0; k < 3; k++) { s[T] = T + k; __syncthreads(); out[T] += s[127 - T]; }
}
K(reuse_good)(float *out) {
    __shared__ float s[128];
    for (int k = 0; k < 3; k++) { s[T] = T + k; __syncthreads(); out[T] += s[127 - T]; __syncthreads(); }
}

K(both_write_bad)(float *out) { __shared__ float s[64]; s[T & 63] = T; __syncthreads(); out[T] = s[T & 63]; }
K(both_write_good)(float *out) { __shared__ float s[128]; s[T] = T; __syncthreads(); out[T] = s[T & 63]; }

K(reduce_bad)(float *out) {
    __shared__ float s[128];
    s[T] = T;
    __syncthreads();
    for (int d = 64; d > 0; d >>= 1) { if (T < d) s[T] += s[T + d]; }
    out[T] = s[0];
}
K(reduce_good)(float *out) {
    __shared__ float s[128];
    s[T] = T;
    __syncthreads();
    for (int d = 64; d > 0; d >>= 1) { if (T < d) s[T] += s[T + d]; __syncthreads(); }
    out[T] = s[0];
}

K(diverged_bad)(int *out) {
    __shared__ int s[128];
    if (T & 1) { s[T] = out[T]; __nanosleep(1); } else { __nanosleep(2); out[T] = s[T + 1]; }
}
K(diverged_good)(int *out) {
    __shared__ int s[128];
    if (T & 1) { s[T] = out[T]; __nanosleep(1); }
    __syncwarp();
    if (!(T & 1)) { __nanosleep(2); out[T] = s[T + 1]; }
}

K(count_bad)(int *out) { __shared__ int n; if (T == 0) n = 0; __syncthreads(); n += T; __syncthreads(); out[T] = n; }
K(count_good)(int *out) {
    __shared__ int n; if (T == 0) n = 0; __syncthreads(); atomicAdd(&n, T); __syncthreads(); out[T] = n;
}

K(atomic_read_bad)(int *out) {
    __shared__ int n; if (T == 0) n = 0; __syncthreads(); atomicAdd(&n, 1); out[T] = n;
}
K(atomic_read_good)(int *out) {
    __shared__ int n; if (T == 0) n = 0; __syncthreads(); atomicAdd(&n, 1); __syncthreads(); out[T] = n;
}

K(initialise_bad)(int *out) { __shared__ volatile int n; if (T == 0) n = 5; out[T] = n; __syncthreads(); }
K(initialise_good)(int *out) { __shared__ volatile int n; if (T == 0) n = 5; __syncthreads(); out[T] = n; }

K(bytes_bad)(unsigned char *out) {
    __shared__ unsigned char s[128]; s[T] = T; __syncthreads(); s[T ^ 64] = out[T]; out[T] = s[T];
}
K(bytes_good)(unsigned char *out) {
    __shared__ unsigned char s[128]; s[T] = T; __syncthreads(); s[T] = out[T]; out[T] = s[T];
}

// Named barrier 1 is for the first two warps only.
K(named_bad)(float *out) {
    __shared__ float s[128];
    s[T] = T;
    if (T < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[T] = s[T ^ 64];
}
K(named_good)(float *out) {
    __shared__ float s[128];
    s[T] = T;
    if (T < 64) { asm volatile("bar.sync 1, 64;" ::: "memory"); out[T] = s[T ^ 32]; }
}

K(arrive_bad)(float *out) {
    __shared__ float s[64];
    if (T < 64) { asm volatile("bar.arrive 1, 128;" ::: "memory"); s[T] = T; }
    else { asm volatile("bar.sync 1, 128;" ::: "memory"); out[T] = s[T - 64]; }
}
K(arrive_good)(float *out) {
    __shared__ float s[64];
    if (T < 64) { s[T] = T; asm volatile("bar.arrive 1, 128;" ::: "memory"); }
    else { asm volatile("bar.sync 1, 128;" ::: "memory"); out[T] = s[T - 64]; }
}

#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: \
    "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
K(copy_bad)(float *out, const float *in) {
    __shared__ float s[128];
    COPY(&s[T], in + T);
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    out[T] = s[127 - T];
}
K(copy_good)(float *out, const float *in) {
    __shared__ float s[128];
    COPY(&s[T], in + T);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[T] = s[127 - T];
}

K(copy_stage_bad)(float *out, const float *in) {
    __shared__ float s[2][128];
    COPY(&s[0][T], in + T);
    asm volatile("cp.async.commit_group;" ::: "memory");
    COPY(&s[1][T], in + 128 + T);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[T] = s[0][127 - T] + s[1][127 - T];
}
K(copy_stage_good)(float *out, const float *in) {
    __shared__ float s[2][128];
    COPY(&s[0][T], in + T);
    asm volatile("cp.async.commit_group;" ::: "memory");
    COPY(&s[1][T], in + 128 + T);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[T] = s[0][127 - T];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[T] += s[1][127 - T];
}

#define BARRIER(b) (unsigned)__cvta_generic_to_shared(b)
K(mbarrier_bad)(float *out) {
    __shared__ float s[64];
    __shared__ unsigned long long b;
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(BARRIER(&b)) : "memory");
    __syncthreads();
    if (T < 64) {
        asm volatile("{ .reg .b64 w; mbarrier.arrive.shared.b64 w, [%0]; }" :: "r"(BARRIER(&b)) : "memory");
        s[T] = T;
    } else {
        int done = 0;
        while (!done) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                                   : "=r"(done) : "r"(BARRIER(&b)) : "memory");
        out[T] = s[T - 64];
    }
}
K(mbarrier_good)(float *out) {
    __shared__ float s[64];
    __shared__ unsigned long long b;
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(BARRIER(&b)) : "memory");
    __syncthreads();
    if (T < 64) {
        s[T] = T;
        asm volatile("{ .reg .b64 w; mbarrier.arrive.shared.b64 w, [%0]; }" :: "r"(BARRIER(&b)) : "memory");
    } else {
        int done = 0;
        while (!done) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                                   : "=r"(done) : "r"(BARRIER(&b)) : "memory");
        out[T] = s[T - 64];
    }
}

// One store of a warp, several values at one place.
K(lanes_bad)(int *out) { __shared__ int s[4]; s[T / 32] = T; __syncthreads(); out[T] = s[T / 32]; }
K(lanes_good)(int *out) { __shared__ int s[4]; if (T % 32 == 0) s[T / 32] = T; __syncthreads(); out[T] = s[T / 32]; }

// One warp waits for another at a volatile flag. Without the fence what was written before the flag may come after it.
K(flag_bad)(int *out) {
    __shared__ volatile int flag; __shared__ int s[128];
    if (T == 0) flag = 0;
    __syncthreads();
    if (T < 32) { s[T] = out[T]; __syncwarp(); if (T == 0) flag = 1; }
    else { while (flag == 0) {} out[T] = s[T & 31]; }
}
K(flag_good)(int *out) {
    __shared__ volatile int flag; __shared__ int s[128];
    if (T == 0) flag = 0;
    __syncthreads();
    if (T < 32) { s[T] = out[T]; __threadfence_block(); __syncwarp(); if (T == 0) flag = 1; }
    else { while (flag == 0) {} __threadfence_block(); out[T] = s[T & 31]; }
}

// The flag's first value and the other warp's: nothing says which is last.
K(flag_twice_bad)(int *out) {
    __shared__ volatile int flag;
    if (T == 0) flag = 0;
    if (T == 64) flag = 1;
    if (T >= 96) { while (flag == 0) {} out[T] = 1; }
}
K(flag_twice_good)(int *out) {
    __shared__ volatile int flag;
    if (T == 0) flag = 0;
    __syncthreads();
    if (T == 64) flag = 1;
    if (T >= 96) { while (flag == 0) {} out[T] = 1; }
}

// A loop that looks at one element after another waits for nobody.
K(walk_bad)(int *out) {
    __shared__ int s[128]; int k = 0;
    s[T] = T != 100;
    while (s[k] != 0) k++;
    out[T] = k;
}
K(walk_good)(int *out) {
    __shared__ int s[128]; int k = 0;
    s[T] = T != 100;
    __syncthreads();
    while (s[k] != 0) k++;
    out[T] = k;
}
