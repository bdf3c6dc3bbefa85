"""Two results side by side, as `gpuemu diff v4_ldmatrix v5_swizzle --arch sm_89` prints them, cut short here

    A  v4_ldmatrix on sm_89
    B  v5_swizzle on sm_89

    Figure                                                      A    B  B - A  B / A
    cycles                                                    708  698    -10  0.986
    warp_instructions                                          50   54     +4  1.080
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum    8    0     -8  0.000

Without `everything`, only the cycles and the numbers that differ are shown. A name that is too long for its column has
a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from gpuemu.base.table import Table, number, words

WIDTH = 100


def title_of(data: Mapping[str, Any]) -> str:
    """The title of a result's data."""
    changes = "".join(f", {name}={value}" for name, value in data["overrides"].items())
    return f"{data['kernel']} on {data['arch']}{changes}"


def differing(a: Mapping[str, int], b: Mapping[str, int], everything: bool) -> list[str]:
    """The names of two sets of metrics that are shown."""
    names = list(dict.fromkeys([*a, *b]))
    return [n for n in names if everything or n == "cycles" or a.get(n, 0) != b.get(n, 0)]


def lines(
    title_a: str,
    title_b: str,
    a: Mapping[str, int],
    b: Mapping[str, int],
    everything: bool,
    notes: Sequence[str] = (),
    columns: int = WIDTH,
) -> Iterator[tuple[bool, str]]:
    """The lines, and whether each is a heading. Only lines with long names are more than `columns` wide.

    `a` and `b` are metrics by name; `notes` are the notes of the runs.
    """
    for name, title in (("A", title_a), ("B", title_b)):
        for line in wrap(title, columns, initial_indent=f"{name}  ", subsequent_indent="   ", break_on_hyphens=False):
            yield False, line
    for note in notes:
        for line in wrap(note, columns, break_on_hyphens=False):
            yield False, line
    yield False, ""
    shown = differing(a, b, everything)
    pairs = [(name, a.get(name, 0), b.get(name, 0)) for name in shown]
    rows = [(name, left, right, right - left, right / left if left else None) for name, left, right in pairs]
    heads = [
        words("Figure", spills=True),
        number("A"),
        number("B"),
        number("B - A", "+,"),
        number("B / A", ".3f", leaves=1),
    ]
    yield from ((style == "strong", line) for style, line in Table(heads, rows).lines(columns))
    if len(shown) == 1 and a == b:
        yield False, "All numbers are equal."
