"""Compare a run with a profile: the figures of both, those with the largest difference first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.compare.figures import LABELS, SOURCE_COLUMNS, emulated, emulated_rows, scale
from gpuemu.studies.compare.profile import Profile, ProfiledLaunch
from gpuemu.views.baseline import Allowed
from gpuemu.views.notes import guesses, of_caches
from gpuemu.views.result import Result

EVERY = "*"


@dataclass(frozen=True)
class Difference:
    """A figure of both. `place` is the instruction of a source page, or ""; `line` is the line in the file.

    `step`: rounding may have changed the measured figure by this much.
    """

    name: str
    place: str
    measured: float
    emulated: float
    step: float
    line: int

    @property
    def gap(self) -> float:
        """Emulated minus measured, beyond what rounding explains."""
        gap = self.emulated - self.measured
        return 0.0 if abs(gap) <= self.step + 1e-9 * abs(self.measured) else gap

    @property
    def relative(self) -> float:
        """The gap as a share of the measured figure; infinite if that is 0."""
        if not self.gap:
            return 0.0
        return self.gap / abs(self.measured) if self.measured else math.copysign(math.inf, self.gap)

    def beyond(self, tolerances: Tolerances) -> bool:
        """Whether the gap is more than the tolerance."""
        room = tolerances.of(self.name)
        return room is not None and abs(self.gap) > room.amount * (abs(self.measured) / 100 if room.is_share else 1)


class Tolerances:
    """The tolerances of `--tolerance`: `2%` for every figure, `sm__cycles*=5%` or `L1 Wavefronts*=16` for some.

    If several match a figure, the last one counts. Raises GpuemuError.
    """

    def __init__(self, texts: Iterable[str]):
        self._rooms: list[tuple[str, Allowed]] = []
        for text in texts:
            name, is_named, amount = text.rpartition("=")
            room = Allowed.read(amount)
            if room is None or (is_named and not name):
                raise GpuemuError.one("--tolerance", None, "", f"'{text}'", "expected 2%, 16 or 'sm__cycles*=5%'")
            self._rooms.append((name or EVERY, room))

    def of(self, name: str) -> Allowed | None:
        """The tolerance of a figure, None if there is none."""
        return next((room for pattern, room in reversed(self._rooms) if fnmatchcase(name, pattern)), None)

    def check(self, names: Sequence[str], file: str) -> None:
        """Raise GpuemuError for a pattern that matches no figure of both."""
        for pattern, _ in self._rooms:
            if pattern != EVERY and not any(fnmatchcase(name, pattern) for name in names):
                right = (
                    f"Known here: {', '.join(names[:6])}" if names else f"{file} and the run have no figure in common"
                )
                raise GpuemuError.one("--tolerance", None, "", f"'{pattern}'", right)


@dataclass(frozen=True)
class Comparison:
    """All figures of both, those with the largest difference first. `alone`: figures that only the file has."""

    kernel: str
    arch: str
    file: str
    page: str
    launch: ProfiledLaunch
    differences: tuple[Difference, ...]
    alone: tuple[str, ...]
    notes: tuple[str, ...]


def compare(result: Result, profile: Profile, wanted: str | None = None) -> Comparison:
    """Compare a run with a profile. `wanted`: a launch's ID. Raises GpuemuError if the file has another launch."""
    launch_of_run = result.trace.launch
    launch, alike = profile.launch(result.trace.name, launch_of_run.grid, launch_of_run.block, wanted)
    found = _by_instruction(result, profile, launch) if profile.page == "source" else _by_name(result, profile, launch)
    differences = sorted(found[0], key=lambda d: -abs(d.relative))
    return Comparison(
        result.trace.name,
        result.arch.name,
        profile.file,
        profile.page,
        launch,
        tuple(differences),
        tuple(found[1]),
        tuple(_notes(result, profile, launch, alike)),
    )


def _by_name(result: Result, profile: Profile, launch: ProfiledLaunch) -> tuple[list[Difference], list[str]]:
    ours = emulated(result)
    found, alone = [], []
    for name, (text, unit, line) in launch.figures.items():
        known = LABELS.get(name, name)
        if known not in ours:
            alone.append(name)
            continue
        measured = profile.number(text, unit, line, name)
        if measured is not None:
            found.append(Difference(name, "", measured.value, ours[known], measured.step, line))
    return found, alone


def _by_instruction(result: Result, profile: Profile, launch: ProfiledLaunch) -> tuple[list[Difference], list[str]]:
    rows, factor = emulated_rows(result), scale(result.grid)
    code = result.program.code
    if len(launch.code) < len(rows):
        right = f"expected {len(rows)}, as in the emulated code"
        raise GpuemuError.one(profile.file, launch.line, "Source", f"{len(launch.code)} instructions", right)
    found = []
    for row, instruction, theirs in zip(rows, code, launch.code[: len(rows)], strict=True):
        opcode = next((word for word in theirs.source.split() if not word.startswith("@")), "").rstrip(";")
        if opcode != instruction.opcode:
            right = f"expected {instruction.opcode} at 0x{row.place}. Emulate the cubin that was profiled"
            raise GpuemuError.one(profile.file, theirs.line, "Source", f"'{theirs.source.strip()[:40]}'", right)
        for field, column in SOURCE_COLUMNS.items():
            text = theirs.columns.get(column, "")
            measured = profile.number(text, "", theirs.line, column)
            if measured is not None:
                place = f"0x{row.place} {instruction.opcode}"
                value = getattr(row, field) * factor
                found.append(Difference(column, place, measured.value, value, measured.step, theirs.line))
    columns = launch.code[0].columns if launch.code else {}
    known = {*SOURCE_COLUMNS.values(), "Address", "Source", "#"}
    return found, [column for column in columns if column not in known]


def _notes(result: Result, profile: Profile, launch: ProfiledLaunch, alike: int) -> list[str]:
    grid, notes = result.grid, guesses(result.trace.guessed)
    notes += of_caches(result.arch, result.footprint)
    if alike > 1:
        notes.append(f"{alike} launches there are alike, of which this is the first; --launch takes another one")
    capability = result.arch.compute_capability
    if launch.capability and launch.capability != capability:
        notes.append(f"profiled on compute capability {launch.capability}, emulated on {capability}")
    text, unit, line = launch.figures.get("launch__sm_count", launch.figures.get("# SMs", ("", "", 0)))
    sms = profile.number(text, unit, line, "launch__sm_count")
    if sms is not None and sms.value != grid.sms:
        notes.append(f"profiled on {sms.value:g} SMs, emulated as one of {grid.sms}; --chip takes another product")
    if grid.ctas != grid.timed_ctas:
        notes.append(f"counts of {grid.timed_ctas:,} emulated CTAs stand for the {grid.ctas:,} of the grid")
    return notes
