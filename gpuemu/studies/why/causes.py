"""The possible causes of a run's cycles: each with the edit that removes it, and its weight.

docs/why.md has the table. A cause that cannot matter, because nothing ever waited for it, runs only on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuemu.isa.opcodes import Row
from gpuemu.program.program import Column, Program
from gpuemu.studies.why.edits import Edit, at_ideal, instructions_of_accesses
from gpuemu.views.result import Result
from gpuemu.views.stalls import stall_reason

LEAST_SHARE = 0.01
"""The share of all stall cycles, or of the run's cycles for a resource, below which a cause cannot matter."""


@dataclass(frozen=True)
class Cause:
    """A possible cause of lost cycles.

    `rule`: the profiler's name for it, "" if there is none. `simulated`: the change that the simulation makes.
    `advice`: a change of the source to try, "" if there is none. `light`: why it cannot matter, "" if it may. `code`:
    the layout as C++, if it is one. `weight`: excess wavefronts or sectors. `title`: the name in texts.
    """

    name: str
    rule: str
    simulated: str
    advice: str
    edit: Edit
    light: str = ""
    code: str = ""
    weight: int = 0
    title: str = ""

    @property
    def place(self) -> str:
        """The source line, instruction or byte in the name, "" for causes of the whole run."""
        return self.name.partition("@")[2]


def access_causes(result: Result, by_line: bool) -> list[Cause]:
    """Bank conflicts and uncoalesced accesses, for each instruction or line that has some, and for all together."""
    program = result.program
    shared, beyond = excess(program, result)
    found = list(_each(program, shared, "conflicts", by_line)) + list(_each(program, beyond, "sectors", by_line))
    for name, of in (("conflicts", shared), ("sectors", beyond)):
        members = [cause for cause in found if cause.name.startswith(f"{name}@")]
        if len(members) > 1:
            count = sum(of.values())
            indices = frozenset(of)
            edit = Edit(wavefronts=indices) if name == "conflicts" else Edit(sectors=indices)
            simulated = f"{count:,} fewer {_UNITS[name]}"
            found.append(Cause(name, _rule(program, name, indices), simulated, _DO[name], edit, title=_TITLES[name]))
    return found


_UNITS = {"conflicts": "wavefronts", "sectors": "sectors"}
_TITLES = {"conflicts": "Bank conflicts", "sectors": "Uncoalesced accesses"}
_DO = {
    "conflicts": "pad or swizzle the tile",
    "sectors": "let neighboring lanes access neighboring words",
}


def excess(program: Program, result: Result) -> tuple[dict[int, int], dict[int, int]]:
    """Excess wavefronts (with the pieces of copies) and excess sectors by instruction, where there are some."""
    accesses = program.accesses
    least = at_ideal(accesses, result.arch)
    times = np.bincount(program.access, minlength=len(accesses))
    of = instructions_of_accesses(program)
    saved = accesses.wavefronts - least.wavefronts + accesses.copy_pieces - least.copy_pieces
    local = [op.index for op in program.ops if op.is_local]
    more = np.where((accesses.lines > 0) & ~np.isin(of, local), accesses.sectors - accesses.ideal_sectors, 0)
    return _by_instruction(of, saved * times), _by_instruction(of, more * times)


def _by_instruction(of: Column, counts: Column) -> dict[int, int]:
    """Positive counts, summed by instruction."""
    found: dict[int, int] = {}
    (places,) = np.nonzero((of >= 0) & (counts > 0))
    for index, count in zip(of[places].tolist(), counts[places].tolist(), strict=True):
        found[index] = found.get(index, 0) + count
    return found


def _each(program: Program, of: dict[int, int], name: str, by_line: bool) -> Iterator[Cause]:
    places: dict[str, list[int]] = {}
    for index in sorted(of):
        instruction = program.code[index]
        if by_line:
            place = ":".join(map(str, instruction.own_line)) if instruction.source else "unknown"
        else:
            place = f"{instruction.offset:04x}"
        places.setdefault(place, []).append(index)
    for place, indices in places.items():
        count = sum(of[index] for index in indices)
        chosen = frozenset(indices)
        edit = Edit(wavefronts=chosen) if name == "conflicts" else Edit(sectors=chosen)
        rule, simulated = _rule(program, name, chosen), f"{count:,} fewer {_UNITS[name]}"
        yield Cause(
            f"{name}@{place}", rule, simulated, _DO[name], edit, weight=count, title=f"{_TITLES[name]}, {place}"
        )  # fmt: skip


def _rule(program: Program, name: str, indices: frozenset[int]) -> str:
    if name == "sectors":
        return "Uncoalesced Global Accesses"
    loads = {program.code[index].operation.row in (Row.LOAD, Row.LOAD_MATRIX) for index in indices}
    if len(loads) > 1:
        return "Uncoalesced Shared Accesses"
    return "Shared Load Bank Conflicts" if True in loads else "Shared Store Bank Conflicts"


def program_causes(result: Result) -> list[Cause]:
    """Barriers, stall counts and residency: causes in the code or the launch, and in no value of the hardware."""
    program = result.program
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    resident = f"all {program.ctas} timed CTAs resident"
    return [
        Cause(
            "stall.barrier", stall_rule("barrier"), "barriers never wait",
            "balance the work between them", Edit(barriers_open=True), light(result, "barrier"),
            title=stall_title("barrier"),
        ),
        Cause(
            "stall.wait", stall_rule("wait"), "no fixed latencies",
            "interleave independent work",
            Edit(no_stall_counts=True), light(result, "wait"), title=stall_title("wait"),
        ),
        Cause(
            "occupancy", "Theoretical Occupancy", resident, _LESS[limit],
            Edit(all_resident=True),
            "" if program.ctas > program.resident_ctas else "all timed CTAs are on the SM at once", title="Occupancy",
        ),
    ]  # fmt: skip


_LESS = {
    "warps": "", "CTAs": "use larger CTAs", "registers": "use fewer registers",
    "shared memory": "use less shared memory",
}  # fmt: skip
"""Ways to fit more CTAs on the SM, by the limit of their number."""


def stall_title(reason: str) -> str:
    """The name of a stall reason's row: "Long Scoreboard stalls"."""
    return f"{stall_reason(reason).title.removesuffix(' Stall')} stalls"


def stall_rule(reason: str) -> str:
    """The heading of the profiler's message about a stall reason, which capitalizes every word: "Imc Miss Stalls"."""
    return f"{reason.replace('_', ' ').title()} Stalls"


def light(result: Result, *reasons: str) -> str:
    """The reason why stalls for these reasons cannot matter, "" if they may."""
    cycles = sum(result.stalls[reason] for reason in reasons)
    total = sum(result.stalls.values())
    if cycles >= LEAST_SHARE * total and cycles:
        return ""
    named = " and ".join(reasons)
    return f"no warp waited for it ({named})" if not cycles else f"under 1 % of the stalls ({named})"


def pruned(causes: list[Cause]) -> list[Cause]:
    """Mark causes whose edit an earlier cause has, and causes whose edit changes nothing."""
    seen: dict[Edit, str] = {}
    kept = []
    for cause in causes:
        same = seen.setdefault(cause.edit, cause.name)
        if cause.edit == Edit():
            cause = replace(cause, light=cause.light or "it is at its least already")
        elif same != cause.name:
            cause = replace(cause, light=cause.light or f"the same as {same}")
        kept.append(cause)
    return kept
