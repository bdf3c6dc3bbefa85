"""Bulk copies of sm_90, in which one instruction of a warp moves a block of memory (PTX: cp.async.bulk).

    UBLKCP.S.G [UR4], [UR6], UR8           UR8 x 16 bytes from global [UR6] to shared [UR4]; signals the mbarrier at UR5
    UBLKCP.G.S [UR6], [UR4], UR5           the other direction
    UBLKRED.G.S.ADD.F32.RN [UR6], [UR4], UR5

A copy is complete when its instruction has executed: the mbarrier has its bytes, and waits for groups of copies end at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError, Fault
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.storage import WRITTEN, Buffer, Views
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.atomic_operations import BFLOAT16S, HALVES
from gpuemu.sass.semantics.mbarriers import arrived_90

UNIT = 16
_CARRIED_OUT = ("UTMACMDFLUSH", "ACQBULK", "PREEXIT")


@semantics(*_CARRIED_OUT)
def nothing(site: Site) -> Step:
    """Do nothing, for instructions that change no value here.

    They end a group of copies, which are complete, wait for an earlier kernel, or allow the next one to start.
    """
    return lambda mask: None


@semantics("UCGABAR_ARV")
def arrive_at_cluster(site: Site) -> Step:
    """UCGABAR_ARV: the lanes arrive at the cluster's barrier, where UCGABAR_WAIT waits for all others."""
    memory = site.environment.memory

    def step(mask: Mask) -> None:
        if memory.cluster is not None:
            memory.cluster.arrive(memory.rank, site.lanes.exists if mask is None else mask)

    return step


@semantics("UTMACCTL")
def forget_map(site: Site) -> Step:
    """UTMACCTL.IV [URs] invalidates the cached tensor map at that address; .PF prefetches it."""
    if not site.operands:
        return lambda mask: None
    register = numbers(site, "[")[0]

    def step(mask: Mask) -> None:
        uniform = Uniform(site)
        for lane in uniform.lanes(mask):
            site.environment.event(lane // WARP, map=uniform.wide(register, lane))

    return step


class Uniform:
    """Registers of the uniform file, warp by warp."""

    def __init__(self, site: Site):
        self._file = site.lanes.uniform_registers
        self._site = site

    def word(self, number: int, lane: int) -> int:
        """Return the value of a register for a lane."""
        return int(self._file[number, lane])

    def wide(self, number: int, lane: int) -> int:
        """Return the 64-bit value of a register and the next one."""
        return int(self._file[number, lane]) | int(self._file[number + 1, lane]) << 32

    def lanes(self, mask: Mask) -> list[int]:
        """Return the first active lane of each warp that has one."""
        here = self._site.lanes.exists if mask is None else mask
        by_warp = here.reshape(-1, WARP)
        first = by_warp.argmax(axis=1) + np.arange(len(by_warp)) * WARP
        return [int(lane) for lane in first[by_warp.any(axis=1)]]


def numbers(site: Site, form: str) -> list[int]:
    """Return the uniform registers that the operands name: a pair in brackets for [, or a single register for -.

    A register for 0 may be URZ; its number is then negative. A cache policy after them is ignored.
    """
    operands = list(site.operands)
    if operands and operands[-1].prefix == "desc" and len(operands[-1].brackets) == 1:
        operands.pop()
    found = [
        operand.register if kind in "-0" else operand.address.of("UR") if operand.address else None
        for kind, operand in zip(form, operands, strict=False)
    ]
    bare = all(o.core == o.text and not (o.address and o.address.number) for o in operands)
    numbers = [
        -1 if r.is_constant else r.number
        for kind, r in zip(form, found, strict=False)
        if r is not None and r.file == "UR" and not r.suffixes and (kind == "0" or not r.is_constant)
    ]
    if not bare or not len(operands) == len(form) == len(numbers):
        raise site.unsupported("this form is not understood")
    return numbers


class Copier:
    """Blocks of shared and global memory as bytes, checked, for one instruction."""

    def __init__(self, site: Site):
        self.site = site
        self.memory = site.environment.memory

    def shared(self, address: int, places: NDArray[np.int64] | None, count: int, lane: int, store: int) -> Any:
        """Return the indices of `count` bytes of shared memory from an address on, or at `places` relative to it.

        `store`: the mask of the CTAs in whose memory they are written, or 0 if the CTA's own bytes are read.
        """
        self.own(address)
        first = (address & 0xFFFFFF) - self.memory.shared_base
        last = first + count - 1 if places is None else first + int(places.max(initial=0))
        if first < 0 or last >= self.memory.shared_bytes:
            found = f"a copy of bytes {first} to {last} of shared memory"
            raise self.error(lane, found, f"Stay within the CTA's {self.memory.shared_bytes} bytes of shared memory")
        if first % UNIT:
            raise self.misaligned(lane, f"byte {first} of shared memory")
        chosen = slice(first, last + 1) if places is None else first + places
        if store:
            if store >> self.memory.rank & 1:
                self.memory.written[1][chosen] = WRITTEN
        elif not self.memory.all_written:
            unwritten = self.memory.written[1][chosen] != WRITTEN
            if unwritten.all():
                found = f"a copy from byte {first} of shared memory, which was never written by the CTA"
                error = self.error(lane, found, "Store to it first")
                places = first + (np.arange(count) if places is None else places)
                error.fault = Fault("shared", "load", count, "unwritten", first, np.array([lane]), places)
                raise error
        observer = self.site.environment.observer
        if observer is not None:
            ranks = list(clusters.ranks_of(store)) if store else [self.memory.rank]
            places = first + (np.arange(count) if places is None else places)
            observer.block(self.site, lane, places, store != 0, ranks)
        return chosen

    def own(self, address: int, ranks: int = 1) -> None:
        """Refuse a shared address of another CTA, and copies to other CTAs without a cluster."""
        rank = clusters.whose(address)
        if rank and rank != self.memory.rank:
            raise clusters.refusal(self.site, rank)
        if self.memory.cluster is None and ranks & ~1:
            raise clusters.refusal(self.site, (ranks & ~1).bit_length() - 1)

    def to_others(
        self, ranks: int, chosen: Any, data: NDArray[np.uint8], barrier: int, lane: int, count: int | None = None,
        pairs: bool = False,
    ) -> None:  # fmt: skip
        """Write the same data at the same address of other CTAs, and signal their mbarriers at the same address.

        `count`: the bytes that an mbarrier counts, if not all. `pairs`: see `barrier_rank`.
        """
        memory, count = self.memory, len(data) if count is None else count
        for rank in clusters.ranks_of(ranks):
            if memory.cluster is None or rank == memory.rank:
                continue
            shared, written = clusters.part_of(memory.cluster.shared, rank, self.site)
            shared[1][chosen], written[1][chosen] = data, WRITTEN
            memory.cluster.changes += 1
            if pairs:
                self.signal(barrier, count, lane, rank)
                continue
            place = self._complete(shared, barrier, count, lane, rank)
            self.site.environment.told(lane // WARP, rank, place, 0, count)

    @staticmethod
    def barrier_rank(rank: int, barrier: int) -> int:
        """Return whose mbarrier learns of data for a CTA: that of its pair which is first or second as the named one.

        This holds for copies of a pair (.2CTA). `barrier`: the shared address of the mbarrier.
        """
        return rank & ~1 | int(clusters.whose(barrier)) & 1

    def signal(self, barrier: int, count: int, lane: int, to: int) -> None:
        """Deliver bytes that came to a CTA to the mbarrier that its pair uses (.2CTA)."""
        memory, rank = self.memory, self.barrier_rank(to, barrier)
        if rank == memory.rank:
            place = self._complete(memory.shared, barrier, count, lane, rank)
            if to != memory.rank:  # the CTA's own event has only the bytes that come to itself
                self.site.environment.told(lane // WARP, rank, place, 0, count)
            return
        if memory.cluster is None:
            raise clusters.refusal(self.site, rank)
        place = self._complete(clusters.part_of(memory.cluster.shared, rank, self.site)[0], barrier, count, lane, rank)
        self.site.environment.told(lane // WARP, rank, place, 0, count)
        memory.cluster.changes += 1

    def buffer(self, address: int, count: int, lane: int) -> tuple[Buffer, int]:
        """Return the buffer with these bytes of global memory, and their offset in it."""
        for buffer in self.memory.buffers:
            if buffer.start <= address and address + count <= buffer.start + buffer.bytes:
                buffer.is_read = True
                return buffer, address - buffer.start
        found = f"a copy of {count} bytes at {address:#x}"
        names = ", ".join(f"{b.name} ({b.start:#x}, {b.bytes} bytes)" for b in self.memory.buffers) or "none"
        raise self.error(lane, found, f"Copy within one buffer of the launch: {names}")

    def moves(self, lane: int, first: int, places: NDArray[np.int64], size: int, access: str) -> None:
        """Tell the observer the global bytes that the block reads or writes, in units of `size` bytes."""
        observer = self.site.environment.observer
        if observer is not None:
            observer.moves(self.site, lane, (first + places[:, None] + np.arange(size)).reshape(-1), access)

    def event(self, lane: int, shared: int, barrier: int = -1, **what: int) -> None:
        """Record a copy from or to a shared address in the trace, and the mbarrier that it signals."""
        base, told = self.memory.shared_base, {}
        if barrier >= 0:
            told["barrier"] = (barrier & 0xFFFFFF) - base
        self.site.environment.event(lane // WARP, shared=(shared & 0xFFFFFF) - base, **told, **what)

    def complete(self, barrier: int, count: int, lane: int) -> None:
        """Deliver bytes that an mbarrier expects."""
        self.own(barrier)
        self._complete(self.memory.shared, barrier, count, lane, self.memory.rank)

    def _complete(self, shared: Views, barrier: int, count: int, lane: int, rank: int) -> int:
        """Deliver bytes to an mbarrier in the shared memory of the CTA with this rank; return its byte offset."""
        place = (barrier & 0xFFFFFF) - self.memory.shared_base
        if place < 0 or place % 8 or place + 8 > self.memory.shared_bytes:
            raise self.error(
                lane,
                f"an mbarrier at byte {place} of shared memory",
                "Use 8 bytes of shared memory, at a multiple of 8",
            )
        words = shared[8]
        after = arrived_90(int(words[place // 8]), 0, -count)
        assert after is not None  # nobody arrives
        words[place // 8] = after
        if self.site.environment.observer is not None:
            self.site.environment.observer.completes(self.site, place, lane, rank)
        return place

    def misaligned(self, lane: int, where: str) -> ExecutionError:
        """Return the error of a copy from or to an address that is not a multiple of 16."""
        error = self.error(lane, f"a copy at {where}", "expected a multiple of 16")
        error.title = "Misaligned bulk copy"
        return error

    def error(self, lane: int, found: str, right: str) -> ExecutionError:
        """Return the fault that ends the launch, with a correction for the kernel."""
        return ExecutionError(self.site.instruction, lane, found, right)


@semantics("UBLKPF")
def bulk_prefetch(site: Site) -> Step:
    """UBLKPF.L2 [UR6], UR8: prefetch UR8 x 16 bytes from [UR6] on into L2."""
    site.only("L2")
    source, size = numbers(site, "[-")
    registers, copier = Uniform(site), Copier(site)

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            address, count = registers.wide(source, lane), registers.word(size, lane) * UNIT
            if address % UNIT:
                raise copier.misaligned(lane, f"{address:#x}")
            copier.event(lane, copier.memory.shared_base, line=count, **{"global": address})

    return step


@semantics("UBLKCP")
def bulk_copy(site: Site) -> Step:
    """UBLKCP.S.G and UBLKCP.G.S; .MULTICAST copies to several CTAs, and .DST_G_BYTE_MASK some bytes of each 16."""
    site.only("S", "G", "MULTICAST", "DST_G_BYTE_MASK")
    many, masked = site.has("MULTICAST"), site.has("DST_G_BYTE_MASK")
    to_shared = site.modifiers[:2] == ("S", "G")
    if (not to_shared and site.modifiers[:2] != ("G", "S")) or (many if not to_shared else masked):
        raise site.unsupported("this form is not understood")
    target, source, size = numbers(site, "[[-")
    registers, copier = Uniform(site), Copier(site)

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            word = registers.word(size, lane)
            count = (word & (0xFFFF if many or masked else 0xFFFFFFFF)) * UNIT
            if count == 0:
                continue
            ranks = word >> 16 if many else 1 << copier.memory.rank
            copier.own(0, ranks)
            shared = registers.word(target if to_shared else source, lane)
            address = registers.wide(source if to_shared else target, lane)
            buffer, start = copier.buffer(address, count, lane)
            if address % UNIT:
                raise copier.misaligned(lane, f"{address:#x} of {buffer.name}")
            inside = copier.shared(shared, None, count, lane, ranks if to_shared else 0)
            there = buffer.views[1][start : start + count]
            places, each = (_bytes_of(word >> 16, count), 1) if masked else (np.arange(0, count, UNIT), UNIT)
            copier.moves(lane, address, places, each, "load" if to_shared else "store")
            barrier = registers.word(target + 1, lane) if to_shared else -1
            copier.event(lane, shared, barrier, bytes=count, line=count, **{"global": address})
            if to_shared:
                copier.to_others(ranks, inside, there, barrier, lane)
                if ranks >> copier.memory.rank & 1:
                    copier.memory.shared[1][inside] = there
                    copier.complete(barrier, count, lane)
            else:
                copied = places if masked else slice(None)
                there[copied] = copier.memory.shared[1][inside][copied]

    return step


def _bytes_of(mask: int, count: int) -> NDArray[np.int64]:
    """Return the numbers of the bytes that a mask of each 16 bytes selects."""
    return np.flatnonzero(mask >> np.arange(count) % UNIT & 1)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": np.add,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "INC": lambda old, most: np.where(old >= most, 0, old + 1).astype(old.dtype),
    "DEC": lambda old, most: np.where((old == 0) | (old > most), most, old - 1).astype(old.dtype),
}
_KINDS: dict[str, Any] = {
    "U32": np.uint32, "S32": np.int32, "U64": np.uint64, "S64": np.int64, "F16": np.uint16, "BF16": np.uint16,
    "F32": np.float32, "F64": np.float64,
}  # fmt: skip
_NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)


def _add_singles(old: NDArray[np.float32], new: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add float32 numbers to nearest even, with subnormals kept and every NaN canonical (H200)."""
    total = old + new
    return np.where(np.isnan(total), _NAN32, total)


_FLOATS: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "F16": HALVES, "BF16": BFLOAT16S, "F32": {"ADD": _add_singles}, "F64": {"ADD": np.add},
}  # fmt: skip


def reduction(site: Site, kind: str) -> tuple[Callable[[Any, Any], Any], np.dtype[Any]]:
    """Return the operation that the opcode names, and the type of its elements."""
    named = [m for m in site.modifiers if m in OPERATIONS]
    if len(named) != 1 or kind not in _KINDS:
        raise site.unsupported(f"a reduction of {kind or 'this form'}")
    unit = np.dtype(_KINDS[kind])
    operations = _FLOATS.get(kind, OPERATIONS)
    if named[0] not in operations:
        raise site.unsupported(f"{named[0]} of {kind}")
    return operations[named[0]], unit


@semantics("UBLKRED")
def bulk_reduction(site: Site) -> Step:
    """UBLKRED.G.S.op[.type][.RN]: combine shared memory with the content of global memory."""
    site.only("G", "S", "RN", *OPERATIONS, *_KINDS)
    kinds = [m for m in site.modifiers if m in _KINDS] or ["U32"]
    operation, unit = reduction(site, kinds[0])
    target, source, size = numbers(site, "[[-")
    registers, copier = Uniform(site), Copier(site)

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            count = registers.word(size, lane) * UNIT
            address = registers.wide(target, lane)
            buffer, start = copier.buffer(address, count, lane)
            if address % UNIT:
                raise copier.misaligned(lane, f"{address:#x} of {buffer.name}")
            inside = copier.shared(registers.word(source, lane), None, count, lane, 0)
            copier.moves(lane, address, np.arange(0, count, UNIT), UNIT, "atomic")
            copier.event(lane, registers.word(source, lane), bytes=count, line=count, **{"global": address})
            there = buffer.views[1][start : start + count]
            ours = copier.memory.shared[1][inside].view(unit)
            there[...] = operation(there.copy().view(unit), ours).astype(unit).view(np.uint8)

    return step
