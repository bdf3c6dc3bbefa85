"""The searches: parameters, their microbenchmarks, and the values to try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from validation.corpus.tensor import MODES
from validation.fit.searching import Search

_INTERVALS = {
    "integer": ("iadd3", "lop3", "shf", "prmt"), "ffma": ("fadd", "fmul"), "imad": ("imad", "dp4a"),
    "imad_wide": ("imad_wide", "imad_hi"), "half": ("hfma2", "hadd2", "hmul2"),
    "mufu": ("mufu_ex2", "mufu_lg2", "mufu_rsq"), "conversion": ("f2i", "frnd"),
}  # fmt: skip
"""Units of the corpus whose rate shows the issue interval of a class.

For IMAD.WIDE and IMAD.HI the rate shows only that the interval is no longer than the four cycles of reading twice. An
interval below two would not be over before the second read. The file's value stays if it lies between.
"""

_SHAPES = ("w1", "w4", "w8", "w4_on_0")
_STORED = tuple(f"rate_{what}_{shape}" for what in ("sts32_c1", "sts64_c1", "sts128_c1") for shape in _SHAPES)
_LOADED = tuple(f"rate_{what}_{shape}" for what in ("lds32_c1", "lds128_c1", "ldsm4") for shape in _SHAPES)
_QUEUED = ("lds32", "lds128", "sts32", "sts128", "ldsm4", "shfl")
"""Access by access: the last of 16 completes when the data stage has passed it, however many could wait before."""
_POOLED = ("lds32c4", "lds32c8", "lds128", "ldsm4", "sts32c8")
"""One warp per sub-core, so that the order of warps does not matter: loops of many warps depend on it, and on the pool
by chance.
"""

_BY_SEARCH_ALONE = (
    ("operations.reduction.latency_cycles", "lat_redux_16 lat_redux_min_16", range(30, 47)),
    ("global_memory.store_bytes_per_cycle", "rate_stg128_w4 rate_stg128_w8 rate_stg128_w16", (8, 16, 24, 32, 48, 64)),
)  # fmt: skip
"""Parameter, kernels, values. Address arithmetic is part of each step of these chains, so no difference of two yields
the latency alone; a replay has the same arithmetic in it. L1's is not among them: its chain has an IMAD.WIDE at each
step, for which the hardware takes longer (DEVIATIONS.md: WIDE), and the search would put that into L1; nor is the
bandwidth, which loads of many warps do not tell while they are late for another reason (DEVIATIONS.md: L2MANY)."""


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split("."))


def _search(dotted: str, kernels: str, candidates: Iterable[int]) -> Search:
    return Search(_path(dotted), tuple(kernels.split()), tuple(candidates))


def searches() -> list[Search]:
    """All searches, in the order in which they take turns."""
    made = []
    for name, units in _INTERVALS.items():
        kernels = tuple(f"thr_{unit}_w{warps}" for unit in units for warps in (1, 4, 8, 16))
        most = 10 if name in ("mufu", "conversion") else 5
        candidates = tuple(range(2 if name == "imad_wide" else 1, most + 1))
        made.append(Search(("operations", name, "issue_interval_cycles"), kernels, candidates))
    for mode in MODES:
        kernels = tuple(f"thr_mma_{mode.name}_a4_w{warps}" for warps in (1, 4, 8, 16))
        path = ("tensor_core", "operations", mode.name.replace("_", "."), "issue_interval_cycles")
        made.append(Search(path, kernels, tuple(range(2, 11))))
    queued = tuple(f"queue_{what}_{shape}" for what in _QUEUED for shape in ("w1", "w4", "w2_on_0"))
    pooled = tuple(f"queue_{what}_{shape}" for what in _POOLED for shape in ("w1", "w2", "w4"))
    made += [_search(parameter, kernels, candidates) for parameter, kernels, candidates in _BY_SEARCH_ALONE]
    made += [
        Search(_path("mio.queue_entries"), queued, tuple(range(4, 17)), by_clocks=True),
        Search(_path("mio.pool_entries"), pooled, (6, 8, 10, 12, 13, 14, 15, 16, 18, 20, 24), by_clocks=True),
        Search(_path("mio.minimum_dispatch_interval_cycles"), _LOADED, (1, 2, 3, 4)),
        Search(_path("mio.store_source_release_cycles"), _STORED, tuple(range(6, 17))),
    ]
    return made


@dataclass(frozen=True)
class LeftOut:
    """A search whose kernels do not determine the value, and the reason; the note in the architecture file names the
    source.
    """

    search: Search
    why: str


def left_out() -> list[LeftOut]:
    """Searches that the suite has kernels for, without success.

    `tests/validation/test_fit.py` fails when one of them gives the file's value: it belongs to `searches` then.
    """
    return [
        LeftOut(
            _search(
                "operations.reduction.issue_interval_cycles",
                "thr_redux_w1 thr_redux_w4 thr_redux_w8 thr_redux_w16 thr_redux_w16_twice",
                range(1, 10),
            ),
            "one warp sends no two REDUX within 8 cycles, and all sub-cores share a unit that begins one every 2, "
            "which makes 8 for each",
        ),
        LeftOut(
            _search("global_memory.l2.latency_cycles", "lat_ldg_l2_8 lat_ldg_l2_16", range(210, 291, 4)),
            "the chain reads one line, and how far that one is cannot be known; the value is the nearest line's",
        ),
    ]
