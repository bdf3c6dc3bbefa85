"""The uncertainty of an answer, as text.

How sure: 757 cycles, 717 to 810 for what is not known of sm_89; with the 5% of the model itself 702
to 822
10 of the 62 values of confidence C and D that the run depends on move the cycles
value                                                            range            cycles
launch.constant_operand_miss_cycles 42                        34 to 52        733 to 787
  latency of C; settled by example_v1_w1
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from gpuemu.base.table import Line, Table, number, words
from gpuemu.views.sure.estimate import MODEL_SHARE, MOST, Sure


def lines(sure: Sure, columns: int) -> Iterator[Line]:
    """The lines, at most `columns` wide, each with a style."""
    said = f"How sure: {sure.cycles} cycles, {sure.low} to {sure.high} for what is not known of {sure.arch}; with the"
    said += f" {MODEL_SHARE:.0%} of the model itself {sure.lowest} to {sure.highest}"
    for line in wrap(said, columns):
        yield "strong", line
    told = f"{len(sure.effects)} of the {sure.moved} values of confidence C and D that the run depends on"
    for line in wrap(f"{told} move the cycles", columns):
        yield "plain", line
    rows = [
        (
            f"{e.range.name} {_number(e.range.value)}", f"{_number(e.range.low)} to {_number(e.range.high)}",
            f"{e.at_low} to {e.at_high}", f"{e.range.why}; settled by {e.settled_by or 'no measurement yet'}",
        )
        for e in sure.effects[:MOST]
    ]  # fmt: skip
    if rows:
        yield from Table([words("Value"), number("Range"), number("Cycles"), words("Why")], rows).lines(columns)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
