"""The effects of sm_90's asynchronous instructions: one event per execution, as whole numbers by name.

    0x0e40: {barrier: 16384, arrivals: 1, bytes: 8192}
    0x0e60: {barrier: 16384, bytes: 8192, shared: 8192, global: 8192*i, line: 128, count1: 64, pitch1: 1024, map: 256}
    0x0e80: {barrier: 16384, parity: i & 1}

An event of an mbarrier (SYNCS, ARRIVES) has its byte address in shared memory, the `arrivals` that initialize it or
arrive, the `bytes` that it expects or receives, and the `parity` of the phase to wait for. `count1` mbarriers are
`pitch1` bytes apart.

An event of a bulk or tensor copy has the mbarrier that it signals, its `bytes`, and their start in `shared` memory. In
global memory, they are lines of `line` bytes, the first at `global`. `count1` lines are `pitch1` bytes apart, `count2`
such planes `pitch2` bytes apart, and so on, limited to the inside of the array. Only a tensor copy has `swizzle` and
`map`, the address of its tensor map.

An event in a cluster also has the effects of other CTAs' same operation on an mbarrier of this CTA: `other_arrivals`
and `other_bytes` at `other_barrier`. A replay of one CTA assumes that the others execute in step with it.

An event of a tcgen05.mma (UTCHMMA and its relatives) has the instruction descriptor as its `descriptor`.

An event of a NANOSLEEP has the `nanoseconds` that its warp requests, or -1 if the predicate of every lane is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 4
"""Dimensions beyond that of a line."""
DEFAULTS = {
    "barrier": -1, "arrivals": 0, "bytes": 0, "parity": -1, "shared": -1, "global": -1, "line": 0, "swizzle": 0,
    "map": -1, "other_barrier": -1, "other_arrivals": 0, "other_bytes": 0,
    **{f"{name}{k + 1}": value for k in range(DIMENSIONS) for name, value in (("count", 1), ("pitch", 0))},
    "nanoseconds": 0, "descriptor": -1,
}  # fmt: skip
"""The numbers of an event, with their default values."""
FIELDS = tuple(DEFAULTS)
ELSEWHERE = -2
"""Replaces the barrier if only another CTA's barrier is signaled."""
NONE = -1
"""Replaces an event's number if the execution has no event."""
AWAKE = -1
"""Replaces nanoseconds if no lane sleeps."""
Events = NDArray[np.int64]
"""Array [events, FIELDS]."""


def event(**given: int) -> tuple[int, ...]:
    """Return an event's numbers in the order of FIELDS."""
    return tuple({**DEFAULTS, **given}.values())


def table(rows: Sequence[tuple[int, ...]]) -> Events:
    """Return events as a trace stores them."""
    return np.array(rows, np.int64).reshape(-1, len(FIELDS))


def told(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of an event that differ from their defaults."""
    return {name: number for name, number in numbers.items() if number != DEFAULTS[name]}
