__device__ int counter = 5;
__device__ int* where = &counter;
__constant__ float factor[4] = {1, 2, 3, 4};

extern "C" __global__ void scale(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor[i & 3];
}
extern "C" __global__ void increase(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}
extern "C" __global__ void tally() { atomicAdd(where, 1); }
extern "C" __global__ void through(int** pointers, int which) { pointers[which][threadIdx.x] = which; }
extern "C" __global__ void loops(const int* count, int* out) {
    int sum = 0;
    for (int k = 0; k < *count; ++k) sum = sum * 3 + out[k & 1];
    out[threadIdx.x + 2] = sum;
}
extern "C" __global__ void phases(float* out, int count) {
    __shared__ float all[64];
    float x = threadIdx.x;
    for (int k = 0; k < count; ++k)
        if (k < count / 2) {
            x = x * 0.5f + 1.f;
        } else {
            all[threadIdx.x] = x;
            __syncthreads();
            x = all[63 - threadIdx.x] + 1.f;
            __syncthreads();
        }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void one_is_long(float* out, int which, int count) {
    float x = threadIdx.x;
    if (blockIdx.x == which)
        for (int k = 0; k < count; ++k) x = sqrtf(x) + 2.f;
    out[blockIdx.x * 32 + threadIdx.x] = x;
}
extern "C" __global__ void some_meet(int count) {
    for (int k = 0; k < count; ++k)
        if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;");
}
extern "C" __global__ void outside(int* data, long long at) { data[at] = 1; }
extern "C" __global__ void odd(char* data) { *reinterpret_cast<int*>(data + 1) = 1; }
extern "C" __global__ void traps() { __trap(); }
extern "C" __global__ void outside_from(int* data, const long long* at) { data[*at] += 1; }
extern "C" __global__ void strided(const int* in, int* out, int stride) {
    int sum = 0;
    for (int k = 0; k < 32; ++k) sum += in[(threadIdx.x + 64 * k) * stride & 0x3ffff];
    out[threadIdx.x] = sum;
}
