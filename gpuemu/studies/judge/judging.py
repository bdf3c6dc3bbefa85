"""The judgement of one kernel, in the process that may be ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.chip.plan import SampledGrid
from gpuemu.chip.tracing import execute_launch
from gpuemu.emulate import run
from gpuemu.sass.tools.disassembly import decode_function
from gpuemu.studies.check.api import check_launch
from gpuemu.studies.judge.box import LimitError, RefusedError
from gpuemu.studies.judge.comparing import wrong
from gpuemu.studies.judge.kernels import JudgedDraw, JudgedLaunch, bound, launches_of, memory_of
from gpuemu.studies.judge.loading import not_loaded
from gpuemu.studies.judge.problem import Draw, JudgedProblem, ProblemError, chance, read_problem

RIGHT, WRONG, CHEATS, FAULTY, REFUSED, LIMIT = "right", "wrong", "cheats", "faulty", "refused", "limit"
_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")
_MOST_LETTERS = 2000
_SCRATCH, _NOISE, _TIMED = 1, 2, 3
"""Distinguish the random bits of scratch memory, and of unwritten memory, from those of arguments."""


@dataclass(frozen=True)
class Task:
    """A request: a `kernel` and a problem (`against`), by their paths, on each architecture.

    `draws` inputs are compared, and one more, which is also timed. All of them come from `seed`.
    """

    kernel: str
    against: str
    archs: tuple[Architecture, ...]
    draws: int
    seed: int
    budget: int
    memory_bytes: int
    options: tuple[str, ...]

    def judgement(self, verdict: str = RIGHT, reason: str = "") -> dict[str, Any]:
        """The judgement in its JSON form, with nothing found yet."""
        return {
            "kernel": self.kernel, "against": self.against, "verdict": verdict, "reason": reason, "seed": self.seed,
            "draws": self.draws, "values": [], "findings": [], "cheats": [], "times": [],
        }  # fmt: skip


def judge_one(task: Task) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The judgement, and what the system lacks to confine a candidate.

    Raises GpuemuError for a problem that is wrong in itself.
    """
    problem = read_problem(task.against)
    problem.draw(task.seed, 0)
    judging = _Judging(task, problem)
    try:
        judging.judge()
    except ProblemError:
        raise
    except (GpuemuError, RefusedError) as error:
        reason = str(error.problems[0]) if isinstance(error, GpuemuError) else str(error)
        judging.found |= {"verdict": REFUSED, "reason": reason[:_MOST_LETTERS], "times": []}
        return judging.found, judging.lacks
    except LimitError as error:
        judging.found |= {"verdict": LIMIT, "reason": str(error), "times": []}
        return judging.found, judging.lacks
    return _with_verdict(judging.found), judging.lacks


class _Judging:
    def __init__(self, task: Task, problem: JudgedProblem):
        self.task, self.problem = task, problem
        self.found = task.judgement()
        self.lacks: tuple[str, ...] = ()

    def judge(self) -> None:
        """Judge on each architecture, up to the first draw whose verdict is not `right`."""
        task, known = self.task, list[list[JudgedDraw]]()
        for arch in task.archs:
            given = [partial(self.problem.arguments, task.seed, number) for number in range(task.draws + 1)]
            candidate, self.lacks = launches_of(
                task.kernel, arch, self.problem.launch, task.options, given, task.memory_bytes
            )
            for code in {
                (launch.code, launch.kernel): launch for draw in candidate for launch in draw.launches
            }.values():
                self._look_at_code(code, arch)
            # Equal machine code has been judged already. Only the timed draw runs again, for each chip.
            first = task.draws if candidate in known else 0
            known.append(candidate)
            for number in range(first, task.draws + 1):
                self._check(candidate[number], number, arch)
                if self._is_wrong:
                    return
            self.found["times"].append(self._time(candidate[task.draws], arch))
            if self._is_wrong:
                return

    @property
    def _is_wrong(self) -> bool:
        return bool(self.found["values"]) or any(one["severity"] == "error" for one in self.found["findings"])

    def _look_at_code(self, launch: JudgedLaunch, arch: Architecture) -> None:
        """Look for clocks. Raises RefusedError for code that the architecture does not load."""
        function = decode_function(launch.cubin, launch.kernel)
        refusal = not_loaded(function, arch)
        if refusal:
            raise RefusedError(f"{self.task.kernel}: found {refusal}")
        told = f"{function.source_name} reads a clock"
        reads = any(word in operand for i in function.code for operand in i.operands for word in _CLOCKS)
        if reads and told not in self.found["cheats"]:
            self.found["cheats"].append(told)

    def _check(self, candidate: JudgedDraw, number: int, arch: Architecture) -> None:
        """Execute the launches of a draw on fresh memory with all tools, and compare all arguments."""
        draw, scratch = self._memory(candidate, number)
        for launch in candidate.launches:
            report = check_launch(launch.config(bound(launch, draw.given, scratch), arch, self.task.budget))
            for finding in report.findings:
                told = finding.data(report.block)
                if told not in self.found["findings"]:
                    self.found["findings"].append(told)
        self._compare(draw, number, arch)

    def _memory(self, candidate: JudgedDraw, number: int) -> tuple[Draw, list[Any]]:
        draw = self.problem.draw(self.task.seed, number)
        return draw, memory_of(candidate, chance(self.task.seed, number, _SCRATCH))

    def _compare(self, draw: Draw, number: int, arch: Architecture) -> None:
        for at, (got, before, expected) in enumerate(zip(draw.given, draw.before, draw.expected, strict=True)):
            told = wrong(got, before, expected, self.problem.tolerance, self.problem.absolute_tolerance)
            if told is not None:
                self.found["values"].append({"argument": at, "draw": number, "chip": arch.chip, **told})

    def _time(self, candidate: JudgedDraw, arch: Architecture) -> dict[str, Any]:
        """The times of the last draw. Each launch runs on the memory that the launches before it left; its values
        count, too.
        """
        draw, scratch = self._memory(candidate, self.task.draws)
        noise, timed = (
            int(chance(self.task.seed, self.task.draws, what).integers(1 << 62)) for what in (_NOISE, _TIMED)
        )
        plan = SampledGrid(timed)
        cycles, nanoseconds, longest, limited_by = 0, 0.0, -1.0, ""
        for launch in candidate.launches:
            given = bound(launch, draw.given, scratch)
            args = [np.asarray(one) if isinstance(one, np.ndarray) else one for one in given]
            result = run(execute_launch(launch.config(args, arch, self.task.budget, noise), plan=plan), arch)
            cycles += result.cycles
            whole = result.grid.nanoseconds
            took = float(whole) if whole is not None else result.cycles * 1000 / arch.chips[arch.chip].clock_mhz
            nanoseconds += took
            if took > longest:
                longest, limited_by = took, result.limited_by
        self._compare(draw, self.task.draws, arch)
        return {
            "chip": arch.chip, "arch": arch.name, "launches": len(candidate.launches), "cycles": cycles,
            "nanoseconds": nanoseconds, "limited_by": limited_by,
        }  # fmt: skip


def _with_verdict(found: dict[str, Any]) -> dict[str, Any]:
    errors = [one for one in found["findings"] if one["severity"] == "error"]
    if found["cheats"]:
        found["verdict"], found["reason"] = CHEATS, found["cheats"][0]
    elif errors:
        found["verdict"], found["reason"] = FAULTY, f"{errors[0]['title']}: {errors[0]['sentence']}"
    elif found["values"]:
        first = found["values"][0]
        wrong = f"{first['elements']:,} of {first['of']:,} elements {'is' if first['elements'] == 1 else 'are'} wrong"
        what = "unchanged" if first["unchanged"] else wrong
        place = "".join(f"[{n}]" for n in first["first"])
        told = f"argument {first['argument']}: {what}; {place} = {first['found']}, expected {first['right']}"
        found["verdict"], found["reason"] = WRONG, told
    if found["verdict"] != RIGHT:
        found["times"] = []
    return found
