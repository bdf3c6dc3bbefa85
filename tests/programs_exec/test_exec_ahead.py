"""CTAs execute together only as long as they are short: the time limit and the progress line need pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuemu.sass.machine.scheduling import ahead as ahead_module
from gpuemu.sass.machine.scheduling.ahead import Ahead
from gpuemu.sass.machine.scheduling.line import Line
from gpuemu.sass.machine.scheduling.live_cta import Ended


class Executor:
    """Ends every CTA after the same number of warp instructions."""

    def __init__(self, each: int):
        self.each = each
        self.batches: list[int] = []

    def begin_ahead(self, numbers: Sequence[int], *_: Any) -> tuple[list[Ended], None]:
        self.batches.append(len(numbers))
        return [Ended(number, self.each) for number in numbers], None


@pytest.mark.parametrize(
    ("each", "cores", "batches"),
    [
        (100, 1, [1, 8, 64, 512, 4096, 4096]),
        (1_000_000, 1, [1, 8, 10, 10]),
        (1_000_000, 4, [1, 8, 40, 40]),
        (50_000_000, 1, [1, 1, 1]),
    ],
)
def test_long_ctas_do_not_execute_many_together(
    monkeypatch: pytest.MonkeyPatch, each: int, cores: int, batches: list[int]
) -> None:
    monkeypatch.setattr(ahead_module, "cores", lambda: cores)
    executor: Any = Executor(each)
    ahead = Ahead(executor, lambda: pytest.fail("nobody records"), (), 1)
    line = Line(range(sum(batches)))
    while line:
        ahead(line)
    assert executor.batches == batches
