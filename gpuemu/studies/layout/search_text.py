"""The result of a layout search for people and as data; docs/layouts.md shows whole reports and reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from string import ascii_lowercase
from textwrap import wrap
from typing import Any

from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.table import Cell, Style, Table, number, words
from gpuemu.studies.layout.bound import granules
from gpuemu.studies.layout.code import code
from gpuemu.studies.layout.layouts import Layout, Plain, Swizzle, VirtualThreads
from gpuemu.studies.layout.search import Candidate, SearchResult
from gpuemu.studies.layout.tile_picture import Cells, as_svg, cells, left_out, picture
from gpuemu.views.bank_picture import EXCESS, HEAD, PLAIN, SERVED, Line, Segment, segments

COLUMNS = 100
_NAMES = {
    "padding of rows": ("padding of rows", "paddings of rows"),
    "padding of blocks": ("padding of blocks", "paddings of blocks"),
    "XOR swizzle": ("XOR swizzle", "XOR swizzles"),
    "diagonal": ("diagonal", "diagonals"),
    "virtual threads": ("factor of virtual threads", "factors of virtual threads"),
}
"""The families besides plain rows, in singular and plural, in the order of their names in texts."""


def _line(text: str = "", style: str = PLAIN) -> Line:
    return [Segment(text, style)]


def _wrapped(text: str, columns: int, style: str = PLAIN) -> list[Line]:
    return [_line(row, style) for row in wrap(text, columns, subsequent_indent="    ")]


def report(result: SearchResult, hardware: str, top: int = 10, columns: int = COLUMNS) -> list[Line]:
    """The whole report: the request, the proof, the ranking, and the winner as code and as a picture."""
    tile, geometry = result.tile, result.geometry
    lines = [
        _line(f"{tile} on {hardware}", HEAD),
        _line(
            f"{tile.bytes} bytes in rows of {tile.columns * tile.element_bytes}; "
            f"{geometry.banks} banks of {geometry.bank_width_bytes} bytes"
        ),
        _line(),
        *_accesses(result, columns),
        _line(),
        *_proof(result, columns),
        _line(),
        *_ranking(result, top, columns),
        _line(),
        *_code(result, columns),
    ]
    pictures, piece = _pictures(result)
    if not isinstance(result.best.layout, VirtualThreads):
        which = "first bank" if piece * tile.element_bytes > geometry.bank_width_bytes else "bank"
        holds = f"piece of {piece} elements" if piece > 1 else "element"
        title = f"The {which} of each {holds} ({piece * tile.element_bytes} bytes), by row and column"
        lines += [_line(), *_wrapped(title, columns, HEAD)]
        lines += picture(geometry, pictures, piece, columns)
        if rest := left_out(pictures):
            lines.append(_line(rest))
    return lines


def _accesses(result: SearchResult, columns: int) -> list[Line]:
    plain = result.plain
    heads = [
        words(""), words("Access"), number("Instruction"), number("Instructions per pass", leaves=1), number("Passes"),
        number("Minimum"), *([number("Plain rows")] if plain else []),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            _letter(n), access.text, access.op, access.instructions, access.times, result.fewest[n],
            *([plain.wavefronts[n]] if plain else []),
        ]
        for n, access in enumerate(result.accesses)
    ]  # fmt: skip
    total: list[Cell] = ["", "Total wavefronts", None, None, None, result.lower_bound]
    return segments(Table(heads, [*rows, total + ([plain.total_wavefronts] if plain else [])]).lines(columns))


def _letter(n: int) -> str:
    return ascii_lowercase[n] if n < 26 else str(n + 1)


def _families(numbers: Mapping[str, int]) -> list[str]:
    return [
        f"{numbers[family]} {names[numbers[family] > 1]}" for family, names in _NAMES.items() if numbers.get(family)
    ]


def _proof(result: SearchResult, columns: int) -> list[Line]:
    """The candidates that were tried, and what they prove."""
    tried = ["plain rows"] * (result.plain is not None) + _families(result.tried)
    block = f" (of a block of {result.threads})" if result.threads else ""
    lines = _wrapped(f"Tried: {', '.join(tried)}{block}.", columns)
    if refused := _families(result.refused):
        lines += _wrapped(f"Rejected (would split or misalign a vector): {', '.join(refused)}.", columns)
    bound, best, reached = result.lower_bound, result.best.total_wavefronts, len(result.reaching)
    swapped = min((c for c in result.candidates if c.lower_bound < bound), key=lambda c: c.lower_bound, default=None)
    text = f"Lower bound for any layout: {bound} wavefronts. "
    if best < bound and swapped is not None:
        text += f"Virtual threads change which elements meet in a warp: their bound is {swapped.lower_bound}."
    elif best == bound:
        text += f"{reached} of {len(result.candidates)} candidates reach it: optimal."
    else:
        text += f"None of {len(result.candidates)} candidates reaches it; the best has {best}."
    lines += _wrapped(text, columns, SERVED if best <= bound else EXCESS)
    if swapped is not None and best >= bound:
        lines += _wrapped(
            f"If threads changed places, the bound would be {swapped.lower_bound} ({swapped.label}).", columns
        )
    return lines


def _alike(result: SearchResult) -> list[list[Candidate]]:
    """The ranking; neighbors of one family that cost the same in every access are one group."""
    by = groupby(result.candidates, key=lambda c: (c.cost, c.wavefronts, c.layout.family))
    return [list(group) for _, group in by]


def _ranking(result: SearchResult, top: int, columns: int) -> list[Line]:
    groups = _alike(result)
    first = {group[0].layout.family: n for n, group in reversed(list(enumerate(groups)))}
    chosen = sorted({*range(min(top, len(groups))), *first.values()})
    letters = [_letter(n) for n in range(len(result.accesses))]
    heads = [
        number("Rank"), words("Layout"), number("Equivalent", leaves=2), number("Wavefronts"), *map(number, letters),
        number("Wasted bytes"), number("Operations", leaves=1),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    styles: list[Style] = []
    for before, n in zip([-1, *chosen], chosen, strict=False):
        if n != before + 1:
            rows.append(["...", *[None] * (len(heads) - 1)])
            styles.append("plain")
        best, *others = groups[n]
        alike, counts = len(others) or None, (best.total_wavefronts, *best.wavefronts)
        rows.append([best.rank, best.label, alike, *counts, best.bytes_lost, best.operations])
        styles.append("good" if best.total_wavefronts <= result.lower_bound else "plain")
    return segments(Table(heads, rows, styles).lines(columns))


def _spelling(name: str, text: str, columns: int) -> list[Line]:
    """A way to write the winner, under the others."""
    hang = " " * 17
    rows = wrap(text, columns - len(hang), break_long_words=False, break_on_hyphens=False)
    return [_line(f"  {name:15}{rows[0]}"), *(_line(hang + row) for row in rows[1:])]


def _code(result: SearchResult, columns: int) -> list[Line]:
    """The winner as C++, and as libraries write it."""
    tile, best = result.tile, result.best
    forms = code(best.layout, tile)
    size = best.allocated_bytes // tile.element_bytes
    lines = _wrapped(f"The winner, {best.label}, as code for `{tile.cpp_type} tile[{size}]`", columns, HEAD)
    lines += [_line(f"  {text}".rstrip()) for text in forms.function.splitlines()]
    if forms.bytes_function != forms.function:
        lines += [_line(f"  {text}") for text in forms.bytes_function.splitlines()]
    if forms.cute_swizzle:
        both = f"{forms.cute_swizzle} of elements, {forms.cute_swizzle_bytes} of bytes"
        lines += _spelling("CuTe <B,M,S>", both, columns)
    if forms.sbm:
        lines += _spelling("order S,B,M", f"{forms.sbm} of elements, {forms.sbm_bytes} of bytes", columns)
    if forms.cute_layout:
        lines += _spelling("CuTe", forms.cute_layout, columns)
    if alike := [c.layout for c in _alike(result)[0][1:]]:
        named = [x.label(tile) for x in alike if not isinstance(x, Swizzle) or x.in_cute][:3]
        rest = len(alike) - len(named)
        if rest:
            named.append(f"{rest} {'more' if named else 'that CuTe does not take'}")
        lines += _spelling("same cost", " and ".join([", ".join(named[:-1]), named[-1]][len(named) < 2 :]), columns)
    return lines


def _pictures(result: SearchResult) -> tuple[list[Cells], int]:
    """The tile with plain rows and with the winner's layout, and the elements of a piece.

    There is one picture only where the winner leaves the tile as it is.
    """
    tile, geometry = result.tile, result.geometry
    piece = max(granules(geometry, tile, result.accesses).bytes, geometry.bank_width_bytes) // tile.element_bytes
    while tile.columns % piece:
        piece //= 2
    layouts: list[Layout] = [Plain()]
    if not isinstance(result.best.layout, (Plain, VirtualThreads)):
        layouts.append(result.best.layout)
    return [cells(geometry, tile, layout, piece) for layout in layouts], piece


def svg(result: SearchResult) -> str:
    """The tile before and after as SVG."""
    pictures, piece = _pictures(result)
    return as_svg(result.geometry, pictures, piece)


def as_json(result: SearchResult, arch: str, overrides: dict[str, object]) -> dict[str, Any]:
    """The whole result, with every candidate from the best on."""
    geometry: BankGeometry = result.geometry
    return {
        "tile": {**asdict(result.tile), "bytes": result.tile.bytes},
        "arch": arch,
        "overrides": overrides,
        "banks": geometry.banks,
        "bank_width_bytes": geometry.bank_width_bytes,
        "accesses": [
            {
                "access": a.text,
                "op": a.op,
                "instructions": a.instructions,
                "passes": a.times,
                "fewest_wavefronts": fewest,
            }
            for a, fewest in zip(result.accesses, result.fewest, strict=True)
        ],
        "threads": result.threads,
        "lower_bound": result.lower_bound,
        "tried": dict(result.tried),
        "do_not_fit": dict(result.refused),
        "best": {"label": result.best.label, **code(result.best.layout, result.tile)._asdict()},
        "candidates": [_candidate(result, c) for c in result.candidates],
    }


def _candidate(result: SearchResult, c: Candidate) -> dict[str, Any]:
    return {
        "rank": c.rank,
        "family": c.layout.family,
        "label": c.label,
        "parameters": asdict(c.layout),
        "wavefronts": list(c.wavefronts),
        "total_wavefronts": c.total_wavefronts,
        "reaches_lower_bound": c.total_wavefronts <= result.lower_bound,
        "bytes_lost": c.bytes_lost,
        "operations": c.operations,
    }
