"""Tensor memory that a CTA has not given back when it ends: the next CTA on the SM may wait for it forever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuemu.sass.machine.memory.tensor_memory import UNIT_COLUMNS
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.trace.model import Instruction


class TensorLeaks:
    """The last allocation of the launch, which a finding names, and the columns that are left."""

    def __init__(self, findings: Findings, point: Callable[..., Point]):
        self._findings, self._point = findings, point
        self._last: tuple[Instruction, int, int] | None = None

    def allocates(self, instruction: Instruction, lane: int, cta: int) -> None:
        """A lane of a CTA has allocated columns."""
        self._last = instruction, lane, cta

    def end(self, memory: Any) -> None:
        """The executing CTA has ended."""
        if self._last is None:
            return
        kept = memory.tensor if memory.cluster is None else memory.cluster.tensor
        tensor = kept.get(memory.rank)
        if tensor is None or not tensor.taken:
            return
        columns = UNIT_COLUMNS * int(tensor.taken).bit_count()
        self._findings.add(
            Finding(
                "memcheck", Severity.ERROR, "Tensor memory leak",
                f"the CTA ends with {columns} columns of tensor memory, for which later CTAs of the SM wait",
                (self._point(*self._last, "allocates"),), "", 1, "tcgen05.dealloc of all columns before the CTA exits",
            )
        )  # fmt: skip
