"""The judgement of one kernel, in the process that may be ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import run
from gpuemu.sass.launch import trace_kernel
from gpuemu.sass.tools.disassembly import decode_function
from gpuemu.studies.check.api import check
from gpuemu.studies.judge.kernels import JudgedLaunch, bound, launches_of
from gpuemu.studies.judge.problem import JudgedProblem, read_problem, wrong
from gpuemu.studies.judge.sandbox import LimitError

RIGHT, WRONG, CHEATS, FAULTY, REFUSED, LIMIT = "right", "wrong", "cheats", "faulty", "refused", "limit"
_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")


def judge_one(
    kernel: str, against: str, archs: tuple[Architecture, ...], draws: int, budget: int, seconds: float,
    options: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """The judgement as JSON has it. Raises GpuemuError for a problem that is wrong in itself."""
    problem = read_problem(against)
    found: dict[str, Any] = {
        "kernel": kernel, "against": against, "verdict": RIGHT, "reason": "", "draws": draws, "values": [],
        "findings": [], "cheats": [], "times": [],
    }  # fmt: skip
    given, _ = problem.draw(0)
    try:
        for at, arch in enumerate(archs):
            launches = launches_of(kernel, arch, problem.launch, options, given, seconds)
            found["cheats"] += [one for one in _cheats(launches) if one not in found["cheats"]]
            for number in range(draws if at == 0 else 1):
                _judge_draw(found, problem, launches, number, arch, at == 0 and number == 0, budget)
                if found["values"]:
                    break
            if found["values"]:
                break
            found["times"].append(_time(problem, launches, draws, arch, budget))
    except GpuemuError as error:
        found["verdict"], found["reason"] = REFUSED, str(error.problems[0])
        return found
    except LimitError as error:
        found["verdict"], found["reason"] = LIMIT, str(error)
        return found
    return _with_verdict(found)


def _with_verdict(found: dict[str, Any]) -> dict[str, Any]:
    errors = [one for one in found["findings"] if one["severity"] == "error"]
    if found["cheats"]:
        found["verdict"], found["reason"] = CHEATS, found["cheats"][0]
    elif errors:
        found["verdict"], found["reason"] = FAULTY, f"{errors[0]['title']}: {errors[0]['sentence']}"
    elif found["values"]:
        first = found["values"][0]
        what = "is as it was" if first["unchanged"] else f"has {first['elements']:,} wrong elements of {first['of']:,}"
        place = "".join(f"[{n}]" for n in first["first"])
        told = f"argument {first['argument']} {what}; {place} is {first['found']}, {first['right']} is right"
        found["verdict"], found["reason"] = WRONG, told
    if found["verdict"] != RIGHT:
        found["times"] = []
    return found


def _cheats(launches: Sequence[JudgedLaunch]) -> list[str]:
    found = []
    for launch in launches:
        function = decode_function(launch.cubin, launch.kernel)
        if any(word in operand for i in function.code for operand in i.operands for word in _CLOCKS):
            found.append(f"{function.source_name} reads a clock")
    return found


def _judge_draw(
    found: dict[str, Any], problem: JudgedProblem, launches: Sequence[JudgedLaunch], number: int, arch: Architecture,
    looked_at: bool, budget: int,
) -> None:  # fmt: skip
    """Execute the launches on fresh memory, and compare all arguments; the first time all tools look on."""
    given, expected = problem.draw(number)
    before, _ = problem.draw(number)
    scratch: dict[int, Any] = {}
    for launch in launches:
        args = bound(launch, given, scratch)
        if looked_at:
            report = check(
                launch.cubin, launch.kernel, launch.grid, launch.block, launch.dynamic_shared_bytes, args, arch=arch,
                budget=budget, zero_shared=launch.zero_shared,
            )  # fmt: skip
            found["findings"] += [finding.data(report.block) for finding in report.findings]
        else:
            _execute(launch, args, arch, budget, ())
    for at, (one, was, right) in enumerate(zip(given, before, expected, strict=True)):
        told = wrong(one, was, right, problem.tolerance)
        if told is not None:
            found["values"].append({"argument": at, "draw": number, "chip": arch.chip, **told})


def _execute(launch: JudgedLaunch, args: list[Any], arch: Architecture, budget: int, ctas: Any) -> Any:
    plain = [np.asarray(one) if isinstance(one, np.ndarray) else one for one in args]
    return trace_kernel(
        launch.cubin, launch.kernel, launch.grid, launch.block, launch.dynamic_shared_bytes, plain, arch=arch,
        budget=budget, zero_shared=launch.zero_shared, ctas=ctas,
    )  # fmt: skip


def _time(
    problem: JudgedProblem, launches: Sequence[JudgedLaunch], draw: int, arch: Architecture, budget: int
) -> dict[str, Any]:
    """Times of a draw that the kernel has not seen, each launch on memory that the ones before it left."""
    given, _ = problem.draw(draw)
    scratch: dict[int, Any] = {}
    cycles, nanoseconds, longest, limited_by = 0, 0.0, -1.0, ""
    for launch in launches:
        result = run(_execute(launch, bound(launch, given, scratch), arch, budget, None), arch)
        cycles += result.cycles
        whole = result.grid.nanoseconds
        took = float(whole) if whole is not None else result.cycles * 1000 / arch.chips[arch.chip].clock_mhz
        nanoseconds += took
        if took > longest:
            longest, limited_by = took, result.limited_by
    return {
        "chip": arch.chip, "arch": arch.name, "launches": len(launches), "cycles": cycles,
        "nanoseconds": nanoseconds, "limited_by": limited_by,
    }  # fmt: skip
