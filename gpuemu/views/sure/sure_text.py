"""The uncertainty of an answer, as text. `gpuemu run v5_swizzle --arch sm_89 --sure` prints, among other lines,

698 cycles. Uncertain sm_89 values: 667 to 738. With the model's own 5% error: 651 to 751.
10 of the 66 values of confidence C and D that the run depends on change the cycles.
Value                                       Range      Cycles  Why
launch.constant_operand_miss_cycles      34 to 52  674 to 728  latency of C; measure example_v1_w1
42
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from gpuemu.base.table import Line, Table, number, words
from gpuemu.views.sure.estimate import MODEL_SHARE, MOST, Sure


def lines(sure: Sure, columns: int) -> Iterator[Line]:
    """The lines, at most `columns` wide, each with a style."""
    said = f"{sure.cycles:,} cycles. Uncertain {sure.arch} values: {sure.low:,} to {sure.high:,}."
    said += f" With the model's own {MODEL_SHARE:.0%} error: {sure.lowest:,} to {sure.highest:,}."
    for line in wrap(said, columns):
        yield "strong", line
    told = f"{len(sure.effects)} of the {sure.moved} values of confidence C and D that the run depends on"
    for line in wrap(f"{told} change the cycles.", columns):
        yield "plain", line
    rows = [
        (
            f"{e.range.name} {_number(e.range.value)}", f"{_number(e.range.low)} to {_number(e.range.high)}",
            f"{e.at_low:,} to {e.at_high:,}", f"{e.range.why}; {_narrowed(e.settled_by)}",
        )
        for e in sure.effects[:MOST]
    ]  # fmt: skip
    if rows:
        yield from Table([words("Value"), number("Range"), number("Cycles"), words("Why")], rows).lines(columns)


def _narrowed(measurement: str) -> str:
    return f"measure {measurement}" if measurement else "no measurement yet"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
