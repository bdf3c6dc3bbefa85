"""What asynchronous instructions of sm_90 do: of each execution an event, as whole numbers by name.

    0x0e40: {barrier: 16384, arrivals: 1, bytes: 8192}
    0x0e60: {barrier: 16384, bytes: 8192, shared: 8192, global: 8192*i, line: 128, count1: 64, pitch1: 1024, map: 256}
    0x0e80: {barrier: 16384, parity: i & 1}

Of an mbarrier (SYNCS, ARRIVES): its byte in shared memory, how many `arrivals` it is initialised for or gets, the
`bytes` that are to come or have, the `parity` of the phase that is waited for; `count1` of them `pitch1` apart.

Of a bulk or tensor copy: the mbarrier that it tells, its `bytes`, where they begin in `shared` memory, and those in
global memory: lines of `line` bytes, the first at `global`, `count1` of them `pitch1` bytes apart, `count2` of such
planes, and so on, only what is inside the array. `swizzle` and `map`, its tensor map's address, are a tensor copy's.

Of a cluster: what the same operation of other CTAs brings to an mbarrier of this one, `other_arrivals` and
`other_bytes` at `other_barrier`. A replay of one CTA takes the others to be where it is itself.

Of a NANOSLEEP: for how many `nanoseconds` its warp asks, -1 where the predicate of every lane is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 4
"""Beyond that of a line."""
DEFAULTS = {
    "barrier": -1, "arrivals": 0, "bytes": 0, "parity": -1, "shared": -1, "global": -1, "line": 0, "swizzle": 0,
    "map": -1, "other_barrier": -1, "other_arrivals": 0, "other_bytes": 0,
    **{f"{name}{k + 1}": value for k in range(DIMENSIONS) for name, value in (("count", 1), ("pitch", 0))},
    "nanoseconds": 0,
}  # fmt: skip
"""The numbers of an event, and what those are that are not given."""
FIELDS = tuple(DEFAULTS)
ELSEWHERE = -2
"""In place of a barrier: only another CTA's hears of it."""
NONE = -1
"""In place of an event's number: of that execution there is none."""
AWAKE = -1
"""In place of nanoseconds: no lane sleeps."""
Events = NDArray[np.int64]
"""[events, FIELDS]."""


def event(**given: int) -> tuple[int, ...]:
    """An event's numbers in the order of FIELDS."""
    return tuple({**DEFAULTS, **given}.values())


def table(rows: Sequence[tuple[int, ...]]) -> Events:
    """Events as a trace has them."""
    return np.array(rows, np.int64).reshape(-1, len(FIELDS))


def told(numbers: Mapping[str, int]) -> dict[str, int]:
    """Of an event's numbers those that differ from what they are if none is given."""
    return {name: number for name, number in numbers.items() if number != DEFAULTS[name]}
