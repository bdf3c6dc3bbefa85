"""What may cost cycles in a run: every cause with the edit that takes it away, and what it weighs.

docs/why.md has the table. A cause that cannot gain, because nothing ever waited for it, is not run unless asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuemu.isa.opcodes import Row
from gpuemu.program.program import Column, Program
from gpuemu.studies.why.edits import Edit, at_ideal, instructions_of_accesses
from gpuemu.views.result import Result

LEAST_SHARE = 0.01
"""Of all stall cycles, or of the run's cycles for a resource alone: a cause that has less weighs nothing."""


@dataclass(frozen=True)
class Cause:
    """Something that may cost cycles.

    `rule`: the profiler's name for it, "" where it has none. `advice`: what to do. `light`: why it cannot gain, ""
    where it may. `code`: the layout as C++, where it is one. `weight`: excess wavefronts or sectors.
    """

    name: str
    rule: str
    advice: str
    edit: Edit
    light: str = ""
    code: str = ""
    weight: int = 0


def access_causes(result: Result, by_line: bool) -> list[Cause]:
    """Bank conflicts and uncoalesced accesses, of each instruction or line that has some, and of all together."""
    program = result.program
    shared, beyond = excess(program, result)
    found = list(_each(program, shared, "conflicts", by_line)) + list(_each(program, beyond, "sectors", by_line))
    for name, of in (("conflicts", shared), ("sectors", beyond)):
        members = [cause for cause in found if cause.name.startswith(f"{name}@")]
        if len(members) > 1:
            count = sum(of.values())
            advice = f"all of them, {count} excess {_UNITS[name]}: {_DO[name]}"
            indices = frozenset(of)
            edit = Edit(wavefronts=indices) if name == "conflicts" else Edit(sectors=indices)
            found.append(Cause(name, _rule(program, name, indices), advice, edit))
    return found


_UNITS = {"conflicts": "wavefronts", "sectors": "sectors"}
_DO = {
    "conflicts": "pad or swizzle the tile so that the lanes of a phase are in different banks",
    "sectors": "let neighbouring lanes access neighbouring words, by way of shared memory if need be",
}


def excess(program: Program, result: Result) -> tuple[dict[int, int], dict[int, int]]:
    """By instruction the wavefronts, with the pieces of copies, and the sectors beyond the fewest, if there are any."""
    accesses = program.accesses
    least = at_ideal(accesses, result.arch)
    times = np.bincount(program.access, minlength=len(accesses))
    of = instructions_of_accesses(program)
    saved = accesses.wavefronts - least.wavefronts + accesses.copy_pieces - least.copy_pieces
    local = [op.index for op in program.ops if op.is_local]
    more = np.where((accesses.lines > 0) & ~np.isin(of, local), accesses.sectors - accesses.ideal_sectors, 0)
    return _by_instruction(of, saved * times), _by_instruction(of, more * times)


def _by_instruction(of: Column, counts: Column) -> dict[int, int]:
    """Counts added up by instruction, those above 0."""
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
        what = program.code[indices[0]].opcode if len(indices) == 1 else f"{len(indices)} instructions"
        advice = f"{what}, {count} excess {_UNITS[name]}: {_DO[name]}"
        chosen = frozenset(indices)
        edit = Edit(wavefronts=chosen) if name == "conflicts" else Edit(sectors=chosen)
        yield Cause(f"{name}@{place}", _rule(program, name, chosen), advice, edit, weight=count)


def _rule(program: Program, name: str, indices: frozenset[int]) -> str:
    if name == "sectors":
        return "Uncoalesced Global Accesses"
    loads = {program.code[index].operation.row in (Row.LOAD, Row.LOAD_MATRIX) for index in indices}
    if len(loads) > 1:
        return "Uncoalesced Shared Accesses"
    return "Shared Load Bank Conflicts" if True in loads else "Shared Store Bank Conflicts"


def program_causes(result: Result) -> list[Cause]:
    """Barriers, stall counts and residency: what is in the code or the launch, and in no value of the hardware."""
    program = result.program
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    return [
        Cause(
            "stall.barrier", stall_rule("barrier"),
            "who comes to a barrier goes on: give the warps equal work between barriers, or fewer barriers",
            Edit(barriers_open=True), light(result, "barrier"),
        ),
        Cause(
            "stall.wait", stall_rule("wait"),
            "no stall counts: more independent instructions between each result and its use, or more warps",
            Edit(no_stall_counts=True), light(result, "wait"),
        ),
        Cause(
            "occupancy", "Theoretical Occupancy",
            f"all {program.ctas} timed CTAs at once, as warps allow: {program.resident_ctas} fit, limited by {limit}",
            Edit(all_resident=True),
            "" if program.ctas > program.resident_ctas else "all timed CTAs are on the SM at once",
        ),
    ]  # fmt: skip


def stall_rule(reason: str) -> str:
    """What the profiler heads its message about a stall reason with: the reason's own words, each with a capital."""
    return f"{reason.replace('_', ' ').title()} Stalls"


def light(result: Result, *reasons: str) -> str:
    """Why stalls for these reasons cannot matter, "" if they may."""
    cycles = sum(result.stalls[reason] for reason in reasons)
    total = sum(result.stalls.values())
    if cycles >= LEAST_SHARE * total and cycles:
        return ""
    named = " and ".join(reasons)
    return f"no warp waited for it ({named})" if not cycles else f"under 1 % of the stalls ({named})"


def pruned(causes: list[Cause]) -> list[Cause]:
    """Causes whose edit another before has are noted as such; those that change nothing, too."""
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
