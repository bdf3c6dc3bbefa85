"""Tests of mbarriers whose result nobody uses: the thread goes on whether or not the phase is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.semantics.mbarrier_waits import looking, read_by
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.value_flow import unused_tests
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
Step = Callable[[Mask], None]
_UNKNOWN = -1
"""The parity that a load of the barrier's word is compared with."""


@dataclass
class _CtaTests:
    """The possibly unused tests of one CTA.

    `open`: by mbarrier and parity, the test, and the threads that have made it and no later one.
    """

    cta: int
    open: dict[tuple[int, int], tuple[Instruction, Bools]] = field(default_factory=dict)


class UnusedTests:
    """Notes each such test, until the thread tests the same phase again and uses the result."""

    def __init__(self, code: Sequence[Instruction], findings: Findings, point: Callable[..., Point]):
        self._unused = unused_tests(code)
        self._findings, self._point = findings, point
        self.start(0)

    def start(self, cta: int) -> None:
        """A new CTA."""
        self.per_cta = _CtaTests(cta)

    def around(self, site: Any, step: Step) -> Step:
        """The step, watched if it tests an mbarrier of a kernel that has such a test."""
        if not self._unused or not (site.mnemonic == "LDS" or (site.mnemonic == "SYNCS" and site.has("PHASECHK"))):
            return step
        tested, instruction = _tested(site), site.instruction
        unused = instruction.offset in self._unused

        def followed(mask: Mask) -> None:
            for phase, lanes in tested(site.lanes.exists if mask is None else mask):
                open_ = self.per_cta.open
                test, others = open_.get(phase, (instruction, np.zeros_like(lanes)))
                open_[phase] = (test, others | lanes) if unused else (test, others & ~lanes)
            step(mask)

        return followed

    def end(self) -> None:
        """The CTA has ended: report the tests that no other test has followed."""
        for (byte, parity), (test, lanes) in self.per_cta.open.items():
            if not lanes.any():
                continue
            count = int(lanes.sum())
            who = "1 thread tests" if count == 1 else f"{count} threads test"
            goes = "goes" if count == 1 else "go"
            phase = "a phase" if parity == _UNKNOWN else f"the phase of parity {parity}"
            self._findings.add(
                Finding(
                    "synccheck", Severity.ERROR, "Barrier error: unused result of an mbarrier's test",
                    f"{who} whether {phase} of the mbarrier at byte {byte} of shared memory is over,"
                    f" and {goes} on whatever the answer is",
                    (self._point(test, int(lanes.argmax()), self.per_cta.cta, f"tests byte {byte}"),),
                    f"byte {byte} of shared memory", count,
                    "a loop that tests until the phase is over, as cuda::barrier::wait() has it",
                )
            )  # fmt: skip


def _tested(site: Any) -> Callable[[Bools], Iterator[tuple[tuple[int, int], Bools]]]:
    """The phases that lanes test, as the barrier's byte and the parity, each with its lanes."""
    if site.mnemonic == "LDS":
        return lambda lanes: (((wait.byte, _UNKNOWN), wait.lanes) for wait in read_by(site, lanes))
    look = looking(site)

    def tested(lanes: Bools) -> Iterator[tuple[tuple[int, int], Bools]]:
        _, parities, (numbers, bytes_) = look(lanes)
        phases = bytes_ << 1 | parities.astype(np.int64)
        for phase in np.unique(phases).tolist():
            here = np.zeros_like(lanes)
            here[numbers[phases == phase]] = True
            yield (phase >> 1, phase & 1), here

    return tested
