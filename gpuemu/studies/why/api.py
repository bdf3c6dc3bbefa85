"""`gpuemu.why`: the causes of a run, ranked by the cycles that removing each saves, and pairs of the largest.

answer = gpuemu.why("v2_shared_memory", "sm_89")
for row in answer.rows:
    print(row.gained, row.cause.name, row.repeat)
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from gpuemu.arch import Architecture, as_architecture, load_arch
from gpuemu.arch.values import yaml_value
from gpuemu.base.errors import GpuemuError
from gpuemu.base.html import paragraph
from gpuemu.base.table import Bar, Table, number, words
from gpuemu.chip.estimate import ALONE, ATOMICS, DEALING, DRAM, L2, TOO_FEW
from gpuemu.engine import compiling
from gpuemu.studies.why.causes import Cause, access_causes, excess, program_causes, pruned
from gpuemu.studies.why.edits import NOTHING
from gpuemu.studies.why.findings import Finding, RunWithout, findings, fixes
from gpuemu.studies.why.hardware import resource_causes, stall_causes
from gpuemu.studies.why.pipelines import Waits, waits_of
from gpuemu.studies.why.runs import Progress, Runner, Timing
from gpuemu.studies.why.tiles import tile_causes
from gpuemu.trace.files import as_trace
from gpuemu.trace.model import Trace
from gpuemu.views.grid import GridCounts
from gpuemu.views.json_result import overrides
from gpuemu.views.result import Result

PAIRED = 10
"""The number of largest causes that are removed in pairs, where pairs are wanted."""
LEAST_SHARE = 0.01
"""The share of the run below which a cause has no row of its own in text and HTML."""
MOST_PLACES = 8
"""The number of instructions or lines with conflicts, and with uncoalesced accesses, that are run: the worst ones."""
_WHERE = "why()"
_BEYOND_THE_SM = (DRAM, L2, ATOMICS, DEALING)
"""Limits of a launch that saving cycles on an SM does not change."""


@dataclass(frozen=True)
class Pair:
    """Two causes and the run without both. `beyond`: the saved cycles minus the sum of what each saves alone."""

    first: str
    second: str
    cycles: int
    gained: int
    beyond: int
    repeat: str


@dataclass(frozen=True)
class Answer:
    """The cost of each cause. `left_out`: causes that were not run, with the reason; `notes`: those of the run.

    `waits`: the waits at mbarriers. `chip`: the product. `share`: the share of the launch that the cycles are, "" if
    they are all of it.
    """

    kernel: str
    arch: str
    overrides: dict[str, Any]
    cycles: int
    rows: tuple[RunWithout, ...]
    pairs: tuple[Pair, ...]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    waits: Waits = field(default_factory=Waits)
    chip: str = ""
    share: str = ""

    @property
    def told(self) -> tuple[str, ...]:
        """The share of the launch, if it is not all of it, and the notes."""
        return (*([f"{self.cycles:,} SM cycles{self.share}"] if self.share else []), *self.notes)

    @property
    def gaining(self) -> list[RunWithout]:
        """The rows that save enough to be worth looking at."""
        return [row for row in self.rows if row.gained and row.gained >= LEAST_SHARE * self.cycles]

    def __repr__(self) -> str:
        best = f", most for {self.rows[0].cause.name}: {self.rows[0].gained}" if self.rows else ""
        told = "".join(f"; {note}" for note in self.told)
        return f"<Answer {self.kernel} on {self.arch}: {self.cycles} cycles{best}{told}>"

    def records(self) -> list[dict[str, str | int]]:
        """The causes that change the cycles, as flat records for pandas and polars; `Code` is C++ or ""."""
        return [
            {
                "Cycles gained": row.gained,
                "Of the run": f"{row.gained / self.cycles if self.cycles else 0:.1%}",
                "Without": row.cause.name,
                "Rule": row.cause.rule,
                "Simulated change": row.cause.simulated,
                "What to do": row.cause.advice,
                "Again": row.repeat,
                "Code": row.cause.code,
            }
            for row in self.rows
            if row.gained
        ]

    def findings(self) -> list[dict[str, Any]]:
        """The causes as the HTML report shows them: one record for each finding that saves or loses cycles.

        `causes` are the names that `only` takes, with a command for each; `fixes` are layouts as code.
        """
        return [_as_record(finding) for finding in findings(self.rows) if finding.gained]

    def _repr_html_(self) -> str:
        rows = [
            (c.title or c.name, row.gained, Bar(row.gained / max(1, self.cycles)), c.simulated, c.advice)
            for row in self.gaining
            if (c := row.cause)
        ]
        head = f"{self.kernel} on {self.arch}: {self.cycles:,} cycles"
        told = "".join(map(paragraph, self.told))
        columns = [
            words("Cause"),
            number("Saved"),
            words("% of cycles"),
            *map(words, ("Simulated change", "What to try")),
        ]
        return paragraph(head, strong=True) + told + Table(columns, rows).html()


def _as_record(finding: Finding) -> dict[str, Any]:
    return {
        "title": finding.name,
        "gained": finding.gained,
        "simulated": finding.rows[0].cause.simulated,
        "advice": finding.rows[0].cause.advice,
        "causes": [row.cause.name for row in finding.rows],
        "commands": [row.repeat for row in finding.rows],
        "gained_by_fixes": finding.gained_by_fixes,
        "fixes": [{"tiles": fix.tiles, "gained": fix.gained, "code": fix.code} for fix in fixes([finding])],
    }


def why(
    trace: Trace | str | os.PathLike[str],
    arch: Architecture | str | os.PathLike[str] | None = None,
    *,
    by: str | None = None,
    only: Iterable[str] = (),
    everything: bool = False,
    pairs: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
    command: Sequence[str] | None = None,
) -> Answer:
    """Time the trace without each of its causes; docs/why.md lists the causes and the edit for each.

    `by`: conflicts and uncoalesced accesses per source "line" or "instruction"; by default lines if there are some.
    `only`: remove only these causes, all together. `everything`: also run causes that cannot matter. `pairs`: the
    number of largest causes to remove in pairs, too; ten need about as many runs again. `jobs`: the number of worker
    processes, by default one per core if the work is worth it. `progress(runs done, runs)` is called during the work.
    `command`: the words after `gpuemu run` that repeat the run, by default trace and architecture. Raises GpuemuError.
    """
    hardware = None if arch is None else as_architecture(arch, where=_WHERE)
    loaded = as_trace(trace, None if hardware is None else hardware.name, where=_WHERE)
    hardware = hardware or load_arch(loaded.arch)
    if by not in ("instruction", "line", None):
        raise GpuemuError.one(_WHERE, None, "by", repr(by), 'expected "instruction" or "line"')
    lines = any(instruction.source for instruction in loaded.code)
    by = by or ("line" if lines else "instruction")
    if by == "line" and not lines:
        right = "Give a .cu, or a .cubin compiled with -lineinfo"
        raise GpuemuError.one(loaded.file, None, "", "the code has no source lines for --by line", right)
    base = Timing(loaded, hardware).result(NOTHING)
    wanted = tuple(dict.fromkeys(only))
    given = list(command) if command is not None else _command(loaded, hardware)
    causes = causes_of(base, by == "line")
    if wanted:
        other = causes_of(base, by != "line") if lines else []
        return _only(base, wanted, [*causes, *other], given)
    chosen = [cause for cause in causes if everything or not cause.light]
    left_out = [(cause.name, cause.light) for cause in causes if cause not in chosen]
    most = min(pairs, len(chosen))
    runs = len(chosen) + most * (most - 1) // 2
    # Workers switch to compiled code on their own when it is ready.
    with compiling(runs * loaded.executed_instructions), Runner(loaded, hardware, jobs, runs, progress) as runner:
        runner.expect(runs)
        rows = []
        for cause, timed in zip(chosen, runner.times([cause.edit for cause in chosen]), strict=True):
            if timed.error:
                left_out.append((cause.name, timed.error))
                continue
            gained = base.cycles - timed.cycles
            rows.append(RunWithout(cause, timed.cycles, gained, repeats(given, [cause])))
        rows.sort(key=lambda row: -row.gained)
        large = [row for row in rows if row.gained > 0][:pairs]
        both = [(a, b) for a, b in combinations(large, 2) if not a.cause.edit.meets(b.cause.edit)]
        runner.expect(len(both))
        found = []
        for (a, b), timed in zip(both, runner.times([a.cause.edit | b.cause.edit for a, b in both]), strict=True):
            if not timed.error:
                gained = base.cycles - timed.cycles
                beyond = gained - a.gained - b.gained
                again = repeats(given, [a.cause, b.cause])
                found.append(Pair(a.cause.name, b.cause.name, timed.cycles, gained, beyond, again))
    found.sort(key=lambda pair: -pair.gained)
    return _answer(base, rows, found, left_out)


def causes_of(result: Result, by_line: bool) -> list[Cause]:
    """Every cause of a run, including the light ones."""
    accesses = access_causes(result, by_line)
    shared, _ = excess(result.program, result)
    return pruned(
        [
            *_heaviest(accesses),
            *tile_causes(result.trace, result.arch, shared),
            *stall_causes(result),
            *program_causes(result),
            *resource_causes(result),
        ]
    )


def _heaviest(causes: list[Cause]) -> list[Cause]:
    """Mark all but the worst conflicts and uncoalesced accesses as light."""
    heavy: set[str] = set()
    for kind in ("conflicts@", "sectors@"):
        of = [cause for cause in causes if cause.name.startswith(kind)]
        heavy.update(c.name for c in sorted(of, key=lambda c: -c.weight)[:MOST_PLACES])
    reason = f"not among the {MOST_PLACES} places with most"
    return [c if "@" not in c.name or c.name in heavy else replace(c, light=reason) for c in causes]


def _only(base: Result, wanted: tuple[str, ...], causes: list[Cause], given: list[str]) -> Answer:
    known = {cause.name: cause for cause in causes}
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, known, 1)
            right = f"Did you mean '{close[0]}'?" if close else f"Known causes: {', '.join(known)}"
            raise GpuemuError.one("--only", None, "", f"unknown cause '{name}'", right)
    chosen = [known[name] for name in wanted]
    edit = NOTHING
    for cause in chosen:
        edit |= cause.edit
    cycles = Timing(base.trace, base.arch).result(edit).cycles
    first = chosen[0]
    if len(chosen) > 1:
        simulated, advice = ("; ".join(filter(None, (getattr(c, n) for c in chosen))) for n in ("simulated", "advice"))
        first = Cause(" + ".join(wanted), "", simulated, advice, edit, title=" + ".join(c.title for c in chosen))
    return _answer(base, [RunWithout(first, cycles, base.cycles - cycles, repeats(given, chosen))], [], [])


def _answer(base: Result, rows: list[RunWithout], pairs: list[Pair], left_out: list[tuple[str, str]]) -> Answer:
    changed = overrides(base.arch)
    return Answer(
        base.trace.name,
        base.arch.name,
        changed,
        base.cycles,
        tuple(rows),
        tuple(pairs),
        tuple(left_out),
        (*limit_of_launch(base.grid), *base.notes),
        waits_of(base),
        base.arch.chip,
        share_of_launch(base.cycles, base.grid),
    )


def share_of_launch(cycles: int, grid: GridCounts) -> str:
    """The end of a sentence about an SM's cycles: their share of the launch, "" if they are all of it.

    If an SM has more CTAs than are timed, the share is that of all its CTAs.
    """
    whole = grid.whole
    if whole is None or whole.elapsed <= cycles:
        return ""
    launch = f"of the {whole.elapsed:,}-cycle launch"
    if grid.timed_ctas >= grid.most_ctas:
        return f", which are {cycles / whole.elapsed:.0%} {launch}"
    alone = whole.limits.get(ALONE, cycles)
    all_ctas = f"All {grid.most_ctas:,} take {alone:,} cycles, {alone / whole.elapsed:.0%} {launch}, and save alike"
    return f" for {grid.timed_ctas:,} of the {grid.most_ctas:,} CTAs on the SM. {all_ctas}"


def limit_of_launch(grid: GridCounts) -> Iterator[str]:
    """A sentence about the unit that limits the whole launch, if it is not an SM."""
    whole = grid.whole
    if whole is None or whole.limited_by in (ALONE, TOO_FEW):
        return
    if whole.limited_by in _BEYOND_THE_SM:
        alone = f"which alone takes {whole.limits[whole.limited_by]:,} cycles. No cause here reduces that"
        yield f"The launch is limited by {whole.limited_by}, {alone}."
    else:
        yield f"The launch is limited by {whole.limited_by}. The causes save cycles of one SM."


def _command(trace: Trace, arch: Architecture) -> list[str]:
    """The words after `gpuemu run` for a trace and an architecture with known names."""
    values = {**{f"layout.{name}": value for name, value in trace.layout.items()}, **overrides(arch)}
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={yaml_value(value)}")]
    return [trace.file, "--arch", arch.name, *settings]


def repeats(given: Sequence[str], causes: Sequence[Cause]) -> str:
    """The command that repeats a run without these causes; `gpuemu run --set` if they are hardware values only."""
    edit = NOTHING
    for cause in causes:
        edit |= cause.edit
    words = ["gpuemu", "run" if edit.is_of_hardware else "why", *given]
    if edit.is_of_hardware:
        words += [word for name, value in edit.settings for word in ("--set", f"{name}={yaml_value(value)}")]
    else:
        words += [word for cause in causes for word in ("--only", cause.name)]
    return shlex.join(words)
