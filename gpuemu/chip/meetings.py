"""Where the warps of a CTA wait for each other: barriers, and the phases of mbarriers, from the run of the CTA alone.

A meeting is one such time: it ends with the last of its arrivals. The steps of a CTA name meetings by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.chip.cta_work import COPIES
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import BARRIER

Place = tuple[int, int, int]
"""The kind of a meeting (0 a barrier, 1 an mbarrier), its barrier, and how often that was used before."""


@dataclass
class Meetings:
    """The meetings of a CTA: the number of each, the arrivals that it needs, and the shortest wait for a barrier.

    `arrives`: issue → meetings at which it arrives. `waits`: issue → the meeting that it waits for. `delay`: cycles
    from the last arrival at a barrier to the next issue.
    """

    number: dict[Place, int] = field(default_factory=dict)
    arrivals: list[int] = field(default_factory=list)
    delay: list[int] = field(default_factory=list)
    arrives: dict[int, list[int]] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)

    def at(self, place: Place) -> int:
        """The number of a meeting."""
        if place not in self.number:
            self.number[place] = len(self.arrivals)
            self.arrivals.append(0)
            self.delay.append(0)
        return self.number[place]

    def arrive(self, issue: int, place: Place) -> None:
        """An instruction arrives at a meeting."""
        meeting = self.at(place)
        self.arrivals[meeting] += 1
        self.arrives.setdefault(issue, []).append(meeting)


def meetings_of(program: Program, log: Log, cta: int, arch: Architecture) -> Meetings:
    """The meetings of a CTA of the program."""
    found = Meetings()
    _barriers(program, log, cta, found)
    _mbarriers(program, log, cta, arch, found)
    return found


def _barriers(program: Program, log: Log, cta: int, found: Meetings) -> None:
    """BAR: the warps of a barrier arrive in turn, each as often as the others."""
    ops = program.ops
    is_barrier = np.array([op.kind is Kind.BARRIER for op in ops])[program.path]
    uses: list[tuple[int, int, int, int]] = []  # cycle, issue, the issue behind the warp's last, and how often before
    for warp in range(program.first_warp[cta], program.first_warp[cta + 1]):
        first, end = int(program.first_issue[warp]), int(program.first_issue[warp + 1])
        used: dict[int, int] = {}
        for issue in (first + np.flatnonzero(is_barrier[first:end])).tolist():
            number = ops[program.path[issue]].barrier_id
            uses.append((int(log.issue[issue]), issue, end, used.get(number, 0)))
            used[number] = used.get(number, 0) + 1
    waits: dict[int, list[int]] = {}
    came: dict[int, int] = {}
    for _, issue, end, before in sorted(uses):
        op = ops[program.path[issue]]
        if op.barrier_warps:  # some warps of the CTA, as many as it says
            before = came.get(op.barrier_id, 0) // op.barrier_warps
            came[op.barrier_id] = came.get(op.barrier_id, 0) + 1
        place = 0, op.barrier_id, before
        found.arrive(issue, place)
        if not op.arrives_only and issue + 1 < end:
            found.waits[issue] = found.at(place)
            waits.setdefault(found.at(place), []).append(int(log.waited[issue + 1, BARRIER]))
    for meeting, cycles in waits.items():
        found.delay[meeting] = min(cycles)


def _mbarriers(program: Program, log: Log, cta: int, arch: Architecture, found: Meetings) -> None:
    """The phases of mbarriers, by the same rules as the unit's, from the cycles in which the effects came."""
    events = program.events
    if events is None or not len(events.issue):
        return
    first, end = program.first_issue[program.first_warp[cta]], program.first_issue[program.first_warp[cta + 1]]
    effects = []
    for k in range(*np.searchsorted(events.issue, [first, end])):
        issue, event = int(events.issue[k]), int(events.number[k])
        instruction = program.code[program.ops[program.path[issue]].index]
        copies, tests = instruction.mnemonic in COPIES, instruction.has("PHASECHK")
        cycle = int(log.result[issue]) if copies else int(log.issue[issue]) + arch.mbarrier.arrive_cycles
        starts = instruction.mnemonic == "SYNCS" and instruction.has("EXCH")
        effects.append((cycle, k, issue, event, copies, tests, starts))
    taken: dict[int, int] = {}
    missing: dict[int, int] = {}
    lacking: dict[int, int] = {}
    phase: dict[int, int] = {}
    for _, _, issue, event, copies, tests, starts in sorted(effects):
        barriers = events.barrier[events.first_barrier[event] : events.first_barrier[event + 1]].tolist()
        arrivals, amount = int(events.arrivals[event]), int(events.bytes[event])
        changes = [(barrier, arrivals, -amount if copies else amount) for barrier in barriers]
        if events.other[event] >= 0:
            of_others = int(events.other_arrivals[event]), -int(events.other_bytes[event])
            changes.append((int(events.other[event]), *of_others))
        for barrier, count, more in changes:
            if starts:
                taken[barrier] = missing[barrier] = count
                lacking[barrier] = 0
                phase[barrier] = -(-phase.get(barrier, 0) // 2) * 2
                continue
            if barrier not in taken:
                continue
            now = phase[barrier]
            if tests:
                wanted = now if now % 2 == events.parity[event] else now - 1
                if wanted >= 0:
                    found.waits[issue] = found.at((1, barrier, wanted))
                continue
            found.arrive(issue, (1, barrier, now))
            missing[barrier] -= count
            lacking[barrier] += more
            if missing[barrier] == 0 and lacking[barrier] == 0:
                phase[barrier], missing[barrier] = now + 1, taken[barrier]
