"""Results, races and conflicts of a kernel, in a test: python -m pytest examples/test_transpose.py

Runs anywhere, without a GPU. Needs pip install "gpuemu-sm[sass]" and pytest; examples/ci has a whole project, with the
fixture `gpu_kernel`, baselines and a workflow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuemu

KERNELS = Path(__file__).parent / "kernels"


@pytest.mark.parametrize("name", ["transpose", "transpose_swizzled"])
def test_the_result_is_the_transpose(name):
    matrix = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    out = np.zeros_like(matrix)
    gpuemu.trace_kernel(KERNELS / f"{name}.cu", block=256, args=[matrix, out])
    np.testing.assert_array_equal(out, matrix.T)


@pytest.mark.parametrize("name", ["transpose", "transpose_swizzled"])
def test_no_thread_reads_before_another_has_written(name):
    matrix, out = np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
    report = gpuemu.check(KERNELS / f"{name}.cu", block=256, args=[matrix, out])
    assert not report.errors, report


def test_the_swizzle_leaves_no_conflict():
    excess = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    counts = {}
    for name in ("transpose", "transpose_swizzled"):
        arrays = [np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)]
        trace = gpuemu.trace_kernel(KERNELS / f"{name}.cu", block=256, args=arrays)
        counts[name] = gpuemu.run(trace).counters[excess]
    assert counts == {"transpose": 224, "transpose_swizzled": 0}
