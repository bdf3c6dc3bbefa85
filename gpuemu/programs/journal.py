"""The launches, copies and fills of a program in order, with their emulated times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpuemu.programs.executing import Sizes, Timing
from gpuemu.programs.protocol import Direction

Values = Literal["executed", "sampled"]


@dataclass(eq=False)
class LaunchRecord:
    """A launch. `nanoseconds` and `elapsed_cycles` are None if gpuemu did not time it.

    `values`: "executed", or "sampled" if no CTA executed or only the timed ones did. The results of a sampled launch
    are missing. `timed`: gpuemu simulated this launch, rather than an earlier one of its kind.
    """

    number: int
    process: int
    kernel: str
    symbol: str
    grid: Sizes
    block: Sizes
    registers: int
    shared_bytes: int
    stream: int
    values: Values = "executed"
    is_late: bool = False
    """Whether gpuemu sampled it because time was short, rather than because nobody read its results."""
    timed: bool = False
    begins: float = 0.0
    timing: Timing | None = field(default=None, repr=False)
    findings: tuple[Any, ...] = ()
    fault: str = ""

    @property
    def nanoseconds(self) -> float | None:
        return None if self.timing is None else self.timing.nanoseconds

    @property
    def elapsed_cycles(self) -> int | None:
        return None if self.timing is None else self.timing.elapsed_cycles

    @property
    def limited_by(self) -> str:
        return "" if self.timing is None else self.timing.limited_by

    def data(self) -> dict[str, Any]:
        """The launch as JSON. Times are in nanoseconds."""
        return {
            "process": self.process, "kernel": self.kernel, "grid": list(self.grid), "block": list(self.block),
            "registers_per_thread": self.registers, "shared_bytes": self.shared_bytes, "stream": self.stream,
            "start_ns": round(self.begins, 1), "elapsed_cycles": self.elapsed_cycles,
            "duration_ns": None if self.nanoseconds is None else round(self.nanoseconds, 1),
            "limited_by": self.limited_by, "values": self.values, "timed": self.timed,
            **({"fault": self.fault} if self.fault else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class CopyRecord:
    """A copy or a fill."""

    kind: str
    process: int
    size: int
    stream: int
    begins: float
    nanoseconds: float

    def data(self) -> dict[str, Any]:
        """The copy as JSON."""
        return {
            "process": self.process, "kind": self.kind, "bytes": self.size, "stream": self.stream,
            "start_ns": round(self.begins, 1), "duration_ns": round(self.nanoseconds, 1),
        }  # fmt: skip


COPY_NAMES = {
    Direction.HOST_TO_HOST: "HtoH", Direction.HOST_TO_DEVICE: "HtoD", Direction.DEVICE_TO_HOST: "DtoH",
    Direction.DEVICE_TO_DEVICE: "DtoD",
}  # fmt: skip
FILL_NAME = "memset"


@dataclass
class Journal:
    """The work of all processes of a program.

    `lacks_values`: the program has read memory with missing results of late launches.
    """

    launches: list[LaunchRecord] = field(default_factory=list)
    copies: list[CopyRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lacks_values: bool = False

    def note(self, text: str) -> None:
        """Add a sentence to the notes below the table, unless it is there."""
        if text not in self.notes:
            self.notes.append(text)

    def data(self, exit_code: int, chip: str, arch: str) -> dict[str, Any]:
        """The journal as JSON."""
        return {
            "exit_code": exit_code, "chip": chip, "arch": arch, "wrong_values": self.lacks_values,
            "launches": [one.data() for one in self.launches], "copies": [one.data() for one in self.copies],
            "notes": list(self.notes),
        }  # fmt: skip
