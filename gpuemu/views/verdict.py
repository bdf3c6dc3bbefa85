"""The verdict on one condition of a run, or on one figure of a baseline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """`asked` is the request (`--fail-on cycles>900`, `a.yaml: cycles`) about a `figure`.

    `limit` is the limit in words, `sentence` the result.
    """

    asked: str
    figure: str
    found: int
    limit: str
    failed: bool
    sentence: str
