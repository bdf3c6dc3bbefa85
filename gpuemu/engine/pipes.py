"""The execution pipes of a sub-core, fixed-latency ones and tensor core alike.

A pipe takes an instruction when the interval of the one before it has passed; what an instruction's
interval is, and when its result is there, are values of the architecture file. The tensor core is a pipe
whose interval depends on shape and type (m16n8k16 on sm_90: one every 6 cycles).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuemu.program.units import Unit, parts_of

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.sender import Special


class Pipe:
    """One pipe. `free_at`: the first cycle at which it accepts another instruction; `taken_at`: when it took the last.

    `closed_log`: from and until when it accepted nothing for another reason than the issue interval of one that
    it had accepted.
    """

    __slots__ = ("closed_log", "free_at", "taken_at", "unit")

    has_intervals = True
    """Whether an instruction closes it for its issue interval."""

    is_shared = False
    """Whether it has parts in common with other pipes."""

    def __init__(self, unit: Unit = Unit.ARITHMETIC):
        self.unit = unit
        self.free_at = 0
        self.taken_at = -1
        self.closed_log = array("q")

    def take(self, start: int, until: int) -> None:
        """An instruction occupies it from `start` until `until`."""
        if self.free_at < until:
            self.free_at = until

    def close(self, start: int, until: int) -> None:
        """Accept nothing from `start` until `until`."""
        if self.free_at < until:
            self.free_at = until
            self.closed_log.extend((start, until))


class QueuedPipe(Pipe):
    """A slow unit behind a queue of its own: the special-function unit.

    An instruction holds an entry from its issue until some time after the unit has taken it (`Special.taken_at`). On
    an H200 two MUFU leave back to back, the third 13 cycles after the first, the others every 8.
    """

    has_intervals = False

    __slots__ = ("_waiting", "entries")

    def __init__(self, unit: Unit, entries: int):
        super().__init__(unit)
        self.entries = entries
        self._waiting: deque[Special] = deque()

    def accept(self, special: Special) -> None:
        """Take an instruction that issues."""
        cycle, waiting = special.issued_at, self._waiting
        waiting.append(special)
        while waiting[0].taken_at <= cycle:
            waiting.popleft()
        self.free_at = cycle + 1
        self.moved()

    def moved(self) -> None:
        """One in the queue leaves it at another time."""
        if len(self._waiting) >= self.entries:
            self.close(self.free_at, self._waiting[-self.entries].taken_at)


class SharedPipe(Pipe):
    """A pipe made of parts that other pipes use, too: the FMA pipe of an SM that has a heavy and a light half.

    "fmalite|fmaheavy" takes one of its parts, the first that is free; "fmaheavy+fmalite" takes both at once.
    """

    is_shared = True

    __slots__ = ("_any", "_free_at", "_parts", "_views")

    def __init__(self, name: str, free_at: dict[str, int], views: list[SharedPipe]):
        super().__init__()
        self._any = "|" in name
        self._parts = parts_of(name)
        self._free_at = free_at
        self._views = views
        views.append(self)

    def take(self, start: int, until: int) -> None:
        """An instruction occupies it from `start` until `until`."""
        free_at, parts = self._free_at, self._parts
        if self._any:
            parts = (next((part for part in parts if free_at[part] <= start), parts[0]),)
        for part in parts:
            free_at[part] = max(free_at[part], until)
        for view in self._views:
            view.taken_at = start
            view.close(start + 1, view.next_free())

    def next_free(self) -> int:
        """When its parts let it accept an instruction."""
        times = [self._free_at[part] for part in self._parts]
        return min(times) if self._any else max(times)


def make_pipes(names: Sequence[str], units: Sequence[Unit], machine: Machine) -> list[Pipe]:
    """A sub-core's pipes by name and unit, those that share parts linked to each other."""
    free_at = {part: 0 for name in names if len(parts_of(name)) > 1 for part in parts_of(name)}
    views: list[SharedPipe] = []
    pipes: list[Pipe] = []
    for name, unit in zip(names, units, strict=True):
        if unit is Unit.SPECIAL_FUNCTION:
            pipes.append(QueuedPipe(unit, machine.special_function_queue_entries))
        elif any(part in free_at for part in parts_of(name)):
            pipes.append(SharedPipe(name, free_at, views))
        else:
            pipes.append(Pipe(unit))
    return pipes
