"""A lower bound on the time of a launch, before anything is replayed: its start, and the busiest resource.

The resources are the issue slots of an SM, its data stage, and the rate of L2. Loads that can hit L1 do not count, and
L2 has the rate that it reaches when SMs request the same data. The estimate of a launch is above all of these bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.chip.cta_work import copies_in, work_of
from gpuemu.chip.estimate import SECTOR_BYTES
from gpuemu.chip.rates import at_clock
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace

SLACK = 0.9
"""The fraction of a bound that counts, because the times of CTAs that were not run are extrapolated."""


class Least(NamedTuple):
    """The lower bound of a launch at the chip's clock, as estimates are, and the resource that determines it."""

    nanoseconds: float
    resource: str


def least(trace: Trace, arch: Architecture, program: Program) -> Least:
    """The lower bound of the launch of `trace`. `program`: that of the timed CTAs."""
    chip, sms = at_clock(arch.chips[arch.chip], program), arch.chips[arch.chip].sms
    work = work_of(trace)
    timed = len(program.path)
    times = float(work.sum()) / max(1, timed)  # instructions of the grid per instruction of these CTAs
    ports = arch.shared_memory.ports
    wide = ports.unified if ports.topology == "unified" else ports.read + ports.write
    held = int(program.accesses.data_stage_cycles[program.access].sum())
    together = chip.l2_together_bytes_per_cycle or chip.l2_read_bytes_per_cycle
    found = {
        "issue slots": timed / (arch.sm.sub_cores * sms),
        "the data stage of shared memory and L1": held / (wide * sms),
        "L2": _loaded(program) * SECTOR_BYTES / together if together else 0.0,
    }
    resource = max(found, key=lambda name: found[name])
    cycles = (chip.launch_cycles or 0) + SLACK * times * found[resource]
    return Least(cycles * 1000 / arch.chips[arch.chip].clock_mhz, resource)


def _loaded(program: Program) -> int:
    """Sectors of loads that bypass L1."""
    op = program.path[program.request_issue]
    from_l2 = [
        o.kind is Kind.GLOBAL and (o.is_load or o.row is not None) and not (o.is_cached or o.is_local)
        for o in program.ops
    ]
    sectors = int(program.accesses.sectors[program.access][np.array(from_l2)[op]].sum())
    if program.events is not None and len(program.events.issue):
        copies = np.array([copies_in(program.code[o.index]) for o in program.ops])[program.path[program.events.issue]]
        sectors += int(program.events.sectors[program.events.number[copies]].sum())
    return sectors
