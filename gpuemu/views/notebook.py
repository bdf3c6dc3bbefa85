"""A run as notebooks show it: the summary's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu.base.html import Bar, paragraph, table
from gpuemu.views.bounds import Bound
from gpuemu.views.counters import RowCounts

LEAST_SHARE = 0.01
"""Resources that would take less of the cycles are left out."""


def summary(
    title: str,
    cycles: int,
    instructions: int,
    shared_memory: Mapping[str, RowCounts],
    stalls: Mapping[str, int],
    bounds: Sequence[Bound],
    notes: Sequence[str] = (),
) -> str:
    """HTML with the cycles, what is to be said of them, the shared-memory table, stall reasons and bounds."""
    rate = instructions / cycles if cycles else 0.0
    used = [(row, counts) for row, counts in shared_memory.items() if counts.instructions]
    total = sum(stalls.values())
    parts = [
        paragraph(title, strong=True),
        paragraph(f"{cycles:,} cycles, {instructions:,} warp instructions, {rate:.2f} a cycle"),
        *map(paragraph, notes),
    ]
    if used:
        heads = ("Shared memory", "Instructions", "Wavefronts", "Ideal", "Bank conflicts")
        rows = [(name, c.instructions, c.wavefronts, c.ideal_wavefronts, c.bank_conflicts) for name, c in used]
        parts.append(table(heads, rows))
    ranked = sorted(((name, number) for name, number in stalls.items() if number), key=lambda item: -item[1])
    shares = [(name, number, Bar(number / total)) for name, number in ranked]
    parts.append(table(("Reason", "Cycles", "Of all"), shares, "Stall reasons, cycles of all warps"))
    tight = [b for b in bounds if b.cycles and b.cycles >= LEAST_SHARE * cycles]
    alone = [(b.resource, b.cycles, Bar(b.cycles / cycles)) for b in tight]
    parts.append(table(("Resource", "Cycles", "Of the run"), alone, "What each resource alone would take"))
    return "".join(parts)
