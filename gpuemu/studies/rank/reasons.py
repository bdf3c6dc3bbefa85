"""Why one configuration is faster than the next: the figure that differs most, in the direction of the times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

EQUAL = 0.01
"""Smaller relative differences are a tie. Uncertain hardware values move all configurations of a chip alike."""
TIE = "tie"
_TELLING = 0.04
"""The least relative difference of a figure that counts as a reason."""

Figures = Mapping[str, Any]

_COSTS: tuple[tuple[str, str, Callable[[Figures], float]], ...] = (
    ("spilled_bytes", "bytes of spilled registers per thread", lambda f: float(f["spilled_bytes"])),
    ("excess_wavefronts", "bank conflicts", lambda f: float(f["excess_wavefronts"])),
    ("l2_sectors", "sectors from L2", lambda f: float(f["l2_sectors"])),
    ("global_sectors", "global-memory sectors", lambda f: float(f["global_sectors"])),
    ("shared_wavefronts", "shared-memory wavefronts", lambda f: float(f["shared_wavefronts"])),
    ("instructions", "warp instructions", lambda f: float(f["instructions"])),
    ("idle", "idle places in the last wave", lambda f: 1 / f["busy_sms"]),
    ("warps", "warps on the SM", lambda f: 1 / max(1, f["warps"])),
)
"""Figures that cost time: the more, the slower."""


def reason(faster: Figures, slower: Figures) -> str:
    """The reason in a few words for the first being faster than the second."""
    gain = slower["nanoseconds"] / faster["nanoseconds"] - 1
    if gain < EQUAL:
        return TIE
    found: list[tuple[float, str]] = []
    for name, words, cost in _COSTS:
        few, many = cost(faster), cost(slower)
        if few <= 0 or many <= 0:
            if many > 0 and few <= 0:
                found.append((math.log(4), f"no {words}"))
            continue
        ratio = math.log(many / few)
        if ratio >= _TELLING:
            found.append((ratio, _told(name, words, faster, slower, few / many)))
    if not found:
        return _stalled(faster, slower)
    # A figure that differs by much more than the times is no better a reason than one that differs as much as they do.
    wanted = math.log1p(gain)
    return min(found, key=lambda one: (-min(one[0], wanted), abs(one[0] - wanted)))[1]


def _told(name: str, words: str, faster: Figures, slower: Figures, share: float) -> str:
    if name == "warps":
        return f"{faster['warps']} warps per SM instead of {slower['warps']}"
    if name == "idle":
        return f"SMs busy {faster['busy_sms']:.0%} of the time instead of {slower['busy_sms']:.0%}"
    return f"{1 - share:.0%} fewer {words}"


def _stalled(faster: Figures, slower: Figures) -> str:
    """The stall reason for which the warps of the slower configuration wait more."""
    per = {
        reason: slower["cycles"] * share / max(1, slower["resident_ctas"])
        - faster["cycles"] * faster["stalls"].get(reason, 0) / max(1, faster["resident_ctas"])
        for reason, share in slower["stalls"].items()
        if reason != "selected"
    }
    if not per or max(per.values()) <= 0:
        return "its CTAs overlap better"
    return f"less {max(per, key=lambda reason: (per[reason], reason))}"
