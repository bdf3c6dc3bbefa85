"""A matrix product by tensor cores in CUDA C++ (mma.h), compiled and launched by cuda.core."""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch
from cuda.pathfinder import find_nvidia_header_directory

SOURCE = """
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void product(const __half* a, const __half* b, float* c, int n) {
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    fragment<matrix_a, 16, 16, 16, __half, row_major> left;
    fragment<matrix_b, 16, 16, 16, __half, row_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(left, a + row * n + k, n);
        load_matrix_sync(right, b + k * n + column, n);
        mma_sync(sum, left, right, sum);
    }
    store_matrix_sync(c + row * n + column, sum, n, mem_row_major);
}
"""
N = 128
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", include_path=find_nvidia_header_directory("cudart"))
kernel = Program(SOURCE, "c++", options).compile("cubin").get_kernel("product")

pinned = LegacyPinnedMemoryResource()
buffers = [pinned.allocate(size * N * N, stream=stream) for size in (2, 2, 4)]
a, b, c = (
    np.from_dlpack(buffer).view(kind).reshape(N, N) for buffer, kind in zip(buffers, ("f2", "f2", "f4"), strict=True)
)
a[:], b[:] = np.random.default_rng(0).standard_normal((2, N, N))
launch(stream, LaunchConfig(grid=(N // 16, N // 16), block=32), kernel, *buffers, np.int32(N))
stream.sync()

print("largest error:", np.abs(c - a.astype(np.float32) @ b.astype(np.float32)).max())
