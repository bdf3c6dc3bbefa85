"""What a CTA's instructions see besides registers: constants, the CTA's place in the launch, memory, a clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.fragment_store import FragmentStore
from gpuemu.sass.machine.lanes import Lanes, Mask
from gpuemu.sass.machine.patterns import Patterns, Place
from gpuemu.trace.model import Instruction, Launch

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.machine.memory import Memory
    from gpuemu.sass.machine.operands import Getter, Site


class ExecutionError(RuntimeError):
    """An instruction did what a kernel must not do. `lane` counts in the CTA; None if it concerns all of it."""

    def __init__(self, instruction: Instruction, lane: int | None, found: str, right: str):
        self.instruction = instruction
        self.lane = lane
        self.found = found
        self.right = right
        super().__init__(f"{instruction} in lane {lane}: found {found}; {right}")


def _no_print(text: str) -> None:
    """Nobody reads."""


def _no_record(site: Site, place: Place, mask: Mask) -> None:
    """Nobody listens."""


@dataclass
class Environment:
    """The surroundings of the CTA being executed.

    `constants`: bank number → its bytes as uint8. `cta`: its (x, y, z) in the grid. `clock` advances by one with
    every instruction executed; times are the engine's matter.
    """

    arch: Architecture
    launch: Launch
    lanes: Lanes
    memory: Memory
    constants: Mapping[int, NDArray[np.uint8]]
    code: tuple[Instruction, ...]
    known_words: frozenset[int] | None = None
    """Offsets of the words of constant bank 0 that hold what they should; None: all of them."""
    shared_memory_size: int = 0
    """Bytes of shared memory that the CTA takes, what the system reserves included."""
    cta: tuple[int, int, int] = (0, 0, 0)
    clock: int = 0
    record: Callable[[Site, Place, Mask], None] = _no_record
    """Called by every access to shared, global or local memory, after its checks, with the byte addresses of the
    mask's lanes. Those in shared memory count from the CTA's first byte, those in local memory from the lane's.
    """
    patterns: Patterns = field(default_factory=Patterns)
    """What the addresses of accesses have looked like."""
    fragments: FragmentStore = field(default_factory=FragmentStore)
    """What matrix instructions have read and computed."""
    active: Mask = None
    """The lanes that execute the current instruction before its guard: what votes and WARPSYNC see."""
    codeless: Mapping[int, str] = field(default_factory=dict)
    """Address → name of the functions that are called but are no code of the cubin: the driver's."""
    printer: Callable[[str], None] = _no_print
    """Takes what printf prints."""
    barrier_results: tuple[NDArray[np.uint32], NDArray[np.bool_]] = field(init=False)
    """What the last BAR.RED of each lane brought together: how many votes were true, and AND or OR of them."""
    return_address: NDArray[np.uint32] = field(init=False)
    """The two words of each lane's return address register, [2, lanes]."""

    def __post_init__(self) -> None:
        count = self.lanes.count
        self.barrier_results = np.zeros(count, np.uint32), np.zeros(count, np.bool_)
        self.return_address = np.zeros((2, count), np.uint32)

    def constant(self, site: Site, bank: str, offset: str, size: int) -> Getter:
        """A getter of `size` (4 or 8) bytes of a constant bank; bank and offset as SASS writes them."""
        if not bank.startswith("0x"):
            raise site.unsupported(f"the constant bank {bank} in a register")
        number = int(bank, 16)
        data = self.constants.get(number)
        if data is None:
            raise site.unsupported(f"constant bank {number}, which the cubin does not have")
        kind = np.uint32 if size == 4 else np.uint64
        match = re.fullmatch(r"(?:(-?0x[0-9a-f]+)|((?:UR|R)(?:\d+|Z))(?:\+(-?0x[0-9a-f]+))?)", offset)
        if match is None:
            raise site.unsupported(f"the constant offset {offset}")
        fixed, register, plus = match.groups()
        if register is None:
            start = int(fixed, 16)
            self._check_constant(site, data, start, size)
            self.check_known(site, number, start)

            value = data[start : start + size].view(kind)[0]
            return lambda: value
        lanes = self.register_lanes(register)
        offset_bytes = int(plus or "0x0", 16)

        def indexed() -> Any:
            starts = lanes.astype(np.int64) + offset_bytes
            starts = np.clip(starts, 0, len(data) - size)
            return np.ascontiguousarray(data[starts[:, None] + np.arange(size)]).view(kind)[:, 0]

        return indexed

    def check_known(self, site: Site, bank: int, offset: int) -> None:
        """Refuse an instruction that reads what a driver would have filled in and nobody did here."""
        if bank == 0 and self.known_words is not None and offset // 4 * 4 not in self.known_words:
            raise site.unsupported(f"c[0x0][{offset:#x}], a word of the driver's")

    def register_lanes(self, name: str) -> NDArray[np.uint32]:
        """The lanes of a register by its name, R4 or UR4 or RZ."""
        file = self.lanes.uniform_registers if name.startswith("U") else self.lanes.registers
        number = name.lstrip("UR")
        return np.asarray(file[len(file) - 1 if number == "Z" else int(number)])

    def _check_constant(self, site: Site, data: NDArray[np.uint8], start: int, size: int) -> None:
        if not 0 <= start <= len(data) - size:
            raise ExecutionError(
                site.instruction, None, f"constant offset {start:#x}", f"the bank has {len(data)} bytes"
            )
