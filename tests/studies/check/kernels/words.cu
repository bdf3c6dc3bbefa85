// Words that several threads change: bit-fields, plain looks at what atomics change, two stores to one word.
struct Fields {
    unsigned a : 4, b : 4, c : 12, d : 12;
};

extern "C" __global__ void fields_warps_bad(int *out) {
    __shared__ Fields f;
    if (threadIdx.x == 0) *(unsigned *)&f = 0;
    __syncthreads();
    if (threadIdx.x == 0) f.a = out[0];
    if (threadIdx.x == 32) f.b = out[32];
    __syncthreads();
    out[threadIdx.x] = f.a + f.b;
}
extern "C" __global__ void fields_warps_good(int *out) {
    __shared__ Fields f;
    if (threadIdx.x == 0) *(unsigned *)&f = 0;
    __syncthreads();
    if (threadIdx.x == 0) f.a = out[0];
    __syncthreads();
    if (threadIdx.x == 32) f.b = out[32];
    __syncthreads();
    out[threadIdx.x] = f.a + f.b;
}

extern "C" __global__ void fields_lanes_bad(int *out) {
    Fields *f = (Fields *)(out + 128);
    if (threadIdx.x == 0) f->a = out[0];
    if (threadIdx.x == 1) f->b = out[1];
}
extern "C" __global__ void fields_lanes_good(int *out) {
    Fields *f = (Fields *)(out + 128);
    if (threadIdx.x == 0) f->a = out[0];
    __syncwarp();
    if (threadIdx.x == 1) f->b = out[1];
}

// A key of a hash table, looked at before a compare-and-swap.
__device__ __forceinline__ int look(int *p) { return *p; }
__device__ __forceinline__ int atomic_look(int *p) {
    int v;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
#define INSERT(LOOK)                                      \
    int key = threadIdx.x / 2 + 1, *table = out + 128;    \
    for (int h = key % 16; h < 128; h++) {                \
        int now = LOOK(table + h);                        \
        if (now == key) break;                            \
        if (now == 0) {                                   \
            int before = atomicCAS(table + h, 0, key);    \
            if (before == 0 || before == key) break;      \
        }                                                 \
    }
extern "C" __global__ void hashed_bad(int *out) { INSERT(look) }
extern "C" __global__ void hashed_good(int *out) { INSERT(atomic_look) }

// A largest value, looked at before the atomic that may raise it.
extern "C" __global__ void largest_bad(int *out) {
    if (look(out + 128) < threadIdx.x * 37 % 128) atomicMax(out + 128, threadIdx.x * 37 % 128);
}
extern "C" __global__ void largest_good(int *out) {
    if (atomic_look(out + 128) < threadIdx.x * 37 % 128) atomicMax(out + 128, threadIdx.x * 37 % 128);
}

// A ticket that is read apart from the atomic that takes it: the value itself is used.
extern "C" __global__ void ticket_bad(int *out) {
    int mine = look(out + 128);
    atomicAdd(out + 128, 1);
    out[threadIdx.x] = mine;
}
extern "C" __global__ void ticket_good(int *out) { out[threadIdx.x] = atomicAdd(out + 128, 1); }

// A store past the region that one thread's value is for.
extern "C" __global__ void padded_bad(int *out) {
    __shared__ int pool[48];
    if (threadIdx.x >= 32) return;
    pool[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 8 == 0 && threadIdx.x < 16) pool[16 + threadIdx.x / 8] = -1;
    __syncwarp();
    out[threadIdx.x] = pool[threadIdx.x % 18];
}
extern "C" __global__ void padded_good(int *out) {
    __shared__ int pool[48];
    if (threadIdx.x >= 32) return;
    if (threadIdx.x < 16) pool[threadIdx.x] = threadIdx.x;
    if (threadIdx.x % 8 == 0 && threadIdx.x < 16) pool[16 + threadIdx.x / 8] = -1;
    __syncwarp();
    out[threadIdx.x] = pool[threadIdx.x % 18];
}
