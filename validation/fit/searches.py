"""Which parameters are searched for, on which microbenchmarks, among which values."""

from __future__ import annotations

from collections.abc import Iterable

from validation.corpus.tensor import MODES
from validation.fit.searching import Search

_INTERVALS = {
    "integer": ("iadd3", "lop3", "shf", "prmt"), "ffma": ("fadd", "fmul"),
    "mufu": ("mufu_ex2", "mufu_lg2", "mufu_rsq"), "conversion": ("f2i", "frnd"),
}  # fmt: skip
"""Units of the corpus whose rate shows the issue interval of a class.

Classes whose loops are off for another reason are missing, because a search would put that into the interval. Loops of
IMAD by two and four warps a sub-core are emulated 6 to 8 % too long with 1 and 14 to 19 % with 2; with 1 the whole
kernels that a fit may see are farther off, 1.26 % instead of 1.14 %. Those of IMAD.WIDE and of halves take turns with
other pipes (DEVIATIONS.md: WIDE, HALF). Those of float64 are to a cycle or two the same with 1 and 2.
"""

_QUEUED = ("lds32", "lds128", "sts32", "sts128", "ldsm4", "shfl")


_BY_SEARCH_ALONE = (
    ("operations.reduction.latency_cycles", "lat_redux_16 lat_redux_min_16", range(30, 47)),
    ("global_memory.store_bytes_per_cycle", "rate_stg128_w4 rate_stg128_w8 rate_stg128_w16", (8, 16, 24, 32, 48, 64)),
)  # fmt: skip
"""Parameter, kernels, values. Address arithmetic is part of each step of these chains, so no difference of two yields
the latency alone; a replay has the same arithmetic in it. L1's is not among them: its chain has an IMAD.WIDE at each
step, for which the hardware takes longer (DEVIATIONS.md: WIDE), and the search would put that into L1; nor is L2's,
whose chain knows one line, and each line has its own distance; nor the bandwidth, which loads of many warps do not tell
while they are late for another reason (both DEVIATIONS.md: L2MANY). The interval of REDUX is of one warp, and loops of
many show the unit that all sub-cores share; the loads of `mio.pool_entries` were counted, sequence by sequence."""


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split("."))


def _search(dotted: str, kernels: str, candidates: Iterable[int]) -> Search:
    return Search(_path(dotted), tuple(kernels.split()), tuple(candidates))


def searches() -> list[Search]:
    """All of them, in the order in which they take turns."""
    made = []
    for name, units in _INTERVALS.items():
        kernels = tuple(f"thr_{unit}_w{warps}" for unit in units for warps in (1, 4, 8, 16))
        candidates = tuple(range(1, 11)) if name in ("mufu", "conversion") else (1, 2, 3, 4, 5)
        made.append(Search(("operations", name, "issue_interval_cycles"), kernels, candidates))
    for mode in MODES:
        kernels = tuple(f"thr_mma_{mode.name}_a4_w{warps}" for warps in (1, 4, 8, 16))
        path = ("tensor_core", "operations", mode.name.replace("_", "."), "issue_interval_cycles")
        made.append(Search(path, kernels, tuple(range(2, 11))))
    shapes = ("w1", "w4", "w8", "w4_on_0")
    stored = tuple(f"rate_{what}_{shape}" for what in ("sts32_c1", "sts64_c1", "sts128_c1") for shape in shapes)
    loaded = tuple(f"rate_{what}_{shape}" for what in ("lds32_c1", "lds128_c1", "ldsm4") for shape in shapes)
    queued = tuple(f"queue_{what}_{shape}" for what in _QUEUED for shape in ("w1", "w4", "w2_on_0"))
    made += [_search(parameter, kernels, candidates) for parameter, kernels, candidates in _BY_SEARCH_ALONE]
    made += [
        Search(_path("mio.queue_entries"), queued, tuple(range(4, 17))),
        Search(_path("mio.minimum_dispatch_interval_cycles"), loaded, (1, 2, 3, 4)),
        Search(_path("mio.store_source_release_cycles"), stored, tuple(range(6, 17, 2))),
    ]
    return made
