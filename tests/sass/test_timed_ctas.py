"""Which CTAs of a grid are kept in a kernel's trace where nobody says."""

from __future__ import annotations

from pathlib import Path

import gpuemu

SOURCE = 'extern "C" __global__ void nothing() {}\n'


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


def test_progress_begins_with_the_number_of_ctas_that_execute(tmp_path: Path) -> None:
    source = tmp_path / "nothing.cu"
    source.write_text(SOURCE)
    told: list[tuple[int, int]] = []
    gpuemu.trace_kernel(
        str(source), grid=100, arch="sm_89", timed_only=True, progress=lambda done, of: told.append((done, of))
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
