"""The sums of rows with the CuTe DSL: shuffles in a warp, then shared memory."""

import cupy as cp
import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack

THREADS, WARPS = 128, 4


@cute.kernel
def row_sums_kernel(x: cute.Tensor, sums: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    mine = cutlass.Float32(0)
    for column in range(thread, x.shape[1], THREADS):
        mine += x[row, column]
    for step in cutlass.range_constexpr(5):
        mine += cute.arch.shuffle_sync_bfly(mine, offset=1 << step)
    if thread % 32 == 0:
        parts[thread // 32] = mine
    cute.arch.sync_threads()
    if thread == 0:
        total = cutlass.Float32(0)
        for warp in cutlass.range_constexpr(WARPS):
            total += parts[warp]
        sums[row] = total


@cute.jit
def row_sums(x: cute.Tensor, sums: cute.Tensor):
    row_sums_kernel(x, sums).launch(grid=(x.shape[0], 1, 1), block=(THREADS, 1, 1))


x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
sums = cp.empty(64, cp.float32)
row_sums(from_dlpack(cp.asarray(x)), from_dlpack(sums))

print("largest error:", np.abs(cp.asnumpy(sums) - x.sum(axis=1, dtype=np.float64)).max())
