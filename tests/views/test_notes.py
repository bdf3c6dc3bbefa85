"""Notes on what a run leaves out: CTAs that take work from a queue, of which only some were executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuemu

QUEUE = """
extern "C" __global__ void queue(int *next, float *out, int tiles) {
    __shared__ int tile;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        if (tile >= tiles) return;
        out[tile * 32 + threadIdx.x] = tile;
    }
}
extern "C" __global__ void last(int *next, float *out, int tiles) {
    if (threadIdx.x == 0 && atomicAdd(next, 1) == gridDim.x - 1) out[0] = tiles;
}
"""
SAID = "If it hands out the work of all CTAs"


def notes(tmp_path: Path, kernel: str, **told: object) -> list[str]:
    (tmp_path / "queue.cu").write_text(QUEUE)
    arguments = [np.zeros(1, np.int32), np.zeros(1024, np.float32), np.int32(20)]
    trace = gpuemu.trace_kernel(tmp_path / "queue.cu", kernel, 300, 32, 0, arguments, arch="sm_90", **told)  # type: ignore[arg-type]
    return [note for note in gpuemu.run(trace, "sm_90").notes if SAID in note]


@pytest.mark.slow
def test_ctas_that_took_the_work_of_others_from_a_queue_are_named(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, "queue")
    assert note.startswith("a CTA repeatedly uses results of ATOMG at 0x")
    assert notes(tmp_path, "queue", timed_only=True) == []


@pytest.mark.slow
def test_each_cta_gets_its_turns_of_what_a_word_hands_out_where_others_do_not_execute(tmp_path: Path) -> None:
    """Of 1,000 tiles and 132 CTAs each takes 7 or 8, and looks once more."""
    (tmp_path / "queue.cu").write_text(QUEUE)
    arguments = [np.zeros(1, np.int32), np.zeros(32_000, np.float32), np.int32(1000)]
    trace = gpuemu.trace_kernel(tmp_path / "queue.cu", "queue", 132, 32, 0, arguments, arch="sm_90", timed_only=True)
    (atomic,) = (pc for pc, instruction in enumerate(trace.code) if instruction.mnemonic == "ATOMG")
    assert trace.sample is not None
    taken = [int(np.count_nonzero(warp.path == atomic)) for warp in (*trace.warps, *trace.sample.others.warps)]
    assert len(taken) > 2
    assert set(taken) <= {8, 9}
    result = gpuemu.run(trace, "sm_90")
    assert any("gives all CTAs equally many turns" in note for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "ctas"), [("queue", range(300)), ("last", [0])])
def test_nobody_else_is(kernel: str, ctas: list[int], tmp_path: Path) -> None:
    assert notes(tmp_path, kernel, ctas=ctas) == []


def test_a_changed_value_of_a_chip_that_the_run_is_not_on_is_told() -> None:
    arch = gpuemu.load_arch("sm_86").with_overrides({"chips.RTX 3080.clock_mhz": 1440})
    (note,) = gpuemu.run("v5_swizzle", arch).notes
    assert note == (
        "chips.RTX 3080.clock_mhz has no effect here: the run is on RTX 3060. --chip chooses another product"
    )
    assert gpuemu.run("v5_swizzle", arch.with_overrides({"chip": "RTX 3080"})).notes == ()
