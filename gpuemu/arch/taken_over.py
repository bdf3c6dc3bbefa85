"""The values that one architecture file takes over from another one that it extends.

sm_86 extends sm_90. A value measured on sm_90 is only an assumption for sm_86, until that file gives the value or lists
it as `confirmed`. Confirmed values have a source that is valid for both.

    sm_90: latency_cycles: {value: 60, status: measured, source: H200, confidence: B, note: "58 for the first"}
    sm_86: nothing, and so {value: 60, status: assumed, source: H200, confidence: C, note: "sm_90 value taken over"}
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from gpuemu.arch.values import Located, Names

_OF_THE_CHIP = ("chip", "chips")


def taken_over(values: Mapping[Names, Located], confirmed: Set[str]) -> dict[Names, Located]:
    """Return an architecture's values as another one takes them over, without those of its chips."""
    name = str(values["compute_capability",].value).replace(".", "")
    return {
        path: located if ".".join(path) in confirmed else _assumed(located, f"sm_{name}")
        for path, located in values.items()
        if path[0] not in _OF_THE_CHIP
    }


def _assumed(located: Located, name: str) -> Located:
    """Mark a value of the architecture `name` as an assumption. An assumption stays as it is."""
    where = located.provenance
    if where.status in ("assumed", "user", "override"):
        return located
    confidence = "C" if where.confidence in ("A", "B") else "D"
    changed = replace(where, status="assumed", confidence=confidence, note=f"{name} value taken over", range=())
    return Located(located.value, changed)
