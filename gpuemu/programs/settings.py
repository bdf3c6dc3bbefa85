"""What the user asks of a program's run: the chip, how long it may take, and which launches to time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.sass.launch_config import LaunchConfig

SAMPLING_SECONDS = 60.0
"""So long after the time is up, a launch of a new kind may still be sampled for its time."""


@dataclass(frozen=True)
class Settings:
    """`seconds`: gpuemu executes launches for about so long, and samples the others; None for as long as it takes.

    `kernel` and `launches` choose the launches to time and to list: kernels whose name matches, and the first so many
    of them. `inspect` looks at a launch before it executes, in memory of its own, and returns what it finds.
    `progress` hears what gpuemu does: a sentence, and a part of 1 or None.
    """

    arch: Architecture
    seconds: float | None = None
    kernel: str = ""
    launches: int | None = None
    inspect: Callable[[LaunchConfig], Sequence[Any]] | None = None
    progress: Callable[[str, float | None], None] | None = None
    started: float = field(default_factory=time.monotonic)

    def wants(self, name: str, listed: int) -> bool:
        """Whether to time and list a launch of this kernel, after so many others."""
        if self.launches is not None and listed >= self.launches:
            return False
        return not self.kernel or re.search(self.kernel, name) is not None

    @property
    def sms(self) -> int:
        """Of the chip."""
        return self.arch.chips[self.arch.chip].sms

    @property
    def left(self) -> float:
        """Seconds until the time is up; infinite without a limit."""
        return float("inf") if self.seconds is None else self.started + self.seconds - time.monotonic()
