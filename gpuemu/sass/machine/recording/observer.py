"""The interface for observers of an execution: every access of every lane, and everything that orders them.

The executor calls one `Observer` for each event, in order. Without an observer, it only tests a pointer for None once
per access. An observer may also wrap the steps of instructions (`around`), so that a failing instruction does not end
the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import Descriptor
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.recording.patterns import Place

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]
Environment = Any
ExecutionError = Any
Log = Any
Recorder = Any
Site = Any
Space = Any
"""These types depend on the observer; importing them here would be circular."""
Step = Callable[[Mask], None]


class Observer:
    """Receives all events and does nothing; an observer overrides the methods that it needs."""

    forgives = True
    """Whether a fault of the kernel just ends the launch, without an error."""
    follows_lanes = False
    """Whether records contain the lanes that executed each instruction, after its guard."""
    takes_logs = False
    """Whether compiled loops may execute what they know: the observer gets their logs, and no events of them."""
    needs_addresses = True
    """Whether records need the addresses of accesses that compiled loops execute."""
    unneeded: Collection[int] = ()
    """Accesses that the logs of compiled loops leave out. Records then need no addresses."""
    has_enough = False
    """Whether no further CTA needs to execute, and a CTA with a fault needs no record."""
    spread = 0
    """Additional distance between the launch's buffers, in alignments."""

    def launches(self, environment: Environment) -> None:
        """A launch begins; its constants and buffers exist."""

    def logged(self, log: Log) -> None:
        """Compiled loops have executed a part of the CTA."""

    def starts(self, cta: int) -> None:
        """A CTA begins."""

    def ends(self) -> None:
        """The CTA has ended, with or without a fault."""

    def recorded(self, cta: int, recorder: Recorder) -> None:
        """A recorded CTA has ended, with this record of it."""

    def waits(self) -> None:
        """The CTA waits for another CTA's store and is set aside; another one `starts` or `resumes`.

        All events between two of `starts`, `waits`, `resumes` and `ends` belong to one CTA.
        """

    def resumes(self, cta: int) -> None:
        """A CTA that was set aside continues, with all its lanes where they were: after a look that was in vain."""

    def around(self, site: Site, step: Step) -> Step:
        """Return the step to execute instead of an instruction's step; this is called once for each instruction."""
        return step

    def together(self, mask: Mask) -> None:
        """The lanes of `mask` execute the next instructions together, those of each warp in lockstep."""

    def met(self, lanes: Bools) -> None:
        """These lanes, each with the others of its warp, have waited for each other."""

    def names(self, site: Site, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """WARPSYNC: these lanes name the lanes of their warp, as bits, that they want to meet."""

    def shuffled(self, site: Site, mask: Mask, sources: Indices, values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """SHFL: each lane of `mask` reads the CTA's lane in `sources`. Return the values that the lanes receive."""
        return values

    def access(self, space: Space, place: Place) -> None:
        """An instruction accesses a checked place; addresses count from the space's start."""

    def reaches(self, space: Space, place: Place, rank: int) -> None:
        """An instruction accesses a place in the shared memory of another CTA of the cluster."""

    def stored(self, space: Space, place: Place, values: NDArray[Any]) -> None:
        """Each lane of a store has written its value; `place` is as the instruction names it."""

    def block(self, site: Site, lane: int, places: NDArray[np.int64], store: bool, ranks: Sequence[int]) -> None:
        """A lane's instruction reads or writes these bytes of shared memory as a block, in the CTAs of these ranks."""

    def moves(self, site: Site, lane: int, places: NDArray[np.int64], access: str) -> None:
        """The last block has these global addresses of its bytes as source or target.

        `access`: its access to them, "load", "store" or "atomic".
        """

    def box(self, site: Site, lane: int, places: NDArray[np.int64], line_bytes: int, swizzle: int) -> None:
        """The last block is a box of a tensor map, with these bytes of shared memory in the order of the array."""

    def operand(self, site: Site, lane: int, at: NDArray[np.int64], size: int, said: Descriptor, across: bool) -> None:
        """A product reads a matrix: its elements [lines, k], of `size` bytes, are at these places by a descriptor.

        `across`: K runs along the rows of shared memory.
        """

    def tensor(self, site: Site, lane: int, rank: int, cells: NDArray[np.int64], access: str) -> None:
        """A lane's instruction accesses cells of a CTA's tensor memory: "load", "store", "alloc" or "free".

        Cell 512 r + c has lanes 16 r to 16 r + 15 of column c.
        """

    def allocates(self, site: Site, lane: int, address: int, size: int) -> None:
        """malloc has given a lane a block of `size` bytes of the heap."""

    def frees(self, site: Site, lane: int, address: int) -> None:
        """A lane frees a block of the heap."""

    def completes(self, site: Site, barrier: int, lane: int, rank: int) -> None:
        """A lane's copy has delivered its bytes to the mbarrier at this byte of a CTA's shared memory."""

    def sends(self, site: Site, lanes: Indices, rank: int, at: Indices, size: int, barriers: Indices) -> None:
        """Lanes have stored `size` bytes each to shared memory of a CTA, and signaled mbarriers there."""

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Site) -> None:
        """Lanes have arrived at a barrier of the CTA that waits for `expected` threads, None for all."""

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        """A barrier of the CTA releases the waiting lanes."""

    def exits(self, lanes: Bools) -> None:
        """These lanes have exited."""

    def fails(self, error: ExecutionError) -> None:
        """The CTA cannot continue."""
