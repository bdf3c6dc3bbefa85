// Kernels whose estimate must change smoothly with the chip and the grid: one for each resource that may limit a launch.
extern "C" __global__ void copy(const float4* a, float4* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}
extern "C" __global__ void read_l2(const float* a, float* b, int n) {
    float sum = 0;
    for (int k = 0; k < 16; k++) sum += __ldcg(a + (((blockIdx.x % 64) * 16 + k) * blockDim.x + threadIdx.x) % n);
    if (sum == 12345.f) b[0] = sum;
}
extern "C" __global__ void gather(const float* a, float* b, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, hash = i * 2654435761u;
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        hash = (hash ^ hash >> 13) * 2246822519u;
        sum += a[hash % n];
    }
    b[i % n] = sum;
}
extern "C" __global__ void chain(const int* a, int* b, int n) {
    int at = blockIdx.x % n;
    for (int k = 0; k < 8; k++) at = (a[at] + at * 33 + 1024) % n;
    if (threadIdx.x == 0) b[blockIdx.x % n] = at;
}
extern "C" __global__ void arithmetic(const float* a, float* b, int n) {
    float x = threadIdx.x, y = a[0];
    for (int k = 0; k < 200; k++) x = fmaf(x, y, 1.f);
    if (x == 12345.f) b[0] = x;
}
extern "C" __global__ void atomic(const float* a, int* b, int n) {
    if (threadIdx.x % 32 == 0) atomicAdd(b, 1);
}
extern "C" __global__ void tiles(const float* a, float* b, int n) {
    __shared__ float tile[4096];
    float sum = 0;
    for (int step = 0; step < 4; step++) {
        for (int k = 0; k < 16; k++) tile[k * 256 + threadIdx.x] = a[((blockIdx.x * 4 + step) * 4096 + k * 256 + threadIdx.x) % n];
        __syncthreads();
        for (int k = 0; k < 64; k++) sum = fmaf(tile[(threadIdx.x + k * 64) % 4096], sum, 1.f);
        __syncthreads();
    }
    b[(blockIdx.x * 256 + threadIdx.x) % n] = sum;
}
extern "C" __global__ void transpose(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b[(i % 2048 * 2048 + i / 2048) % n] = a[i % n];
}
