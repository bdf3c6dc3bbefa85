// CTAs that touch bytes of their own, and CTAs that touch those of others.

extern "C" __global__ void scale(const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 2.0f + blockIdx.x;
}

extern "C" __global__ void in_place(int* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] * 3 + blockIdx.x;
}

// A tile turned round in shared memory, with a local array and a loop of its own length in each CTA.
extern "C" __global__ void tile(const int* in, int* out) {
    __shared__ int kept[64];
    int own[8], t = threadIdx.x, sum = 0;
    for (int k = 0; k < 8; k++) own[(k * 5 + t) % 8] = in[64 * blockIdx.x + (t + k) % 64];
    for (int k = 0; k < (int)blockIdx.x % 7; k++) sum += own[(k + t + blockIdx.x) % 8];
    kept[63 - t] = sum + __shfl_xor_sync(~0u, sum, 5);
    __syncthreads();
    out[64 * blockIdx.x + t] = kept[t];
}

// A row of `width` bytes for each CTA, from `first` on: neighbours share words.
extern "C" __global__ void rows_of_bytes(unsigned char* x, int width, int first) {
    if (threadIdx.x < width) x[first + blockIdx.x * width + threadIdx.x] += blockIdx.x + 1;
}

// Each lane goes to the one or the other buffer.
extern "C" __global__ void two_buffers(int* a, int* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* x = threadIdx.x % 3 ? a : b;
    x[i] = x[i] + i;
}

// The second half reads what the first one has left.
extern "C" __global__ void two_halves(int* x) {
    int i = blockIdx.x * 32 + threadIdx.x;
    x[i] += blockIdx.x > 50 ? x[i - 50 * 32] : 1;
}

extern "C" __global__ void reads_late(const int* in, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    out[i] = i;
    if (blockIdx.x > 60) out[i] += in[i];
}

extern "C" __global__ void late_clock(int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    out[i] = i;
    if (blockIdx.x == 50) out[i] = clock();
}

extern "C" __global__ void last_one_wins(int* out) {
    if (threadIdx.x == 0) out[0] = blockIdx.x * 7;
}

extern "C" __global__ void chain(int* x) {
    if (blockIdx.x) x[32 * blockIdx.x + threadIdx.x] += x[32 * (blockIdx.x - 1) + threadIdx.x];
}

extern "C" __global__ void reads_the_next(int* x) {
    int i = blockIdx.x * 32 + threadIdx.x;
    x[i] = x[i + 32] + 1;
}

extern "C" __global__ void shift(const int* from, int* to) {
    int i = blockIdx.x * 32 + threadIdx.x;
    to[i + 32] = from[i] + 1;
}

// One CTA writes late to a buffer to which no other has written, and the CTAs after it read that.
extern "C" __global__ void writes_elsewhere(int* out, int* rare, int turns) {
    int n = threadIdx.x;
    if (blockIdx.x == 51) {
        for (int k = 0; k < turns; k++) n = n * 5 + k;
        rare[threadIdx.x] = n;
    }
    out[blockIdx.x * 32 + threadIdx.x] = blockIdx.x + rare[threadIdx.x];
}

extern "C" __global__ void counts(int* count, int* order) {
    if (threadIdx.x == 0) order[blockIdx.x] = atomicAdd(count, 3);
}

extern "C" __global__ void out_of_bounds(int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    out[blockIdx.x == 77 && threadIdx.x == 9 ? i + 100000 : i] = i;
}

extern "C" __global__ void endless(volatile int* out) {
    int i = blockIdx.x * 32 + threadIdx.x, n = i;
    do {
        n = n * 5 + 1;
        out[i] = n;
    } while (blockIdx.x == 77 && n != 2);
}

extern "C" __global__ void spins_in_a_race(int* x) {
    int i = blockIdx.x * 32 + threadIdx.x, n = 0;
    x[i] = 1;
    for (int k = 0; k < blockIdx.x; k++) n += x[k * 32 + (threadIdx.x + k) % 32];
    while (n < (int)blockIdx.x) n = n * 3 % 1000003;  // in order, n is the number of the CTA
    x[i] = n + 1 - blockIdx.x;
}

extern "C" __global__ void prints(int* out) {
    out[blockIdx.x * 32 + threadIdx.x] = blockIdx.x + 1;
    if (threadIdx.x == 0 && blockIdx.x % 50 == 49) printf("%d %d\n", blockIdx.x, out[0]);
}

extern "C" __global__ void moves(int* x, const int* from, const int* to) {
    int i = blockIdx.x * 32 + threadIdx.x;
    x[to[i]] = x[from[i]] * 3 + blockIdx.x;
}
