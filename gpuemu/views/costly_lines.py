"""Source lines that cost more than necessary, because of bank conflicts or uncoalesced accesses.

    tile.cu:7   bank-conflict  992 of 1,024 wavefronts are bank conflicts, 32.0-way: LDS R5, [R4] at 0x0090

The place of a finding is the innermost line in a file that exists here. Otherwise it is the outermost line, which is in
the kernel's own file. For code without lines, it is the offset in the trace or cubin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuemu.trace.model import Instruction
from gpuemu.views.result import Result
from gpuemu.views.source import SourceRow, instructions


@dataclass(frozen=True)
class Rule:
    """A kind of finding, explained for people who do not know it."""

    name: str
    title: str
    help: str


CONFLICT = Rule(
    "bank-conflict",
    "Lanes of an access to shared memory meet in a bank",
    "More wavefronts than the width of the access needs. gpuemu why says what they cost, gpuemu search finds a layout "
    "without them.",
)
UNCOALESCED = Rule(
    "uncoalesced-access",
    "Lanes of an access to global memory are spread over more sectors than they need",
    "A sector has 32 bytes. Neighbouring lanes that ask for neighbouring bytes share sectors.",
)
RULES = (CONFLICT, UNCOALESCED)
_SHOWN = 3


@dataclass(frozen=True)
class Place:
    """A line of a source file, or, with `offset`, an instruction of the trace or cubin `file`."""

    file: str
    line: int | None
    offset: int | None = None

    def __str__(self) -> str:
        if self.offset is not None:
            return f"{self.file} at {self.offset:#06x}"
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Costly:
    """A finding: `excess` of `total` wavefronts or sectors. `related` are the other lines of the inlining."""

    rule: Rule
    place: Place
    related: tuple[Place, ...]
    excess: int
    total: int
    cycles: int
    instructions: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The finding in a sentence, with its instructions."""
        shown = ", ".join(self.instructions[:_SHOWN])
        if len(self.instructions) > _SHOWN:
            shown += f" and {len(self.instructions) - _SHOWN} more"
        if self.rule is CONFLICT:
            way = self.total / (self.total - self.excess) if self.total > self.excess else self.total
            return f"{self.excess:,} of {self.total:,} wavefronts are bank conflicts, {way:.1f}-way: {shown}"
        return f"{self.excess:,} of {self.total:,} sectors are more than the lanes need: {shown}"


def place_of(instruction: Instruction, file: str, paths: Mapping[str, Path]) -> tuple[Place, tuple[Place, ...]]:
    """The place of an instruction, and the other lines that it comes from. `file` is the trace or cubin."""
    if not instruction.source:
        return Place(file, instruction.line, instruction.offset), ()
    own = next((place for place in instruction.source if place[0] in paths), instruction.source[-1])
    places = {place: Place(str(paths.get(place[0], place[0])), place[1]) for place in instruction.source}
    return places[own], tuple(place for key, place in places.items() if key != own)


def costly_lines(result: Result, paths: Mapping[str, Path]) -> list[Costly]:
    """The findings of a run, those with most excess first. `paths`: the source files that the code names."""
    file = result.trace.file or result.trace.name
    groups: dict[tuple[str, Place], list[tuple[SourceRow, tuple[Place, ...]]]] = {}
    for row, instruction in zip(instructions(result.program, result.log), result.program.code, strict=True):
        for rule, excess in ((CONFLICT, row.excess_wavefronts), (UNCOALESCED, row.excess_sectors)):
            if excess:
                place, related = place_of(instruction, file, paths)
                groups.setdefault((rule.name, place), []).append((row, related))
    found = []
    for (name, place), members in groups.items():
        rule = CONFLICT if name == CONFLICT.name else UNCOALESCED
        rows = [row for row, _ in members]
        shared = rule is CONFLICT
        found.append(
            Costly(
                rule,
                place,
                tuple(dict.fromkeys(place for _, related in members for place in related)),
                sum(row.excess_wavefronts if shared else row.excess_sectors for row in rows),
                sum(row.wavefronts if shared else row.sectors for row in rows),
                sum(row.cycles for row in rows),
                tuple(f"{row.text} at 0x{row.place}" for row in rows),
            )
        )
    return sorted(found, key=lambda f: (RULES.index(f.rule), -f.excess, str(f.place)))
