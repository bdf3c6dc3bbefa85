"""The effects of asynchronous instructions, as columns: an event for each execution (see `gpuemu.trace.events`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpuemu.trace.events import DIMENSIONS, FIELDS, NONE
from gpuemu.trace.model import Trace, WarpTrace

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events, and the issues that they belong to.

    * `issue` [executions]: the issues of the program that are asynchronous instructions with an effect, in order.
    * `number` [executions]: the event of each.
    * `barrier[first_barrier[e] : first_barrier[e + 1]]`: the mbarriers that event e notifies, by numbers from 0 on.
    * `arrivals`, `bytes`, `parity`: as in the trace.
    * `lines`, `rows`: lines of global memory that a copy touches, and rows of shared memory, each as long as a
      wavefront.
    * `sectors`, `masks`: sectors that a copy moves, and how many of them in part.
    * `map`: the number of its tensor map, or -1.
    * `other`: the mbarrier of this CTA that the same operation of other CTAs of the cluster notifies, or -1, with
      `other_arrivals` and `other_bytes`.
    * `nanoseconds`: the time for which a warp sleeps.
    * `descriptor`: the instruction descriptor of a tcgen05.mma, or -1.
    """

    issue: Column
    number: Column
    first_barrier: Column
    barrier: Column
    arrivals: Column
    bytes: Column
    parity: Column
    lines: Column
    rows: Column
    sectors: Column
    map: Column
    masks: Column
    other: Column
    other_arrivals: Column
    other_bytes: Column
    nanoseconds: Column
    descriptor: Column

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def barriers(self) -> int:
        """The number of mbarriers of a CTA."""
        return int(max(self.barrier.max(initial=-1), self.other.max(initial=-1))) + 1

    @property
    def maps(self) -> int:
        """The number of tensor maps."""
        return int(self.map.max(initial=-1)) + 1


def lower_events(trace: Trace, warps: list[WarpTrace], arch: Architecture) -> Events:
    """The events of these warps, whose issues follow each other; None if the trace does not know them."""
    nothing = np.zeros(0, np.int64)
    table = np.zeros((0, len(FIELDS)), np.int64) if trace.events is None else trace.events
    column = dict(zip(FIELDS, table.T, strict=True))
    if trace.events is None or _unknown(column):
        return Events(nothing, nothing, np.zeros(1, np.int64), *(nothing,) * 14)
    has = np.array([i.has_events for i in trace.code], np.bool_)
    begins = np.cumsum([0, *(len(warp.path) for warp in warps)])
    issues = np.concatenate([begins[k] + np.flatnonzero(has[warp.path]) for k, warp in enumerate(warps)])
    numbers = np.concatenate([nothing, *(w.events for w in warps if w.events is not None)]).astype(np.int64)
    issues, numbers = issues[numbers != NONE], numbers[numbers != NONE]
    known = np.where(column["barrier"] >= 0, column["count1"] * (column["shared"] < 0) + (column["shared"] >= 0), 0)
    first = np.append(0, np.cumsum(known))
    place = np.arange(first[-1]) - first[:-1].repeat(known)
    barriers = column["barrier"].repeat(known) + place * column["pitch1"].repeat(known)
    lines, sectors, masks = _moved(column, arch)
    wide = arch.shared_memory.banks * arch.shared_memory.bank_width_bytes
    others = column["other_barrier"]
    places, known_barriers = np.unique(np.append(barriers, others[others >= 0]), return_inverse=True)
    maps = np.unique(column["map"][column["map"] >= 0])
    return Events(
        issue=issues, number=numbers, first_barrier=first, barrier=known_barriers[: len(barriers)],
        arrivals=column["arrivals"], bytes=column["bytes"], parity=column["parity"], lines=lines,
        rows=-(-column["bytes"] // wide), sectors=sectors,
        map=np.where(column["map"] >= 0, np.searchsorted(maps, column["map"]), -1),
        masks=masks, other=np.where(others >= 0, np.searchsorted(places, others), -1),
        other_arrivals=column["other_arrivals"], other_bytes=column["other_bytes"],
        nanoseconds=column["nanoseconds"], descriptor=column["descriptor"],
    )  # fmt: skip


def _unknown(column: dict[str, Column]) -> bool:
    """Whether there is an operation on mbarriers without a place in the trace."""
    placeless = (column["barrier"] == NONE) & (column["shared"] < 0) & (column["map"] < 0)
    return bool((placeless & (column["nanoseconds"] == 0) & (column["descriptor"] < 0)).any())


def _moved(column: dict[str, Column], arch: Architecture) -> tuple[Column, Column, Column]:
    """The lines and sectors of global memory of each event, each line of a box by itself, and the sectors in part."""
    copies = column["shared"] >= 0
    times = np.prod([column[f"count{k + 1}"] for k in range(DIMENSIONS)], axis=0) * copies
    start, last = column["global"], column["global"] + np.maximum(1, column["line"]) - 1
    touched = []
    for size in (arch.global_memory.l1.line_bytes, arch.global_memory.sector_bytes):
        touched.append(np.where(column["line"] > 0, (last // size - start // size + 1) * times, 0))
    size = arch.global_memory.sector_bytes
    whole = np.maximum(0, (last + 1) // size - -(-start // size))
    return touched[0], touched[1], np.where(column["line"] > 0, touched[1] - whole * times, 0)
