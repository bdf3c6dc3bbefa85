"""Which CTAs of a grid are kept in a kernel's trace where nobody says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.chip.sampling import spread
from gpuemu.trace.model import GridSample, Launch

SOURCE = 'extern "C" __global__ void nothing() {}\n'


@pytest.mark.slow
def test_a_kernel_is_timed_by_the_ctas_of_the_sm_that_gets_the_most(tmp_path: Path) -> None:
    """Dealt out in turn over the 34 SMs of an RTX 4060 Ti the first SM has CTAs 0, 34 and 68 of 100."""
    source = tmp_path / "nothing.cu"
    source.write_text(SOURCE)

    def timed(grid: int, **options: object) -> list[int]:
        options = {"arch": "sm_89", **options}
        trace = gpuemu.trace_kernel(str(source), grid=grid, block=32, **options)  # type: ignore[arg-type]
        return [warp.cta for warp in trace.warps]

    assert timed(30) == [0]
    assert timed(100) == [0, 34, 68]
    assert timed(34 * 30) == list(range(0, 34 * 24, 34))  # 24 live on it at once
    assert timed(100, ctas=[0, 1]) == [0, 1]
    larger = gpuemu.load_arch("sm_89").with_overrides({"chip": "RTX 4090"})
    assert timed(300, arch=larger) == [0, 128, 256]


@pytest.mark.slow
def test_progress_begins_with_the_number_of_ctas_that_execute(tmp_path: Path) -> None:
    source = tmp_path / "nothing.cu"
    source.write_text(SOURCE)
    told: list[tuple[int, int]] = []
    gpuemu.trace_kernel(
        str(source), grid=100, arch="sm_89", timed_only=True, progress=lambda done, of: told.append((done, of))
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def first_loads(tmp_path: Path, code: str, grid: tuple[int, ...], block: tuple[int, ...]) -> GridSample:
    """What is known of a grid of a kernel that copies word i, which `code` finds."""
    source = tmp_path / "copy.cu"
    source.write_text(
        'extern "C" __global__ void copy(const float *in, float *out) {int i; ' + code + " out[i] = in[i];}\n"
    )
    buffer = np.zeros(1 << 18, np.float32)
    trace = gpuemu.trace_kernel(
        source, "copy", grid, block, args=[buffer, buffer.copy()], arch="sm_90", timed_only=True
    )
    assert trace.sample is not None
    return trace.sample


@pytest.mark.slow
def test_a_cta_s_first_warp_knows_its_threads_in_all_three_axes(tmp_path: Path) -> None:
    """Cooperative groups read the third axis of every thread, too."""
    code = "i = ((blockIdx.x * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;"
    (first,) = first_loads(tmp_path, code, (300,), (8, 6, 4)).first.values()
    np.testing.assert_array_equal(np.diff(first), 4 * 8 * 6 * 4)


@pytest.mark.slow
def test_ctas_that_leave_at_once_are_known_wherever_they_lie(tmp_path: Path) -> None:
    """Of a triangle the few CTAs that are executed may all stay: one that leaves is executed for that."""
    code = "if (blockIdx.y > blockIdx.x) return; i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;"
    sample = first_loads(tmp_path, code, (24, 24), (64,))
    above = np.arange(24)[:, None] > np.arange(24)
    assert sample.work is not None
    np.testing.assert_array_equal(sample.work == sample.work.min(), above.ravel())
    assert {bool(above.ravel()[warp.cta]) for warp in sample.others.warps} == {False, True}


@pytest.mark.slow
def test_work_that_data_decide_is_counted_in_a_warp_of_each_cta(tmp_path: Path) -> None:
    """CTA i adds up data[i] numbers behind its first barrier's back; no order is in data."""
    source = tmp_path / "sum.cu"
    source.write_text(
        'extern "C" __global__ void sum(const int *many, const float *in, float *out) {float v = 0;\n'
        "for (int i = 0; i < many[blockIdx.x]; i++) v += in[i * 32 + threadIdx.x]; __syncthreads();\n"
        "out[blockIdx.x * blockDim.x + threadIdx.x] = v;}\n"
    )
    many = np.random.default_rng(1).integers(1, 60, 1000).astype(np.int32)
    many[777] = 150
    args = [many, np.zeros(1 << 14, np.float32), np.zeros(1 << 17, np.float32)]
    trace = gpuemu.trace_kernel(source, "sum", 1000, 64, args=args, arch="sm_90", timed_only=True)
    assert trace.sample is not None
    assert trace.sample.work is not None
    assert trace.sample.work.argmax() == 777
    assert np.corrcoef(trace.sample.work, many)[0, 1] > 0.99


def test_a_cta_that_leaves_is_executed_even_where_only_two_are() -> None:
    launch = Launch((8, 8, 24), (256, 1, 1), 32, 0, 0)
    left = np.resize((np.arange(8)[:, None] > np.arange(8)).ravel(), launch.ctas)
    assert spread(launch, [0, 132], 60_000, None, None) == [1535, 1]
    assert spread(launch, [0, 132], 60_000, left, None) == [8, 1535]
