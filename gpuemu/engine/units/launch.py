"""The launching of CTAs: as many as fit, each in the place of one that ended `sm.cta_launch_cycles` before.

The first begins `launch.overhead_cycles` behind the start of the launch, the others one behind another, and so do the
warps of each. A warp has its first instruction `launch.first_code_cycles` behind its start.

A CTA gets the lowest free place, each of its warps the lowest free warp slot; warp slot w lies in sub-core w mod
`sm.sub_cores`.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.unit import Unit
from gpuemu.engine.units.barrier import IDS
from gpuemu.engine.units.code_caches import remember
from gpuemu.engine.units.dependences import FIELDS
from gpuemu.engine.units.phases import wake_sub_core
from gpuemu.program.stall_reasons import NO_INSTRUCTION

LONG_AGO = -(1 << 40)


def tick_launch(state: State, now: int) -> int:
    """Clear the places of CTAs that ended long enough ago, and launch others there."""
    spec, sm, pool = state.spec[0], state.sm[0], state.pool
    wanted = NEVER
    for slot in range(sm.resident_ctas):
        number = pool[sm.cta_slots_at + slot]
        if number >= 0 and state.ctas[number].live == 0 and state.ctas[number].draining == 0:
            free_at = state.ctas[number].drained_at + spec.sm_cta_launch_cycles
            if free_at > now:
                wanted = min(wanted, free_at)
            else:
                pool[sm.cta_slots_at + slot] = -1
                cta = state.ctas[number]
                for w in range(cta.first_warp, cta.first_warp + cta.warps):
                    pool[sm.warp_slots_at + state.warps[w].slot] = -1
                for barrier in range(slot * IDS, (slot + 1) * IDS):
                    state.gatherings[barrier].arrivals = 0
    for slot in range(sm.resident_ctas):
        if sm.next_cta < sm.ctas and pool[sm.cta_slots_at + slot] < 0:
            if now < sm.next_launch_at:
                return min(wanted, sm.next_launch_at)
            _launch(state, slot, now)
    return wanted


def _launch(state: State, slot: int, now: int) -> None:
    spec, sm, pool = state.spec[0], state.sm[0], state.pool
    number = sm.next_cta
    if number == 0 and sm.code_waits:
        remember(state)
    cta = state.ctas[number]
    pool[sm.cta_slots_at + slot] = number
    cta.slot, cta.live = slot, cta.warps
    sm.next_cta += 1
    warp_slot, start = 0, now
    for w in range(cta.first_warp, cta.first_warp + cta.warps):
        while pool[sm.warp_slots_at + warp_slot] >= 0:
            warp_slot += 1
        pool[sm.warp_slots_at + warp_slot] = w
        warp, c = state.warps[w], warp_slot % spec.sm_sub_cores
        core = state.cores[c]
        warp.cta, warp.slot, warp.core, warp.started_at = number, warp_slot, c, start
        warp.op = state.path[warp.position]
        warp.pipe = core.pipes_at + state.ops[warp.op].pipe
        warp.issued_at = warp.seen_at = warp.barrier_id = warp.branched_at = warp.next_line = warp.code_line = -1
        warp.blocked_from = warp.opens_at = NEVER
        warp.order = 2 * start
        warp.stalled_until = start
        warp.ready_at = warp.held_until = start + spec.launch_first_code_cycles
        warp.held_for = warp.reason = NO_INSTRUCTION
        warp.registers_at = sm.registers_at + warp_slot * sm.registers * FIELDS
        warp.forwarded_at = sm.forwarded_at + warp_slot * sm.forwarded
        warp.late_code_at = sm.late_code_at + warp_slot * 8 * spec.issue_instruction_buffer_entries
        for i in range(sm.registers * FIELDS):
            pool[warp.registers_at + i] = 0
        for i in range(sm.forwarded):
            pool[warp.forwarded_at + i] = LONG_AGO
        for i in range(8 * spec.issue_instruction_buffer_entries):
            pool[warp.late_code_at + i] = -1
        pool[core.warps_at + core.warps] = w
        core.warps += 1
        wake_sub_core(state, c, max(now, warp.ready_at))
        start += spec.launch_warp_interval_cycles
    last = start - spec.launch_warp_interval_cycles
    sm.next_launch_at = max(now + spec.launch_cta_interval_cycles, last + spec.launch_cta_gap_cycles)


LAUNCH = Unit("launch", tick_launch)
