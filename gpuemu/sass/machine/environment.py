"""The inputs of a CTA's instructions besides registers: constants, the CTA's place in the launch, memory, a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Lanes, Mask
from gpuemu.sass.machine.recording.patterns import Patterns, Place
from gpuemu.trace.model import Instruction, Launch

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.machine.memory.storage import Memory
    from gpuemu.sass.machine.recording.clock import ReplayedClock
    from gpuemu.sass.machine.recording.observer import Observer
    from gpuemu.sass.machine.scheduling.launch_control import LaunchControl


class Fault(NamedTuple):
    """An invalid memory access: `memory` such as "global", `access` such as "load", and all lanes concerned.

    `kind` is "outside", "misaligned" or "unwritten"; `address` is that of the first lane. `places`: the unwritten bytes
    of shared memory.
    """

    memory: str
    access: str
    size: int
    kind: str
    address: int
    lanes: NDArray[np.int64]
    places: NDArray[np.int64] | None = None


class ExecutionError(RuntimeError):
    """A fault of a kernel at an instruction. `lane` counts in the CTA; None if the fault concerns all of it.

    `fault` has details of a memory access.
    """

    fault: Fault | None = None
    title = ""
    """The name of the fault in check's output, or "" if it has none."""
    stuck: tuple[tuple[Instruction, NDArray[np.bool_]], ...] = ()
    """Lanes that wait forever for others of their warps, and their instructions; those at a WARPSYNC come first."""
    is_assertion = False
    """Whether it is a failed assert()."""
    waits: tuple[Any, ...] = ()
    """Lanes that wait at mbarriers forever: semantics.mbarrier_waits.Wait, the most informative first."""

    def __init__(self, instruction: Instruction, lane: int | None, found: str, right: str):
        self.instruction = instruction
        self.lane = lane
        self.found = found
        self.right = right
        super().__init__(f"{instruction} in lane {lane}: found {found}, {right}")


def _no_print(text: str) -> None:
    """Ignore the text."""


Spaces = int | NDArray[np.uint8]
"""Memories of lanes with generic addresses, as numbers of trace.model.SPACES: one for all, or [lanes of the place]."""


def no_record(place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
    """Ignore the access."""


def no_event(warp: int, **what: int) -> None:
    """Ignore the event."""


def no_news(warp: int, rank: int, barrier: int, arrivals: int, count: int) -> None:
    """Ignore the signal."""


class Record(Protocol):
    """Records an access: see Environment.record."""

    def __call__(self, place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None, /) -> None:
        """Record the addresses of an execution's lanes."""


class WorkQueues(Protocol):
    """Words of memory from which CTAs take work: see Environment.handouts."""

    @property
    def any(self) -> bool:
        """Whether there is such a word."""

    def take(self, address: int, cta: int, found: int) -> tuple[int, int]:
        """Return (the value that a CTA reads when it adds 1 to a word, the amount that other CTAs add as well)."""


@dataclass
class Environment:
    """The surroundings of the CTA that executes.

    `constants`: bank number → its bytes as uint8. `cta`: its (x, y, z) in the grid. `clock` advances by one with every
    instruction executed. Reads of the clock return it unless a replay has supplied cycles.
    """

    arch: Architecture
    launch: Launch
    lanes: Lanes
    memory: Memory
    constants: Mapping[int, NDArray[np.uint8]]
    code: tuple[Instruction, ...]
    known_words: frozenset[int] | None = None
    """Offsets of the words of constant bank 0 that have valid values; None for all of them."""
    shared_memory_size: int = 0
    """Bytes of shared memory that the CTA occupies, including the reserved ones."""
    cta: tuple[int, int, int] = (0, 0, 0)
    clock: int = 0
    replayed: ReplayedClock | None = None
    """The source of clock values in place of `clock`."""
    record: Record = no_record
    """Called by every access to shared, global or local memory, after its checks.

    The arguments are the byte addresses of the mask's lanes, the memories of generic addresses, and the addresses that
    asynchronous copies read. Addresses in shared memory count from the CTA's first byte, and those in local memory from
    the lane's.
    """
    event: Callable[..., None] = no_event
    """Called with the warp and the effect of an asynchronous instruction in it, by the names of `trace.events`."""
    told: Callable[[int, int, int, int, int], None] = no_news
    """Called with the warp, the rank of another CTA of the cluster, the byte of its mbarrier, arrivals and bytes."""
    patterns: Patterns = field(default_factory=Patterns)
    """The address patterns of earlier accesses."""
    active: Mask = None
    """The lanes that execute the current instruction, before its guard; votes and WARPSYNC use them."""
    codeless: Mapping[int, str] = field(default_factory=dict)
    """Pointer → name of functions that are called but have no code in the cubin: the driver's functions."""
    entries: Mapping[int, int] = field(default_factory=dict)
    """Pointer → byte offset of the functions that have code."""
    printer: Callable[[str], None] = _no_print
    """Receives the output of printf."""
    observer: Observer | None = None
    """The observer of the execution."""
    handouts: WorkQueues | None = None
    """Words that distribute work among all CTAs; None if every CTA executes."""
    launch_control: LaunchControl | None = None
    """The clusters that CTAs can take over; None if the code takes none."""
    barrier_results: tuple[NDArray[np.uint32], NDArray[np.bool_]] = field(init=False)
    """The result of each lane's last BAR.RED: the number of true votes, and their AND or OR."""
    return_address: NDArray[np.uint32] = field(init=False)
    """The two words of each lane's return address register, [2, lanes]."""

    def __post_init__(self) -> None:
        count = self.lanes.count
        self.barrier_results = self.lanes.vote_counts, self.lanes.vote_truths
        self.return_address = np.zeros((2, count), np.uint32)

    def now(self, nanoseconds: bool) -> Any:
        """Return the value of a read of the clock or of %globaltimer: a number for all, or [lanes]."""
        return self.clock if self.replayed is None else self.replayed.now(nanoseconds)

    def knows(self, bank: int, offset: int) -> bool:
        """Whether that word of a constant bank is valid, as opposed to one that only a driver could fill in."""
        return bank != 0 or self.known_words is None or offset // 4 * 4 in self.known_words
