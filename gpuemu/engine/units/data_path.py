"""The path on which the data of stores follow their addresses. All sub-cores share it.

The path takes `mio.data_registers_per_cycle`, and one register of a store every `mio.cycles_per_source_register`. The
register that has waited longest goes first. Of several, the register of the store that could leave its queue first goes
first. Stores that could leave in the same cycle take turns.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.load_store import sent_later
from gpuemu.engine.units.phases import early, turn
from gpuemu.engine.units.rings import length, nth, pop, push


class DataPath(Record):
    """The cycle in which a sub-core last sent a register."""

    sent_at: int

    def begin(self, m: Setup, number: int) -> None:
        """The sub-cores begin in the order of their numbers."""
        self.sent_at = number - m.spec.sm_sub_cores


def tick_data_path(state: State, now: int) -> int:
    """Send the registers whose turn it is. All other registers that are due come a cycle later."""
    spec = state.spec[0]
    path, cycle = state.load_store[0].data_path, early(state, now)
    for _ in range(spec.mio_data_registers_per_cycle):
        best = -1
        for i in range(length(state, path)):
            f = nth(state, path, i)
            if state.flights[f].due <= cycle and (best < 0 or _goes_before(state, f, best)):
                best = f
        if best < 0:
            break
        best = _takes_turns(state, best, cycle)
        flight = state.flights[best]
        state.data_paths[flight.core].sent_at = cycle
        flight.registers -= 1
        flight.due = cycle + spec.mio_cycles_per_source_register
    wanted = NEVER
    for _ in range(length(state, path)):
        f = pop(state, path)
        flight = state.flights[f]
        if flight.registers > 0:
            if flight.due <= cycle:
                sent_later(state, f, 1, now)
            wanted = min(wanted, max(now + 1, turn(state, flight.due)))
            push(state, path, f)
    return wanted


def _goes_before(state: State, f: int, g: int) -> int:
    """Whether a register has waited longer than another, or could leave its queue sooner."""
    one, other = state.flights[f], state.flights[g]
    if one.due != other.due:
        return 1 if one.due < other.due else 0
    return 1 if one.since < other.since else 0


def _takes_turns(state: State, first: int, cycle: int) -> int:
    """The store whose sub-core sent a register longest ago, among the stores that could leave their queues with
    `first`.
    """
    path = state.load_store[0].data_path
    best = -1
    for i in range(length(state, path)):
        f = nth(state, path, i)
        flight = state.flights[f]
        if flight.due > cycle or flight.since != state.flights[first].since:
            continue
        if best < 0 or state.data_paths[flight.core].sent_at < state.data_paths[state.flights[best].core].sent_at:
            best = f
    return best


DATA_PATH = Unit("data_path", tick_data_path, records={"data_paths": Kept(DataPath, each_sub_core)})
