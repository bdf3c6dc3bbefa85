"""Which launches take the same time: kinds of launches, and families of kinds.

Two launches are of the same kind if kernel, configuration and all argument bytes except pointers are equal. Kinds that
differ only in their arguments are a family. gpuemu simulates each kind of a family, until the nearest earlier time,
scaled by the instructions, has predicted enough of them. From then on, gpuemu simulates fewer and fewer as a check.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu.programs.executing import Timing

ALIKE = 0.05
"""Two launches take the same time if their instructions differ by a smaller part than this. A prediction is a hit if
its cycles differ from the simulated ones by a smaller part."""
_HITS = 3
"""Hits in a row after which gpuemu predicts the times of a family."""
_FARTHEST = 2.0
"""A prediction scales a time at most by this factor."""


@dataclass
class Timed:
    """The time of a launch and its warp instructions. The instructions are None if only some CTAs executed."""

    timing: Timing
    instructions: int | None


def nearest(known: list[Timed], instructions: int) -> Timed | None:
    """The launch with about this number of instructions."""
    counted = [one for one in known if one.instructions]
    return min(counted, key=lambda one: abs((one.instructions or 0) - instructions), default=None)


@dataclass
class Family:
    """The simulated launches of a kernel with one configuration. `decided` counts launches that needed a time."""

    simulated: list[Timed] = field(default_factory=list)
    hits: int = 0
    decided: int = 0

    @property
    def predicts(self) -> bool:
        """Whether the next time is predicted. Launches with the numbers 8, 16, 32 and so on are a check."""
        return self.hits >= _HITS and (self.decided + 1) & self.decided != 0

    def predicted(self, instructions: int) -> Timing | None:
        """The time of a launch with this number of instructions, or None if no launch is near enough."""
        near = nearest(self.simulated, instructions)
        if near is None or not near.instructions or not instructions:
            return None
        factor = instructions / near.instructions
        return near.timing.scaled(factor) if 1 / _FARTHEST <= factor <= _FARTHEST else None

    def keep(self, timed: Timed) -> None:
        """Add a simulated launch, and compare its time with the prediction."""
        guess = None if timed.instructions is None else self.predicted(timed.instructions)
        if guess is not None:
            is_hit = abs(guess.elapsed_cycles - timed.timing.elapsed_cycles) <= ALIKE * timed.timing.elapsed_cycles
            self.hits = self.hits + 1 if is_hit else 0
        self.simulated.append(timed)

    def any(self) -> Timing | None:
        """The latest time, whatever the launch executes."""
        return self.simulated[-1].timing if self.simulated else None


@dataclass
class Kind:
    """The times and instruction counts of one kind of launch. `seconds` is the time to execute one here."""

    family: Family = field(default_factory=Family)
    timed: list[Timed] = field(default_factory=list)
    least: int = 0
    most: int = 0
    """`least` and `most` count the warp instructions of launches that executed."""
    executed: int = 0
    seconds: float | None = None
    is_too_long: bool = False
    """Whether the time limit passed before gpuemu could time one, or one is too long to simulate."""

    @property
    def varies(self) -> bool:
        return self.most > (1 + ALIKE) * self.least

    @property
    def needs_time(self) -> bool:
        return not self.timed and not self.is_too_long

    def count(self, instructions: int, seconds: float) -> None:
        """A launch has executed."""
        self.least = min(self.least, instructions) if self.executed else instructions
        self.most = max(self.most, instructions)
        self.executed += 1
        self.seconds = seconds

    def like(self, instructions: int) -> Timing | None:
        """The time of a launch with about this number of instructions, or None."""
        near = nearest(self.timed, instructions)
        if near is None or abs((near.instructions or 0) - instructions) > ALIKE * instructions:
            return None
        return near.timing

    def predict(self, instructions: int) -> Timing | None:
        """The time that the family predicts, or None if it does not predict."""
        timing = self.family.predicted(instructions) if self.family.predicts else None
        if timing is not None:
            self.family.decided += 1
            self.timed.append(Timed(timing, instructions))
        return timing

    def keep(self, timing: Timing, instructions: int | None) -> None:
        """Add the time of a simulated launch."""
        self.timed.append(Timed(timing, instructions))
        self.family.decided += 1
        self.family.keep(self.timed[-1])

    def about(self, instructions: int | None = None) -> Timing | None:
        """The time of the nearest launch, scaled to this number of instructions. Without a number, the first time."""
        near = None if instructions is None else nearest(self.timed, instructions)
        if instructions is None or near is None or not near.instructions:
            return self.timed[0].timing if self.timed else self.family.any()
        return near.timing.scaled(instructions / near.instructions)
