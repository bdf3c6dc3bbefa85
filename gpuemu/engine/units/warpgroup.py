"""The asynchronous side of the tensor cores: products of a warpgroup (wgmma), each warp's part by its sub-core.

A product waits in a queue of its sub-core and keeps the tensor core for what it takes, one behind another, whichever
warpgroups they are of: half a cycle a column, or a cycle for each wavefront that its operands are in shared memory,
whichever is longer. What it adds up is there `latency_cycles` behind its turn; the next of a chain does not wait for
that. While products work they have the ports of the register file in two of each four cycles, bank by bank, so that
arithmetic beside them takes twice as long. WARPGROUP.DEPBAR waits until all but the last groups of the warp's products
are done.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.records import Record
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_sub_core, each_warp
from gpuemu.engine.units.dependences import written_at
from gpuemu.engine.units.pipes import enter_queue, leave_queue
from gpuemu.isa.kind import Kind

GROUPS = 8
"""Groups whose ends are known; code waits for all but a few."""


class Products(Record):
    """A sub-core's tensor core: until when products have it (`free_at`).

    From `reads_from` until `reads_until` they read and write registers, in `busy` cycles of each `period`.
    """

    free_at: int
    reads_from: int
    reads_until: int
    period: int
    busy: int


class Groups(Record):
    """A warp's: when the last product is done, and the last groups, of which there were `count`."""

    done_at: int
    count: int
    ends: Annotated[list[int], 8]


def take_product(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues its part of a product."""
    op, core, products, groups = state.ops[o], state.cores[c], state.products[c], state.product_groups[w]
    start = max(now, products.free_at)
    products.free_at = start + op.product_cycles
    enter_queue(state, core.pipes_at + op.pipe, now)
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
        groups.ends[groups.count % GROUPS] = groups.done_at
        groups.count += 1


def products_at_registers(products: Products, cycle: int) -> int:
    """Whether products of warpgroups have a port, one product behind the other.

    In each period they read their accumulators from one bank after the other, and write them a cycle before the first.
    """
    if cycle < products.reads_from or cycle >= products.reads_until:
        return 0
    return 1 if (cycle - products.reads_from) % products.period < products.busy else 0


def take_wait(state: State, c: int, w: int, o: int, now: int) -> None:
    """A wait has nothing left to wait for when it issues."""


WARPGROUP = Unit(
    "warpgroup",
    records={"products": Kept(Products, each_sub_core), "product_groups": Kept(Groups, each_warp)},
    takes=(
        Takes(take_product, (Kind.PRODUCT,), queue=lambda s: s.tensor_core_warpgroup_queue_entries, pipe="warpgroup"),
        Takes(take_wait, (Kind.PRODUCT_WAIT,)),
    ),
)
