"""Requests on their way from the load/store unit to the data stage, and the room for more.

There is room for `mio.pool_entries` requests, `mio.store_data_registers` of stores and `mio.store_pool_wavefronts` of
global stores.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup


class LoadStore(Record):
    """The load/store unit: the requests on their way to the data stage, and the room for more."""

    next_accept: int
    sent: int
    sent_places: int
    sent_wavefronts: int
    sent_registers: int
    entered: int
    stored: int
    stored_wavefronts: int
    held_data: int
    held_registers: int
    data_path: int

    def begin(self, m: Setup, number: int) -> None:
        """No request has been sent."""
        s, room = m.spec, m.room
        self.sent = room.ring("requests on their way to the data stage", m.requests + 1)
        self.entered = room.ring("entries of the pool that fall free", min(m.requests, s.mio_pool_entries) + 2)
        # A store takes a place for each of its wavefronts, at least one, or waits for an empty pool.
        stores = min(m.requests, s.mio_store_pool_wavefronts + 1)
        self.stored = room.ring("stores that have not left L1", 2 * stores + 2)
        self.held_data, self.held_registers = (
            room.ring("stores whose data are held", min(m.requests, s.mio_store_data_registers + 1) + 1)
            for _ in range(2)
        )
        sent = min(m.requests, s.mio_pool_entries + s.sm_sub_cores)
        self.data_path = room.ring("stores whose data are sent", sent + 2)


class Mio(Record):
    """A sub-core's queue to the load/store unit. The request `outside` has left it, at `left_at`, and is not
    dispatched.

    The registers of the last dispatched request are sent until `sending_until`. `dispatched_at` and `accepted_at` are
    the last cycles of either.
    """

    queue: int
    outside: int
    left_at: int
    sending_until: int
    last_sent: int
    dispatched_at: int
    accepted_at: int

    def begin(self, m: Setup, number: int) -> None:
        """No request has been sent."""
        self.queue = m.room.ring("requests in a queue of the load/store unit", m.spec.mio_queue_entries + 2)
        self.outside = self.last_sent = -1
        self.dispatched_at = self.accepted_at = number - m.spec.sm_sub_cores
