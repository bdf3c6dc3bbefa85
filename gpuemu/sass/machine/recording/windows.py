"""Parts of a long CTA's record: short windows, evenly spread over its execution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.recording.recorder import Recorder

MOST = 16
"""Windows of a CTA. If there are more, every second one goes, and the next ones are twice as far apart."""


class Windows:
    """The windows of one CTA, each with `size` warp instructions. A window begins every `apart` warp instructions.

    `is_open`: whether the CTA is being recorded. At first, it is, and nothing is missing.
    """

    def __init__(self, recorder: Recorder, size: int, apart: int):
        self._recorder, self._size, self.apart = recorder, size, max(size, apart)
        self._steps: list[int] = []
        """The steps of each window that is closed."""
        self._next = 0
        self.is_open = True

    def divide(self, executed: int) -> None:
        """Close the first window, or divide all that was recorded before into windows."""
        done = self._recorder.instructions()
        begins = np.arange(0, int(done[-1]) if len(done) else 0, self.apart)
        first, end = np.searchsorted(done, begins, "right"), np.searchsorted(done, begins + self._size, "right")
        gone = np.ones(len(done), np.bool_)
        for a, b in zip(first.tolist(), end.tolist(), strict=True):
            gone[a:b] = False
        self._steps = (end - first).tolist()
        self._recorder.remove(gone)
        self._close(executed)

    def hear(self, executed: int) -> None:
        """The CTA has executed so many warp instructions: open a window, or close it."""
        if self.is_open:
            self.end()
            self._close(executed)
        elif executed >= self._next:
            self.is_open = True

    def until_news(self, executed: int) -> int:
        """Warp instructions until a window closes or opens."""
        return self._size if self.is_open else max(1, self._next - executed)

    def end(self) -> None:
        """Shorten the open window to its size."""
        if not self.is_open:
            return
        done, begin = self._recorder.instructions(), sum(self._steps)
        before = int(done[begin - 1]) if begin else 0
        end = int(np.searchsorted(done, before + self._size, "right"))
        self._recorder.remove(np.arange(len(done)) >= end)
        self._steps.append(end - begin)
        self.is_open = False

    def _close(self, executed: int) -> None:
        self.is_open = False
        if len(self._steps) > MOST:
            self._recorder.remove(self._every_second())
            self._steps, self.apart = self._steps[::2], 2 * self.apart
        self._next = (executed // self.apart + 1) * self.apart

    def _every_second(self) -> NDArray[np.bool_]:
        numbers = np.repeat(np.arange(len(self._steps)), self._steps)
        return np.asarray(numbers % 2 == 1)
