"""a x + y in CUDA C++, compiled and launched by cuda.core."""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = """
template <typename T>
__global__ void axpy(T a, const T* x, const T* y, T* out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sqrt(fabs(a * x[i] + y[i]));
}
"""
N = 10_000
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
module = Program(SOURCE, "c++", options).compile("cubin", name_expressions=("axpy<float>",))
kernel = module.get_kernel("axpy<float>")

pinned = LegacyPinnedMemoryResource()
buffers = [pinned.allocate(4 * N, stream=stream) for _ in range(3)]
x, y, out = (np.from_dlpack(buffer).view(np.float32) for buffer in buffers)
x[:], y[:] = np.random.default_rng(0).standard_normal((2, N), dtype=np.float32)
launch(stream, LaunchConfig(grid=-(-N // 256), block=256), kernel, np.float32(2), *buffers, np.uint64(N))
stream.sync()

print("largest error:", np.abs(out - np.sqrt(np.abs(2 * x + y))).max())
