// Kernels that do what a kernel must not do, one thing each; the marked lines are what the messages must name.

extern "C" __global__ void past_the_end(float* out, const float* in, int n) {
    int i = threadIdx.x;
    out[i] = in[i + n];  // past the end
}

extern "C" __global__ void misaligned(float* out, const char* in) {
    float4 v = *reinterpret_cast<const float4*>(in + 4);  // misaligned
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void unwritten(float* out) {
    __shared__ float tile[64];
    if (threadIdx.x < 16) tile[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];  // unwritten
}

extern "C" __global__ void beyond_shared(float* out, int far) {
    extern __shared__ float buffer[];
    buffer[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = buffer[threadIdx.x + far];  // beyond shared
}

extern "C" __global__ void lonely_barrier(float* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  // lonely barrier
    out[threadIdx.x] = 1;
}

extern "C" __global__ void endless(volatile int* flag) {
    while (*flag == 0) {  // endless
    }
}

extern "C" __global__ void two_parameters(float* out, int n) { out[threadIdx.x] = n; }

__device__ __forceinline__ float element(const float* in, int at) {
    return in[at + 100];  // in the helper
}

__device__ __forceinline__ float sum_of_two(const float* in, int at) {
    return element(in, at) + 1;  // in between
}

extern "C" __global__ void through_helpers(float* out, const float* in) {
    out[threadIdx.x] = sum_of_two(in, threadIdx.x);  // call site
}

__global__ void mangled(float* out, float scale, int n) { out[threadIdx.x] = scale * n; }
