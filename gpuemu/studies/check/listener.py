"""Listens to an execution for all the tools: each tool hears the accesses and the synchronization that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.image.ptx_text import Ptx
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.studies.check.bulk_copy_sizes import BlockSizes
from gpuemu.studies.check.device_heap import DeviceHeap
from gpuemu.studies.check.findings import Findings, Point
from gpuemu.studies.check.initcheck import Unwritten
from gpuemu.studies.check.lane_paths import LanePaths
from gpuemu.studies.check.matrix_layouts import MatrixLayouts
from gpuemu.studies.check.memcheck import Guard, Moves, foreign
from gpuemu.studies.check.per_cta import WaitingCtas
from gpuemu.studies.check.racecheck.access_records import Does
from gpuemu.studies.check.racecheck.detector import RaceDetector
from gpuemu.studies.check.shuffles import Shuffles
from gpuemu.studies.check.synccheck import Sync
from gpuemu.studies.check.tensor_leaks import TensorLeaks
from gpuemu.studies.check.unused_mbarrier_tests import UnusedTests
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
Step = Callable[[Mask], None]
SPREAD = 3
"""The additional distance between buffers in a launch that moves them."""
_DOES = {"load": Does.READ, "store": Does.WRITE, "atomic": Does.ATOMIC}


def _waits_for_phases(code: Sequence[Instruction]) -> bool:
    return any(i.mnemonic == "SYNCS" and i.has("PHASECHK") for i in code)


class ToolListener(Observer):
    """All tools except controlcheck, for one launch. `tools`: the names of the wanted ones."""

    def __init__(
        self, tools: frozenset[str], findings: Findings, point: Callable[..., Point], unfilled: list[int],
        before: ToolListener | None = None, ptx: Ptx | None = None,
    ):  # fmt: skip
        self._tools = tools
        self._findings = findings
        self._point = point
        self._unfilled = unfilled
        self._before = before
        self._ptx = ptx
        self.spread = 0 if before is None else SPREAD
        self.notes: list[str] = []
        self.failed = False
        self.reaches_buffers = False

    # -- the launch -------------------------------------------------------------------------------------------

    def launches(self, environment: Any) -> None:
        lanes, memory = environment.lanes, environment.memory
        self._memory = memory
        self._every = np.arange(lanes.count)
        self._exists = lanes.exists
        self.cta = 0
        buffers = [b for b in memory.buffers if b.start < LOCAL_WINDOW]
        self.reaches_buffers = len(buffers) > 1
        self._moves: Moves = Moves(memory.buffers, None if self._before is None else self._before._moves)
        self._guard = Guard(environment, self._findings, self._point)
        first = self._before is None
        self._races = None
        if first and (
            "racecheck" in self._tools or ("synccheck" in self._tools and _waits_for_phases(environment.code))
        ):
            self._races = RaceDetector(environment, self._findings, self._point, self._buffer_at, self.notes)
        self._init = Unwritten(environment, self._unfilled, self._findings, self._point)
        self._inits = first and "initcheck" in self._tools
        self._heap = DeviceHeap(memory, self._findings, self._point)
        self._sync = Sync(lanes.exists, environment.code, self._findings, self._point, self._ptx)
        shuffling = [i for i in environment.code if i.mnemonic == "SHFL"]
        self.masks = {} if self._ptx is None else self._ptx.masks(shuffling)
        self._shuffles = Shuffles(environment, self.masks)
        self._tests = UnusedTests(environment.code if first else (), self._findings, self._point)
        code = environment.code if first and "memcheck" in self._tools else ()
        size = environment.memory.shared_bytes
        self._matrices = MatrixLayouts(code if size else (), size, self._findings, self._point)
        self._sizes = BlockSizes(code, self._ptx, self._findings, self._point)
        self._leaks = TensorLeaks(self._findings, self._point)
        self._waiting = WaitingCtas(
            self._sync, self._init, self._matrices, self._shuffles.sources, self._tests, self._sizes
        )

    def _buffer_at(self, address: int) -> str:
        for buffer in self._memory.buffers:
            if buffer.start <= address < buffer.start + buffer.bytes:
                return f"byte {address - buffer.start} of {buffer.name}"
        return f"{address:#x}"

    def starts(self, cta: int) -> None:
        self.cta = self._guard.cta = cta
        self._sizes.start(cta)
        self._init.start(cta)
        self._sync.start(cta)
        self._tests.start(cta)
        self._matrices.start(cta)
        self._shuffles.sources.start(cta)
        if self._races is not None:
            self._races.start(cta)

    def ends(self) -> None:
        self._tests.end()
        if "memcheck" in self._tools and not self.failed:
            self._leaks.end(self._memory)
        if self._races is not None:
            self._races.end(self.failed)

    def waits(self) -> None:
        self._waiting.put(self.cta)
        if self._races is not None:
            self._races.waits()

    def resumes(self, cta: int) -> None:
        self.cta = self._guard.cta = cta
        self._waiting.take(cta)
        if self._races is not None:
            self._races.resumes(cta)

    @property
    def suspects(self) -> dict[int, Any]:
        """The shuffles that read lanes which do not take part, by their offsets."""
        return self._shuffles.suspects

    # -- steps ------------------------------------------------------------------------------------------------

    def around(self, site: Any, step: Step) -> Step:
        step = self._guard.around(site, step)
        if self._before is not None:
            return step
        mnemonic, step = site.mnemonic, self._tests.around(site, self._sizes.around(site, step))
        if self._races is not None:
            step = self._races.around(site, step)
        if self._inits and self._init.watches_registers and mnemonic not in ("LDGDEPBAR", "DEPBAR", "MEMBAR"):
            step = self._init.around(site, step)
        return step

    # -- accesses ---------------------------------------------------------------------------------------------

    def access(self, space: Any, place: Place) -> None:
        match space.name:
            case "shared":
                if self._matrices.concerned and space.purpose.value != "load":
                    many = np.arange(space.size)
                    self._matrices.written((place.base + place.pattern.offsets[:, None] + many).reshape(-1))
                if self._races is not None:
                    self._races.shared(space, place)
            case "global":
                self._access_global(space, place)
            case _:
                if self._inits:
                    lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
                    load = space.purpose.value == "load"
                    offsets = place.base + place.pattern.offsets
                    self._init.local(space.site.instruction, load, space.size, lanes, offsets)

    def reaches(self, space: Any, place: Place, rank: int) -> None:
        if self._races is not None:
            self._races.shared(space, place, rank)

    def _access_global(self, space: Any, place: Place) -> None:
        site = space.site
        if self._moves.add(site.instruction, place, space.last):
            lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
            self._findings.add(foreign(space, place, int(lanes[0]), len(lanes), self.cta, self._point))
        if self._before is not None:
            return
        lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
        access = space.purpose.value
        if self._heap.start and place.base + place.pattern.high >= self._heap.start:
            addresses = place.addresses(64).astype(np.int64)
            self._heap.access(site.instruction, access, space.size, addresses, lanes, self.cta)
        if self._inits and self._unfilled:
            self._init.global_(site.instruction, access, space.size, place.base, place.pattern.offsets, lanes)
        if self._races is not None:
            self._races.global_(space, place)

    def stored(self, space: Any, place: Place, values: NDArray[Any]) -> None:
        if self._races is not None:
            self._races.stored(space, place, values)

    def block(self, site: Any, lane: int, places: NDArray[np.int64], store: bool, ranks: Sequence[int]) -> None:
        if store and self._matrices.concerned and self._memory.rank in ranks:
            self._matrices.written(places)
        if self._races is not None:
            self._races.blocks.block(site, lane, places, store, ranks)

    def allocates(self, site: Any, lane: int, address: int, size: int) -> None:
        if self._before is None:
            self._heap.allocates(site.instruction, lane, self.cta, address, size)

    def frees(self, site: Any, lane: int, address: int) -> None:
        if self._before is None:
            self._heap.frees(site.instruction, lane, self.cta, address)

    def moves(self, site: Any, lane: int, places: NDArray[np.int64], access: str) -> None:
        if self._before is None and self._heap.start:
            self._heap.access(site.instruction, access, 1, places, np.full(len(places), lane), self.cta)
        if self._races is not None:
            self._races.blocks.moves(site, lane, places, _DOES[access])

    def box(self, site: Any, lane: int, places: NDArray[np.int64], line_bytes: int, swizzle: int) -> None:
        if self._matrices.concerned:
            self._matrices.box(site.instruction, lane, places, line_bytes, swizzle)

    def operand(self, site: Any, lane: int, at: NDArray[np.int64], size: int, said: Any, across: bool) -> None:
        if self._matrices.concerned:
            self._matrices.operand(site.instruction, lane, at, size, said, across)

    def tensor(self, site: Any, lane: int, rank: int, cells: NDArray[np.int64], access: str) -> None:
        if access == "alloc" and self._before is None:
            self._leaks.allocates(site.instruction, lane, self.cta)
        if self._races is not None:
            self._races.products.access(site, lane, rank, cells, access)

    def completes(self, site: Any, barrier: int, lane: int, rank: int) -> None:
        if self._races is not None:
            self._races.blocks.completes(site, barrier, lane, rank)

    def sends(
        self, site: Any, lanes: NDArray[np.int64], rank: int, at: NDArray[np.int64], size: int,
        barriers: NDArray[np.int64],
    ) -> None:  # fmt: skip
        if self._races is not None:
            self._races.blocks.sends(site, lanes, rank, at, size, barriers)

    # -- groups and barriers ----------------------------------------------------------------------------------

    def together(self, mask: Mask) -> None:
        if self._races is not None:
            self._races.together(mask)

    def met(self, lanes: Bools) -> None:
        if self._before is None:
            self._sync.met(lanes)
        if self._races is not None:
            self._races.met(lanes)

    def shuffled(self, site: Any, mask: Mask, sources: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
        if self._before is None:
            self._shuffles.shuffled(site.instruction, mask, sources)
        return values

    def names(self, site: Any, lanes: Bools, wanted: Any, alive: Bools) -> None:
        if self._before is None:
            self._shuffles.sources.names(lanes, wanted)
            self._sync.names(site.instruction, lanes, wanted, alive)
        if self._races is not None:
            self._races.warps.names(lanes, wanted, alive)

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Any) -> None:
        if self._before is None:
            self._sync.arrives(barrier, lanes, waits, expected, site.instruction)
        if self._races is not None:
            self._races.arrives(barrier, lanes, waits, expected, site.instruction)

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        if self._before is None:
            self._sync.opens(barrier, alive)
        if self._races is not None:
            self._races.opens(barrier, waiting, alive)

    def exits(self, lanes: Bools) -> None:
        if self._before is None:
            self._shuffles.sources.exits(lanes)
            self._sync.exits(lanes)
        if self._races is not None:
            self._races.exits(lanes)

    def fails(self, error: Any) -> None:
        self.failed = True
        if self._before is not None:
            return
        if self._races is not None:
            self._races.fails(error.waits)
        if not self._sync.fails(error):
            self._guard.report(
                error.instruction, error.lane, error.found, error.right, error.title or "Execution ended"
            )


class LanePathListener(ToolListener):
    """A ToolListener that has the paths of lanes in `paths` after a launch."""

    follows_lanes = True

    def launches(self, environment: Any) -> None:
        super().launches(environment)
        self.paths = LanePaths()

    def recorded(self, cta: int, recorder: Any) -> None:
        self.paths.add(cta, recorder)
