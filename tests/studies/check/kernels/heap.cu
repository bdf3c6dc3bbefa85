// The device heap: each x_bad reads or writes what it must not, each x_good does the same thing right.
struct Node {
    int value;
    double weight;
    Node *next;
};

extern "C" __global__ void unwritten_bad(int *out) {
    int *p = (int *)malloc(64);
    p[threadIdx.x & 7] = 1;
    out[threadIdx.x] = p[8];
    free(p);
}
extern "C" __global__ void unwritten_good(int *out) {
    int *p = (int *)malloc(64);
    p[threadIdx.x & 7] = 1;
    out[threadIdx.x] = p[threadIdx.x & 7];
    free(p);
}

__device__ void fill(int *p, int count) {
    for (int i = 0; i < count; i++) p[i] = i;
}
extern "C" __global__ void past_the_end_bad(int *out) {
    int *p = new int[5];
    fill(p, 6);
    out[threadIdx.x] = p[4];
    delete[] p;
}
extern "C" __global__ void past_the_end_good(int *out) {
    int *p = new int[5];
    fill(p, 5);
    out[threadIdx.x] = p[4];
    delete[] p;
}

extern "C" __global__ void before_the_start_bad(int *out) {
    int *p = (int *)malloc(32);
    p[out[0] - 1] = 1;
    out[threadIdx.x + 1] = p[out[0] - 1];
    free(p);
}
extern "C" __global__ void before_the_start_good(int *out) {
    int *p = (int *)malloc(32);
    p[out[0]] = 1;
    out[threadIdx.x + 1] = p[out[0]];
    free(p);
}

// A structure is copied whole, with the bytes between its members.
extern "C" __global__ void used_after_free_bad(int *out) {
    Node *p = new Node;
    p->value = 3, p->weight = 1, p->next = 0;
    Node q = *p;
    delete p;
    out[threadIdx.x] = q.value + (p->next == 0);
}
extern "C" __global__ void used_after_free_good(int *out) {
    Node *p = new Node;
    p->value = 3, p->weight = 1, p->next = 0;
    Node *q = new Node;
    *q = *p;
    out[threadIdx.x] = q->value + (p->next == 0);
    delete p;
    delete q;
}

// One thread allocates, all of its CTA use the block, one gives it back.
extern "C" __global__ void of_all_bad(int *out) {
    __shared__ int *p;
    if (threadIdx.x == 0) p = (int *)malloc(128);
    __syncthreads();
    p[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) free(p);
    __syncthreads();
    out[threadIdx.x] = p[31 - threadIdx.x];
}
extern "C" __global__ void of_all_good(int *out) {
    __shared__ int *p;
    if (threadIdx.x == 0) p = (int *)malloc(128);
    __syncthreads();
    p[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = p[31 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(p);
}

extern "C" __global__ void freed_twice_bad(int *out) {
    int *p = new int[4], *q = new int[4];
    p[0] = q[0] = out[threadIdx.x];
    out[threadIdx.x] = p[0] + q[0];
    delete[] p;
    delete[] p;
}
extern "C" __global__ void freed_twice_good(int *out) {
    int *p = new int[4], *q = new int[4];
    p[0] = q[0] = out[threadIdx.x];
    out[threadIdx.x] = p[0] + q[0];
    delete[] p;
    delete[] q;
}
