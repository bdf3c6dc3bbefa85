"""What became of one thing that was asked of a run: a condition, a figure of a baseline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """`asked` is how it was asked for (`--fail-on cycles>900`, `a.yaml: cycles`), of which `figure`.

    `limit` is what is right, in words, `sentence` what was found.
    """

    asked: str
    figure: str
    found: int
    limit: str
    failed: bool
    sentence: str
