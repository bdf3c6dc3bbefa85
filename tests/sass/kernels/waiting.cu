// CTAs that wait for each other.

extern "C" __global__ void bottom_to_top(float* sum, volatile int* lock) {
    if (threadIdx.x == 0)
        while (*lock != gridDim.x - 1 - blockIdx.x) {  // waits for a higher one
        }
    __syncthreads();
    sum[threadIdx.x] = sum[threadIdx.x] * 2.0f + blockIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *lock = *lock + 1;
}

// Decoupled look-back, tiles from the last to the first.
extern "C" __global__ void look_back(const int* in, int* out, volatile unsigned long long* state) {
    int tile = gridDim.x - 1 - blockIdx.x, at = tile * 32 + threadIdx.x, value = in[at];
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, value, d);
        if (threadIdx.x >= d) value += other;
    }
    int total = __shfl_sync(~0u, value, 31), before = 0;
    if (threadIdx.x == 0) {
        state[tile] = (tile ? 1ull : 2ull) << 32 | (unsigned)total;
        for (int k = tile - 1; k >= 0; k--) {
            unsigned long long found;
            while ((found = state[k]) >> 32 == 0) {
            }
            before += (int)(unsigned)found;
            if (found >> 32 == 2) break;
        }
        __threadfence();
        state[tile] = 2ull << 32 | (unsigned)(before + total);
    }
    out[at] = value + __shfl_sync(~0u, before, 0);
}

extern "C" __global__ void grid_barriers(int* x, unsigned* arrived, int rounds) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    for (int turn = 1; turn <= 2 * rounds; turn++) {
        int value = __ldcg(&x[(at + blockDim.x) % count]);
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (atomicAdd(arrived, 0) < turn * gridDim.x) {
            }
            __threadfence();
        }
        __syncthreads();
        if (turn % 2) x[at] = value;
    }
}

extern "C" __global__ void ticket_lock(int* next, volatile int* serving, int* sum) {
    if (threadIdx.x == 0) {
        int mine = gridDim.x - 1 - blockIdx.x;
        for (unsigned nanoseconds = 8; *serving != mine; nanoseconds *= 2) __nanosleep(nanoseconds & 255);
        atomicAdd(next, 1);
    }
    __syncthreads();
    sum[threadIdx.x] = sum[threadIdx.x] * 3 + blockIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *serving = *serving + 1;
}

// Every warp waits in its own way: one for another CTA, one for the first in shared memory.
extern "C" __global__ void hand_on(volatile int* flag, int* out) {
    __shared__ volatile int word;
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        int value;
        while ((value = flag[blockIdx.x]) == 0) {
        }
        word = value;
    }
    if (threadIdx.x == 32) {
        int value;
        while ((value = word) == 0) {
        }
        out[blockIdx.x] = value;
        if (blockIdx.x > 0) flag[blockIdx.x - 1] = value + 1;
    }
    if (threadIdx.x == 64 && blockIdx.x == gridDim.x - 1) flag[blockIdx.x] = 100;
}

// The whole CTA looks, by one thread and a barrier.
extern "C" __global__ void looks_together(int* arrived, volatile int* go, int* out) {
    __shared__ int seen;
    if (threadIdx.x == 0 && atomicAdd(arrived, 1) == gridDim.x - 1) *go = 5;
    for (int done = 0; !done;) {
        if (threadIdx.x == 0) seen = *go;
        __syncthreads();
        done = seen;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = *go;
}

extern "C" __global__ void counts_its_looks(volatile int* flag, int* out) {
    if (blockIdx.x == 1)
        *flag = 42;
    else {
        int looks = 0;
        while (*flag == 0 && ++looks < 100000000) {
        }
        *out = *flag;
    }
}

extern "C" __global__ void wait_in_vain(volatile int* flag) {
    while (*flag != 3) {  // in vain
    }
}

extern "C" __global__ void counted_in_vain(volatile int* flag, int* out) {
    int looks = 0;
    while (*flag != 3 && ++looks < 100000000) {  // counted
    }
    *out = looks;
}

extern "C" __global__ void own_flag(int* out) {
    __shared__ volatile int flag;
    flag = 0;
    while (flag == 0) {  // its own
    }
    *out = 1;
}

extern "C" __global__ void tiles(int* counter, int* out, int count) {
    __shared__ int tile;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) tile = atomicAdd(counter, 1);
        __syncthreads();
        if (tile >= count) return;
        out[tile * 32 + threadIdx.x] = blockIdx.x;
    }
}

// The barrier of cooperative_groups::grid_group, without its header: %envreg1 and 2 have its address.
extern "C" __global__ void grid_sync(int* x, int* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    unsigned high, low;
    asm volatile("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm volatile("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned* arrived = (unsigned*)((unsigned long long)high << 32 | low) + 1;
    x[at] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        unsigned old = atomicAdd(arrived, add);
        while (((*(volatile unsigned*)arrived ^ old) & 0x80000000u) == 0) {
        }
        __threadfence();
    }
    __syncthreads();
    out[at] = __ldcg(&x[count - 1 - at]);
}

// A lane may leave a loop whose others are in a call that saves what they will wait for.
__device__ __noinline__ unsigned deep(unsigned a, int n) {
    if (n <= 0) return a ^ 0x55u;
    unsigned x = deep(a * 5u + n, n - 1);
    if (a & 1) x += deep(a >> 1, n - 2);
    return x * 3u + a;
}

extern "C" __global__ void leaves_while_others_call(const unsigned* in, unsigned* out) {
    unsigned a = in[threadIdx.x], sum = 0;
    for (unsigned k = 0; k < (a & 7); k++) {
        for (unsigned j = 0; j < 4; j++) {
            if (((a >> k) + j) % 5 == 3) break;
            sum += deep(a ^ j, 3 + (j & 1));
            if ((sum & 7) == 5) goto end;
        }
        if (sum % 11 == 4) continue;
        sum ^= deep(sum, 2);
    }
end:
    out[threadIdx.x] = sum;
}

extern "C" __global__ void list_on_the_heap(int* out) {
    struct Node {
        int value;
        Node* next;
    };
    Node* head = 0;
    for (int k = 0; k < 3; k++) {
        Node* node = (Node*)malloc(sizeof(Node));
        node->value = k + threadIdx.x;
        node->next = head;
        head = node;
    }
    int sum = 0;
    while (head) {
        Node* next = head->next;
        sum += head->value;
        free(head);
        head = next;
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void races_on_the_heap(int* out) {
    __shared__ int* p;
    if (threadIdx.x == 0) p = (int*)malloc(blockDim.x * 4);
    __syncthreads();
    p[threadIdx.x] = threadIdx.x * 7;
    out[threadIdx.x] = p[blockDim.x - 1 - threadIdx.x];  // before the other's store, maybe
}

// Works in a loop, always at one word, and waits for nobody.
extern "C" __global__ void works_at_a_word(int* out, int rounds) {
    __shared__ int most;
    if (threadIdx.x == 0) most = 3;
    __syncthreads();
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) sum += atomicMax(&most, 3);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
