"""Two results side by side, as `gpuemu diff v4_ldmatrix v5_swizzle --arch sm_89` prints them, cut short here

    A  v4_ldmatrix on sm_89
    B  v5_swizzle on sm_89

                                                    A          B      B - A   B / A
    cycles                                        851        835        -16   0.981
    warp_instructions                              50         54         +4   1.080
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
                                                    8          0         -8   0.000

Only numbers that differ are shown, unless all are asked for; the cycles always are. A name that is too long for its
column has a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

WIDTH = 80
_NAME, _NUMBERS = 37, 43
"""Columns for a name at least, where there is room, and for what stands behind it."""


def title_of(data: Mapping[str, Any]) -> str:
    """What the data of a result is called."""
    changes = "".join(f", {name}={value}" for name, value in data["overrides"].items())
    return f"{data['kernel']} on {data['arch']}{changes}"


def differing(a: Mapping[str, int], b: Mapping[str, int], everything: bool) -> list[str]:
    """The names to show of two sets of metrics."""
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
    """The lines, each with whether it is a heading, at most `columns` wide but for long names.

    `a` and `b` are metrics by name, `notes` those of the runs.
    """
    for name, title in (("A", title_a), ("B", title_b)):
        for line in wrap(title, columns, initial_indent=f"{name}  ", subsequent_indent="   ", break_on_hyphens=False):
            yield False, line
    for note in notes:
        for line in wrap(note, columns, break_on_hyphens=False):
            yield False, line
    yield False, ""
    shown = differing(a, b, everything)
    room = min(max(_NAME, *map(len, shown)), columns - _NUMBERS)
    yield True, f"{'':{room}}{'A':>12}{'B':>11}{'B - A':>11}{'B / A':>8}"
    for name in shown:
        left, right = a.get(name, 0), b.get(name, 0)
        ratio = f"{right / left:8.3f}" if left else ""
        if len(name) > room:
            yield False, name
        yield False, f"{name if len(name) <= room else '':{room}}{left:12}{right:11}{right - left:+11}{ratio}"
    if len(shown) == 1 and a == b:
        yield False, "All numbers are equal."
