// Loads, stores and atomics by generic addresses: one warp, 16 of them between two clock reads, twice.
//
// The address is an integer that went through a shuffle, so the compiler cannot know which memory it means and writes
// LD, ST and ATOM. Lanes below `shared_lanes` go to shared memory, the others to global memory; the words of two lanes
// lie `stride` words apart. The names of the kernels say both: load_32_by_2 has 32 lanes in shared memory, 2 words apart.
// out: 32 words of results, then the clocks.

#include <cstdint>

namespace {

constexpr int words = 2048, times = 16;

template <typename T>
__device__ T* hidden(T* pointer) {
    const uint64_t number = __shfl_sync(0xffffffff, reinterpret_cast<uint64_t>(pointer), threadIdx.x % 32);
    return reinterpret_cast<T*>(number);
}

__device__ void add(uint32_t& sum, uint32_t v) { sum += v; }
__device__ void add(uint32_t& sum, uint2 v) { sum += v.x + v.y; }
__device__ void add(uint32_t& sum, uint4 v) { sum += v.x + v.y + v.z + v.w; }

struct Load {
    template <typename T>
    static __device__ void act(volatile T* at, uint32_t& sum) { T v; copy(v, at); add(sum, v); }
    static __device__ void copy(uint32_t& v, const volatile uint32_t* at) {
        asm volatile("ld.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    }
    static __device__ void copy(uint2& v, const volatile uint2* at) {
        asm volatile("ld.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(at) : "memory");
    }
    static __device__ void copy(uint4& v, const volatile uint4* at) {
        asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    }
};

struct Store {
    static __device__ void act(volatile uint32_t* at, uint32_t& sum) {
        asm volatile("st.u32 [%0], %1;" :: "l"(at), "r"(sum) : "memory");
    }
    static __device__ void act(volatile uint2* at, uint32_t& sum) {
        asm volatile("st.v2.u32 [%0], {%1, %1};" :: "l"(at), "r"(sum) : "memory");
    }
    static __device__ void act(volatile uint4* at, uint32_t& sum) {
        asm volatile("st.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(at), "r"(sum) : "memory");
    }
};

struct Atomic {
    static __device__ void act(volatile uint32_t* at, uint32_t& sum) {
        uint32_t old;
        asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(1) : "memory");
        sum += old;
    }
};

struct Reduction {
    static __device__ void act(volatile uint32_t* at, uint32_t& sum) {
        asm volatile("red.add.u32 [%0], %1;" :: "l"(at), "r"(sum) : "memory");
    }
};

template <typename Action, typename T, int shared_lanes, int stride>
__device__ void measure(uint32_t* global, uint32_t* out) {
    __shared__ alignas(128) uint32_t s[words];
    const int lane = threadIdx.x;
    for (int i = lane; i < words; i += 32) s[i] = i;
    __syncthreads();
    const int first = stride * (sizeof(T) / 4) * lane % words;
    uint32_t* const mine = lane < shared_lanes ? &s[first] : &global[first];
    volatile T* at = reinterpret_cast<volatile T*>(hidden(mine));
    uint32_t sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
        const uint32_t start = clock();
#pragma unroll
        for (int i = 0; i < times; ++i) Action::act(at + i, sum);
        __syncwarp();
        const uint32_t end = clock();
        if (lane == 0) out[32 + pass] = end - start;
    }
    out[lane] = sum;
}

}  // namespace

#define KERNEL(name, action, type, lanes, stride) \
    extern "C" __global__ void name(uint32_t* global, uint32_t* out) { \
        measure<action, type, lanes, stride>(global, out); \
    }

#define ALL(name, action, type) \
    KERNEL(name##_32_by_0, action, type, 32, 0) \
    KERNEL(name##_32_by_1, action, type, 32, 1) \
    KERNEL(name##_32_by_2, action, type, 32, 2) \
    KERNEL(name##_32_by_8, action, type, 32, 8) \
    KERNEL(name##_0_by_1, action, type, 0, 1) \
    KERNEL(name##_16_by_1, action, type, 16, 1) \
    KERNEL(name##_16_by_2, action, type, 16, 2) \
    KERNEL(name##_1_by_1, action, type, 1, 1)

ALL(load, Load, uint32_t)
ALL(load64, Load, uint2)
ALL(load128, Load, uint4)
ALL(store, Store, uint32_t)
ALL(store64, Store, uint2)
ALL(store128, Store, uint4)
ALL(atomic, Atomic, uint32_t)
ALL(reduction, Reduction, uint32_t)

// A transpose of 32x32 words; built without optimisation, all its accesses have generic addresses.
extern "C" __global__ void transpose_32x32(const float* in, float* out) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[32 * threadIdx.y + threadIdx.x];
    __syncthreads();
    out[32 * threadIdx.y + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
