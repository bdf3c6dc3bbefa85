"""All tools look on, and the paths of lanes are kept for controlcheck."""

from __future__ import annotations

from typing import Any

from gpuemu.studies.check.lane_paths import LanePath, recorded_paths
from gpuemu.studies.check.watch import Watch


class LaneWatch(Watch):
    """A Watch that has the paths of lanes in `lane_paths` when a launch has ended."""

    follows_lanes = True

    def launches(self, environment: Any) -> None:
        super().launches(environment)
        self.lane_paths: list[LanePath] = []

    def recorded(self, cta: int, recorder: Any) -> None:
        self.lane_paths += recorded_paths(cta, recorder)
