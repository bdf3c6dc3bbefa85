"""What a CTA's instructions see besides registers: constants, the CTA's place in the launch, memory, a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Lanes, Mask
from gpuemu.sass.machine.patterns import Patterns, Place
from gpuemu.trace.model import Instruction, Launch

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.machine.clock import ReplayedClock
    from gpuemu.sass.machine.memory import Memory
    from gpuemu.sass.machine.observer import Observer


class Fault(NamedTuple):
    """An access that memory does not have: `memory` such as "global", `access` such as "load", all lanes it is of.

    `kind` is "outside", "misaligned" or "unwritten"; `address` is that of the first lane. `places`: the bytes of shared
    memory that nobody wrote.
    """

    memory: str
    access: str
    size: int
    kind: str
    address: int
    lanes: NDArray[np.int64]
    places: NDArray[np.int64] | None = None


class ExecutionError(RuntimeError):
    """An instruction did what a kernel must not do. `lane` counts in the CTA; None if it concerns all of it.

    `fault` says more of an access to memory.
    """

    fault: Fault | None = None
    title = ""
    """What check calls it; "" for what has no name of its own."""
    stuck: tuple[tuple[Instruction, NDArray[np.bool_]], ...] = ()
    """Where lanes wait for others of their warps for ever, and which: those at a WARPSYNC first."""
    is_assertion = False
    """Whether it is a failed assert()."""
    waits: tuple[Any, ...] = ()
    """Of lanes that wait at mbarriers for ever: semantics.mbarrier_waits.Wait, the most telling first."""

    def __init__(self, instruction: Instruction, lane: int | None, found: str, right: str):
        self.instruction = instruction
        self.lane = lane
        self.found = found
        self.right = right
        super().__init__(f"{instruction} in lane {lane}: found {found}, {right}")


def _no_print(text: str) -> None:
    """Nobody reads."""


Spaces = int | NDArray[np.uint8]
"""The memory that lanes meant by generic addresses, numbers of trace.model.SPACES: one for all, or [place's lanes]."""


def no_record(place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
    """Nobody listens."""


def no_event(warp: int, **what: int) -> None:
    """Nobody listens."""


def no_news(warp: int, rank: int, barrier: int, arrivals: int, count: int) -> None:
    """Nobody listens."""


class Record(Protocol):
    """Takes down an access: see Environment.record."""

    def __call__(self, place: Place, mask: Mask, spaces: Spaces = 0, source: Place | None = None, /) -> None:
        """The addresses of an execution's lanes."""


class WorkQueues(Protocol):
    """Words of memory from which CTAs take work: see Environment.handouts."""

    @property
    def any(self) -> bool:
        """Whether there is such a word."""

    def take(self, address: int, cta: int, found: int) -> tuple[int, int]:
        """(the value that a CTA finds when it adds 1 to a word, the amount that other CTAs add besides)."""


@dataclass
class Environment:
    """The surroundings of the CTA being executed.

    `constants`: bank number → its bytes as uint8. `cta`: its (x, y, z) in the grid. `clock` advances by one with
    every instruction executed, and reads of the clock find it unless a replay has told cycles.
    """

    arch: Architecture
    launch: Launch
    lanes: Lanes
    memory: Memory
    constants: Mapping[int, NDArray[np.uint8]]
    code: tuple[Instruction, ...]
    known_words: frozenset[int] | None = None
    """Offsets of the words of constant bank 0 that hold what they should; None: all of them."""
    shared_memory_size: int = 0
    """Bytes of shared memory that the CTA takes, what the system reserves included."""
    cta: tuple[int, int, int] = (0, 0, 0)
    clock: int = 0
    replayed: ReplayedClock | None = None
    """What reads of the clock find in place of `clock`."""
    record: Record = no_record
    """Called by every access to shared, global or local memory, after its checks, with the byte addresses of the
    mask's lanes. Those in shared memory count from the CTA's first byte, those in local memory from the lane's.
    Of generic addresses it is told which memory they mean, of asynchronous copies where they read.
    """
    event: Callable[..., None] = no_event
    """Called with the warp and what an asynchronous instruction did in it, by the names of `trace.events`."""
    told: Callable[[int, int, int, int, int], None] = no_news
    """Called with the warp, the rank of another CTA of the cluster, the byte of its mbarrier, arrivals and bytes."""
    patterns: Patterns = field(default_factory=Patterns)
    """What the addresses of accesses have looked like."""
    active: Mask = None
    """The lanes that execute the current instruction before its guard: what votes and WARPSYNC see."""
    codeless: Mapping[int, str] = field(default_factory=dict)
    """Address → name of the functions that are called but are no code of the cubin: the driver's."""
    printer: Callable[[str], None] = _no_print
    """Takes what printf prints."""
    observer: Observer | None = None
    """Who listens."""
    handouts: WorkQueues | None = None
    """Words that hand out the work of all CTAs; None where every CTA executes."""
    barrier_results: tuple[NDArray[np.uint32], NDArray[np.bool_]] = field(init=False)
    """What the last BAR.RED of each lane brought together: how many votes were true, and AND or OR of them."""
    return_address: NDArray[np.uint32] = field(init=False)
    """The two words of each lane's return address register, [2, lanes]."""

    def __post_init__(self) -> None:
        count = self.lanes.count
        self.barrier_results = np.zeros(count, np.uint32), np.zeros(count, np.bool_)
        self.return_address = np.zeros((2, count), np.uint32)

    def now(self, nanoseconds: bool) -> Any:
        """What a read of the clock or of %globaltimer finds: a number for all, or [lanes]."""
        return self.clock if self.replayed is None else self.replayed.now(nanoseconds)

    def knows(self, bank: int, offset: int) -> bool:
        """Whether that place of a constant bank holds what it should, and not what only a driver could fill in."""
        return bank != 0 or self.known_words is None or offset // 4 * 4 in self.known_words
