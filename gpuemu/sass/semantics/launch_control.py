"""Requests of sm_100 for the work of a cluster that has not begun (PTX: clusterlaunchcontrol.try_cancel).

    UGETNEXTWORKID.SELFCAST [UR4], [UR5]     16 bytes of answer to shared [UR4]; signals the mbarrier at UR5
    UGETNEXTWORKID.BROADCAST [UR4], [UR5]    the same in all CTAs of the cluster

The answer has the first CTA of the cluster that is taken, whose CTAs then never begin; see `scheduling.launch_control`.
The answer is there when the instruction has executed. Source: nvcc's code for query_cancel, which reads the answer.
"""

from __future__ import annotations

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.scheduling.launch_control import RESPONSE_BYTES, response
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import Copier, Uniform, numbers


@semantics("UGETNEXTWORKID")
def take_work(site: Site) -> Step:
    """UGETNEXTWORKID.SELFCAST or .BROADCAST [UR], [UR]: take over a cluster that has not begun."""
    if site.modifiers not in (("SELFCAST",), ("BROADCAST",)):
        raise site.unsupported("this form of UGETNEXTWORKID")
    target, barrier = numbers(site, "[[")
    registers, copier = Uniform(site), Copier(site)
    environment, memory = site.environment, site.environment.memory
    everyone = site.has("BROADCAST")

    def step(mask: Mask) -> None:
        control = environment.launch_control
        assert control is not None  # the launch has this instruction
        for lane in registers.lanes(mask):
            size = 1 if memory.cluster is None else len(memory.cluster.numbers)
            ranks = (1 << size) - 1 if everyone else 1 << memory.rank
            address, signal = registers.word(target, lane), registers.word(barrier, lane)
            chosen = copier.shared(address, None, RESPONSE_BYTES, lane, ranks)
            answer = response(control.take(environment.cta))
            copier.event(lane, address, signal, bytes=RESPONSE_BYTES)
            copier.to_others(ranks, chosen, answer, signal, lane)
            memory.shared[1][chosen] = answer
            copier.complete(signal, RESPONSE_BYTES, lane)

    return step
