"""A matrix product by tensor cores with the CuTe DSL."""

import cupy as cp
import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack

TILE = (32, 32)


@cute.kernel
def product_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, mma: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    k = a.shape[1]
    left = cute.local_tile(a, (TILE[0], k), (row, 0))
    right = cute.local_tile(b, (TILE[1], k), (column, 0))
    out = cute.local_tile(c, TILE, (row, column))
    mine = mma.get_slice(thread)
    left_of_thread, right_of_thread, out_of_thread = (
        mine.partition_A(left),
        mine.partition_B(right),
        mine.partition_C(out),
    )
    left_registers = mma.make_fragment_A(left_of_thread)
    right_registers = mma.make_fragment_B(right_of_thread)
    total = mma.make_fragment_C(out_of_thread)
    total.fill(0.0)
    cute.autovec_copy(left_of_thread, left_registers)
    cute.autovec_copy(right_of_thread, right_registers)
    for step in cutlass.range_constexpr(cute.size(left_registers, mode=[2])):
        cute.gemm(mma, total, left_registers[None, None, step], right_registers[None, None, step], total)
    cute.autovec_copy(total, out_of_thread)


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """C of (M, N) is A of (M, K) times B of (N, K)."""
    atom = cute.nvgpu.warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(atom, cute.make_layout((2, 2, 1)))
    grid = (a.shape[0] // TILE[0], b.shape[0] // TILE[1], 1)
    product_kernel(a, b, c, mma).launch(grid=grid, block=(mma.size, 1, 1))


a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float16)
c = cp.empty((128, 128), cp.float32)
product(from_dlpack(cp.asarray(a)), from_dlpack(cp.asarray(b)), from_dlpack(c))

print("largest error:", np.abs(cp.asnumpy(c) - a.astype(np.float32) @ b.astype(np.float32).T).max())
