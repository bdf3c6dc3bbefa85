"""Listens to an execution for all the tools: each access and each thing that orders them goes to those that want it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory import GLOBAL_START, LOCAL_WINDOW
from gpuemu.sass.machine.observer import Observer
from gpuemu.sass.machine.patterns import Place
from gpuemu.studies.check.findings import Findings, Point, shared_byte
from gpuemu.studies.check.initcheck import Unwritten
from gpuemu.studies.check.memcheck import Guard, Moves, foreign
from gpuemu.studies.check.order import Order
from gpuemu.studies.check.racecheck import Memory, Race
from gpuemu.studies.check.releases import Releases
from gpuemu.studies.check.shadow import Does, Entry
from gpuemu.studies.check.stores import guesses, one_store, polls
from gpuemu.studies.check.strands import Strands
from gpuemu.studies.check.synccheck import Sync

Bools = NDArray[np.bool_]
Step = Callable[[Mask], None]
_BARRIER_OBJECTS = ("SYNCS", "ARRIVES")
_COMMITS = {"LDGDEPBAR": "LDGSTS", "UTMACMDFLUSH": "bulk"}
_WIDE_SCOPES = ("GPU", "SYS")
_NARROW = ("CTA", "SM")
_MOST_SPAN = 1 << 31
"""Bytes from the first buffer to the end of the last beyond which races in global memory are not looked for."""


class Watch(Observer):
    """All tools but controlcheck, for one launch. `tools`: the names of those that count."""

    def __init__(
        self, tools: frozenset[str], findings: Findings, point: Callable[..., Point], unfilled: list[int],
        before: Watch | None = None,
    ):  # fmt: skip
        self._tools = tools
        self._findings = findings
        self._point = point
        self._unfilled = unfilled
        self._before = before
        self.spread = 0 if before is None else 3
        self.notes: list[str] = []
        self.failed = False
        self.reaches_buffers = False

    # -- the launch -------------------------------------------------------------------------------------------

    def launches(self, environment: Any) -> None:
        """See Observer."""
        lanes, memory = environment.lanes, environment.memory
        self._memory = memory
        self._every = np.arange(lanes.count)
        self._exists = lanes.exists
        self._guesses = guesses(environment.code)
        self.cta = 0
        buffers = [b for b in memory.buffers if b.start < LOCAL_WINDOW]
        self.reaches_buffers = len(buffers) > 1
        self._moves: Moves = Moves(memory.buffers, None if self._before is None else self._before._moves)
        self._guard = Guard(environment, self._findings, self._point)
        first = self._before is None
        self._races = first and "racecheck" in self._tools
        self._strands = Strands(lanes.exists)
        self._race = Race(self._strands, self._findings, self._point)
        self._order = Order(self._strands)
        span = buffers[-1].start + buffers[-1].bytes - GLOBAL_START if buffers else 0
        self._shared = Memory(self._race, "shared", memory.shared_bytes, shared_byte, False)
        self._global = None
        if self._races and span > _MOST_SPAN:
            self.notes.append("global memory is too large to look for races there")
        elif self._races:
            self._global = Memory(self._race, "global", span, self._buffer_of, True)
        fences = any(i.opcode.startswith("MEMBAR") for i in environment.code)
        self._race.polls = polls(environment.code) if self._races else set()
        self._releases = Releases(self._strands) if fences or self._race.polls else None
        self._race.releases = self._releases
        self._race.code = environment.code
        self._init = Unwritten(environment, self._unfilled, self._findings, self._point)
        self._inits = first and "initcheck" in self._tools
        self._sync = Sync(lanes.exists, environment.code, self._findings, self._point)

    def _buffer_of(self, at: int) -> str:
        address = GLOBAL_START + at
        for buffer in self._memory.buffers:
            if buffer.start <= address < buffer.start + buffer.bytes:
                return f"byte {address - buffer.start} of {buffer.name}"
        return f"{address:#x}"

    def _buffer_at(self, address: int) -> str:
        return self._buffer_of(address - GLOBAL_START)

    def starts(self, cta: int) -> None:
        """See Observer."""
        self.cta = self._guard.cta = cta
        self._strands.start()
        self._order.start()
        if self._releases is not None:
            self._releases.start()
        self._init.start(cta)
        self._sync.start(cta)
        self._shared.ignored = set()

    def ends(self) -> None:
        """See Observer."""
        if self._races:
            self._shared.close()
            if self._global is not None:
                self._global.close()

    # -- steps ------------------------------------------------------------------------------------------------

    def around(self, site: Any, step: Step) -> Step:
        """See Observer."""
        step = self._guard.around(site, step)
        if self._before is not None:
            return step
        mnemonic = site.mnemonic
        after = self._after(site)
        if after is not None:
            inner, then = step, after

            def followed(mask: Mask) -> None:
                inner(mask)
                then(self._exists if mask is None else mask)

            step = followed
        if self._inits and self._init.watches_registers and mnemonic not in ("LDGDEPBAR", "DEPBAR", "MEMBAR"):
            step = self._init.around(site, step)
        return step

    def _after(self, site: Any) -> Callable[[Bools], None] | None:
        """What follows a step that orders something."""
        if not self._races:
            return None
        order, mnemonic = self._order, site.mnemonic
        if mnemonic in _COMMITS:
            return lambda lanes: order.commit(_COMMITS[mnemonic], lanes)
        if mnemonic == "DEPBAR":
            match = re.fullmatch(r"SB\d(?:,(0x[0-9a-f]+))?", ",".join(site.instruction.operands))
            if match is None:
                return None
            keep = int(match[1] or "0", 16)

            def wait(lanes: Bools) -> None:
                order.wait("LDGSTS", lanes, keep)
                order.wait("bulk", lanes, keep)

            return wait
        if mnemonic == "WARPGROUP" and site.has("DEPBAR"):
            left = int(site.instruction.operands[-1], 16)
            return lambda lanes: order.wait("warpgroup", lanes, left)
        if mnemonic.endswith("GMMA") and site.instruction.operands[-1] == "gsb0":
            return lambda lanes: order.commit("warpgroup", lanes)
        if mnemonic == "MEMBAR":
            return lambda lanes: self._strands.advance(lanes, fence=site.has(*_WIDE_SCOPES))
        if mnemonic in _BARRIER_OBJECTS or (mnemonic == "ATOMS" and site.has("ARRIVE")):
            return lambda lanes: self._turned()
        return None

    def _turned(self) -> None:
        for barrier in self._order.mbarriers:
            self._order.turned(barrier, self._parity(barrier))

    def _parity(self, barrier: int) -> int:
        return int(self._memory.shared[8][barrier // 8]) >> 63

    # -- accesses ---------------------------------------------------------------------------------------------

    def access(self, space: Any, place: Place) -> None:
        """See Observer."""
        match space.name:
            case "shared":
                if self._races:
                    self._access_shared(space, place)
            case "global":
                self._access_global(space, place)
            case _:
                if self._inits:
                    lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
                    load = space.purpose.value == "load"
                    offsets = place.base + place.pattern.offsets
                    self._init.local(space.site.instruction, load, space.size, lanes, offsets)

    def _access_shared(self, space: Any, place: Place) -> None:
        site = space.site
        if site.mnemonic in _BARRIER_OBJECTS or (site.mnemonic == "ATOMS" and site.has("ARRIVE")):
            self._barrier_object(site, place)
            return
        access = space.purpose.value
        if access == "load" and self._shared.ignored and place.base // 8 in self._shared.ignored:
            self._order.find_over(place.base // 8 * 8, self._among(place))
        does = self._does(site, access)
        if site.instruction.offset in self._race.polls:
            does = Does.STRONG_READ
        elif self._race.polls and does is Does.WRITE:
            self._may_be_polled(space, place)
            return
        if does in (Does.ATOMIC, Does.STRONG_READ) and self._releases is not None:
            self._flags(True, place, access != "load", site.mnemonic != "ST", True)
        self._log(self._shared, space, place, does, "LDGSTS" if site.mnemonic == "LDGSTS" else None, place.base)

    def _may_be_polled(self, space: Any, place: Place) -> None:
        """A store that may be to a flag: whoever polls it comes behind the store itself, and what was fenced before."""
        assert self._releases is not None
        lanes = self._among(place)
        self._strands.advance(lanes)
        self._flags(True, place, True, False, True)
        self._log(self._shared, space, place, Does.WRITE, None, place.base)
        self._strands.advance(lanes)

    def _access_global(self, space: Any, place: Place) -> None:
        site = space.site
        if self._moves.add(site.instruction, place, space.last):
            lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
            self._findings.add(foreign(space, place, int(lanes[0]), len(lanes), self.cta, self._point))
        if self._before is not None:
            return
        lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
        access = space.purpose.value
        if self._inits and self._unfilled:
            self._init.global_(site.instruction, access, space.size, place.base, place.pattern.offsets, lanes)
        if self._global is None or place.base >= LOCAL_WINDOW:
            return
        if place.base + place.pattern.high >= LOCAL_WINDOW:
            inside = place.addresses(64) < np.uint64(LOCAL_WINDOW)
            chosen = np.zeros(len(self._every), np.bool_)
            chosen[lanes[inside]] = True
            delta, pattern = place.pattern.part(chosen)
            place = Place(place.base + delta, pattern)
        does = self._does(site, access)
        if does in (Does.ATOMIC, Does.STRONG_READ) and self._releases is not None:
            reads = access == "load" or site.mnemonic in ("ATOM", "ATOMG")
            self._flags(False, place, access != "load", reads, not site.has(*_NARROW))
        self._log(self._global, space, place, does, None, place.base - GLOBAL_START)

    def _does(self, site: Any, access: str) -> Does:
        strong = site.has("STRONG") or site.mnemonic.startswith(("ATOM", "RED"))
        if access != "load":
            return Does.ATOMIC if strong else Does.WRITE
        return Does.STRONG_READ if strong or site.instruction.offset in self._guesses else Does.READ

    def _flags(self, shared: bool, place: Place, writes: bool, reads: bool, widely: bool) -> None:
        """Atomics and strong accesses release and acquire."""
        assert self._releases is not None
        lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
        itself = writes and shared and bool(self._race.polls)
        self._releases.flag(shared, place.base + place.pattern.offsets, lanes, reads, writes, widely, itself)

    def _log(self, memory: Memory, space: Any, place: Place, does: Does, copy: str | None, base: int) -> None:
        pattern, instruction = place.pattern, space.site.instruction
        lanes = self._every if pattern.lanes is None else pattern.lanes
        name: object = instruction.offset, base, space.size, pattern.key, self._strands.version
        strands = None
        if copy is not None:
            strands = self._order.copying(copy, lanes)
            name = object()

        def make() -> Entry:
            in_strands = self._strands.of_lane[lanes] if strands is None else strands
            return Entry(instruction, does, space.size, base, pattern.offsets, lanes, in_strands, self.cta)

        memory.add(name, make)

    def stored(self, space: Any, place: Place, values: NDArray[Any]) -> None:
        """See Observer."""
        if not self._races:
            return
        memory = self._shared if space.name == "shared" else self._global if space.name == "global" else None
        if memory is None:
            return
        memory.stored(values)
        if memory.last is not None and memory.last.lanes is not None:
            lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
            where = shared_byte if space.name == "shared" else self._buffer_at
            found = one_store(space, place, values, lanes, where, lambda i, k, d: self._point(i, k, self.cta, d))
            if found is not None:
                self._findings.add(found)

    def block(self, site: Any, lane: int, places: NDArray[np.int64], store: bool) -> None:
        """See Observer."""
        if not self._races:
            return
        if store:
            strands = self._order.bulk_copy(lane)
        else:
            kind = "warpgroup" if site.mnemonic.endswith("GMMA") else "bulk"
            strands = self._order.copying(kind, np.array([lane]))
        blocks = np.unique(places >> 4) << 4
        size = 16
        if len(blocks) * 16 != len(places):
            blocks, size = np.unique(places), 1
        does = Does.WRITE if store else Does.READ
        lanes = np.full(len(blocks), lane)
        entry = Entry(site.instruction, does, size, 0, blocks, lanes, np.repeat(strands, len(blocks)), self.cta)
        self._shared.add(object(), lambda: entry)

    # -- mbarriers --------------------------------------------------------------------------------------------

    def _among(self, place: Place) -> Bools:
        lanes = np.zeros(len(self._every), np.bool_)
        lanes[slice(None) if place.pattern.lanes is None else place.pattern.lanes] = True
        return np.asarray(lanes & self._exists)

    def _barrier_object(self, site: Any, place: Place) -> None:
        lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
        offsets = place.base + place.pattern.offsets
        for at in np.unique(offsets).tolist():
            self._shared.ignored.add(at // 8)
            here = np.zeros(len(self._every), np.bool_)
            here[lanes[offsets == at]] = True
            if site.has("EXCH"):
                self._order.initialise(at, 0)
            elif site.has("PHASECHK"):
                self._order.find_over(at, here)
            else:
                self._order.arrive_at(at, here, site.has("LDGSTSBAR"))

    def completes(self, barrier: int, lane: int) -> None:
        """See Observer."""
        if self._races:
            self._shared.ignored.add(barrier // 8)
            self._order.told(barrier, self._parity(barrier))

    # -- groups and barriers ----------------------------------------------------------------------------------

    def together(self, mask: Mask) -> None:
        """See Observer."""
        if self._races:
            self._strands.together(mask)

    def met(self, lanes: Bools) -> None:
        """See Observer."""
        if self._before is None:
            self._sync.met(lanes)
        if self._races:
            self._strands.advance(lanes)

    def names(self, site: Any, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """See Observer."""
        if self._before is None:
            self._sync.names(site.instruction, lanes, wanted, alive)

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Any) -> None:
        """See Observer."""
        if self._before is None:
            self._sync.arrives(barrier, lanes, waits, expected, site.instruction)
        if self._races:
            self._order.arrive(barrier, lanes, waits)

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        """See Observer."""
        if self._before is None:
            self._sync.opens(barrier, alive)
        if not self._races:
            return
        if (waiting >= alive).all():
            self._shared_close()
        self._order_open(barrier, waiting, alive)

    def _shared_close(self) -> None:
        self._shared.look()
        if self._global is not None:
            self._global.look()
        if self._releases is not None:
            self._releases.close()

    def _order_open(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        pending = self._order.open(barrier, waiting, alive)
        if pending is not None:
            self._shared.forget(pending)
            if self._global is not None:
                self._global.forget({})

    def exits(self, lanes: Bools) -> None:
        """See Observer."""
        if self._before is None:
            self._sync.exits(lanes)
        if self._races:
            self._strands.leave(lanes)

    def fails(self, error: Any) -> None:
        """See Observer."""
        self.failed = True
        if self._before is not None:
            return
        waiting = error.stuck if error.stuck is not None else np.zeros(len(self._every), np.bool_)
        if not self._sync.fails(error, waiting):
            self._guard.report(error.instruction, error.lane, error.found, error.right, "Execution ended")
