"""The judgement of one kernel, in the process that may be ended."""

from __future__ import annotations

from collections.abc import Sequence
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
from gpuemu.studies.judge.kernels import Found, JudgedDraw, JudgedLaunch, bound, launches_of, memory_of
from gpuemu.studies.judge.leaderboards import LeaderboardProblem, is_leaderboard
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
    settings: tuple[tuple[str, Any], ...] = ()
    """Other values for the constants of a leaderboard's problem."""

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
    problem: OwnProblem | LeaderboardProblem
    if is_leaderboard(task.against):
        problem = LeaderboardProblem(task.against, task.archs[0], dict(task.settings), task.draws, task.seed)
    else:
        problem = OwnProblem(task, read_problem(task.against))
    problem.draw(0)
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


class OwnProblem:
    """A problem file of the judge's own form."""

    def __init__(self, task: Task, problem: JudgedProblem):
        self._task, self._problem = task, problem
        self.compared, self.timed = task.draws, range(task.draws, task.draws + 1)
        if task.settings:
            right = "Give a problem of gpu-mode or KernelBench, or change the file"
            raise GpuemuError.one("--set", None, task.settings[0][0], f"{task.against} is none of a leaderboard", right)

    def launches(self, kernel: str, arch: Architecture, memory_bytes: int) -> Found:
        """The launches of a file for each draw. Raises GpuemuError, RefusedError and LimitError."""
        task = self._task
        given = [partial(self._problem.arguments, task.seed, number) for number in range(self.timed.stop)]
        return launches_of(kernel, arch, self._problem.launch, task.options, given, memory_bytes)

    def draw(self, number: int) -> Draw:
        """A draw with the results of the reference. Raises GpuemuError."""
        return self._problem.draw(self._task.seed, number)

    def differences(self, draw: Draw, candidate: JudgedDraw, scratch: Sequence[Any]) -> list[dict[str, Any]]:
        """How the arguments differ from what the reference makes of them."""
        found = []
        for at, (got, before, expected) in enumerate(zip(draw.given, draw.before, draw.expected, strict=True)):
            told = wrong(got, before, expected, self._problem.tolerance, self._problem.absolute_tolerance)
            if told is not None:
                found.append({"argument": at, **told})
        return found

    def case(self, number: int) -> dict[str, Any]:
        """Own problems have no named cases."""
        return {}

    def one_time(self, nanoseconds: Sequence[float]) -> float:
        """The time of the only timed draw."""
        return nanoseconds[-1]


class _Judging:
    def __init__(self, task: Task, problem: OwnProblem | LeaderboardProblem):
        self.task, self.problem = task, problem
        self.found = task.judgement() | {"draws": problem.compared}
        self.lacks: tuple[str, ...] = ()

    def judge(self) -> None:
        """Judge on each architecture, up to the first draw whose verdict is not `right`."""
        task, known = self.task, list[list[JudgedDraw]]()
        for arch in task.archs:
            candidate, self.lacks = self.problem.launches(task.kernel, arch, task.memory_bytes)
            for code in {
                (launch.code, launch.kernel): launch for draw in candidate for launch in draw.launches
            }.values():
                self._look_at_code(code, arch)
            # Equal machine code has been judged already. Only the timed draws run again, for each chip.
            first = self.problem.compared if candidate in known else 0
            known.append(candidate)
            for number in range(first, self.problem.timed.stop):
                self._check(candidate[number], number, arch)
                if self._is_wrong:
                    return
            times = []
            for number in self.problem.timed:
                times.append(self._time(candidate[number], number, arch))
                if self._is_wrong:
                    return
            self.found["times"].append(self._one_time(times))

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
        self._compare(draw, candidate, scratch, number, arch)

    def _memory(self, candidate: JudgedDraw, number: int) -> tuple[Draw, list[Any]]:
        draw = self.problem.draw(number)
        return draw, memory_of(candidate, chance(self.task.seed, number, _SCRATCH))

    def _compare(
        self, draw: Draw, candidate: JudgedDraw, scratch: list[Any], number: int, arch: Architecture
    ) -> None:  # fmt: skip
        for told in self.problem.differences(draw, candidate, scratch):
            self.found["values"].append({"draw": number, "chip": arch.chip, **told})

    def _one_time(self, times: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The time on a chip. If there are several benchmarks, each is listed, too."""
        if len(times) == 1:
            return times[0]
        longest = max(times, key=lambda one: one["nanoseconds"])
        cases = [
            {"case": self.problem.case(number), "nanoseconds": one["nanoseconds"]}
            for number, one in zip(self.problem.timed, times, strict=True)
        ]
        return longest | {
            "launches": sum(one["launches"] for one in times), "cycles": sum(one["cycles"] for one in times),
            "nanoseconds": self.problem.one_time([one["nanoseconds"] for one in times]), "cases": cases,
        }  # fmt: skip

    def _time(self, candidate: JudgedDraw, number: int, arch: Architecture) -> dict[str, Any]:
        """The times of a draw. Each launch runs on the memory that the launches before it left; its values
        count, too.
        """
        draw, scratch = self._memory(candidate, number)
        noise, timed = (int(chance(self.task.seed, number, what).integers(1 << 62)) for what in (_NOISE, _TIMED))
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
        self._compare(draw, candidate, scratch, number, arch)
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
        found["verdict"], found["reason"] = WRONG, first.get("message", told)
    if found["verdict"] != RIGHT:
        found["times"] = []
    return found
