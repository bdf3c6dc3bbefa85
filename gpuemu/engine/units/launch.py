"""The launch of CTAs: as many as warps, registers and shared memory allow, each in the place of one that ended.

A place is taken again after `sm.cta_launch_cycles`. The first CTA begins `launch.overhead_cycles` after the start of
the launch, and `launch.cold_cycles` later if all caches are flushed (`global_memory.first_touch` is dram). The other
CTAs begin one after another every `launch.cta_interval_cycles`, and the warps of each every
`launch.warp_interval_cycles`. A warp has its first instruction `launch.first_code_cycles` after its start.

A CTA gets the lowest free place, and each of its warps the lowest free warp slot. Warp slot w lies in sub-core w mod
`sm.sub_cores`.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit
from gpuemu.engine.units.barrier import IDS
from gpuemu.engine.units.code_caches import remember
from gpuemu.engine.units.dependences import launched_registers
from gpuemu.engine.units.fetch import launched_code
from gpuemu.engine.units.phases import wake_sub_core
from gpuemu.program.stall_reasons import NO_INSTRUCTION

LONG_AGO = -(1 << 40)


class Launcher(Record):
    """The next of the `ctas`, and the earliest cycle in which it may begin. `warp_of_slot`: the warp in each slot, or
    -1.

    Each warp slot has room for the cycles in which its `forwarded` registers came onto the forwarding path.
    """

    ctas: int
    next_cta: int
    next_at: int
    forwarded: int
    forwarded_at: int

    def begin(self, m: Setup, number: int) -> None:
        """All slots are free."""
        s = m.spec
        self.ctas, self.forwarded = m.program.ctas, m.facts.forwarded
        self.next_at = s.launch_overhead_cycles + s.first_touch_dram * s.launch_cold_cycles
        m.room.numbers("warp_of_slot", s.sm_max_warps, -1)
        self.forwarded_at = m.room.numbers("forwarded", s.sm_max_warps * self.forwarded)


def tick_launch(state: State, now: int) -> int:
    """Clear the places of CTAs that ended long enough ago, and launch other CTAs there."""
    spec, sm = state.spec[0], state.sm[0]
    launcher: Launcher = state.launcher[0]
    wanted = NEVER
    for slot in range(sm.resident_ctas):
        number = state.cta_of_slot[slot]
        if number >= 0 and state.ctas[number].live == 0 and state.ctas[number].draining == 0:
            free_at = state.ctas[number].drained_at + spec.sm_cta_launch_cycles
            if free_at > now:
                wanted = min(wanted, free_at)
            else:
                state.cta_of_slot[slot] = -1
                cta = state.ctas[number]
                for w in range(cta.first_warp, cta.first_warp + cta.warps):
                    state.warp_of_slot[state.warps[w].slot] = -1
                for barrier in range(slot * IDS, (slot + 1) * IDS):
                    state.gatherings[barrier].arrivals = 0
    for slot in range(sm.resident_ctas):
        if launcher.next_cta < launcher.ctas and state.cta_of_slot[slot] < 0:
            if now < launcher.next_at:
                return min(wanted, launcher.next_at)
            _launch(state, slot, now)
    return wanted


def _launch(state: State, slot: int, now: int) -> None:
    spec = state.spec[0]
    launcher: Launcher = state.launcher[0]
    number = launcher.next_cta
    if number == 0 and state.code[0].waits:
        remember(state)
    cta = state.ctas[number]
    state.cta_of_slot[slot] = number
    cta.slot, cta.live = slot, cta.warps
    launcher.next_cta += 1
    warp_slot, start = 0, now
    for w in range(cta.first_warp, cta.first_warp + cta.warps):
        while state.warp_of_slot[warp_slot] >= 0:
            warp_slot += 1
        state.warp_of_slot[warp_slot] = w
        warp, c = state.warps[w], warp_slot % spec.sm_sub_cores
        core = state.cores[c]
        warp.cta, warp.slot, warp.core = number, warp_slot, c
        warp.op = state.path[warp.position]
        warp.pipe = core.pipes_at + state.ops[warp.op].pipe
        warp.issued_at = warp.seen_at = warp.branched_at = warp.next_line = warp.code_line = -1
        warp.blocked_from = warp.opens_at = NEVER
        warp.stalled_until = state.lives[w].started_at = start
        warp.ready_at = warp.held_until = start + spec.launch_first_code_cycles
        warp.held_for = warp.reason = NO_INSTRUCTION
        warp.forwarded_at = launcher.forwarded_at + warp_slot * launcher.forwarded
        for i in range(launcher.forwarded):
            state.forwarded[warp.forwarded_at + i] = LONG_AGO
        state.at_barrier[w].id = -1
        state.ranks[w].turn = 2 * start
        launched_registers(state, w)
        launched_code(state, c, w)
        state.warps_of[core.warps_at + core.warps] = w
        core.warps += 1
        wake_sub_core(state, c, max(now, warp.ready_at))
        start += spec.launch_warp_interval_cycles
    last = start - spec.launch_warp_interval_cycles
    launcher.next_at = max(now + spec.launch_cta_interval_cycles, last + spec.launch_cta_gap_cycles)


LAUNCH = Unit("launch", tick_launch, records={"launcher": Kept(Launcher)}, columns=("warp_of_slot", "forwarded"))
