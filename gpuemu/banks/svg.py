"""Draw an access as SVG: a row for each wavefront, a column for each bank, and the lane in the cell.

Cells have the color of their bank. `5+` means lane 5 and others that share its word; the cell's tooltip lists them. The
numbers of wavefronts beyond the ideal are red.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

CELL, LEFT, TOP = 24, 108, 68
Wavefront = Sequence[tuple[int, int, int]]
"""The words that a wavefront serves: lane, word, bank."""


def as_svg(
    title: str, counts: str, banks: int, bank_width_bytes: int, phases: Sequence[tuple[int, Sequence[Wavefront]]]
) -> str:
    """Draw the picture. A phase is its ideal and its wavefronts; `title` and `counts` are the lines above the cells."""
    rows = [
        (number if turn == 0 else None, turn >= ideal, wavefront)
        for number, (ideal, served) in enumerate(phases)
        for turn, wavefront in enumerate(served)
    ]
    wide, high = LEFT + CELL * banks + 8, TOP + CELL * max(1, len(rows)) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'role="img" font-family="monospace" font-size="11" text-anchor="middle" style="background:#fff">',
        f"<title>{escape(title)}: {escape(counts)}</title>",
        f'<rect width="{wide}" height="{high}" fill="#fff"/>',
        f'<text x="8" y="18" font-size="13" text-anchor="start" font-weight="bold">{escape(title)}</text>',
        f'<text x="8" y="36" text-anchor="start">{escape(counts)}</text>',
        f'<text x="{LEFT}" y="{TOP - 18}" text-anchor="start">bank</text>',
        f'<text x="4" y="{TOP - 6}" text-anchor="start">phase wavefront</text>',
    ]
    out += [f'<text x="{LEFT + CELL * bank + CELL / 2:g}" y="{TOP - 6}">{bank}</text>' for bank in range(banks)]
    for row, (number, excess, wavefront) in enumerate(rows):
        y = TOP + CELL * row
        if number is not None:
            out.append(f'<text x="24" y="{y + 16}">{number}</text>')
        colour = ' fill="#b42318"' if excess else ""
        out.append(f'<text x="{LEFT - 12}" y="{y + 16}" text-anchor="end"{colour}>{row + 1}</text>')
        out += _cells(wavefront, banks, bank_width_bytes, y)
    return "\n".join([*out, "</svg>", ""])


def _cells(wavefront: Wavefront, banks: int, width: int, y: int) -> Iterator[str]:
    at: dict[tuple[int, int], list[int]] = {}
    for lane, word, bank in wavefront:
        at.setdefault((bank, word), []).append(lane)
    for (bank, word), lanes in at.items():
        x, label = LEFT + CELL * bank, f"{lanes[0]}+" if len(lanes) > 1 else str(lanes[0])
        who = f"lane{'s' * (len(lanes) > 1)} {', '.join(map(str, lanes))}"
        yield (
            f"<g><title>bank {bank}, byte {word * width}: {who}</title>"
            f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" rx="3" fill="{colour_of(bank, banks)}"/>'
            f'<text x="{x + CELL / 2:g}" y="{y + 16}">{label}</text></g>'
        )


def colour_of(bank: int, banks: int) -> str:
    """Return a light color for each bank, spread over the circle of hues."""
    return f"hsl({360 * bank // banks},75%,82%)"
