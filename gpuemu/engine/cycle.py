"""The streaming multiprocessor: the phases of a cycle, and a plain loop over them.

A phase acts at the cycles that it or others wish for: never before, and no two twice in a cycle. What it does may let
a later phase act in the same cycle, any other in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuemu.engine.allocate import allocate
from gpuemu.engine.log import Cycles, Log
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.sm import StuckError
from gpuemu.engine.state import REASONS, State
from gpuemu.engine.units.barrier import arrivals, tick_barrier
from gpuemu.engine.units.data_path import tick_data_path
from gpuemu.engine.units.divergence import tick_divergence
from gpuemu.engine.units.launch import tick_launch
from gpuemu.engine.units.load_store import tick_load_store
from gpuemu.engine.units.pass_on import tick_pass_on
from gpuemu.engine.units.result_port import tick_results
from gpuemu.engine.units.scheduler import tick_sub_core
from gpuemu.engine.units.way_back import tick_way_back
from gpuemu.program.program import Program

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

PHASES = (
    (tick_launch, 1, "a CTA begins in the very cycle in which its place falls free"),
    (tick_load_store, 1, "a place in a queue that a dispatch frees can be taken in the same cycle"),
    (tick_data_path, 1, "what is dispatched waits for the path from its first cycle on"),
    (tick_pass_on, 1, "a register that the path holds back does not come to the data stage"),
    (tick_way_back, 1, "what passes the data stage goes back from the cycle on in which it is ready"),
    (tick_results, 1, "what has come back is written at once if its port and bank are free"),
    (tick_divergence, 1, "it sends before sub-cores issue, so that a place falls free for them"),
    (tick_sub_core, 0, "sub-cores see what is settled by this cycle; 0: as many as there are"),
    (tick_barrier, 1, "arrivals of a cycle are taken when all sub-cores have issued"),
)
"""Back to front: what does it, how many there are, and why it comes there. `units.phases` numbers them."""


def run(state: State) -> None:
    """From the first cycle until no phase wants to act any more."""
    units = [(tick, i) for tick, count, _ in PHASES for i in range(count or state.spec[0].sm_sub_cores)]
    wish = state.wish
    while (now := min(wish)) < NEVER:
        for phase, (tick, index) in enumerate(units):
            if wish[phase] == now:
                wish[phase] = NEVER
                wish[phase] = max(now + 1, min(tick(state, index, now), wish[phase]))


def execute(program: Program, arch: Architecture) -> Log:
    """Run a lowered program. Raises StuckError if warps wait for ever."""
    state = allocate(program, arch, compiled=False)
    run(state)
    stuck = [
        (int(program.warp_cta[w]), int(program.warp_number[w]), warp.barrier_op, arrivals(state, w))
        for w, warp in enumerate(state.warps)
        if warp.issued_at >= 0 and warp.op >= 0 and warp.barrier_id >= 0
    ]
    if stuck:
        raise StuckError(sorted(stuck))
    return log_of(program, state)


def _column(records: Sequence[Record], name: str, count: int) -> Cycles:
    return np.array([getattr(one, name) for one in records[:count]], dtype=np.int64)


def log_of(program: Program, state: State) -> Log:
    """What was logged, as columns."""
    requests = len(program.access)

    sm, memory = state.sm[0], state.memory[0]
    warps, flights = state.warps, state.flights
    starts, ends = _column(warps, "started_at", program.warps), _column(warps, "ended_at", program.warps)
    return Log(
        issue=np.array(state.issue, dtype=np.int64),
        waited=np.array(state.waited, dtype=np.int32).reshape(-1, REASONS),
        operands_late=np.array(state.operands_late, dtype=np.int32),
        dispatch=_column(flights, "dispatched_at", requests),
        start=_column(flights, "start", requests),
        done=_column(flights, "completion", requests),
        lost=_column(flights, "lost", requests),
        warp_start=starts,
        warp_end=ends,
        warp_sub_core=_column(warps, "core", program.warps),
        warp_slot=_column(warps, "slot", program.warps),
        cta_start=np.minimum.reduceat(starts, program.first_warp[:-1]),
        cta_end=np.maximum.reduceat(ends, program.first_warp[:-1]),
        cta_slot=_column(state.ctas, "slot", program.ctas),
        read_cycles=sm.read_cycles,
        write_cycles=sm.write_cycles,
        loaded_sectors=memory.loaded_sectors,
        stored_sectors=memory.stored_sectors,
    )
