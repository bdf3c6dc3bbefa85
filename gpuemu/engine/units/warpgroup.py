"""The asynchronous side of the tensor cores: products of a warpgroup (wgmma), each warp's part by its sub-core.

The four warps meet at WARPGROUP.ARRIVE. Their next instruction for the unit issues `arrive_cycles` after the last
arrival and waits for `gmma`. A product waits in a queue of the first warp's sub-core. Only that warp waits for room in
the queue; the others go ahead, up to where they meet it. When all warps have issued their part, the product keeps the
tensor cores for its duration, one product after another, whichever warpgroups they belong to. The duration is half a
cycle per column, or a cycle per wavefront of its operands in shared memory, whichever is longer. Its sums are there
`latency_cycles` after its turn, but the next product of a chain does not wait for them. Working products take the ports
of the register file in two of each four cycles, bank by bank, so arithmetic beside them takes twice as long.

IMAD.WIDE and IMAD.HI, which read twice, find no gap between products with sums of 32 bits (those with sums of 16 bits
leave room). When one of them has waited for `give_way_after_cycles`, the products pause for `give_way_cycles` on all
sub-cores, while up to `give_way_instructions` of them issue. What uses the tensor pipe (HFMA2.MMA, FP64, mma) waits
until all products of its sub-core are done.
WARPGROUP.DEPBAR waits until all but the last groups of the warp's products are done. If the warps do not have the same
products, each warp is alone.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_sub_core, each_warp
from gpuemu.engine.units.dependences import look_again, written_at
from gpuemu.engine.units.pipes import enter_queue, leave_queue
from gpuemu.isa.kind import Kind

GROUPS = 8
"""The groups whose ends are kept; code waits for all but a few."""


class Products(Record):
    """A sub-core's tensor core: the cycle until which products have it (`free_at`), and from which all are done.

    From `reads_from` until `reads_until` they read and write registers, in `busy` cycles of each `period`. An
    instruction that reads twice has `asked` for a pause in that cycle, or 0. The last pause ends at `pause_until`;
    `passed` instructions have issued in it.
    """

    free_at: int
    done_at: int
    asked: int
    pause_until: int
    passed: int
    reads_from: int
    reads_until: int
    period: int
    busy: int


class Groups(Record):
    """A warp's groups of products.

    It meets `warps` warps, of which `first` is the first. It has `arrived` so often, and its later instructions issue
    from `met_at` on. It has `issued` so many products, the last of which ends at `done_at`. Of the `count` groups,
    `ends` has the ends of the last, as far as the first `ended` are known.
    """

    first: int
    warps: int
    arrived: int
    met_at: int
    issued: int
    done_at: int
    count: int
    ended: int
    ends: Annotated[list[int], 8]

    def begin(self, m: Setup, number: int) -> None:
        """No warp has arrived."""
        if number < m.program.warps:
            self.first, self.warps = (int(column[number]) for column in m.warpgroups)


def take_product(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues its part of a product."""
    op, core, groups = state.ops[o], state.cores[c], state.product_groups[w]
    number = groups.issued
    groups.issued += 1
    written_at(state, w, o, NEVER)
    if op.commits:
        groups.ends[groups.count % GROUPS] = NEVER
        groups.count += 1
    if w == groups.first:
        enter_queue(state, core.pipes_at + op.pipe, now)
    start = now
    for one in range(groups.first, groups.first + groups.warps):
        if state.product_groups[one].issued <= number:
            return
        start = max(start, state.products[state.warps[one].core].free_at)
    for one in range(groups.first, groups.first + groups.warps):
        _begins(state, one, o, start, now)


def _begins(state: State, w: int, o: int, start: int, now: int) -> None:
    """A warp's part of a product has its turn from `start` on."""
    op, groups, warp = state.ops[o], state.product_groups[w], state.warps[w]
    core, products = state.cores[warp.core], state.products[warp.core]
    start = max(start, products.free_at)
    products.free_at = start + op.product_cycles
    if w == groups.first:
        leave_queue(state, core, core.pipes_at + op.pipe, products.free_at)
    begins = start + state.spec[0].tensor_core_warpgroup_first_read_cycles
    if begins > products.reads_until:
        products.reads_from, products.asked = begins, 0
    if op.product_cycles > 0:
        products.reads_until = begins + op.product_cycles
        products.period, products.busy = op.product_period, op.product_busy
    groups.done_at = max(groups.done_at, start + op.latency_cycles)
    products.done_at = max(products.done_at, groups.done_at)
    written_at(state, w, o, groups.done_at)
    if op.commits:
        if groups.count - groups.ended <= GROUPS:
            groups.ends[groups.ended % GROUPS] = groups.done_at
        groups.ended += 1
    look_again(state, w, now)


def products_at_registers(products: Products, cycle: int) -> int:
    """Whether products of warpgroups have a port, one product after the other.

    In each period they read their accumulators from one bank after the other, and write them a cycle before the first
    read.
    """
    if cycle < max(products.reads_from, products.pause_until) or cycle >= products.reads_until:
        return 0
    return 1 if (cycle - products.reads_from) % products.period < products.busy else 0


def products_let_by(state: State, c: int, op: OpRecord, now: int) -> int:
    """The first cycle, as far as is known, in which the sub-core's products let an instruction issue that might `now`.

    The products pause from now on if it has waited long enough.
    """
    spec = state.spec[0]
    products: Products = state.products[c]
    if state.pipes[state.cores[c].pipes_at + op.pipe].is_tensor:
        return products.done_at + spec.tensor_core_warpgroup_tensor_pipe_cycles
    if op.second_read == 0 or now + 1 < products.reads_from or now >= products.reads_until:
        return now
    in_pause = now + op.second_read < products.pause_until
    if in_pause and products.passed < spec.tensor_core_warpgroup_give_way_instructions:
        return now
    apart, free = op.second_read % products.period, products.period - products.busy
    if free > min(apart, products.period - apart):
        return now
    if products.asked == 0:
        products.asked = now
    granted = products.asked + spec.tensor_core_warpgroup_give_way_after_cycles
    granted += (products.reads_from - granted) % products.period
    if granted <= now:
        _pause(state, c, now)
    return min(max(granted, now), products.reads_until)


def _pause(state: State, c: int, now: int) -> None:
    """The products of a sub-core pause from now on, so that those of the others, which keep step, are late, too."""
    spec, paused_until = state.spec[0], now
    for other in range(spec.sm_sub_cores):
        paused_until = max(paused_until, state.products[other].pause_until)
    state.products[c].asked = state.products[c].passed = 0
    state.products[c].pause_until = now + spec.tensor_core_warpgroup_give_way_cycles
    cycles = state.products[c].pause_until - paused_until
    for other in range(spec.sm_sub_cores):
        core, products = state.cores[other], state.products[other]
        if products.done_at <= now:
            continue
        products.free_at += cycles
        products.done_at += cycles
        products.reads_from += cycles
        products.reads_until += cycles
        for i in range(core.warps):
            w = state.warps_of[core.warps_at + i]
            groups = state.product_groups[w]
            if groups.done_at > now:
                groups.done_at += cycles
            for k in range(GROUPS):
                if now < groups.ends[k] < NEVER:
                    groups.ends[k] += cycles
            look_again(state, w, now)


def take_wait(state: State, c: int, w: int, o: int, now: int) -> None:
    """A wait has nothing left to wait for when it issues; the last warp to arrive lets all go on."""
    groups = state.product_groups[w]
    if state.ops[o].arrives_only == 0:
        return
    groups.arrived += 1
    groups.met_at = NEVER
    for one in range(groups.first, groups.first + groups.warps):
        if state.product_groups[one].arrived < groups.arrived:
            return
    for one in range(groups.first, groups.first + groups.warps):
        state.product_groups[one].met_at = now + state.spec[0].tensor_core_warpgroup_arrive_cycles
        look_again(state, one, now)


WARPGROUP = Unit(
    "warpgroup",
    records={"products": Kept(Products, each_sub_core), "product_groups": Kept(Groups, each_warp)},
    takes=(
        Takes(
            take_product, (Kind.PRODUCT,), queue=lambda s: s.tensor_core_warpgroup_queue_entries, pipe="warpgroup",
            throttle="mio_throttle",
        ),
        Takes(take_wait, (Kind.PRODUCT_WAIT,)),
    ),
)  # fmt: skip
