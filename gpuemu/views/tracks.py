"""Tracks beside the warps: mbarriers with the copies to them and the waits at them, and warpgroups with their products.

    full 0      CCCCCCCCCC|wwwwCCCCCCC|
    wgmma 4-7              PPPPPP   PPPPP

Each track has spans of cycles: `copy` while a copy to the mbarrier is under way, `wait` while a warp waits there,
`over` for the cycle in which a phase ends, and `product` from a group's first product to the end of its last.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuemu.views.pipeline import WARPGROUP, BarrierHistory, Ring
from gpuemu.views.result import Result

SIGNS = {"copy": "C", "wait": "w", "product": "P", "over": "|"}
"""The characters of the spans; later ones are drawn on top."""


class Span(NamedTuple):
    """The cycles from `start` up to `stop`, with their kind and a few words about them."""

    start: int
    stop: int
    kind: str
    text: str


class Track(NamedTuple):
    """A track: its name, its CTA, and its spans in order."""

    name: str
    cta: int
    spans: tuple[Span, ...]


def tracks(result: Result) -> list[Track]:
    """The tracks of a run, CTA by CTA; none if nothing is asynchronous."""
    pipeline, program = result.pipeline, result.program
    found: list[Track] = []
    numbers: dict[tuple[int, str], int] = {}
    for ring in pipeline.rings:
        for barrier in ring.barriers:
            number = numbers[barrier.cta, ring.name] = numbers.get((barrier.cta, ring.name), -1) + 1
            found.append(Track(f"{ring.name} {number}", barrier.cta, _spans(result, ring, barrier)))
    stores = [c for c in pipeline.copies if c.barrier < 0]
    for cta in range(program.ctas):
        first, last = (
            int(program.first_issue[program.first_warp[cta]]),
            int(program.first_issue[program.first_warp[cta + 1]]),
        )
        mine = [c for c in stores if first <= c.issue < last]
        if mine:
            spans = (Span(c.start, c.stop, "copy", f"{c.bytes:,} bytes") for c in mine)
            found.append(Track("stores", cta, tuple(spans)))
        by_warp: dict[int, list[Span]] = {}
        for product in pipeline.products:
            if program.first_warp[cta] <= product.warp < program.first_warp[cta + 1]:
                span = Span(product.start, product.stop, "product", f"{product.many} products")
                by_warp.setdefault(product.warp, []).append(span)
        for warp, of in by_warp.items():
            number = int(program.warp_number[warp])
            found.append(Track(f"wgmma {number}-{number + WARPGROUP - 1}", cta, tuple(of)))
    return sorted(found, key=lambda track: track.cta)


def _spans(result: Result, ring: Ring, barrier: BarrierHistory) -> tuple[Span, ...]:
    program = result.program
    first, last = (int(program.first_issue[program.first_warp[barrier.cta + k]]) for k in (0, 1))
    spans = [
        Span(c.start, c.stop, "copy", f"{c.bytes:,} bytes")
        for c in result.pipeline.copies
        if c.barrier == barrier.number and first <= c.issue < last
    ]
    ended = {over: "a copy" if over.copy else "an arrival" for over in barrier.over}
    spans += [Span(w.start, w.stop, "wait", f"for phase {w.phase}") for w in barrier.waits if w.stop > w.start]
    spans += [Span(o.cycle, o.cycle + 1, "over", f"phase {k} by {ended[o]}") for k, o in enumerate(barrier.over)]
    return tuple(sorted(spans))


def drawn(track: Track, start: int, stop: int, each: int) -> str:
    """The track as a row of text for a window, with `each` cycles per column."""
    row = [" "] * -(-(stop - start) // each)
    for span in sorted(track.spans, key=lambda s: [*SIGNS].index(s.kind)):
        if span.start < stop and span.stop > start:
            left, right = (max(span.start, start) - start) // each, (min(span.stop, stop) - 1 - start) // each
            row[left : right + 1] = SIGNS[span.kind] * (right + 1 - left)
    return "".join(row).rstrip()
