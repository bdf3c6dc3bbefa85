"""Traces of some CTAs of a launch: those that are timed, and others of its sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuemu.trace.model import Trace, WarpTrace


def chosen_ctas(trace: Trace) -> list[int]:
    """CTAs to run: the timed ones and their followers, or, if CTAs are unequal, those of the busiest SM."""
    timed = list(dict.fromkeys(warp.cta for warp in trace.warps))
    sample = trace.sample
    if sample is None:
        return timed
    return list(sample.heaviest) or [*timed, *sample.followers]


def select_ctas(trace: Trace, ctas: list[int]) -> Trace:
    """The trace of these CTAs, which are timed or in the sample."""
    sample = trace.sample
    if sample is None or ctas == list(dict.fromkeys(warp.cta for warp in trace.warps)):
        return trace
    others = sample.others
    rows, events = np.int32(len(trace.addresses)), np.int32(0 if trace.events is None else len(trace.events))
    added = [
        replace(
            w, rows=w.rows + rows, events=None if w.events is None else np.where(w.events < 0, -1, w.events + events)
        )
        for w in others.warps
    ]
    of: dict[int, list[WarpTrace]] = {}
    for warp in (*trace.warps, *added):
        of.setdefault(warp.cta, []).append(warp)

    def both(name: str, missing: int, kind: type) -> Any:
        columns = [getattr(t, name) for t in (trace, others)]
        if all(column is None for column in columns):
            return None
        shapes = [t.active.shape for t in (trace, others)]
        return np.concatenate([
            np.full(shape, missing, kind) if column is None else column
            for column, shape in zip(columns, shapes, strict=True)
        ])  # fmt: skip

    return replace(
        trace, warps=tuple(warp for cta in ctas for warp in of[cta]), sample=None,
        addresses=np.concatenate([trace.addresses, others.addresses]),
        active=np.concatenate([trace.active, others.active]),
        spaces=both("spaces", 0, np.uint8), sources=both("sources", -1, np.int64),
        events=None if trace.events is None else np.concatenate([trace.events, others.events]),
    )  # fmt: skip
