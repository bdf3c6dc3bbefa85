// What SMs share, one mechanism a kernel: rates of L2 and DRAM by SMs and loads in flight, latency under load, what L2
// holds, atomics, how CTAs are dealt out. One CTA an SM: a launch asks for so much shared memory that no two fit.
// Each CTA writes a record: its SM, the clock of that SM and the global timer (ns) at its start and end, and what it did.
#define RECORD 6
typedef unsigned long long u64;

__device__ __forceinline__ u64 timer() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ unsigned sm() { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

__device__ void begin(u64* record) {
    if (threadIdx.x == 0) { record[0] = sm(); record[1] = clock64(); record[2] = timer(); }
    __syncthreads();
}
__device__ void finish(u64* record, u64 done) {
    __syncthreads();
    if (threadIdx.x == 0) { record[3] = clock64(); record[4] = timer(); record[5] = done; }
}

enum Mode { READ, WRITE, COPY, REDUCE };

// CTA c goes `passes` times over `lines` rows of 16 bytes a thread, row r at ((r * ctas + turned c) * threads): all CTAs
// together go through one range. `step` > 1 leaves out the rest of each `step` rows of 16 bytes (sectors of a line).
template <int MODE, int UNROLL>
__device__ void sweep(uint4* from, uint4* to, int lines, int passes, int turn, int step, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    uint4 sum = {0, 0, 0, 0};
    begin(record);
    for (int pass = 0; pass < passes; pass++) {
        const u64 column = (u64)((blockIdx.x + pass * turn) % gridDim.x) * blockDim.x + threadIdx.x;
        const u64 pitch = (u64)gridDim.x * blockDim.x;
        for (int r = 0; r < lines; r += UNROLL) {
            uint4 v[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const u64 at = ((r + u) * pitch + column) * step;
                if (MODE == READ || MODE == COPY) v[u] = __ldcg(from + at);
                if (MODE == WRITE) __stcg(from + at, sum);
                if (MODE == REDUCE) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(from + at) : "memory");
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const u64 at = ((r + u) * pitch + column) * step;
                if (MODE == COPY) __stcg(to + at, v[u]);
                if (MODE == READ) { sum.x ^= v[u].x; sum.y ^= v[u].y; sum.z ^= v[u].z; sum.w ^= v[u].w; }
            }
        }
    }
    if (MODE == READ && sum.x == 0x12345678 && sum.y == 77) to[0] = sum;
    finish(record, (u64)lines * passes * blockDim.x * 16);
}
#define SWEEP(NAME, MODE, UNROLL) \
    extern "C" __global__ void NAME(uint4* from, uint4* to, int lines, int passes, int turn, int step, u64* records) { \
        sweep<MODE, UNROLL>(from, to, lines, passes, turn, step, records); }
SWEEP(read1, READ, 1) SWEEP(read4, READ, 4) SWEEP(read8, READ, 8) SWEEP(write4, WRITE, 4) SWEEP(copy4, COPY, 4) SWEEP(reduce4, REDUCE, 4)

// A CTA goes through rows of its own, a piece of each at a time, and waits for all of these before the next ones: 16 bytes
// a thread and load. `in`, `out`: bytes from row to row of what is read and written, 0: all CTAs together go through one range.
template <int MODE, int LOADS>
__device__ void go(char* from, char* to, u64 in, u64 out, int piece, int steps, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    __shared__ unsigned seen[1024];
    const int rows = LOADS * blockDim.x * 16 / piece;
    seen[threadIdx.x] = 0;
    begin(record);
    for (int step = 0; step < steps; step++) {
        uint4 v[LOADS];
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int at = (u * blockDim.x + threadIdx.x) * 16;
            const u64 row = (u64)blockIdx.x * rows + at / piece;
            const u64 together = ((u64)step * gridDim.x * rows + row) * piece + at % piece;
            const u64 apart = row * (in ? in : out) + (u64)step * piece + at % piece;
            v[u].x = at;
            if (MODE != WRITE) v[u] = __ldcg((uint4*)(from + (in ? apart : together)));
            if (MODE != READ) __stcg((uint4*)(to + (out ? apart : together)), v[u]);
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) seen[threadIdx.x] ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
        __syncthreads();
    }
    finish(record, (u64)steps * LOADS * blockDim.x * 16);
}
#define GO(NAME, MODE, LOADS) \
    extern "C" __global__ void NAME(char* from, char* to, u64 in, u64 out, int piece, int steps, u64* records) { \
        go<MODE, LOADS>(from, to, in, out, piece, steps, records); }
GO(go_read1, READ, 1) GO(go_read2, READ, 2) GO(go_read4, READ, 4) GO(go_read8, READ, 8) GO(go_write4, WRITE, 4) GO(go_copy4, COPY, 4)

// All CTAs read the same rows, each beginning `skew` rows behind the one before.
extern "C" __global__ void shared_rows(uint4* from, uint4* to, int lines, int passes, int skew, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    uint4 sum = {0, 0, 0, 0};
    begin(record);
    for (int pass = 0; pass < passes; pass++)
        for (int r = 0; r < lines; r += 4) {
#pragma unroll
            for (int u = 0; u < 4; u++) {
                const uint4 v = __ldcg(from + (u64)((r + u + blockIdx.x * skew) % lines) * blockDim.x + threadIdx.x);
                sum.x ^= v.x; sum.y ^= v.y; sum.z ^= v.z; sum.w ^= v.w;
            }
        }
    if (sum.x == 0x12345678 && sum.y == 77) to[0] = sum;
    finish(record, (u64)lines * passes * blockDim.x * 16);
}

// CTA 0 follows a chain of `hops` addresses; the others read rows, and rest `rest` cycles behind every 4, until it is done.
extern "C" __global__ void under_load(unsigned* chain, int hops, uint4* from, int lines, int rest, int* stop, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    if (blockIdx.x == 0) {
        if (threadIdx.x) return;
        const u64 wait = clock64();
        while (clock64() - wait < 30000) {}
        record[0] = sm(); record[1] = clock64(); record[2] = timer();
        unsigned at = 0;
        for (int i = 0; i < hops; i++) at = __ldcg(chain + at);
        record[3] = clock64(); record[4] = timer(); record[5] = hops;
        if (at == 0xffffffff) record[5] = 0;
        atomicExch(stop, 1);
        return;
    }
    uint4 sum = {0, 0, 0, 0};
    u64 done = 0;
    __shared__ int over;
    begin(record);
    for (int r = 0;; r = (r + 4) % lines) {
        if (threadIdx.x == 0) over = *(volatile int*)stop;
        __syncthreads();
        if (over) break;
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const uint4 v = __ldcg(from + ((u64)(r + u) * (gridDim.x - 1) + blockIdx.x - 1) * blockDim.x + threadIdx.x);
            sum.x ^= v.x; sum.y ^= v.y; sum.z ^= v.z; sum.w ^= v.w;
        }
        done += 4 * 16 * blockDim.x;
        const u64 now = clock64();
        while (clock64() - now < rest) {}
        __syncthreads();
    }
    if (sum.x == 0x12345678 && sum.y == 77) stop[1] = 1;
    finish(record, done);
}

// Atomics on `words` words `pitch` bytes apart, by one lane of each warp, or by all lanes on words of their own.
template <bool RETURNS>
__device__ void atomics(char* base, int words, int pitch, int lanes, int times, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    unsigned sum = 0;
    begin(record);
    if (lane < lanes)
        for (int i = 0; i < times; i++) {
            char* at = base + (u64)((warp * 7 + i * 3 + lane) % words) * pitch;
            unsigned old = 0;
            if (RETURNS) asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(lane + 1) : "memory");
            else asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at), "r"(lane + 1) : "memory");
            sum += old;
        }
    if (sum == 0x12345679) *(unsigned*)base = sum;
    __threadfence();
    finish(record, (u64)times * lanes * (blockDim.x / 32));
}
extern "C" __global__ void reds(char* base, int words, int pitch, int lanes, int times, u64* records) { atomics<false>(base, words, pitch, lanes, times, records); }
extern "C" __global__ void atoms(char* base, int words, int pitch, int lanes, int times, u64* records) { atomics<true>(base, words, pitch, lanes, times, records); }

// CTAs that wait: `long_cycles` every `every`th, `cycles` the others.
extern "C" __global__ void waits(int cycles, int long_cycles, int every, u64* records) {
    u64* record = records + RECORD * blockIdx.x;
    begin(record);
    const int wanted = every && blockIdx.x % every == 0 ? long_cycles : cycles;
    const u64 from = clock64();
    while (clock64() - from < wanted) {}
    finish(record, wanted);
}
extern "C" __global__ void nothing() {}
