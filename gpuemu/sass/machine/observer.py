"""Who may listen to an execution: every access of every lane, and everything that orders them.

The executor tells one `Observer` what happens, in the order in which it happens; without one it asks a pointer for
None once an access, and nothing else. An observer may also stand around the steps of instructions (`around`), so that
one of them which fails does not end the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import Descriptor
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.patterns import Place

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]
Environment = Any
ExecutionError = Any
Recorder = Any
Site = Any
Space = Any
"""These know of the observer; it would be a circle of imports to know them here by their types."""
Step = Callable[[Mask], None]


class Observer:
    """Hears everything and does nothing; what listens overrides what it wants."""

    forgives = True
    """Whether the launch just ends where a kernel does what it must not, in place of an error."""
    follows_lanes = False
    """Whether records say which lanes executed each instruction, behind its guard."""
    spread = 0
    """By how many alignments the launch's buffers lie further apart than they would."""

    def launches(self, environment: Environment) -> None:
        """A launch begins; its constants and buffers are there."""

    def starts(self, cta: int) -> None:
        """A CTA begins."""

    def ends(self) -> None:
        """It has ended, whatever way."""

    def recorded(self, cta: int, recorder: Recorder) -> None:
        """A CTA that the trace keeps has ended, with this record of it."""

    def waits(self) -> None:
        """It waits for what another CTA must write, and is set aside: another one `starts` or `resumes`.

        Everything that is heard between two of `starts`, `waits`, `resumes` and `ends` is of one CTA.
        """

    def resumes(self, cta: int) -> None:
        """A CTA that was set aside goes on, all its lanes where they were: behind a look that was in vain."""

    def around(self, site: Site, step: Step) -> Step:
        """What to execute instead of an instruction's step; it is asked once for each instruction."""
        return step

    def together(self, mask: Mask) -> None:
        """The lanes of `mask` execute the next instructions together; each warp's among them in lockstep."""

    def met(self, lanes: Bools) -> None:
        """These lanes, each with the others of its warp, have waited for each other."""

    def names(self, site: Site, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """WARPSYNC: these lanes name those of their warp, as bits, with which they want to meet."""

    def shuffled(self, site: Site, mask: Mask, sources: Indices, values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """SHFL: each lane of `mask` reads this one of the CTA. Returns what they get, which is in `values`."""
        return values

    def access(self, space: Space, place: Place) -> None:
        """An instruction accesses a place, which has been checked; addresses count from the space's start."""

    def reaches(self, space: Space, place: Place, rank: int) -> None:
        """It accesses a place in the shared memory of another CTA of the cluster."""

    def stored(self, space: Space, place: Place, values: NDArray[Any]) -> None:
        """What each lane of a store has put there; `place` is as the instruction names it."""

    def block(self, site: Site, lane: int, places: NDArray[np.int64], store: bool, ranks: Sequence[int]) -> None:
        """A lane's instruction reads or writes these bytes of shared memory as a block, in the CTAs of these ranks."""

    def moves(self, site: Site, lane: int, places: NDArray[np.int64], access: str) -> None:
        """Where in global memory the block just told of goes to or comes from: addresses of its bytes.

        `access`: what that is to them, "load", "store" or "atomic".
        """

    def box(self, site: Site, lane: int, places: NDArray[np.int64], line_bytes: int, swizzle: int) -> None:
        """The block just told of is a box of a tensor map: its bytes of shared memory in the order of the array."""

    def operand(self, site: Site, lane: int, at: NDArray[np.int64], size: int, said: Descriptor, across: bool) -> None:
        """A product reads a matrix: the places of its elements [lines, k], of `size` bytes, by a descriptor.

        `across`: K runs by the rows of shared memory.
        """

    def allocates(self, site: Site, lane: int, address: int, size: int) -> None:
        """malloc has given a lane a block of so many bytes of the heap."""

    def frees(self, site: Site, lane: int, address: int) -> None:
        """A lane gives a block of the heap back."""

    def completes(self, site: Site, barrier: int, lane: int, rank: int) -> None:
        """A lane's copy has told the mbarrier at this byte of a CTA's shared memory that its bytes are there."""

    def sends(self, site: Site, lanes: Indices, rank: int, at: Indices, size: int, barriers: Indices) -> None:
        """Lanes have stored so many bytes each to shared memory of a CTA, and told mbarriers there."""

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Site) -> None:
        """Lanes have come to a barrier of the CTA that waits for `expected` threads, None for all."""

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        """A barrier of the CTA lets those go on who wait at it."""

    def exits(self, lanes: Bools) -> None:
        """These lanes have reached their end."""

    def fails(self, error: ExecutionError) -> None:
        """The CTA cannot go on."""
