// Each kernel once with what keeps it right (x_good) and once without (x_bad).
#define BODY(name) template <bool GOOD> __device__ __forceinline__ void name(int *out, const int *in, int n)
#define PAIR(name) \
    extern "C" __global__ void name##_bad(int *out, const int *in, int n) { name<false>(out, in, n); } \
    extern "C" __global__ void name##_good(int *out, const int *in, int n) { name<true>(out, in, n); }
#define T threadIdx.x
#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define FIX if (GOOD) __syncthreads()
#define FIXWARP if (GOOD) __syncwarp()
#define SHARED(p) (unsigned)__cvta_generic_to_shared(p)
