"""Find names for the numbers of a layout, from recordings of one kernel that differ in that number.

A kernel compiled with rows of 24, 40 and 56 halves makes the same accesses, at addresses that grow linearly with the
row. Two recordings give a base for each lane and its increment per unit of the number, and a third confirms them. The
addresses become `512 + 32*(lane // 2) ... + pitch*(...)`, and `layout: {pitch: 24}` can then be varied without the
source. For a swizzle, a recording without it gives the plain addresses; the swizzled ones must be `swizzle(plain,
...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Row
from gpuemu.trace.model import Trace
from gpuemu.trace.symbolic import expression_of

Numbers = NDArray[np.int64]


class Naming(Protocol):
    """A trace's addresses in terms of names; `layout` has the names' values in the trace."""

    @property
    def trace(self) -> Trace:
        """The trace that is named."""

    @property
    def layout(self) -> Mapping[str, int]:
        """The value of each name."""

    def expression(self, rows: NDArray[np.int32], warps: Sequence[int], ctas: Sequence[int]) -> str | None:
        """Return an expression for the addresses of these rows, [warps, executions], or None if no rule is found."""

    def size(self, field: str) -> int | str:
        """Return static_ or dynamic_shared_bytes of the launch, as a number or an expression."""


@dataclass(frozen=True)
class Linear:
    """Addresses that grow with a number: `slopes` [rows, 32] per unit of it, and `sizes` for the launch."""

    trace: Trace
    name: str
    value: int
    slopes: Numbers
    sizes: Mapping[str, int]

    @property
    def layout(self) -> Mapping[str, int]:
        return {self.name: self.value}

    def expression(self, rows: NDArray[np.int32], warps: Sequence[int], ctas: Sequence[int]) -> str | None:
        active, slopes = self.trace.active[rows], self.slopes[rows]
        addresses = self.trace.addresses[rows]
        if not (slopes * active).any():
            return expression_of(addresses, warps, ctas, active)
        parts = [expression_of(table, warps, ctas, active) for table in (addresses - self.value * slopes, slopes)]
        if parts[0] is None or parts[1] is None:
            return None
        return _sum(parts[0], f"{parts[1]}*{self.name}" if parts[1].isdigit() else f"{self.name}*({parts[1]})")

    def size(self, field: str) -> int | str:
        size, slope = int(getattr(self.trace.launch, field)), self.sizes[field]
        return _sum(str(size - self.value * slope), f"{slope}*{self.name}") if slope else size


def _sum(first: str, second: str) -> str:
    return second if first == "0" else f"{first} + {second}"


@dataclass(frozen=True)
class Swizzled:
    """Shared addresses that are those of `plain` [rows, 32] after a swizzle. `shared` [rows] marks their rows."""

    trace: Trace
    layout: Mapping[str, int]
    plain: Numbers
    shared: NDArray[np.bool_]

    def expression(self, rows: NDArray[np.int32], warps: Sequence[int], ctas: Sequence[int]) -> str | None:
        active = self.trace.active[rows]
        if not self.shared[rows].all():
            return expression_of(self.trace.addresses[rows], warps, ctas, active)
        text = expression_of(self.plain[rows], warps, ctas, active)
        return None if text is None else f"swizzle({text}, {', '.join(self.layout)})"

    def size(self, field: str) -> int | str:
        return int(getattr(self.trace.launch, field))


SIZES = ("static_shared_bytes", "dynamic_shared_bytes")


def unshared(trace: Trace) -> Trace:
    """Return the trace with one row per execution, in warp order, to compare two such traces row by row."""
    rows = np.concatenate([np.zeros(0, np.int32), *(warp.rows for warp in trace.warps)])
    ends = np.cumsum([0, *(len(warp.rows) for warp in trace.warps)])
    numbers = np.arange(len(rows), dtype=np.int32)
    warps = tuple(replace(w, rows=numbers[a:b]) for w, a, b in zip(trace.warps, ends, ends[1:], strict=False))
    spaces = None if trace.spaces is None else trace.spaces[rows]
    sources = None if trace.sources is None else trace.sources[rows]
    return replace(
        trace, warps=warps, addresses=trace.addresses[rows], active=trace.active[rows], spaces=spaces, sources=sources,
    )  # fmt: skip


def linear(name: str, recordings: Mapping[int, Trace]) -> Linear:
    """Return the naming of the first recording, whose key is the number's value in it.

    `recordings` needs three or more of the same kernel. Raises GpuemuError if their accesses differ, or if the
    addresses do not grow linearly.
    """
    values, traces = list(recordings), [unshared(t) for t in recordings.values()]
    if len(values) < 3:
        raise _refused(name, f"{len(values)} recordings", "expected three or more values")
    first, second = traces[:2]
    for trace in traces[1:]:
        _check_alike(name, first, trace)
    step = values[1] - values[0]
    rise = np.where(first.active, second.addresses - first.addresses, 0)
    slopes = rise // step
    sizes = {f: (getattr(second.launch, f) - getattr(first.launch, f)) // step for f in SIZES}
    for value, trace in zip(values[1:], traces[1:], strict=True):
        there = first.addresses + (value - values[0]) * slopes
        even = all(getattr(first.launch, f) + (value - values[0]) * sizes[f] == getattr(trace.launch, f) for f in SIZES)
        if not even or (first.active & (there != trace.addresses)).any():
            raise _refused(
                name,
                f"addresses that do not grow linearly from {values[0]} to {value}",
                "Choose a number on which the addresses depend linearly, such as a pitch",
            )
    return Linear(first, name, values[0], slopes, sizes)


def swizzled(trace: Trace, plain: Trace, bits: int, base: int, shift: int) -> Swizzled:
    """Return the naming of a trace whose shared addresses are swizzle(address of `plain`, bits, base, shift), in bytes.

    Raises GpuemuError if they are not.
    """
    names = {"bits": bits, "base": base, "shift": shift}
    trace, plain, shared = _beside(trace, plain)
    ours = plain.addresses ^ ((plain.addresses >> shift) & (((1 << bits) - 1) << base))
    if (trace.active & shared[:, None] & (ours != trace.addresses)).any():
        raise _refused(
            "bits", "shared addresses of another rule", f"expected swizzle(address, {bits}, {base}, {shift})"
        )
    return Swizzled(trace, names, plain.addresses, shared)


def find_swizzle(trace: Trace, plain: Trace) -> tuple[int, int, int]:
    """Return bits, base and shift of the swizzle that turns the shared addresses of `plain` into those of `trace`.

    They are in bytes. The bits are those that change, and the shift is the smallest that works. Raises GpuemuError if
    none does.
    """
    trace, plain, shared = _beside(trace, plain)
    taken = trace.active & shared[:, None]
    changes, before = (trace.addresses ^ plain.addresses)[taken], plain.addresses[taken]
    mask = int(np.bitwise_or.reduce(changes, initial=0))
    base = (mask & -mask).bit_length() - 1
    bits = mask.bit_length() - base
    for shift in range(1, int(before.max(initial=0)).bit_length() if mask else 1):
        if (changes == (before >> shift) & (((1 << bits) - 1) << base)).all():
            return bits, base, shift
    found = "shared addresses of another rule" if mask else "the same shared addresses in both recordings"
    raise _refused("swizzle", found, "expected address ^ ((address >> shift) & mask)")


def _beside(trace: Trace, plain: Trace) -> tuple[Trace, Trace, NDArray[np.bool_]]:
    """Return both traces row by row, and the rows of shared memory. Raises GpuemuError if their accesses differ."""
    trace, plain = unshared(trace), unshared(plain)
    _check_alike("bits", trace, plain)
    memory = np.array([i.accesses_memory for i in trace.code], dtype=np.bool_)
    in_shared = np.array([memory[k] and i.operation.row in set(Row) for k, i in enumerate(trace.code)])
    paths = [w.path[memory[w.path]] for w in trace.warps]
    shared = np.concatenate([np.zeros(0, np.bool_), *(in_shared[path] for path in paths)])
    if trace.spaces is not None:
        shared |= trace.spaces.any(axis=1)
    return trace, plain, shared


def _check_alike(name: str, a: Trace, b: Trace) -> None:
    def accesses(trace: Trace) -> list[list[str]]:
        memory = [i.opcode if i.accesses_memory else "" for i in trace.code]
        return [[memory[k] for k in warp.path.tolist() if memory[k]] for warp in trace.warps]

    if accesses(a) != accesses(b) or not np.array_equal(a.active, b.active):
        raise _refused(name, "the recordings make different accesses", "Choose values that change only the addresses")


def _refused(name: str, found: str, right: str) -> GpuemuError:
    return GpuemuError.one("layout", None, name, found, right)
