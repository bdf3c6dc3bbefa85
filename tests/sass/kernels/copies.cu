// Bulk copies of sm_90, by address and by tensor map; and barriers of a cluster.
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void start(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes));
}

__device__ void wait(u64* barrier) {
    u32 done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(shared_address(barrier)) : "memory");
}

__device__ void finish() {
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;");
}

extern "C" __global__ void there_and_back(float* out, const float* in, int count) {
    extern __shared__ __align__(128) float data[];
    __shared__ u64 barrier;
    u32 bytes = 4 * count;
    if (threadIdx.x == 0) {
        start(&barrier, bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                     "r"(shared_address(data)), "l"(in), "r"(bytes), "r"(shared_address(&barrier)) : "memory");
    }
    __syncthreads();
    wait(&barrier);
    for (int k = threadIdx.x; k < count; k += blockDim.x) data[k] = data[k] * 2 + 1;
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::
                     "l"(out), "r"(shared_address(data)), "r"(bytes) : "memory");
        finish();
    }
}

#define REDUCTION(name, operation)                                                                                  \
    extern "C" __global__ void name(char* out, const u32* in) {                                                     \
        __shared__ __align__(128) u32 data[64];                                                                     \
        data[threadIdx.x] = in[threadIdx.x];                                                                        \
        asm volatile("fence.proxy.async;");                                                                         \
        __syncthreads();                                                                                            \
        if (threadIdx.x == 0) {                                                                                     \
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." operation " [%0], [%1], 256;" ::     \
                         "l"(out), "r"(shared_address(data)) : "memory");                                           \
            finish();                                                                                               \
        }                                                                                                           \
    }
REDUCTION(add_u32, "add.u32")
REDUCTION(max_s32, "max.s32")
REDUCTION(min_u64, "min.u64")
REDUCTION(xor_b32, "xor.b32")
REDUCTION(inc_u32, "inc.u32")
REDUCTION(add_f32, "add.f32")
REDUCTION(add_f16, "add.noftz.f16")
REDUCTION(add_bf16, "add.noftz.bf16")
REDUCTION(min_f16, "min.f16")
REDUCTION(max_bf16, "max.bf16")

#define LOAD(name, dimensions, coordinates, words)                                                                        \
    extern "C" __global__ void name(u32* out, int bytes, int x, int y, int z, const __grid_constant__ Map map) {    \
        extern __shared__ __align__(1024) u32 tile[]; \
        for (int k = threadIdx.x; k < (words); k += blockDim.x) tile[k] = 0xdeadbeef; \
        asm volatile("fence.proxy.async;"); \
        __syncthreads(); \
        __shared__ u64 barrier;                                                                                     \
        if (threadIdx.x == 0) {                                                                                     \
            asm volatile("prefetch.tensormap [%0];" ::"l"(&map));                                                   \
            start(&barrier, bytes);                                                                                 \
            asm volatile("cp.async.bulk.tensor." dimensions                                                         \
                         ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " coordinates "], [%2];" :: \
                         "r"(shared_address(tile)), "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z) \
                         : "memory");                                                                               \
        }                                                                                                           \
        __syncthreads();                                                                                            \
        wait(&barrier);                                                                                             \
        for (int k = threadIdx.x; k < (words); k += blockDim.x) out[k] = tile[k];                                 \
    }
LOAD(load_1d, "1d", "{%3}", bytes / 4)
LOAD(load_2d, "2d", "{%3, %4}", bytes / 4)
LOAD(room_2d, "2d", "{%3, %4}", 128)
LOAD(load_3d, "3d", "{%3, %4, %5}", bytes / 4)

#define STORE(name, instruction)                                                                                     \
    extern "C" __global__ void name(const u32* in, int words, int x, int y, const __grid_constant__ Map map) {       \
        extern __shared__ __align__(1024) u32 tile[];                                                               \
        for (int k = threadIdx.x; k < words; k += blockDim.x) tile[k] = in[k];                                      \
        asm volatile("fence.proxy.async;");                                                                         \
        __syncthreads();                                                                                            \
        if (threadIdx.x == 0) {                                                                                     \
            asm volatile(instruction " [%0, {%2, %3}], [%1];" ::                                                    \
                         "l"(&map), "r"(shared_address(tile)), "r"(x), "r"(y) : "memory");                          \
            finish();                                                                                               \
        }                                                                                                           \
    }
STORE(store_2d, "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group")
STORE(add_2d, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group")

// Writes a tensor map of its own from another one, and loads by it.
extern "C" __global__ void replaced(u32* out, u32* made, const u32* other, const __grid_constant__ Map map) {
    __shared__ __align__(1024) u32 tile[64];
    __shared__ u64 barrier;
    if (threadIdx.x < 32) {
        made[threadIdx.x] = ((const u32*)map.bytes)[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) {
            *(const u32**)made = other;
            made[9] = 3;  // rows less one
            made[2] |= 1 << 15;  // NaN outside
        }
        __syncwarp();
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(made) : "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        start(&barrier, 256);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];" ::
                     "r"(shared_address(tile)), "l"(made), "r"(shared_address(&barrier)), "r"(0) : "memory");
    }
    __syncthreads();
    wait(&barrier);
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void cluster_barrier(int* out) {
    __shared__ int data[256];
    data[threadIdx.x] = 3 * threadIdx.x;
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
    out[threadIdx.x] = data[(threadIdx.x + 77) % 256];
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
}

// Tensor maps in a structure by value, aligned as in CUDA 12 and in CUDA 13.
#define FIELDS(alignment)                                                                                           \
    struct alignas(alignment) Map##alignment { char bytes[128]; };                                                  \
    struct Fields##alignment { int x, y; Map##alignment first, second; u32* out; };                                 \
    extern "C" __global__ void fields_##alignment(const __grid_constant__ Fields##alignment given) {                \
        __shared__ __align__(128) u32 tiles[2][64];                                                                 \
        __shared__ u64 barrier;                                                                                     \
        if (threadIdx.x == 0) {                                                                                     \
            start(&barrier, 512);                                                                                   \
            for (int k = 0; k < 2; ++k)                                                                             \
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"     \
                             " [%0], [%1, {%2, %3}], [%4];" :: "r"(shared_address(tiles[k])),                       \
                             "l"(k ? &given.second : &given.first), "r"(given.x), "r"(given.y),                     \
                             "r"(shared_address(&barrier)) : "memory");                                             \
        }                                                                                                           \
        __syncthreads();                                                                                            \
        wait(&barrier);                                                                                             \
        given.out[threadIdx.x] = tiles[threadIdx.x / 64][threadIdx.x % 64];                                         \
    }
FIELDS(64)
FIELDS(128)

// Warp 0 takes its time before it arrives; the others wait, by attempts or by tests.
extern "C" __global__ void waits_for_a_warp(u32* out, int turns, int tests) {
    __shared__ u64 barrier;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    __syncthreads();
    u32 sum = threadIdx.x;
    if (threadIdx.x < 32) {
#pragma unroll 1
        for (int k = 0; k < turns; k++) sum = sum * 3 + 1;
        if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
    } else if (tests) {
        u32 done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(shared_address(&barrier)) : "memory");
    } else {
        wait(&barrier);
    }
    out[threadIdx.x] = sum;
}

// A persistent kernel: CTAs take tiles in turn, which lie in no straight order.
extern "C" __global__ void tiles_in_turn(u32* out, const u32* order, int tiles, int step, const __grid_constant__ Map map) {
    __shared__ __align__(128) u32 tile[64];
    __shared__ u64 barrier;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    u32 sum = 0, turn = 0;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x, ++turn) {
        int row = (step ? t * step % tiles : order[t] + sum % 2) * 8;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(shared_address(&barrier)));
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                         "r"(shared_address(tile)), "l"(&map), "r"(0), "r"(row), "r"(shared_address(&barrier)) : "memory");
        }
        for (u32 done = 0; !done;)
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                         : "=r"(done) : "r"(shared_address(&barrier)), "r"(turn % 2) : "memory");
        sum += tile[threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
