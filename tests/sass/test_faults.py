"""What a kernel must not do is refused with its source line, instruction, CTA, warp, lane and address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.chip.tracing import trace_kernel
from gpuemu.sass.tools.disassembly import load_cubin

SOURCE = Path(__file__).parent / "kernels" / "faults.cu"


def line_of(marker: str) -> int:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"// {marker}") or f"// {marker}" in line)


def fault(kernel: str, args: list[Any], arch: str = "sm_89", **launch: Any) -> gpuemu.Problem:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        trace_kernel(_cubin(arch), kernel, args=args, **launch)
    (problem,) = caught.value.problems
    return problem


_CUBINS: dict[str, Any] = {}


def _cubin(arch: str) -> Any:
    if arch not in _CUBINS:
        _CUBINS[arch] = load_cubin(str(SOURCE), arch)
    return _CUBINS[arch]


def zeros(count: int, kind: type = np.float32) -> Any:
    return np.zeros(count, kind)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_a_read_past_the_end_names_line_lane_buffer_and_address(arch: str) -> None:
    out = zeros(64)
    problem = fault("past_the_end", [out, zeros(64), 10], arch, block=(64, 1, 1))
    assert (Path(problem.file).name, problem.line) == ("faults.cu", line_of("past the end"))
    assert re.match(
        r"past_the_end at 0x[0-9a-f]{4}, (@!?P\d )?LDG\.E.* R\d+, .*, CTA 0, warp 1, lane 22, thread \(54, 0, 0\)$",
        problem.field,
    )
    assert "a 4-byte load at 0x7f0000200100" in problem.found
    assert "argument 1 (256 bytes)" in problem.found
    assert not out.any()


@pytest.mark.slow
def test_a_misaligned_vector_load_names_the_address() -> None:
    problem = fault("misaligned", [zeros(32), zeros(256, np.uint8)])
    assert problem.line == line_of("misaligned")
    assert "LDG.E.128" in problem.field
    assert "0x7f0000200004" in problem.found


def test_shared_memory_that_nobody_wrote_cannot_be_read() -> None:
    problem = fault("unwritten", [zeros(32)])
    assert problem.line == line_of("unwritten")
    assert "lane 16" in problem.field
    assert problem.found == "a 4-byte load at byte 64 of shared memory, which was never written by the CTA"


def test_shared_memory_that_nobody_wrote_may_be_taken_for_zeros() -> None:
    out = zeros(32) + 7
    trace_kernel(_cubin("sm_89"), "unwritten", args=[out], zero_shared=True)
    assert out[16] == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_read_beyond_shared_memory_is_refused(arch: str) -> None:
    problem = fault("beyond_shared", [zeros(32), 8], arch, dynamic_shared_bytes=128)
    assert problem.line == line_of("beyond shared")
    assert "LDS" in problem.field
    assert "lane 24" in problem.field
    assert "128" in f"{problem.found} {problem.right}"


def test_a_barrier_that_not_all_reach_is_named_with_its_arrivals() -> None:
    problem = fault("lonely_barrier", [zeros(64)], block=(64, 1, 1))
    assert problem.found == "a wait forever at barrier 1 with 32 threads arrived"
    assert "BAR.SYNC" in problem.field


def test_an_endless_loop_runs_into_its_budget() -> None:
    problem = fault("endless", [zeros(1, np.int32)], budget=8)
    assert problem.found == "over 8 warp instructions"
    assert problem.right == "End the loop, or give a larger instruction budget"


@pytest.mark.parametrize(
    ("args", "found", "right"),
    [
        ([], "0 arguments", "expected 2, of 8, 4 (i32) bytes"),
        ([zeros(32)], "1 argument", "expected 2, of 8, 4 (i32) bytes"),
        ([zeros(32), zeros(4)], "an array", "expected a value of 4 bytes"),
        ([zeros(32), 1 << 40], str(1 << 40), "expected a number that fits 4 bytes"),
        ([zeros(32), (np.int32(1), np.int16(2))], "a structure of 8 bytes", "expected 4 bytes"),
        ([zeros(32), (3,)], "int", "expected an array, a NumPy scalar such as np.int32(1), bytes or another tuple"),
        (
            [zeros(32), "x"],
            "str for 4 bytes",
            "expected an array, a number, the bytes themselves or a tuple of members",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: list[Any], found: str, right: str) -> None:
    problem = fault("two_parameters", args)
    assert (problem.found, problem.right) == (found, right)


def test_a_cta_that_the_grid_has_not_is_refused() -> None:
    problem = fault("two_parameters", [zeros(32), 1], ctas=[3], grid=(2, 1, 1))
    assert str(problem).startswith("--cta: the grid has no CTA 3")


def test_all_ctas_execute_and_those_asked_for_are_kept() -> None:
    out = zeros(32)
    trace = trace_kernel(_cubin("sm_89"), "two_parameters", (5, 1, 1), args=[out, 7], ctas=[1, 3])
    assert [w.cta for w in trace.warps] == [1, 3]
    assert (out == 7).all()
    everything = trace_kernel(_cubin("sm_89"), "two_parameters", (200, 1, 1), args=[out, 7])
    assert [w.cta for w in everything.warps] == list(range(0, 200, 34))  # those of one of 34 SMs


def test_an_unknown_kernel_is_refused_with_those_there_are() -> None:
    problem = fault("nosuch", [])
    assert "nosuch" in str(problem)
    assert "past_the_end" in str(problem)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_a_fault_in_inlined_code_names_the_calls_that_brought_it_there(arch: str) -> None:
    problem = fault("through_helpers", [zeros(32), zeros(32)], arch)
    assert problem.line == line_of("in the helper")
    calls = [f"called at {SOURCE}:{line_of(marker)}" for marker in ("in between", "call site")]
    assert f", {', '.join(calls)}, CTA 0" in problem.field


@pytest.mark.parametrize(
    ("kernel", "args", "number"),
    [("two_parameters", [512.5], 1), ("mangled", [1.5, 2.0], 2), ("two_parameters", [np.float32(3)], 1)],
)
def test_a_float_for_a_whole_number_is_refused(kernel: str, args: list[Any], number: int) -> None:
    problem = fault(kernel, [zeros(32), *args])
    assert (problem.field, problem.found) == (f"argument {number}", str(args[-1]))
    assert problem.right == "expected a whole number, as the kernel declares it"


def test_a_float_for_a_float_is_taken() -> None:
    out = zeros(32)
    trace_kernel(_cubin("sm_89"), "mangled", args=[out, 1.5, 4])
    assert (out == 6).all()


def test_a_whole_number_for_a_float_is_that_number_as_in_a_call() -> None:
    out = zeros(32)
    trace_kernel(_cubin("sm_89"), "mangled", args=[out, 2, 4])
    assert (out == 8).all()
