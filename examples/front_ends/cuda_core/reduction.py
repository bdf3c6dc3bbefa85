"""The sums of rows in memory of the device, by shuffles and shared memory, launched by cuda.core."""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = """
extern "C" __global__ void row_sums(const float* x, float* sums, int columns) {
    __shared__ float parts[32];
    float mine = 0;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) mine += x[blockIdx.x * columns + column];
    for (int step = 16; step; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        for (int step = 16; step; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
        if (threadIdx.x == 0) sums[blockIdx.x] = mine;
    }
}
"""
ROWS, COLUMNS = 64, 1000
device = Device()
device.set_current()
stream = device.create_stream()
kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("row_sums")

pinned = LegacyPinnedMemoryResource()
given, found = pinned.allocate(4 * ROWS * COLUMNS, stream=stream), pinned.allocate(4 * ROWS, stream=stream)
x, sums = np.from_dlpack(given).view(np.float32).reshape(ROWS, COLUMNS), np.from_dlpack(found).view(np.float32)
x[:] = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
on_device, sums_on_device = device.allocate(given.size, stream=stream), device.allocate(found.size, stream=stream)
given.copy_to(on_device, stream=stream)
launch(stream, LaunchConfig(grid=ROWS, block=128), kernel, on_device, sums_on_device, np.int32(COLUMNS))
sums_on_device.copy_to(found, stream=stream)
stream.sync()

print("largest error:", np.abs(sums - x.sum(axis=1, dtype=np.float64)).max())
