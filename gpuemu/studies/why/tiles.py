"""The tiles of shared memory in a trace, and the best layout of each.

Instructions that touch the same bytes touch one tile. If its accesses have excess wavefronts, the search counts every
padding and swizzle for them. A few executions of each instruction choose the layout, and all are timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.isa.warp import LANES
from gpuemu.studies.layout.accesses import TileAccess
from gpuemu.studies.layout.code import code
from gpuemu.studies.layout.layouts import Padding
from gpuemu.studies.layout.search import Candidate, search
from gpuemu.studies.layout.tile import Tile
from gpuemu.studies.why.causes import Cause
from gpuemu.studies.why.edits import Edit, Relaid, grown
from gpuemu.trace.model import Instruction, Trace
from gpuemu.trace.residency import residency

_RULE = "Uncoalesced Shared Accesses"
MOST_EXECUTIONS = 128
"""The most executions of a tile's instruction that the search counts, taken evenly from all distinct ones."""


@dataclass(frozen=True)
class _Touches:
    """The executions of a shared-memory instruction: distinct rows of addresses, and their number."""

    index: int
    kind: AccessKind
    width: int
    size: int
    rows: NDArray[np.int64]
    active: NDArray[np.bool_]
    times: int

    @property
    def bytes_touched(self) -> NDArray[np.int64]:
        first = np.unique(self.rows[self.active])
        return np.unique(first[:, None] + np.arange(self.size))


def tile_causes(trace: Trace, arch: Architecture, excess: Mapping[int, int]) -> list[Cause]:
    """The best layout for each tile with conflicts, and for all of them together; `excess` is by instruction."""
    found: list[tuple[Cause, Relaid]] = []
    for touching in _tiles(trace, arch):
        if not any(excess.get(touches.index) for touches in touching):
            continue
        made = _best(touching, trace, arch)
        if made is not None:
            found.append(made)
    causes = [cause for cause, _ in found]
    if len(found) > 1:
        edit = Edit(relaid=tuple(relaid for _, relaid in found))
        labels = ", ".join(dict.fromkeys(relaid.layout.label(relaid.tile) for _, relaid in found))
        simulated = f"every tile in its best layout: {labels}"
        causes.append(Cause("tiles", _RULE, simulated, "use these layouts", edit, title="Layouts of all tiles"))
    return causes


def _tiles(trace: Trace, arch: Architecture) -> Iterator[list[_Touches]]:
    """The instructions of each tile, with tiles in the order of their addresses."""
    touching = list(_shared_accesses(trace, BankGeometry.of(arch)))
    spans = [t.bytes_touched for t in touching]
    owner = np.full(max((int(s.max()) + 1 for s in spans if len(s)), default=0), -1)
    group = list(range(len(touching)))

    def root(n: int) -> int:
        while group[n] != n:
            n = group[n]
        return n

    for number, span in enumerate(spans):
        for other in np.unique(owner[span]).tolist():
            if other >= 0:
                group[root(other)] = root(number)
        owner[span] = number
    ends: dict[int, tuple[int, int]] = {}
    for number, span in enumerate(spans):
        if len(span):
            low, high = ends.get(root(number), (int(span[0]), int(span[-1])))
            ends[root(number)] = min(low, int(span[0])), max(high, int(span[-1]))
    # Overlapping tiles are one tile, of which no single instruction touches all.
    merged: list[tuple[int, list[int]]] = []
    for tile, (low, high) in sorted(ends.items(), key=lambda item: item[1]):
        if merged and low <= merged[-1][0]:
            last, members = merged[-1]
            merged[-1] = max(last, high), [*members, tile]
        else:
            merged.append((high, [tile]))
    for _, members in merged:
        yield [t for n, t in enumerate(touching) if len(spans[n]) and root(n) in members]


def _shared_accesses(trace: Trace, geometry: BankGeometry) -> Iterator[_Touches]:
    rows_of: dict[int, list[NDArray[np.int32]]] = {}
    carries = np.zeros(len(trace.code), dtype=np.bool_)
    for index in np.unique(np.concatenate([warp.path for warp in trace.warps])).tolist():
        carries[index] = trace.code[index].accesses_memory
    for warp in trace.warps:
        indices = warp.path[carries[warp.path]]
        for index in np.unique(indices).tolist():
            rows_of.setdefault(index, []).append(warp.rows[indices == index])
    for index in sorted(rows_of):
        known = _kind_and_width(trace.code[index])
        if known is None:
            continue
        numbers = np.concatenate(rows_of[index])
        distinct = np.unique(numbers)
        lanes = geometry.group_of_lane(*known) >= 0
        active = trace.active[distinct] & lanes
        size = geometry.access_bytes(*known)
        yield _Touches(index, *known, size, trace.addresses[distinct], active, len(numbers))


def _kind_and_width(instruction: Instruction) -> tuple[AccessKind, int] | None:
    """The accesses of an instruction that names shared memory, None for others."""
    operation = instruction.operation
    if operation.row is Row.COPY:
        return AccessKind.COPY, operation.width_bits
    if operation.kind is not Kind.SHARED:
        return None
    try:
        return parse_op(instruction.opcode)
    except GpuemuError:
        return None


def _best(touching: list[_Touches], trace: Trace, arch: Architecture) -> tuple[Cause, Relaid] | None:
    """The tile's best layout. None if the search cannot judge its shape, or if plain rows are as good."""
    touched = np.unique(np.concatenate([t.bytes_touched for t in touching]))
    pitch = _pitch(touching)
    narrow = min(t.size for t in touching)
    matrices = any(t.kind.is_matrix for t in touching)
    element = "f16" if matrices or narrow == 2 else "u8" if narrow == 1 else "f32"
    size = {"f16": 2, "u8": 1, "f32": 4}[element]
    first = int(touched[0]) // 16 * 16
    columns, rest = divmod(pitch, size)
    if rest or not columns or any(((t.rows[t.active] - first) % size).any() for t in touching):
        return None
    tile = Tile(-(-(int(touched[-1]) + 1 - first) // pitch), columns, element)
    accesses = [_as_access(t, first, size, len(touching)) for t in touching]
    try:
        result = search(arch, tile, accesses)
    except GpuemuError:
        return None
    best, plain = result.best, result.plain
    if plain is None or best.total_wavefronts >= plain.total_wavefronts:
        return None

    def relaid(of: Candidate) -> Relaid:
        return Relaid(first, tile, of.layout, frozenset(t.index for t in touching))

    where = f"for the {described(tile)} at shared byte {first}"
    more = best.operations - plain.operations
    operations = f"{more} more operation{'s' * (more != 1)} per address" if more > 0 else "no more operations"
    bytes_more = (best.layout.allocated(tile) - tile.elements) * tile.element_bytes
    memory = f"{bytes_more:,} more bytes per block, " if bytes_more else ""
    advice, written = "use this layout", f"// {best.label}: {memory}{operations}\n"
    if more > 0:
        advice += f"; {operations} are not included"
    written += code(best.layout, tile).function
    chosen, padding = best, result.best_of(Padding.family)
    if type(best.layout) is Padding:
        written = _padded(best, tile)
    elif padding is not None and padding.total_wavefronts == best.total_wavefronts:
        was, padded = (_resident(replace(trace, launch=grown(trace, of)), arch) for of in ((), (relaid(padding),)))
        if padded == was:
            chosen = padding
            advice = f"use this layout, or {best.label} with {operations}"
            written = f"{_padded(padding, tile)}{written.replace('// ', '// or ', 1)}"
        else:
            advice += f"; {padding.label} would leave room for {padded} CTAs per SM instead of {was}"
    name, simulated = f"tile@{first:#x}", f"{chosen.label} {where}"
    title, edit = f"Layout of the tile at byte {first}", Edit(relaid=(relaid(chosen),))
    return Cause(name, _RULE, simulated, advice, edit, code=written, title=title), relaid(chosen)


def described(tile: Tile) -> str:
    """A tile in words: `16x16 f16 tile`."""
    return f"{str(tile).replace(':', ' ')} tile"


def _padded(chosen: Candidate, tile: Tile) -> str:
    """C++: the declaration of padded rows."""
    assert isinstance(chosen.layout, Padding)
    size, rows = tile.element_bytes, f"[{tile.columns} + {chosen.layout.elements}]"
    kind = {1: "char", 2: "half", 4: "float"}[size]
    costs = (chosen.layout.allocated(tile) - tile.elements) * size
    return f"{kind} tile[{tile.rows}]{rows};  // {costs:,} more bytes per block\n"


def _resident(trace: Trace, arch: Architecture) -> int:
    """The number of CTAs that fit on the SM; 0 if none fits."""
    try:
        return min(residency(trace, arch).values())
    except GpuemuError:
        return 0


def _as_access(touches: _Touches, first: int, size: int, instructions: int) -> TileAccess:
    most = max(1, MOST_EXECUTIONS // instructions)
    rows, active = touches.rows, touches.active
    if len(rows) > most:
        chosen = np.arange(most) * len(rows) // most
        rows, active = rows[chosen], active[chosen]
    elements = np.where(active, (rows - first) // size, 0)
    times = max(1, round(touches.times / len(rows)))
    return TileAccess("", "", touches.kind, touches.width, elements, active, times)


def _pitch(touching: list[_Touches]) -> int:
    """The bytes of a row: the greatest common divisor of the steps between neighboring lanes, except to the next
    vector.
    """
    found = 0
    for touches in touching:
        for row, active in zip(touches.rows[:MOST_EXECUTIONS], touches.active[:MOST_EXECUTIONS], strict=True):
            phase = 8 if touches.kind.is_matrix else LANES
            for start in range(0, LANES, phase):
                lanes = row[start : start + phase][active[start : start + phase]]
                runs = lanes[np.append(True, np.diff(lanes) != touches.size)] if len(lanes) else lanes
                for step in np.unique(np.abs(np.diff(runs))).tolist():
                    found = gcd(found, step)
    return found if found >= 8 else LANES * 4
