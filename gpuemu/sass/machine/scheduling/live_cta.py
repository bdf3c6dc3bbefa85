"""A CTA that has begun, with the state that belongs to it while others execute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cluster_state import Cluster
from gpuemu.sass.machine.scheduling.cta_barriers import CtaBarriers
from gpuemu.sass.machine.scheduling.groups import Convergence, Group, Turn
from gpuemu.sass.machine.scheduling.polls import Look, Looks


@dataclass(eq=False)
class Cta:
    """A CTA that has begun.

    `number`: its number in the grid. `recorder`, `keep`: its recorder, and whether it records the CTA. `left`: warp
    instructions, out of `budget`, until the CTA is considered endless. A CTA that is set aside also has its state, the
    looks that its groups wait for, and the repetitions of these looks in the record.
    """

    number: int
    recorder: Recorder
    keep: bool
    budget: int
    left: int
    looks: Looks
    convergence: Convergence
    barriers: CtaBarriers
    turn: int = 0
    groups: list[Group] = field(default_factory=list)
    current: Turn | None = None
    """The turn that is not over."""
    last: Group | None = None
    """The group of the last turn."""
    waits_for: list[Look] = field(default_factory=list)
    repeats: list[tuple[int, int, int]] = field(default_factory=list)
    put_away: tuple[Any, ...] = ()
    seen: int = -1
    """The changes in its cluster when it was set aside to wait for more; -1 if it waits for something else."""
    stuck_at: tuple[Site, int] | None = None
    """The instruction of the wait, and a lane that waits."""
    cluster: Cluster | None = None
    rank: int = 0

    @property
    def executed(self) -> int:
        """Its warp instructions so far, without those of the current group."""
        return self.budget - self.left

    @property
    def may_go_on(self) -> bool:
        """Whether something has changed in the cluster that it waits for."""
        return self.cluster is not None and 0 <= self.seen != self.cluster.changes


class Ended(NamedTuple):
    """A CTA that has ended and was not recorded: its number, and its warp instructions."""

    number: int
    executed: int
    keep: bool = False
