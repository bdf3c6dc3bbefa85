"""The race detector: it logs each access to shared and global memory, and reports each synchronization to its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.isa.warp import LANES
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.studies.check.findings import Findings, Point, shared_byte
from gpuemu.studies.check.per_cta import WaitingCtas
from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.access_records import Does, Entry, Indices
from gpuemu.studies.check.racecheck.async_proxy import AsyncProxy
from gpuemu.studies.check.racecheck.bulk_copies import BulkCopies
from gpuemu.studies.check.racecheck.cluster_state import ClusterState
from gpuemu.studies.check.racecheck.context import RaceContext
from gpuemu.studies.check.racecheck.happens_before import HappensBefore, is_barrier_object, is_released, kept_groups
from gpuemu.studies.check.racecheck.pending_reads import PendingReads
from gpuemu.studies.check.racecheck.race_findings import missed_phase, one_store, shared_barrier
from gpuemu.studies.check.racecheck.release_acquire import ReleaseAcquire
from gpuemu.studies.check.racecheck.tensor_products import TensorProducts, tensor_place
from gpuemu.studies.check.racecheck.vector_clocks import Strands
from gpuemu.studies.check.racecheck.warp_syncs import WarpSyncs
from gpuemu.studies.check.value_flow import guesses, later_uses, looks, polls, updates
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
Step = Callable[[Mask], None]
_COMMITS = {"LDGDEPBAR": "LDGSTS", "UTMACMDFLUSH": "bulk"}
_WIDE_SCOPES = ("GPU", "SYS")
_NARROW = ("CTA", "SM")
MOST_SPAN = 1 << 31
"""The most bytes from the first buffer to the end of the last for which races in global memory are detected."""
TOO_LARGE = "global memory is too large, or too far apart, to look for races there"


class RaceDetector:
    """Racecheck of one launch."""

    def __init__(
        self, environment: Any, findings: Findings, point: Callable[..., Point], describe: Callable[[int], str],
        notes: list[str],
    ):  # fmt: skip
        lanes, self._memory = environment.lanes, environment.memory
        self._every = np.arange(lanes.count)
        self._exists = lanes.exists
        self._findings, self._point, self._buffer_at = findings, point, describe
        self.cta = 0
        code, self._stride = environment.code, max(1, -(-self._memory.shared_bytes // 16)) * 16
        self._strands = Strands(lanes.exists)
        self._order = HappensBefore(self._strands, self._tell_missed)
        self._race = RaceContext(self._strands, self._order, findings, point, self._stride)
        self._race.polls = polls(code)
        self._race.looks, self._race.updates = looks(code), updates(code)
        self._guesses = guesses(code)
        special = self._race.polls | self._guesses
        self._pending_reads = PendingReads({k: uses for k, uses in later_uses(code).items() if k not in special})
        fences = any(i.mnemonic == "MEMBAR" for i in code)
        self._releases = ReleaseAcquire(self._strands) if fences or self._race.polls else None
        self._race.releases = self._releases
        buffers = [b for b in self._memory.buffers if b.start < LOCAL_WINDOW]
        self._origin = buffers[0].start & -16 if buffers else 0
        span = buffers[-1].start + buffers[-1].bytes - self._origin if buffers else 0
        self._shared = AccessLog(self._race, "shared", self._stride, self._race.shared_at, False)
        self._global = None
        if span > MOST_SPAN:
            notes.append(TOO_LARGE)
        else:
            self._global = AccessLog(
                self._race, "global", span, lambda at: describe(self._origin + at), environment.launch.ctas > 1
            )
        tensor = AccessLog(self._race, "tensor", 0, lambda at: tensor_place(at, bool(self._race.mates)), False)
        self.products = TensorProducts(self._memory, tensor, self._order, findings, point)
        self._proxies = AsyncProxy(code, self._stride, self._strands, findings, point, self._race.shared_at)
        self.warps = WarpSyncs(self._strands, self._exists, self._releases is not None or any(map(is_released, code)))
        self.blocks = BulkCopies(
            self._order, self._shared, self._global, self._proxies, self._parity, self._stride, self._origin,
            self.products,
        )  # fmt: skip
        self._memories = [self._shared, tensor, *([] if self._global is None else [self._global])]
        self._clusters = ClusterState(self._memory, self._race, self._memories, self._proxies, self.products)
        self._waiting = WaitingCtas(self.warps, self.blocks, self._order, self._pending_reads)

    # -- the launch -------------------------------------------------------------------------------------------

    def start(self, cta: int) -> None:
        self._clusters.turn_to(cta)
        self.cta = self._proxies.cta = self.products.cta = cta
        self.blocks.start(cta)
        self._order.start()
        self._pending_reads.start()
        self.warps.start(self._memory.rank)

    def end(self, failed: bool) -> None:
        """The CTA ends; `failed`: and the launch with it."""
        self._proxies.end(self._order.pending)
        if not failed:
            self.products.end()
        self._clusters.end(failed)

    def waits(self) -> None:
        """The CTA waits for another one, which runs."""
        self._waiting.put(self.cta)

    def resumes(self, cta: int) -> None:
        self._clusters.turn_to(cta)
        self._waiting.take(cta)
        self.cta = self._proxies.cta = self.products.cta = cta

    def around(self, site: Any, step: Step) -> Step:
        """The step to execute instead of an instruction's own."""
        exists, offset, reads = self._exists, site.instruction.offset, self._pending_reads
        if reads.is_use(offset):
            used = step

            def using(mask: Mask) -> None:
                reads.use(offset, exists if mask is None else mask)
                used(mask)

            step = using
        after = self._after(site)
        if after is None:
            return step
        inner, then = step, after

        def followed(mask: Mask) -> None:
            inner(mask)
            then(exists if mask is None else mask)

        return followed

    def _after(self, site: Any) -> Callable[[Bools], None] | None:
        """The work after a step that orders accesses."""
        known, mnemonic = self._order, site.mnemonic
        if mnemonic in _COMMITS:
            return lambda lanes: known.commit(_COMMITS[mnemonic], lanes)
        if mnemonic == "DEPBAR":
            keep = kept_groups(site.instruction)
            if keep is None:
                return None

            def wait(lanes: Bools) -> None:
                known.wait("LDGSTS", lanes, keep)
                known.wait("bulk", lanes, keep)

            return wait
        if mnemonic == "WARPGROUP" and site.has("DEPBAR"):
            left = int(site.instruction.operands[-1], 16)
            return lambda lanes: known.wait("warpgroup", lanes, left)
        if site.instruction.parsed.row.operation == "warpgroup" and site.instruction.operands[-1] == "gsb0":
            return lambda lanes: known.commit("warpgroup", lanes)
        if mnemonic == "MEMBAR":

            def fence(lanes: Bools) -> None:
                self._strands.advance(lanes, fence=site.has(*_WIDE_SCOPES))
                self.warps.ordered(lanes)

            return fence
        if mnemonic == "FENCE" and site.has("T"):
            return self.products.stored
        if mnemonic == "FENCE" and self._proxies.concerned:
            return self._proxies.fence
        if mnemonic == "NOP":  # The rest of a __syncwarp() whose lanes are together.
            return self.warps.meet
        if mnemonic == "UCGABAR_ARV":
            return self._comes
        if is_barrier_object(site.instruction):
            return lambda lanes: known.done(lanes, self._parity)
        return None

    def _comes(self, lanes: Bools) -> None:
        """Lanes reach the barrier of the cluster."""
        if self._strands.per_cluster.others:
            self._order.come(lanes)
            self.warps.ordered(lanes)

    def _parity(self, barrier: int) -> int:
        (rank, at), memory = divmod(barrier, self._stride), self._memory
        shared = memory.shared if rank == memory.rank else memory.cluster.shared[rank][0]
        return int(shared[8][at // 8]) >> 63

    # -- accesses ---------------------------------------------------------------------------------------------

    def shared(self, space: Any, place: Place, rank: int | None = None) -> None:
        """An access to shared memory of the CTA or of another CTA of its cluster."""
        site, access = space.site, space.purpose.value
        place = place.moved((self._memory.rank if rank is None else rank) * self._stride)
        if is_barrier_object(site.instruction):
            self._barrier_object(space, place)
            return
        if place.base % self._stride + place.pattern.high < self._memory.reserved:
            return
        if (
            access == "load"
            and self._shared.per_cluster.barriers
            and place.base // 8 in self._shared.per_cluster.barriers
        ):
            self._order.find_over(place.base // 8 * 8, self._among(place))
        does = self._does(site, access)
        if site.instruction.offset in self._race.polls:
            does = Does.STRONG_READ
        elif self._race.polls and does is Does.WRITE:
            self._may_be_polled(space, place)
            return
        if does in (Does.ATOMIC, Does.STRONG_READ) and self._releases is not None:
            self._flags(True, place, access != "load", site.mnemonic != "ST", True)
        self._log(self._shared, space, place, does, "LDGSTS" if site.mnemonic == "LDGSTS" else "", place.base)

    def _may_be_polled(self, space: Any, place: Place) -> None:
        """A store that may be to a flag. A lane that polls it follows the store, and the accesses before a fence."""
        assert self._releases is not None
        lanes = self._among(place)
        copies = space.site.mnemonic == "LDGSTS"
        if not copies:
            self._strands.advance(lanes)
            self._flags(True, place, True, False, True)
        self._log(self._shared, space, place, Does.WRITE, "LDGSTS" if copies else "", place.base)
        if not copies:
            self._strands.advance(lanes)

    def global_(self, space: Any, place: Place) -> None:
        """An access to global memory."""
        if self._global is None or place.base >= LOCAL_WINDOW:
            return
        lanes = self._lanes(place)
        if place.base + place.pattern.high >= LOCAL_WINDOW:
            inside = place.addresses(64) < np.uint64(LOCAL_WINDOW)
            chosen = np.zeros(len(self._every), np.bool_)
            chosen[lanes[inside]] = True
            delta, pattern = place.pattern.part(chosen)
            place = Place(place.base + delta, pattern)
        site, access = space.site, space.purpose.value
        does = self._does(site, access)
        if does in (Does.ATOMIC, Does.STRONG_READ) and self._releases is not None:
            reads = access == "load" or site.mnemonic in ("ATOM", "ATOMG")
            self._flags(False, place, access != "load", reads, not site.has(*_NARROW))
        self._log(self._global, space, place, does, "", place.base - self._origin)

    def _does(self, site: Any, access: str) -> Does:
        strong = site.has("STRONG") or site.instruction.parsed.row.numbers == "typed"
        if access != "load":
            return Does.ATOMIC if strong else Does.WRITE
        return Does.STRONG_READ if strong or site.instruction.offset in self._guesses else Does.READ

    def _flags(self, shared: bool, place: Place, writes: bool, reads: bool, widely: bool) -> None:
        """Atomics and strong accesses release and acquire."""
        assert self._releases is not None
        itself = writes and shared and bool(self._race.polls)
        addresses = place.base + place.pattern.offsets
        self._releases.flag(shared, addresses, self._lanes(place), reads, writes, widely, itself)

    def _log(self, memory: AccessLog, space: Any, place: Place, does: Does, copy: str, base: int) -> None:
        pattern, instruction = place.pattern, space.site.instruction
        lanes = self._lanes(place)
        version, of_lane, phases = self._strands.version, self._strands.per_cluster.of_lane, self.warps.per_cta.phases
        writes = does in (Does.WRITE, Does.ATOMIC) and not copy
        if writes and memory is self._shared and self._proxies.concerned:
            self._proxies.written(instruction, space.size, base + pattern.offsets, lanes)
        name: object = instruction.offset, base, space.size, pattern.key, self.warps.per_cta.phase, version
        beside = None
        if copy:
            beside = self._order.copying(copy, lanes)
            name = object()

        def make() -> Entry:
            in_strands = of_lane[lanes] if beside is None else beside
            collective = space.site.mnemonic in ("LDSM", "STSM")
            return Entry(
                instruction, does, space.size, base, pattern.offsets, lanes, in_strands, self.cta,
                phases[lanes // LANES], copy, collective,
            )  # fmt: skip

        if does is Does.READ and instruction.offset in self._pending_reads.uses:
            memory.per_cluster.last = None

            def used(by: Bools) -> None:
                chosen = by[lanes]
                part: object = name if chosen.all() else (*name[:-1], by.tobytes(), name[-1])  # type: ignore[index]
                memory.add(part, lambda: make() if chosen.all() else make().part(chosen, of_lane[lanes][chosen]))

            self._pending_reads.hold(instruction.offset, self._mask(lanes), used)
            return
        memory.add(name, make)

    def stored(self, space: Any, place: Place, values: NDArray[Any]) -> None:
        """The values that each lane of a store has written."""
        memory = self._shared if space.name == "shared" else self._global if space.name == "global" else None
        if memory is None:
            return
        memory.stored(values)
        if memory.per_cluster.last is not None and memory.per_cluster.last.lanes is not None:
            where = shared_byte if space.name == "shared" else self._buffer_at
            found = one_store(
                space, place, values, self._lanes(place), where, lambda i, k, d: self._point(i, k, self.cta, d)
            )
            if found is not None:
                self._findings.add(found)

    # -- mbarriers --------------------------------------------------------------------------------------------

    def _barrier_object(self, space: Any, place: Place) -> None:
        site, lanes = space.site, self._lanes(place)
        offsets = place.base + place.pattern.offsets
        self.warps.ordered(self._among(place))
        does = Does.ATOMIC
        if site.has("EXCH"):
            does = Does.WRITE
        elif site.has("PHASECHK"):
            does = Does.STRONG_READ
        self._log(self._shared, space, place, does, "", place.base)
        self._shared.per_cluster.last = None
        for at in np.unique(offsets).tolist():
            self._shared.per_cluster.barriers.add(at // 8)
            here = self._mask(lanes[offsets == at])
            if does is Does.WRITE:
                self._order.initialise(at, 0)
            elif does is Does.STRONG_READ:
                parity = np.broadcast_to(site.source(2)(), here.shape) >> np.uint32(31)
                here &= parity != self._parity(at)
                if here.any():
                    self._order.find_over(at, here, site.instruction)
            else:
                self._order.arrive_at(at, here, self._mask(lanes), site.has("LDGSTSBAR"))

    def _tell_missed(self, barrier: int, instruction: Instruction, lane: int, rank: int) -> None:
        """A lane waits for a phase of an mbarrier. That phase and the next one may end before the lane looks."""
        self._findings.add(
            missed_phase(self._point(instruction, lane, self.cta, "waits"), self._race.shared_at(barrier))
        )

    def fails(self, waits: Sequence[Any]) -> None:
        """The CTA waits forever, perhaps at these mbarriers; see HappensBefore.gone_by."""
        for wait in waits:
            self._order.gone_by(self._memory.rank * self._stride + wait.byte, wait.lanes, wait.instruction)

    # -- groups and barriers ----------------------------------------------------------------------------------

    def together(self, mask: Mask) -> None:
        """The lanes of `mask` execute the next instructions together."""
        self._strands.together(mask)

    def met(self, lanes: Bools) -> None:
        """These lanes, each with the others of its warp, have waited for each other."""
        self.warps.met(lanes)

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, instruction: Instruction) -> None:
        """Lanes have reached a barrier of the CTA."""
        early = None if expected is None else self._order.too_early(barrier, lanes)
        if expected is not None and early is not None:
            self._findings.add(shared_barrier(self._point(instruction, early, self.cta, "arrives"), barrier, expected))
        self._order.arrive(barrier, lanes, waits)
        self.warps.ordered(lanes)

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        """A barrier of the CTA, or of its cluster, releases the lanes that wait at it."""
        if barrier == CLUSTER_BARRIER and self._strands.per_cluster.others:
            self._order.meet(waiting)
            return
        for_all = bool((waiting >= alive).all()) and not self._strands.per_cluster.others
        if for_all:
            for memory in self._memories:
                memory.look()
            if self._releases is not None:
                self._releases.close()
            self._proxies.close()
        pending = self._order.open(barrier, waiting, alive)
        if pending is not None:
            for memory in self._memories:
                memory.forget(pending)
            self._proxies.moved(pending)
            self.products.moved(pending)
            self.warps.calm(self._memory.rank)

    def exits(self, lanes: Bools) -> None:
        """These lanes have reached their end."""
        if self._strands.per_cluster.others:
            self._order.come(lanes, ends=True)
        self.products.exits(lanes)
        self._strands.leave(lanes)

    # -- lanes ------------------------------------------------------------------------------------------------

    def _lanes(self, place: Place) -> Indices:
        return self._every if place.pattern.lanes is None else place.pattern.lanes

    def _mask(self, lanes: Indices) -> Bools:
        mask = np.zeros(len(self._every), np.bool_)
        mask[lanes] = True
        return mask

    def _among(self, place: Place) -> Bools:
        return np.asarray(self._mask(self._lanes(place)) & self._exists)
