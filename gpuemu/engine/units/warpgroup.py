"""The asynchronous side of the tensor cores: products of a warpgroup (wgmma), each warp's part by its sub-core.

The four warps meet at WARPGROUP.ARRIVE. Their next instruction for the unit issues `arrive_cycles` after the last
arrival and waits for `gmma`. A product waits in a queue of the first warp's sub-core. Only that warp waits for room in
the queue; the others go ahead, up to where they meet it. When all warps have issued their part, the product keeps the
tensor cores for its duration, one product after another, whichever warpgroups they belong to. The duration is half a
cycle per column, or a cycle per wavefront of its operands in shared memory, whichever is longer. Its sums are there
`latency_cycles` after its turn, but the next product of a chain does not wait for them. Working products take the ports
of the register file in two of each four cycles, bank by bank, so arithmetic beside them takes twice as long. A warp
with an instruction that writes twice, two cycles apart (IMAD.WIDE), waits for the end of all products.
WARPGROUP.DEPBAR waits until all but the last groups of the warp's products are done. If the warps do not have the same
products, each warp is alone.
"""

from __future__ import annotations

from typing import Annotated

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
    """A sub-core's tensor core: the cycle until which products have it (`free_at`).

    From `reads_from` until `reads_until` they read and write registers, in `busy` cycles of each `period`.
    """

    free_at: int
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
        products.reads_from = begins
    if op.product_cycles > 0:
        products.reads_until = begins + op.product_cycles
        products.period, products.busy = op.product_period, op.product_busy
    groups.done_at = max(groups.done_at, start + op.latency_cycles)
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
    if cycle < products.reads_from or cycle >= products.reads_until:
        return 0
    return 1 if (cycle - products.reads_from) % products.period < products.busy else 0


def free_twice(products: Products, cycle: int, apart: int) -> int:
    """The first cycle from `cycle` on, to within a period, in which products leave the ports, and again `apart` cycles
    later: the end of the products if they never do.
    """
    for at in range(cycle, cycle + products.period):
        if products_at_registers(products, at) == 0 and products_at_registers(products, at + apart) == 0:
            return cycle
    return products.reads_until


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
