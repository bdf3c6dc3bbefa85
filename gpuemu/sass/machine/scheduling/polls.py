"""Detect a CTA that only waits for memory that others write.

gpuemu watches the instructions that may poll such memory; a poll is called a look. Lanes wait if they look at one place
again, find the same value, and have the same registers as at the previous look. They also wait if their loop ends only
when they find something else (`waiting_loops.only_wait`). In both cases, nothing but another thread's store changes
what they do. Loops that change a few registers, for example to count looks, wait after some tens of looks.

A CTA waits when all of its lanes do that are not at a barrier. Once another CTA's store has ended the wait, the looks
after the second unsuccessful one are removed from the record. A trace contains two unsuccessful looks and the
successful one. A loop that has ended by itself has waited for nobody, and keeps its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import LAST, parse_operand
from gpuemu.sass.compiled.columns import MOST_LOOKS
from gpuemu.sass.machine.environment import Environment, Spaces, no_record
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.generic import GenericSpace
from gpuemu.sass.machine.memory.spaces import Purpose
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.groups import Group
from gpuemu.sass.machine.scheduling.waiting_loops import looks, only_wait
from gpuemu.sass.semantics.access import WIDTHS
from gpuemu.sass.semantics.lanewise import EncodedStep
from gpuemu.trace.model import GLOBAL, Instruction

PATIENCE = 64
"""Unsuccessful looks after which a loop that changes a few registers is assumed to wait."""
_FEW_REGISTERS = 6
_LONGEST_TURN = 128
"""Maximum number of instructions between two looks of such a loop."""
_CHECKED = 16
"""Registers are compared again after every 16 looks that change nothing."""
_MOST_ROWS = 32
"""Maximum number of registers that a look names."""
_GLOBAL = ("LDG", "LD", "ATOM", "ATOMG")
"""Looks at memory that other CTAs also write."""


@dataclass(eq=False)
class Look:
    """The value that a group of lanes found at a look, how often in a row, and the registers at that time."""

    site: Site
    who: int
    lanes: NDArray[np.bool_]
    found: int
    place: Place | None
    clock: int
    times: int = 1
    state: list[NDArray[Any]] | None = None
    exact: bool = False
    position: int = 0
    end: int = 0
    memory: bytes = b""
    """The content of memory at the place."""

    @property
    def unit_bytes(self) -> int:
        """Bytes that each lane looks at."""
        return _size(self.site.instruction)


class Seen(NamedTuple):
    """A look: its lanes, the values that they found, and the clock."""

    lanes: NDArray[np.bool_]
    found: int
    clock: int


@dataclass(eq=False)
class Looks:
    """The looks of a CTA: the last at each instruction by each group, and the lanes that wait."""

    lanes: int
    patience: int = PATIENCE
    last: dict[tuple[int, bytes], Look] = field(default_factory=dict)
    any_waits: bool = False
    all_since: int | None = None
    """The clock at which all groups were first found to wait."""
    all_wait: bool = False
    """Whether all groups wait, and each has looked again since all of them wait."""

    def __post_init__(self) -> None:
        self.waits = np.zeros(self.lanes, np.bool_)

    def forget(self) -> None:
        """The CTA continues, and has not waited for anything yet."""
        self.last.clear()
        self.waits[:] = False
        self.any_waits, self.all_since, self.all_wait = False, None, False


class Polls:
    """The watched instructions of a launch, for the CTA that executes."""

    def __init__(self, environment: Environment):
        self._environment = environment
        self.watched = looks(environment.code)
        self._only_wait = only_wait(environment.code) if self.watched else frozenset()
        names = {i.mnemonic for i in environment.code}
        self._keeps_local, self._keeps_shared = bool(names & {"STL", "ST"}), bool(names & {"STS", "ATOMS", "ST"})
        self._readers: dict[int, GenericSpace] = {}
        self._place: Place | None = None
        self.looks = Looks(environment.lanes.count)
        self.group: Group | None = None
        self.groups: Callable[[], list[Group]] = list
        self.recorder: Recorder | None = None
        self.record: Callable[..., None] = no_record
        self.remembered: Callable[[], Iterable[tuple[int, Seen]]] = tuple
        """Returns the looks of compiled loops since the last call: the last one at each instruction."""
        self.looked: Callable[[int, Mask, int, int], None] = lambda pc, mask, found, count: None
        """Called with a look of the executor: the instruction, lanes, values, and the number of known looks."""
        self.cleared: Callable[[], None] = lambda: None
        """Called when all looks are forgotten."""
        self.factors = np.random.default_rng(0).integers(0, 1 << 64, (_MOST_ROWS, environment.lanes.count), np.uint64)

    def around(self, pc: int, site: Site, step: Step) -> Step:
        """Return the step, watched if it may be a look."""
        if pc not in self.watched:
            return step
        rows = self._rows(site)
        environment = self._environment
        take = self._take if site.mnemonic in _GLOBAL else self._take_nothing

        def watched(mask: Mask) -> None:
            self._place = None
            environment.record = take
            try:
                step(mask)
            finally:
                environment.record = self.record
            self._look(pc, site, rows)

        encoded = getattr(step, "encoded", None)
        return watched if encoded is None else EncodedStep(watched, encoded)

    def _take(self, place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
        self._place = place if isinstance(spaces, int) and spaces == GLOBAL else None
        self.record(place, mask, spaces, source)

    def _take_nothing(self, place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
        self.record(place, mask, spaces, source)

    def _rows(self, site: Site) -> list[NDArray[Any]]:
        """Return the registers that the instruction names: its address, and its result."""
        lanes = self._environment.lanes
        return [
            (lanes.predicate_file(file) if file.endswith("P") else lanes.file(file))[number]
            for file, number in registers_named(site.instruction)
        ]

    def _state(self, mask: Mask) -> list[NDArray[Any]]:
        lanes, memory = self._environment.lanes, self._environment.memory
        here: Any = slice(None) if mask is None else mask
        used = self._environment.launch.registers_per_thread
        files = lanes.registers[:used], lanes.predicates, lanes.uniform_registers, lanes.uniform_predicates
        state = [file[:, here].copy() for file in files]
        if self._keeps_local:
            state.append(memory.local[8].copy())
        if self._keeps_shared:
            state.append(memory.shared[1].copy())
        return state

    def known(self) -> list[tuple[int, Mask, int]]:
        """Return the last looks of the executor: instructions, lanes and values."""
        masks = {name: np.frombuffer(name, np.bool_) if name else None for _, name in self.looks.last}
        return [(pc, masks[name], look.found) for (pc, name), look in self.looks.last.items()]

    def catch_up(self) -> None:
        """Take over the looks of compiled loops; each of them found a new value."""
        for pc, (lanes, found, clock) in self.remembered():
            mask = None if lanes.all() else lanes
            site = Site(self._environment.code[pc], self._environment)
            here = self._environment.lanes.exists if mask is None else mask
            who = 0 if self.recorder is None else self.recorder.set_of(mask)
            self.looks.last[pc, b"" if mask is None else mask.tobytes()] = Look(site, who, here, found, None, clock)
            self.looks.all_since = None

    def _look(self, pc: int, site: Site, rows: list[NDArray[Any]]) -> None:
        assert self.group is not None
        self.catch_up()
        group, known, clock = self.group, self.looks, self._environment.clock
        mask = group.mask
        name = b"" if mask is None else mask.tobytes()
        found = self._found(rows, mask)
        look = known.last.get((pc, name))
        if (look is None or look.found != found) and len(known.last) >= MOST_LOOKS:
            known.last.clear()
            self.cleared()
        self.looked(pc, mask, found, len(known.last) + ((pc, name) not in known.last))
        if look is None or look.found != found:
            here = self._environment.lanes.exists if mask is None else mask
            known.all_since = None
            known.last[pc, name] = Look(site, group.who, here, found, self._place, clock)
            if known.any_waits:
                known.waits[slice(None) if mask is None else mask] = False
                known.any_waits = bool(known.waits.any())
            return
        look.times += 1
        if pc in self._only_wait:
            look.exact, look.position = True, look.position or self._position()
        elif not look.exact or look.times % _CHECKED == 0:
            self._compare(look, mask)
        look.end, look.clock, look.place = self._position(), clock, self._place
        if look.exact or look.times >= known.patience:
            known.waits[slice(None) if mask is None else mask] = True
            known.any_waits = True
            self._notice_if_all_wait()

    def _found(self, rows: list[NDArray[Any]], mask: Mask) -> int:
        """Return the values of these lanes as one number, which differs for other values."""
        total = np.zeros(self._environment.lanes.count, np.uint64)
        for row, factors in zip(rows, self.factors, strict=False):
            total += row.astype(np.uint64) * factors
        return int((total if mask is None else total[mask]).sum())

    def _compare(self, look: Look, mask: Mask) -> None:
        """Update whether the lanes have the same registers as at the previous look, or nearly the same."""
        state = self._state(mask)
        before, look.state = look.state, state
        look.exact = before is not None and all(map(np.array_equal, before, state))
        short = self._environment.clock - look.clock <= _LONGEST_TURN
        if not look.exact and not (before is not None and short and _few_differ(before, state)):
            look.times, look.position = 2, self._position()

    def _position(self) -> int:
        return 0 if self.recorder is None else len(self.recorder.steps)

    def _notice_if_all_wait(self) -> None:
        exists, known = self._environment.lanes.exists, self.looks
        groups = self.groups()
        for other in groups:
            if ((exists if other.mask is None else other.mask) & ~known.waits).any():
                known.all_since = None
                return
        if known.all_since is None:
            known.all_since = self._environment.clock
            return
        last = map(self._last_of, groups)
        known.all_wait = all(look is not None and look.clock > known.all_since for look in last)

    def _last_of(self, group: Group) -> Look | None:
        """Return the last look of the group, or of some of its lanes."""
        mine = list(self.looks.last.values())
        if group.mask is not None:
            mine = [look for look in mine if (look.lanes & group.mask).any()]
        return max(mine, key=lambda look: look.clock, default=None)

    # -- a CTA that is set aside ------------------------------------------------------------------------------

    def waiting(self) -> list[Look]:
        """Return the unsuccessful looks, with the content of memory there."""
        self.catch_up()
        found = [look for look in self.looks.last.values() if look.times > 1 and (look.lanes & self.looks.waits).any()]
        found.sort(key=lambda look: (look.place is None, not look.exact, -look.clock))
        for look in found:
            look.memory = self.memory_at(look)
        return found

    def repeats(self) -> list[tuple[int, int, int]]:
        """Return where each group has repeated its first unsuccessful look in the record; see Recorder.leave_out."""
        self.catch_up()
        last = [self._last_of(group) for group in self.groups()]
        return [(look.who, look.position, look.end) for look in last if look is not None]

    def memory_at(self, look: Look) -> bytes:
        """Return the content of global memory at a look; b"" for another memory."""
        if look.place is None:
            return b""
        reader = self._readers.get(look.site.instruction.offset)
        if reader is None:
            reader = GenericSpace(look.site, look.unit_bytes, Purpose.LOAD)
            reader.observer = reader.to_global.observer = None
            self._readers[look.site.instruction.offset] = reader
        return reader.load(look.place).tobytes()


def registers_named(instruction: Instruction) -> list[tuple[str, int]]:
    """Return the registers that a look names, by file and number: its address, and its result."""
    words, wide = max(1, _size(instruction) // 4), 1 + (instruction.mnemonic in _GLOBAL)
    found: list[tuple[str, int]] = []
    for operand in map(parse_operand, instruction.operands):
        for register, _ in operand.registers:
            count = 1 if register.is_predicate else words if operand.register is not None else wide
            most = min(count, LAST[register.file] + 1 - register.number)
            found += [(register.file, register.number + k) for k in range(most)]
    return found


def _few_differ(before: list[NDArray[Any]], now: list[NDArray[Any]]) -> bool:
    """Whether few registers and predicates differ; memory may differ in any way."""
    rows = sum(int((old != new).any(axis=1).sum()) for old, new in zip(before[:4], now[:4], strict=True))
    return rows <= _FEW_REGISTERS


def _size(instruction: Instruction) -> int:
    if instruction.has("S64", "U64", "F64"):
        return 8
    return max((WIDTHS[m] for m in instruction.parsed.modifiers if m in WIDTHS), default=4)
