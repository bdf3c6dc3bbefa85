"""Execute several CTAs at once by compiled loops, if they are not recorded."""

from __future__ import annotations

from collections.abc import Callable, Container

from gpuemu.base.cores import cores
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.sass.machine.scheduling.line import Line
from gpuemu.sass.machine.scheduling.live_cta import Cta, Ended

_MOST, _MORE = 4096, 8
_MOST_INSTRUCTIONS = 10_000_000
"""Warp instructions that CTAs execute together on each core, at the most if there are several: whoever watches hears
in between."""


class Ahead:
    """Takes CTAs out of a line up to the first that is `recorded`.

    The next call takes more if all of them have ended and were short. It takes fewer if the executor had to continue
    with one.
    """

    def __init__(
        self, executor: CtaExecutor, recorder: Callable[[], Recorder], recorded: Container[int], budget: int
    ):  # fmt: skip
        self._executor, self._recorder, self._recorded, self._budget = executor, recorder, recorded, budget
        self._most, self._each = 1, 0

    def __call__(self, line: Line) -> tuple[list[Ended], Cta | None]:
        """Return the CTAs that have ended, and the next one if it has only begun."""
        numbers = line.several(self._most, self._recorded)
        if not numbers:
            return [], None
        expected = self._each * len(numbers)
        ended, begun = self._executor.begin_ahead(numbers, self._recorder, self._budget, expected)
        for number in reversed(numbers[len(ended) + (begun is not None) :]):
            line.put_in_front(number)
        self._each = sum(one.executed for one in ended) // max(1, len(ended))
        more = max(1, min(_MORE * self._most, _MOST, _MOST_INSTRUCTIONS * cores() // max(1, self._each)))
        self._most = more if len(ended) == len(numbers) else max(1, self._most // 4)
        return ended, begun
