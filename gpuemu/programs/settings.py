"""The user's settings for a program's run: the chip, the time limit, and the launches to time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.sass.launch_config import LaunchConfig

SAMPLING_SECONDS = 60.0
"""For so long after the time limit, gpuemu still samples launches of new kinds."""


@dataclass(frozen=True)
class Settings:
    """`seconds`: gpuemu executes launches for about this time, and samples the others. None means no limit.

    `kernel` and `launches` choose the launches to time and to list: a pattern for names, and a maximum number.
    `inspect` checks each launch before it executes, in a private copy of memory, and returns findings. `progress`
    receives a sentence and the finished part between 0 and 1, or None.
    """

    arch: Architecture
    seconds: float | None = None
    kernel: str = ""
    launches: int | None = None
    inspect: Callable[[LaunchConfig], Sequence[Any]] | None = None
    progress: Callable[[str, float | None], None] | None = None
    started: float = field(default_factory=time.monotonic)

    def wants(self, name: str, listed: int) -> bool:
        """Whether to time and list a launch of this kernel, if `listed` others are in the list."""
        if self.launches is not None and listed >= self.launches:
            return False
        return not self.kernel or re.search(self.kernel, name) is not None

    @property
    def sms(self) -> int:
        """The number of SMs of the chip."""
        return self.arch.chips[self.arch.chip].sms

    @property
    def left(self) -> float:
        """The seconds until the time limit, or infinity."""
        return float("inf") if self.seconds is None else self.started + self.seconds - time.monotonic()
