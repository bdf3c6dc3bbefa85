"""Where each CTA of a grid first accesses memory: one warp of each executes until it needs others or would write.

The warps of all CTAs execute at once, as though they were the warps of one CTA. Special registers give each lane its
own CTA number. gpuemu records the first address of each instruction in each CTA. A store to global memory, an atomic, a
read of shared memory behind a barrier, and `MOST_STEPS` end the execution, and so does any error, after which less is
known. If the code has tensor copies, execution continues past mbarriers and stores, which can create tensor maps, until
a warp waits for data. These stores are undone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Kind
from gpuemu.sass.machine.environment import Environment, ExecutionError, Spaces
from gpuemu.sass.machine.lanes import WARP, Lanes, Mask, any_lane
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import Step, UnsupportedError
from gpuemu.sass.machine.recording.patterns import Patterns, Place
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import Cta, CtaExecutor
from gpuemu.sass.machine.scheduling.groups import Group
from gpuemu.sass.semantics.bulk_tiles import told
from gpuemu.trace.model import Instruction

MOST_CTAS = 4096
"""Most CTAs that are scouted, from the first on."""
MOST_LEAVING = 1 << 15
"""If some CTAs exit at once, all CTAs up to this number are scouted, and `MOST_CTAS` of the later ones."""
MOST_STEPS = 600
MOST_COUNTED_STEPS = 12_000
"""Most steps in which instructions of warps are counted."""
MOST_LOCAL_BYTES = 1 << 26
"""The local memory of all lanes together."""
_ENDS = (
    "STG", "ST", "RED", "REDG", "ATOM", "ATOMG", "SYNCS", "UBLKCP", "UBLKRED", "UBLKPF", "UTMALDG", "UTMASTG",
    "UTMAREDG", "NANOSLEEP", "BPT", "CALL",
)  # fmt: skip
_READS_SHARED = ("LDS", "LDSM", "LD", "ATOMS")


Numbers = NDArray[np.int64]


class _Enough(Exception):
    """Ends scouting."""


class First(Recorder):
    """Records the first address of each instruction in each CTA."""

    def __init__(self, lanes: Lanes, code: tuple[Instruction, ...]):
        super().__init__(lanes, code)
        self.executor: CtaExecutor | None = None
        self.ctas = lanes.warps
        self.loads = {pc for pc, i in enumerate(code) if i.mnemonic in ("LDG", "LDGSTS", "LD")}
        self.found: dict[int, Numbers] = {}

    def access(self, place: Place | None, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
        """Record the address of each CTA that accesses memory here for the first time."""
        assert self.executor is not None
        assert self.executor.polls.group is not None
        went = place if source is None else source
        pc = self.executor.polls.group.pc
        if went is None or pc not in self.loads:
            return
        addresses = went.addresses(64).view(np.int64)
        lanes = np.arange(len(addresses)) if went.pattern.lanes is None else went.pattern.lanes
        ctas, first = np.unique(lanes // WARP, return_index=True)
        self.note(pc, ctas, addresses[first])

    def event(self, warp: int, **what: int) -> None:
        """Record the source of a CTA that copies here for the first time."""
        assert self.executor is not None
        assert self.executor.polls.group is not None
        if "global" in what:
            self.note(self.executor.polls.group.pc, np.array([warp]), np.array([what["global"]]))

    def note(self, pc: int, ctas: NDArray[np.intp], addresses: Numbers) -> None:
        """Record the addresses of these CTAs, except for those that were here before."""
        known = self.found.setdefault(pc, np.full(self.ctas, -1, np.int64))
        new = known[ctas] < 0
        known[ctas[new]] = addresses[new]


def scout(environment: Environment) -> tuple[dict[int, Numbers], NDArray[np.bool_]]:
    """Instruction → byte address of its first access, [CTAs scouted], -1 if the CTA did not execute it; and the CTAs of
    the grid that exit at once. CTAs that were not scouted do as their neighbors.
    """
    ctas, (x, y, _) = environment.launch.ctas, environment.launch.grid
    first, left = _go(environment, np.arange(min(ctas, MOST_CTAS)))
    some = left.any() and not left.all()
    while some and x * y > MOST_CTAS and len(left) < min(ctas, MOST_LEAVING):
        left = np.concatenate([left, _go(environment, np.arange(len(left), min(ctas, len(left) + MOST_CTAS)))[1]])
    if x * y <= len(left):  # planes of the grid are alike
        return first, np.resize(left[: len(left) // (x * y) * (x * y)], ctas)
    if not some or len(left) == ctas:
        return first, np.resize(left, ctas)
    looked = np.unique(np.linspace(len(left), ctas - 1, MOST_CTAS).astype(np.int64))
    leaves = _go(environment, looked)[1]
    looked = looked[: len(leaves)]
    nearest = np.searchsorted((looked[1:] + looked[:-1]) / 2, np.arange(len(left), ctas))
    return first, np.concatenate([left, leaves[nearest]])


def counted(environment: Environment, ctas: Numbers) -> tuple[Numbers, int]:
    """Instructions of one warp of each of these CTAs until it ends, waits for its CTA, or issues an atomic; and the
    number of steps.

    The number of the warp differs from CTA to CTA. Its stores have no effect.
    """
    warps = -(-environment.launch.threads_per_cta // WARP)
    many = beside(environment, ctas, ctas * 7 % warps)
    executor = _Counting(many)
    counts = _Counts(many.lanes, environment.code)
    let_go(executor, many, counts, ctas, MOST_COUNTED_STEPS * len(ctas))
    return counts.of_warps(), len(counts.steps)


def _go(environment: Environment, ctas: Numbers) -> tuple[dict[int, Numbers], NDArray[np.bool_]]:
    """The result of `scout` for these CTAs only."""
    many = beside(environment, ctas, np.zeros(len(ctas), np.int64))
    ctas = ctas[: many.lanes.warps]
    executor = Scouts(many)
    first = First(many.lanes, environment.code)
    first.executor = executor
    one = let_go(executor, many, first, ctas, MOST_STEPS * len(ctas))
    return first.found, ~one.convergence.alive.reshape(len(ctas), WARP).max(axis=1)


def beside(environment: Environment, ctas: Numbers, warps: Numbers) -> Environment:
    """An environment in which one warp of each CTA executes as a warp of one CTA, as far as local memory allows."""
    launch, memory = environment.launch, environment.memory
    uses_local = any(i.mnemonic in ("STL", "LDL") for i in environment.code)
    local_bytes = memory.local_bytes if uses_local else 16
    count = min(len(ctas), MOST_LOCAL_BYTES // (WARP * local_bytes))
    lanes = Lanes(count * WARP)
    lanes.thread = lanes.thread % np.uint32(WARP) + np.repeat(WARP * warps[:count], WARP).astype(np.uint32)
    lanes.exists = lanes.thread < launch.threads_per_cta
    there = Memory(memory.shared_bytes, memory.shared_base, local_bytes, lanes, zero_shared=True)
    there.buffers = memory.buffers
    return replace(
        environment, lanes=lanes, memory=there, patterns=Patterns(), observer=None, printer=lambda _: None,
        replayed=None,
    )  # fmt: skip


def let_go(executor: CtaExecutor, many: Environment, recorder: Recorder, ctas: Numbers, budget: int) -> Cta:
    """Execute as far as possible, and undo the stores to global memory."""
    buffers = many.memory.buffers
    before = [buffer.views[1].copy() for buffer in buffers] if isinstance(executor, Scouts) and executor.stores else []
    one = executor.begin(0, recorder, True, budget)
    numbers, (x, y, _) = np.repeat(ctas[: many.lanes.warps].astype(np.uint32), WARP), many.launch.grid
    try:
        many.cta = numbers % x, numbers // x % y, numbers // (x * y)  # type: ignore[assignment]
        executor.go_on(one)
    except (_Enough, ExecutionError, UnsupportedError, GpuemuError, IndexError, ValueError):
        pass
    for buffer, there_was in zip(buffers, before, strict=False):
        buffer.views[1][...] = there_was
    return one


class _Counts(Recorder):
    """Counts the instructions of each warp."""

    def set_of(self, mask: Mask) -> int:
        """The number of a set of warps."""
        here = (self._lanes.exists if mask is None else mask).reshape(-1, WARP).any(axis=1)
        number = self._set_of_mask.setdefault(here.tobytes(), len(self._members))
        if number == len(self._members):
            self._members.append(np.asarray(here))
        return number

    def access(self, place: Place | None, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
        """Counting needs no addresses."""

    def of_warps(self) -> Numbers:
        """The instructions of each warp."""
        return np.asarray(np.bincount(np.array(self.sets, np.int64), minlength=len(self._members)) @ self._members)


class _OnNewLanes(CtaExecutor):
    """An executor of one CTA. Its lanes are as allocated, so registers that the code does not use take no memory."""

    def begin(self, number: int, recorder: Recorder, keep: bool, budget: int) -> Cta:
        self.environment.memory.new_cta()
        return self._begun(number, recorder, keep, budget)


class _Counting(_OnNewLanes):
    """An executor in which a warp ends where it would wait for others, and stores to global memory do nothing."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
        self.compiled = False  # its control instructions are not the kernel's
        for pc, instruction in enumerate(environment.code):
            if instruction.mnemonic in ("STG", "ST"):
                self._handlers[pc] = self._pass
            elif instruction.mnemonic in _ENDS or instruction.operation.kind is Kind.BARRIER:
                self._handlers[pc] = self._done

    def _choose(self, turn: int) -> tuple[Group, int]:
        if self._recorder is not None and len(self._recorder.steps) > MOST_COUNTED_STEPS:
            raise _Enough
        group, limit = super()._choose(turn)
        return group, min(limit, len(self._sites))

    def _pass(self, group: Group, pc: int) -> bool:
        group.pc = pc + 1
        return True

    def _done(self, group: Group, pc: int) -> bool:
        leaving = self._effective(group, pc)
        rest = self._present(group.mask) & ~leaving
        self._convergence.leave(leaving)
        self._groups.remove(group)
        if any_lane(rest):
            self._groups.append(self._group(pc + 1, rest))
        self._release(None)
        return False


class Scouts(_OnNewLanes):
    """An executor that ends at the first instruction that needs other warps or stores."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
        self.compiled = False  # its control instructions are not the kernel's
        self._told: dict[int, Step] = {}
        self._reads_shared = [pc for pc, i in enumerate(environment.code) if i.mnemonic in _READS_SHARED]
        copies = self.stores = any(instruction.mnemonic == "UTMALDG" for instruction in environment.code)
        for pc, instruction in enumerate(environment.code):
            waits = instruction.mnemonic == "SYNCS" and instruction.has("PHASECHK")
            passed = instruction.mnemonic == "SYNCS" or instruction.operation.kind is Kind.BARRIER
            if copies and (instruction.mnemonic in ("STG", "ST") or instruction.has("EXCH")) and not passed:
                continue
            if copies and passed and not waits:
                self._handlers[pc] = self._pass
            elif copies and instruction.mnemonic == "UTMALDG":
                self._told[pc] = told(self._sites[pc])
                self._handlers[pc] = self._note_copy
            elif instruction.mnemonic in _ENDS:
                self._handlers[pc] = self._end
            elif instruction.operation.kind is Kind.BARRIER:
                self._handlers[pc] = self._pass_barrier

    def _pass(self, group: Group, pc: int) -> bool:
        group.pc = pc + 1
        return True

    def _pass_barrier(self, group: Group, pc: int) -> bool:
        """Pass a barrier. From then on, what other warps wrote to shared memory is not known."""
        for at in self._reads_shared:
            self._handlers[at] = self._end
        group.pc = pc + 1
        return True

    def _note_copy(self, group: Group, pc: int) -> bool:
        if any_lane(mask := self._effective(group, pc)):
            self._told[pc](mask)
        group.pc = pc + 1
        return True

    def _end(self, group: Group, pc: int) -> bool:
        if any_lane(self._effective(group, pc)):
            raise _Enough
        group.pc = pc + 1
        return True
