// Microbenchmarks that ask the same of an SM as those whose hardware cycles Accel-Sim publishes.
// TIMES, a constant of the compiler, says how often a loop goes round.
typedef unsigned int word;
typedef unsigned long long words;

#define LOAD(kind, type, to, from) asm volatile("ld.global." kind " %0, [%1];" : type(to) : "l"(from) : "memory")

__device__ __forceinline__ word clock_low() {
  word now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

__device__ __forceinline__ void meet() { asm volatile("bar.sync 0;"); }

__device__ __forceinline__ void warm(const float *in, float &sum) {
  for (word i = threadIdx.x; i < 16384; i += blockDim.x) {
    float one;
    LOAD("ca.f32", "=f", one, in + i);
    sum += one;
  }
}

// Four loads of a line each per turn.
extern "C" __global__ void l1_bw_32f(word *cycles, float *out, const float *in) {
  float sum[4] = {};
  warm(in, sum[0]);
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) {
    const float *at = in + (threadIdx.x + i * warpSize * 4) % 16384;
    float got[4];
    asm volatile("ld.global.ca.f32 %0, [%4];\n\tld.global.ca.f32 %1, [%4+128];\n\t"
                 "ld.global.ca.f32 %2, [%4+256];\n\tld.global.ca.f32 %3, [%4+384];"
                 : "=f"(got[0]), "=f"(got[1]), "=f"(got[2]), "=f"(got[3]) : "l"(at) : "memory");
    for (int k = 0; k < 4; k++) sum[k] += got[k];
  }
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}

// Two loads of 64 bits, added in double precision.
extern "C" __global__ void l1_bw_64f(word *cycles, double *out, const double *in) {
  double sum[2] = {};
  for (word i = threadIdx.x; i < 8192; i += blockDim.x) {
    double one;
    LOAD("ca.f64", "=d", one, in + i);
    sum[0] += one;
  }
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) {
    const double *at = in + (threadIdx.x + i * warpSize * 2) % 8192;
    double got[2];
    asm volatile("ld.global.ca.f64 %0, [%2];\n\tld.global.ca.f64 %1, [%2+256];"
                 : "=d"(got[0]), "=d"(got[1]) : "l"(at) : "memory");
    sum[0] += got[0];
    sum[1] += got[1];
  }
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = sum[0] + sum[1];
}

// A load of 128 bits.
extern "C" __global__ void l1_bw_128(word *cycles, float *out, const float *in) {
  float sum[4] = {};
  for (word i = 4 * threadIdx.x; i < 16384; i += 4 * blockDim.x) {
    float got[4];
    asm volatile("ld.global.ca.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(got[0]), "=f"(got[1]), "=f"(got[2]), "=f"(got[3]) : "l"(in + i) : "memory");
    for (int k = 0; k < 4; k++) sum[k] += got[k];
  }
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) {
    float got[4];
    asm volatile("ld.global.ca.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(got[0]), "=f"(got[1]), "=f"(got[2]), "=f"(got[3])
                 : "l"(in + (4 * threadIdx.x + i * warpSize * 4) % 16384) : "memory");
    for (int k = 0; k < 4; k++) sum[k] += got[k];
  }
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}

// A load of a line per turn, each warp a line further.
extern "C" __global__ void l1_bw_32f_unroll(word *cycles, float *out, const float *in) {
  float sum = 0, one;
  warm(in, sum);
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) {
    LOAD("ca.f32", "=f", one, in + (threadIdx.x + i * warpSize) % 16384);
    sum += one;
  }
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = sum;
}

// One thread writes a chain of pointers of 64 KiB and follows it in L1. Unrolled so often, an H200 takes what is published.
extern "C" __global__ void l1_lat(word *cycles, words *out, words *chain) {
  if (threadIdx.x == 0) {
#pragma unroll 16
    for (word i = 0; i < 8191; i++) chain[i] = (words)(chain + i + 1);
    chain[8191] = (words)chain;
  }
  words at, next;
  LOAD("ca.u64", "=l", at, chain + threadIdx.x);
  meet();
  word start = clock_low();
#pragma unroll 16
  for (word i = 0; i < TIMES; i++) {
    LOAD("ca.u64", "=l", next, at);
    at = next;
  }
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = at;
}

// One thread writes a chain of pointers of 32 KiB and follows it in L2.
extern "C" __global__ void l2_lat(word *cycles, words *out, words *chain) {
  if (threadIdx.x == 0) {
    for (word i = 0; i < 4095; i++) chain[i] = (words)(chain + i + 1);
    chain[4095] = (words)chain;
    words at, next;
    LOAD("cg.u64", "=l", at, chain);
    word start = clock_low();
    for (word i = 0; i < TIMES; i++) {
      LOAD("cg.u64", "=l", next, at);
      at = next;
    }
    cycles[threadIdx.x] = clock_low() - start;
    out[threadIdx.x] = at;
  }
}

// A CTA on each SM, first over all that L2 is to have, then a load past L1 per turn, each time a warp's further on.
__device__ __forceinline__ void past_l1(float &to, const float *from) { LOAD("cg.f32", "=f", to, from); }
__device__ __forceinline__ void past_l1(double &to, const double *from) { LOAD("cg.f64", "=d", to, from); }

template <typename T> __device__ __forceinline__ void l2_bw(word *cycles, T *out, const T *in, word size) {
  word n = blockIdx.x * blockDim.x + threadIdx.x;
  T sum = 0, one;
  for (word i = n; i < size; i += blockDim.x * gridDim.x) {
    past_l1(one, in + i);
    sum += one;
  }
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) {
    past_l1(one, in + n + i * warpSize);
    sum += one;
  }
  meet();
  cycles[n] = clock_low() - start;
  out[n] = sum;
}

extern "C" __global__ void l2_bw_32f(word *cycles, float *out, const float *in, word size) { l2_bw(cycles, out, in, size); }
extern "C" __global__ void l2_bw_64f(word *cycles, double *out, const double *in, word size) { l2_bw(cycles, out, in, size); }

// Each thread follows a chain of words in shared memory, without conflicts.
extern "C" __global__ void shared_bw(word *cycles, word *out, word stride) {
  __shared__ word chain[8192];
  for (word i = threadIdx.x; i < 8192; i += blockDim.x) chain[i] = (i + stride) % 8192;
  word at = threadIdx.x;
  meet();
  word start = clock_low();
  for (word i = 0; i < TIMES; i++) at = chain[at];
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = at;
}

// One thread writes a chain in shared memory and follows it.
extern "C" __global__ void shared_lat(word *cycles, words *out, word stride) {
  __shared__ words chain[4096];
  for (word i = threadIdx.x; i < 4096 - stride; i += blockDim.x) chain[i] = (i + stride) % 4096;
  if (threadIdx.x == 0) {
    words at = 0;
    word start = clock_low();
    for (word i = 0; i < TIMES; i++) at = chain[at];
    cycles[0] = clock_low() - start;
    out[0] = at;
  }
}

// Four multiply-adds, each on the result of the one before.
extern "C" __global__ void MaxIops_int32(word *cycles, int *out, const int *a, const int *b) {
  int x = a[threadIdx.x], y = b[threadIdx.x], sum = 0;
  meet();
  word start = clock_low();
  for (int i = 0; i < TIMES; i++)
    asm volatile("mad.lo.s32 %0, %1, %2, %0;\n\tmad.lo.s32 %0, %1, %2, %0;\n\t"
                 "mad.lo.s32 %0, %1, %2, %0;\n\tmad.lo.s32 %0, %1, %2, %0;" : "+r"(sum), "+r"(x), "+r"(y));
  meet();
  cycles[threadIdx.x] = clock_low() - start;
  out[threadIdx.x] = sum;
}

// Tiles of 32 by 32 are transposed by 8 warps; PAD words behind each row.
template <int PAD> __device__ __forceinline__ void transpose(float *out, const float *in, int size) {
  __shared__ float tile[32][32 + PAD];
  int from = blockIdx.x * 32 + threadIdx.x + (blockIdx.y * 32 + threadIdx.y) * size;
  int to = blockIdx.y * 32 + threadIdx.x + (blockIdx.x * 32 + threadIdx.y) * size;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[from + i * size];
  __syncthreads();
  for (int i = 0; i < 32; i += 8) out[to + i * size] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void transpose_conflicts(float *out, const float *in, int size) { transpose<0>(out, in, size); }
extern "C" __global__ void transpose_padded(float *out, const float *in, int size) { transpose<1>(out, in, size); }
