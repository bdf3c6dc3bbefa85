"""A run in a notebook: the tables of the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu.base.html import paragraph
from gpuemu.base.table import Bar, Table, number, words
from gpuemu.views.bounds import Bound
from gpuemu.views.counters import RowCounts

LEAST_SHARE = 0.01
"""The least share of the cycles at which a resource has a row."""


def summary(
    title: str,
    cycles: int,
    instructions: int,
    shared_memory: Mapping[str, RowCounts],
    stalls: Mapping[str, int],
    bounds: Sequence[Bound],
    notes: Sequence[str] = (),
) -> str:
    """HTML with the cycles, the notes, the shared-memory table, stall reasons and bounds."""
    rate = instructions / cycles if cycles else 0.0
    used = [(row, counts) for row, counts in shared_memory.items() if counts.instructions]
    total = sum(stalls.values())
    parts = [
        paragraph(title, strong=True),
        paragraph(f"{cycles:,} cycles, {instructions:,} warp instructions, {rate:.2f} per cycle"),
        *map(paragraph, notes),
    ]
    if used:
        heads = ("Instructions", "Wavefronts", "Ideal", "Bank conflicts")
        rows = [(name, c.instructions, c.wavefronts, c.ideal_wavefronts, c.bank_conflicts) for name, c in used]
        parts.append(Table([words("Shared memory"), *map(number, heads)], rows).html())
    ranked = sorted(((name, stalled) for name, stalled in stalls.items() if stalled), key=lambda item: -item[1])
    shares = [(name, stalled, Bar(stalled / total)) for name, stalled in ranked]
    columns = [words("Reason"), number("Cycles"), words("% of all warps")]
    parts.append(Table(columns, shares, title="Stall reasons, cycles of all warps").html())
    tight = [b for b in bounds if b.cycles and b.cycles >= LEAST_SHARE * cycles]
    alone = [(b.resource, b.cycles, Bar(b.cycles / cycles)) for b in tight]
    columns = [words("Resource"), number("Cycles"), words("% of cycles")]
    parts.append(Table(columns, alone, title="Lower bound per resource").html())
    return "".join(parts)
