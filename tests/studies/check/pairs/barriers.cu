// Forms of everyday code, each with one barrier that the bad twin lacks.
#include "common.cuh"

BODY(tree) {
    __shared__ int s[128]; s[T] = in[T]; __syncthreads();
    for (int d = 64; d; d >>= 1) { if (T < d) s[T] += s[T + d]; FIX; }
    if (T == 0) out[0] = s[0];
}
PAIR(tree)

BODY(tree_up) {
    __shared__ int s[128]; s[T] = in[T];
    for (int d = 1; d < 128; d *= 2) { FIX; if (T % (2 * d) == 0) s[T] += s[T + d]; }
    if (T == 0) out[0] = s[0];
}
PAIR(tree_up)

BODY(warp_sums) {
    __shared__ int s[4]; int v = in[T];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (LANE == 0) s[WARP] = v;
    FIX;
    if (T == 0) out[0] = s[0] + s[1] + s[2] + s[3];
}
PAIR(warp_sums)

BODY(warp_sums_last) {  // the last warp adds up
    __shared__ int s[4]; int v = in[T];
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    if (LANE == 31) s[WARP] = v;
    FIX;
    if (WARP == 3) { int w = LANE < 4 ? s[LANE] : 0; for (int d = 2; d; d >>= 1) w += __shfl_xor_sync(~0u, w, d); if (LANE == 0) out[0] = w; }
}
PAIR(warp_sums_last)

BODY(broadcast_twice) {
    __shared__ int s;
    for (int k = 0; k < n; k++) { if (T == 64) s = in[k]; __syncthreads(); out[T] += s; FIX; }
}
PAIR(broadcast_twice)

BODY(maximum_twice) {
    __shared__ int best; int v = in[T];
    if (T == 0) best = 0;
    __syncthreads();
    atomicMax(&best, v); __syncthreads();
    out[T] = best; FIX;
    if (T == 127) best = 0;
    __syncthreads();
    atomicMax(&best, -v + 100); __syncthreads();
    out[128 + T] = best;
}
PAIR(maximum_twice)

BODY(hillis_steele) {
    __shared__ int s[128]; s[T] = in[T]; __syncthreads();
    for (int d = 1; d < 128; d *= 2) { int v = T >= d ? s[T - d] : 0; FIX; s[T] += v; __syncthreads(); }
    out[T] = s[T];
}
PAIR(hillis_steele)

BODY(scan_two_buffers) {
    __shared__ int s[2][128]; int b = 0; s[0][T] = in[T]; __syncthreads();
    for (int d = 1; d < 128; d *= 2) { s[1 - b][T] = s[b][T] + (T >= d ? s[b][T - d] : 0); b = 1 - b; FIX; }
    out[T] = s[b][T];
}
PAIR(scan_two_buffers)

BODY(blelloch) {
    __shared__ int s[128]; s[T] = in[T]; __syncthreads();
    for (int d = 1; d < 128; d *= 2) { int i = 2 * d * (T + 1) - 1; if (i < 128) s[i] += s[i - d]; __syncthreads(); }
    if (T == 127) s[127] = 0;
    __syncthreads();
    for (int d = 64; d; d /= 2) {
        int i = 2 * d * (T + 1) - 1;
        if (i < 128) { int t = s[i - d]; s[i - d] = s[i]; s[i] += t; }
        FIX;
    }
    out[T] = s[T];
}
PAIR(blelloch)

BODY(transpose) {
    __shared__ int t[32][33]; int x = T % 32, y = T / 32;
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < 32; j += 4) t[y + j][x] = in[(y + j) * 32 + x + k];
        __syncthreads();
        for (int j = 0; j < 32; j += 4) out[(y + j) * 32 + x] += t[x][y + j];
        FIX;
    }
}
PAIR(transpose)

BODY(transpose_in_place) {
    __shared__ int t[16][16]; int x = T % 16, y = T / 16;
    t[y][x] = in[T]; if (T < 128) t[8 + y][x] = in[128 + T];
    __syncthreads();
    int v = t[x][y], w = t[x][8 + y]; FIX;
    t[y][x] = v; t[8 + y][x] = w; __syncthreads();
    out[T] = t[y][x];
}
PAIR(transpose_in_place)

BODY(histogram) {
    __shared__ int h[64]; if (T < 64) h[T] = 0;
    FIX;
    atomicAdd(&h[in[T] % 64], 1); __syncthreads();
    if (T < 64) out[T] = h[T];
}
PAIR(histogram)

BODY(histogram_read) {
    __shared__ int h[64]; if (T < 64) h[T] = 0;
    __syncthreads();
    atomicAdd(&h[in[T] % 64], 1);
    FIX;
    if (T < 64) out[T] = h[T];
}
PAIR(histogram_read)

BODY(histogram_plain) {  // counts without atomics
    __shared__ int h[16]; if (T < 16) h[T] = 0;
    __syncthreads();
    if (GOOD) atomicAdd(&h[in[T] % 16], 1); else h[in[T] % 16] += 1;
    __syncthreads();
    if (T < 16) out[T] = h[T];
}
PAIR(histogram_plain)

BODY(double_buffer) {
    __shared__ int s[2][128]; s[0][T] = in[T]; __syncthreads();
    for (int k = 0; k < n; k++) {
        s[(k + 1) & 1][T] = in[128 * (k + 1) + T];
        out[T] += s[k & 1][127 - T];
        FIX;
    }
}
PAIR(double_buffer)

BODY(triple_buffer) {  // one barrier a round is enough for three buffers; two buffers would need two
    constexpr int buffers = GOOD ? 3 : 2;
    __shared__ int s[buffers][128];
    for (int k = 0; k < n; k++) {
        s[k % buffers][T] = in[T + k];
        if (k % 2 == 0 || GOOD) __syncthreads();
        out[T] += s[k % buffers][127 - T];
    }
}
PAIR(triple_buffer)

BODY(stencil) {
    __shared__ int s[130];
    s[T + 1] = in[T + 1]; if (T == 0) s[0] = in[0]; if (T == 127) s[129] = in[129];
    for (int k = 0; k < n; k++) {
        __syncthreads();
        int v = s[T] + s[T + 1] + s[T + 2];
        FIX;
        s[T + 1] = v;
    }
    out[T] = s[T + 1];
}
PAIR(stencil)

BODY(rotate) { __shared__ int s[128]; s[T] = in[T]; __syncthreads(); int v = s[(T + n) % 128]; FIX; s[T] = v; __syncthreads(); out[T] = s[T]; }
PAIR(rotate)

BODY(reverse_vector) {
    __shared__ int4 s[64]; if (T < 64) s[T] = ((const int4 *)in)[T];
    __syncthreads(); int4 v; if (T < 64) v = s[63 - T];
    FIX;
    if (T < 64) { v.x += n; s[T] = v; }
    __syncthreads(); out[T] = ((int *)s)[T];
}
PAIR(reverse_vector)

BODY(mixed_widths) {  // 16 bytes are read, one of them is written
    __shared__ int4 s[8]; if (T < 8) s[T] = ((const int4 *)in)[T];
    __syncthreads(); int4 v = s[T % 8]; FIX;
    if (T == 70) ((unsigned char *)s)[77] = n;
    __syncthreads(); out[T] = v.x + v.w + s[T % 8].y;
}
PAIR(mixed_widths)

BODY(halves) {
    __shared__ short s[256]; ((int *)s)[T] = in[T];
    FIX;
    out[T] = s[255 - 2 * T];
}
PAIR(halves)

BODY(bitonic) {
    __shared__ int s[128]; s[T] = in[127 - T] * 37 % 101; __syncthreads();
    for (int k = 2; k <= 128; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            int o = T ^ j;
            if (o > T) { int a = s[T], b = s[o]; if ((a > b) == ((T & k) == 0)) { s[T] = b; s[o] = a; } }
            FIX;
        }
    out[T] = s[T];
}
PAIR(bitonic)

BODY(queue) {  // threads append to a list in shared memory, all walk it
    __shared__ int list[128], length; if (T == 0) length = 0;
    __syncthreads();
    if (in[T] % 3 == 0) list[atomicAdd(&length, 1)] = T;
    FIX;
    for (int k = T; k < length; k += 128) out[k] = list[k];
}
PAIR(queue)

BODY(queue_reset) {
    __shared__ int list[128], length; if (T == 0) length = 0;
    __syncthreads();
    for (int r = 0; r < n; r++) {
        if (in[T] % (r + 2) == 0) list[atomicAdd(&length, 1)] = T;
        __syncthreads();
        for (int k = T; k < length; k += 128) out[k] += list[k];
        FIX;
        if (T == 0) length = 0;
        __syncthreads();
    }
}
PAIR(queue_reset)

BODY(work_index) {  // a leader takes the next piece of work for its CTA
    __shared__ int next;
    for (;;) {
        if (T == 0) next = atomicAdd(&out[4000], 1);
        __syncthreads();
        int k = next; FIX;
        if (k >= n) break;
        out[T] += in[k];
    }
}
PAIR(work_index)

BODY(early_flag) { __shared__ bool any; if (T == 0) any = false; __syncthreads(); if (in[T] == 77) any = true; FIX; if (any) out[T] = 1; }
PAIR(early_flag)

BODY(matrix) {
    __shared__ int a[8][8], b[8][8]; int x = T % 8, y = T / 8 % 8, sum = 0;
    for (int k = 0; k < n; k++) {
        if (T < 64) { a[y][x] = in[T + k]; } else { b[y][x] = in[T * 2 + k]; }
        __syncthreads();
        if (T < 64) for (int j = 0; j < 8; j++) sum += a[y][j] * b[j][x];
        FIX;
    }
    out[T] = sum;
}
PAIR(matrix)

BODY(softmax) {
    __shared__ float m[4], d[4]; float v = in[T];
    float best = v; for (int k = 16; k; k >>= 1) best = fmaxf(best, __shfl_xor_sync(~0u, best, k));
    if (LANE == 0) m[WARP] = best;
    __syncthreads();
    best = fmaxf(fmaxf(m[0], m[1]), fmaxf(m[2], m[3]));
    float e = __expf(v - best), sum = e; for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (LANE == 0) d[WARP] = sum;
    FIX;
    out[T] = 100 * e / (d[0] + d[1] + d[2] + d[3]);
}
PAIR(softmax)

BODY(one_scratch) {  // a maximum, then a sum, through one array
    __shared__ int s[4]; int v = in[T], best = v;
    for (int k = 16; k; k >>= 1) best = max(best, __shfl_xor_sync(~0u, best, k));
    if (LANE == 0) s[WARP] = best;
    __syncthreads();
    best = max(max(s[0], s[1]), max(s[2], s[3])); FIX;
    int sum = v - best; for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (LANE == 0) s[WARP] = sum;
    __syncthreads(); out[T] = s[0] + s[1] + s[2] + s[3];
}
PAIR(one_scratch)

BODY(halo) {  // the last warp brings the edge
    __shared__ int s[160]; s[T] = in[T]; if (WARP == 3) s[128 + LANE] = in[128 + LANE];
    FIX;
    out[T] = s[T + 32];
}
PAIR(halo)

BODY(conditional) { __shared__ int s[128]; s[T] = in[T]; if (n > 2 && GOOD) __syncthreads(); out[T] = s[T ^ 96]; }
PAIR(conditional)

BODY(inside_loop) {
    __shared__ int s[128];
#pragma unroll 1
    for (int k = 0; k < n; k++) { s[(T + 32 * k) % 128] = in[T]; __syncthreads(); out[T] += s[T]; if (k + 1 == n || GOOD) __syncthreads(); }
}
PAIR(inside_loop)

BODY(voted) { __shared__ int s[128]; s[T] = in[T]; int any = GOOD ? __syncthreads_or(in[T] == 5) : __any_sync(~0u, in[T] == 5); out[T] = s[127 - T] + any; }
PAIR(voted)

BODY(union_reuse) {
    __shared__ union { int i[128]; double d[64]; } u;
    u.i[T] = in[T]; __syncthreads(); int v = u.i[127 - T]; FIX;
    if (T >= 64) u.d[T - 64] = v;
    __syncthreads(); out[T] = u.d[T % 64];
}
PAIR(union_reuse)

BODY(function_scratch) {
    extern __shared__ int d[]; d[T] = in[T]; __syncthreads();
    auto total = [&](int f) { int v = d[(T + f) % 128]; FIX; d[T] = v + f; __syncthreads(); return d[(T + 64) % 128]; };
    int a = total(40); __syncthreads(); int b = total(70); out[T] = a + b;
}
PAIR(function_scratch)

BODY(predicated_store) { __shared__ int s[128]; s[T] = in[T]; __syncthreads(); int v = s[T ^ 32]; FIX; if (v & 1) s[T] = v + 1; __syncthreads(); out[T] = s[T]; }
PAIR(predicated_store)

BODY(atomic_then_plain) { __shared__ int c; if (T == 0) c = 0; __syncthreads(); atomicAdd(&c, T); FIX; if (T == 40) c += 1; __syncthreads(); out[T] = c; }
PAIR(atomic_then_plain)

BODY(exchange_then_read) { __shared__ int c; if (T == 0) c = 0; __syncthreads(); if (LANE == 0) atomicExch(&c, T); FIX; out[T] = c; }
PAIR(exchange_then_read)

BODY(swap_word) {
    __shared__ int w[2]; if (T < 2) w[T] = 0;
    __syncthreads();
    if (LANE == 0) { int old = w[0], seen; do { seen = old; old = atomicCAS(&w[0], seen, seen + n); } while (old != seen); }
    FIX;
    out[T] = w[0];
}
PAIR(swap_word)

BODY(global_in_cta) { out[T] = in[T]; FIX; out[128 + T] = out[127 - T]; }
PAIR(global_in_cta)

BODY(global_war) { int v = out[127 - T]; FIX; out[T] = v + in[T]; }
PAIR(global_war)

BODY(global_vector) { int4 v = ((int4 *)out)[(T + 32) % 128]; FIX; ((int4 *)out)[T] = make_int4(v.y, v.x, n, v.w); }
PAIR(global_vector)

BODY(global_last_reads) { out[T] = in[T]; FIX; if (T == 127) { int sum = 0; for (int k = 0; k < 128; k++) sum += out[k]; out[200] = sum; } }
PAIR(global_last_reads)

BODY(global_count) { out[256 + T] = out[0]; FIX; if (T >= 96) atomicAdd(&out[0], 1); }
PAIR(global_count)
