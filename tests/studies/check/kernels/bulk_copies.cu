// Bulk copies in all directions whose size or address is no multiple of 16, and right ones.
#define AT(p) (unsigned)__cvta_generic_to_shared(p)
#define IN(bytes, shift)                                                                                               \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"             \
                 ::"r"(AT(s)), "l"(in + shift), "r"(bytes), "r"(AT(&bar)) : "memory")
#define OUT(bytes, shift)                                                                                              \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"                                         \
                 ::"l"(out + shift), "r"(AT(s)), "r"(bytes) : "memory")
#define ADD(bytes, shift)                                                                                              \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;"                          \
                 ::"l"(out + shift), "r"(AT(s)), "r"(bytes) : "memory")
#define PREFETCH(bytes, shift)                                                                                         \
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in + shift), "r"(bytes) : "memory")

#define BULK(name, direction, bytes, shift)                                                                            \
    extern "C" __global__ void name(const int *in, int *out) {                                                         \
        __shared__ alignas(128) int s[512];                                                                            \
        __shared__ unsigned long long bar;                                                                             \
        for (int i = threadIdx.x; i < 512; i += 128) s[i] = i;                                                         \
        if (threadIdx.x == 0)                                                                                          \
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(AT(&bar)), "r"(1) : "memory");                     \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                   \
        __syncthreads();                                                                                               \
        if (threadIdx.x == 0) {                                                                                        \
            direction(bytes, shift);                                                                                   \
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");                                                  \
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");                                                  \
        }                                                                                                              \
    }
// The compiler knows the size, or only the launch does: read whole, or with a constant added.
#define SIZES(direction)                                                                                               \
    BULK(direction##_known, direction, 100, 0)                                                                         \
    BULK(direction##_known_whole, direction, (100 / 16 * 16), 0)                                                       \
    BULK(direction##_read, direction, (in[25] * 4), 0)                                                                 \
    BULK(direction##_read_whole, direction, ((in[25] * 4) / 16 * 16), 0)                                               \
    BULK(direction##_added, direction, (in[0] + 20), 0)                                                                \
    BULK(direction##_added_whole, direction, ((in[0] + 20) / 16 * 16), 0)                                              \
    BULK(direction##_of_96, direction, 96, 0)                                                                          \
    BULK(direction##_shifted_by_4, direction, 512, 1)                                                                  \
    BULK(direction##_shifted_by_16, direction, 512, 4)
SIZES(IN)
SIZES(OUT)
SIZES(ADD)
SIZES(PREFETCH)

// The size begins with a constant, and only the second round has one that is no multiple of 16.
extern "C" __global__ void bulk_of_rounds(const int *in, int *out) {
    if (threadIdx.x == 0) {
        unsigned bytes = 96;
        for (int i = 0; i < in[2]; i++, bytes += in[4])
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in), "r"(bytes) : "memory");
    }
}
