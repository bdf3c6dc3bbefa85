"""How sure an answer is, as text.

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
from typing import Literal

from gpuemu.views.sure.estimate import MODEL_SHARE, MOST, Sure

Line = tuple[Literal["plain", "strong", "faint"], str]


def lines(sure: Sure, columns: int) -> Iterator[Line]:
    """The lines, at most `columns` wide, each with a style."""
    said = f"How sure: {sure.cycles} cycles, {sure.low} to {sure.high} for what is not known of {sure.arch}; with the"
    said += f" {MODEL_SHARE:.0%} of the model itself {sure.lowest} to {sure.highest}"
    for line in wrap(said, columns):
        yield "strong", line
    told = f"{len(sure.effects)} of the {sure.moved} values of confidence C and D that the run depends on"
    yield "plain", f"{told} move the cycles"
    if sure.effects:
        yield "plain", f"{'value':54}{'range':>16}{'cycles':>18}"
    for effect in sure.effects[:MOST]:
        value = effect.range
        name = f"{value.name} {_number(value.value)}"
        between = f"{_number(value.low)} to {_number(value.high)}"
        cycles = f"{effect.at_low} to {effect.at_high}"
        yield "plain", f"{name:54}{between:>16}{cycles:>18}"
        yield "faint", f"  {value.why}; settled by {effect.settled_by}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
