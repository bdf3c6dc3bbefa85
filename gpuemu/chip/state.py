"""The state of a simulated launch: the steps of a CTA, where data lie, and the places for CTAs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuemu.chip.events import Queue
from gpuemu.chip.memory import Chip, Floats, Ints, MemoryUnits


class Steps(NamedTuple):
    """The steps of a CTA. Warp w has the steps `first[w]` to `first[w + 1]` and begins `start[w]` cycles after the CTA.

    `wait`: cycles that pass in any case before the step. `issue`: cycles for which they occupy the sub-core
    `sub_core[w]` in the first place of an SM, and as many further ones on as warps are before it in other places.
    `stage`: cycles of the data stage. `at`: the number of a request or a meeting, or the cycles of the end.
    Request r is for the lines `line_of[r]` to `line_of[r + 1]`, `lead[r]` cycles after its step; `stores[r]`: whether
    it stores. Its reply is an arrival at `meets[r]`, if that is not -1. A meeting needs `arrivals[m]`. A product is a
    request without lines: it keeps the tensor core for `takes[r]` cycles, and its sums are there `lead[r]` cycles after
    its turn.

    A line has its address, a bit for each sector, the sectors sent, the sectors of its mask (for a load: 1 if it
    does not merge), the cycles of its atomics in
    L2, the number of its move, its turn in it, and the fraction of the CTA's loads or stores before it. `tail`: cycles
    from the end of the last warp to that of the CTA.
    """

    first: Ints
    start: Ints
    sub_core: Ints
    wait: Floats
    issue: Floats
    stage: Floats
    kind: Ints
    at: Ints
    line_of: Ints
    lead: Ints
    stores: Ints
    meets: Ints
    takes: Ints
    arrivals: Ints
    address: Ints
    mask: Ints
    sent: Ints
    masks: Ints
    serial: Floats
    move: Ints
    turn: Ints
    before: Floats
    tail: int


class Moves(NamedTuple):
    """Where the data of each CTA lie, as the distance from those of the CTA with the steps.

    It is `far[of[m] + n]` for CTA n in move m, or, for copies known one by one, `far[of[m] + n * turns[m] + turn]`.
    Addresses wrap around in a buffer: `begin` and `length` of each move. `work`, `loads`, `stores`: each CTA's fraction
    of the instructions, loads and stores of the steps.
    """

    far: Ints
    of: Ints
    turns: Ints
    begin: Ints
    length: Ints
    work: Floats
    loads: Floats
    stores: Floats


class Places(NamedTuple):
    """The places for CTAs on all SMs: the steps of their warps, the replies to their requests, and their meetings.

    `order`: the SM of each of the first CTAs, one for each place. `taken`: CTAs of each SM so far. `on`: the CTA of a
    place; `live`: its warps that have not ended; `ends`: the cycle of its last effect. `next`: the step of each warp;
    `parked`: the meeting that it waits for, or -1. A warp that waits for its sub-core `wants` it for so many cycles,
    and its other work is done at `ready`; the warp with the least `rank` is next. `in_line`: how many warps wait for
    each sub-core. Each sub-core has an equal part of `line`, with these warps in front.
    """

    on: Ints
    live: Ints
    ends: Floats
    next: Ints
    order: Ints
    taken: Ints
    parked: Ints
    wants: Floats
    ready: Floats
    rank: Ints
    in_line: Ints
    line: Ints
    reply: Floats
    missing: Ints
    met: Floats


class Simulation(NamedTuple):
    """Everything that `run` reads and changes. `marks`: numbers of CTAs after whose end `counts` are kept in `kept`.

    `first`: the first CTA of an earlier launch that only leaves its lines in L2, or -1.
    """

    steps: Steps
    moves: Moves
    chip: Chip
    memory: MemoryUnits
    places: Places
    queue: Queue
    marks: Ints
    kept: Floats
    first: int


LONG = 2048
"""Numbers above which an array is not copied."""


def as_lists(part: Any) -> Any:
    """Return the numbers in lists, because plain Python reads those faster.

    Long arrays, such as those of the lines of L2, stay where they are, because copying them takes longer than most
    launches.
    """
    if isinstance(part, np.ndarray):
        return memoryview(part) if part.size > LONG else part.tolist()  # type: ignore[arg-type]
    if isinstance(part, tuple):
        return type(part)(*(as_lists(one) for one in part)) if hasattr(part, "_fields") else part
    return part
