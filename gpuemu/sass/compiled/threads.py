"""CTAs on several cores at once, where nothing orders them.

Each thread executes CTAs in their order, with registers, shared and local memory of its own, and marks the bytes of
buffers that it reads and writes. If two threads have touched a byte and one has written it, or if the loops cannot
execute a CTA to its end, the buffers get their old contents back. Then the CTAs execute one after the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gpuemu.base.cores import cores
from gpuemu.isa.opcodes import UnknownOpcodeError
from gpuemu.sass.compiled import loading
from gpuemu.sass.compiled.columns import (
    ARRIVALS,
    BUFFER_BYTES,
    BUFFER_START,
    BUFFERS,
    CLOCK,
    CTAS,
    ENDED,
    IS_READ,
    IS_WRITTEN,
    LEFT,
    LOCAL,
    LOOK_PLACES,
    MEETINGS,
    NEEDS_PYTHON,
    OP,
    PAGE_WORDS,
    PAGES,
    PC,
    PYTHON,
    READ_MARKS,
    SAVED,
    SEEN_LOOKS,
    SHARED,
    UNTOUCHED,
    WAITING,
    WRITE_MARKS,
    WRITTEN,
    WRITTEN_PAGE,
)
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import VOTE_ROW, VOTE_TRUTH_ROW
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, Buffer
from gpuemu.trace.model import Instruction

WORTH_A_THREAD = 100_000
"""Warp instructions that take much longer than to start a thread and to compare its marks."""
_BYTES_SAVED = 16
"""Written bytes for each warp instruction whose copies take much less time than the instruction."""
_PARTS = 4
"""Parts of the work for each thread, so that no thread waits long for the last one."""
_SHARED_DATA = "code", "places", "looks", "factors", "exists", "forms", "zeros", "no_rows"
"""Arguments of the loops that they only read."""


class Threads:
    """The threads for the CTAs of a launch. `arguments` and `loop`: as the bridge calls the loops.

    `looks`: instructions that may wait for what others write. `learn_all` lets the loops know all instructions, if
    threads stop at one that no CTA has reached before.
    """

    def __init__(
        self, environment: Environment, arguments: Mapping[str, Any], loop: loading.Loop, looks: Collection[int],
        learn_all: Callable[[], None],
    ):  # fmt: skip
        self._environment, self._arguments, self._loop = environment, arguments, loop
        self._learn_all: Callable[[], None] | None = learn_all
        self._looks, self._in_order = looks, False
        self._threads: list[_Thread] = []
        self._saved: dict[int, Any] = {}

    def run(self, numbers: Sequence[int], budget: int, expected: int) -> list[int] | None:
        """Execute CTAs from their beginning; return the warp instructions of each.

        Returns None if they must execute in order, and then nothing has changed. `expected`: their warp instructions.
        """
        count = min(cores(), len(numbers), expected // WORTH_A_THREAD)
        if count < 2 or self._in_order:
            return None
        if not self._threads and any(_orders(i, pc in self._looks) for pc, i in enumerate(self._environment.code)):
            self._in_order = True
            return None
        written = np.flatnonzero(self._arguments["buffers"][: self._arguments["state"][BUFFERS], IS_WRITTEN]).tolist()
        buffers = self._environment.memory.buffers
        if sum(buffers[k].bytes for k in written) > _BYTES_SAVED * expected:
            return None
        if not _are_apart(buffers, written):
            self._in_order = True
            return None
        while len(self._threads) < count:
            self._threads.append(_Thread(self._environment, self._arguments))
        threads = self._threads[:count]
        self._save(buffers, written)
        for thread in threads:
            thread.attach(self._arguments, written, budget)
        steps = np.zeros(len(numbers), np.int64)
        work = _Work(np.array(numbers, np.int64), steps, count)
        self._execute(threads, work)
        if not work.is_done or any(_conflict([thread.marks[k] for thread in threads]) for k in written):
            for k in written:
                buffers[k].views[1][:] = self._saved[k]
            self._threads.clear()
            if self._learns(work.stops):
                return self.run(numbers, budget, expected)
            self._in_order = True
            self._saved.clear()
            return None
        self._take_over(threads)
        found: list[int] = steps.tolist()
        return found

    def _learns(self, stops: Sequence[int]) -> bool:
        """Whether the loops can now execute all instructions at which threads have stopped; at the first call only."""
        learn_all, self._learn_all = self._learn_all, None
        if learn_all is None or not stops:
            return False
        learn_all()
        return all(stop < len(self._environment.code) and self._arguments["code"][stop, OP] != PYTHON for stop in stops)

    def _save(self, buffers: Sequence[Buffer], written: Sequence[int]) -> None:
        for k in written:
            data = buffers[k].views[1]
            if k not in self._saved or len(self._saved[k]) != len(data):
                self._saved[k] = np.empty_like(data)
            self._saved[k][:] = data

    def _execute(self, threads: Sequence[_Thread], work: _Work) -> None:
        """Do the work in these threads, the first of which is the caller's."""
        others = [threading.Thread(target=work.do, args=(thread, self._loop), daemon=True) for thread in threads[1:]]
        started = []
        try:
            for other in others:
                other.start()
                started.append(other)
        except RuntimeError:  # the system refuses another thread
            pass
        try:
            work.do(threads[0], self._loop)
        finally:
            work.parts.clear()  # for the others, if the user interrupts
            for other in started:
                other.join()

    def _take_over(self, threads: Sequence[_Thread]) -> None:
        """Note what the threads have done: the clock counts their steps, and buffers have been read and written."""
        buffers, clock = self._arguments["buffers"], self._environment.clock
        for thread in threads:
            self._environment.clock += int(thread.arguments["state"][CLOCK]) - clock
            for column in (IS_READ, IS_WRITTEN):
                buffers[:, column] |= thread.arguments["buffers"][:, column]
            for marks in thread.marks.values():
                marks.clear()
        for k in np.flatnonzero(buffers[: self._arguments["state"][BUFFERS], IS_READ]):
            self._environment.memory.buffers[k].is_read = True


class _Work:
    """CTAs by their numbers, in parts of which each thread takes the next one. `steps` receives warp instructions."""

    def __init__(self, numbers: Any, steps: Any, threads: int):
        self._numbers, self._steps = numbers, steps
        bounds = np.linspace(0, len(numbers), min(len(numbers), _PARTS * threads) + 1).astype(int).tolist()
        self.parts = deque(pairwise(bounds))
        self._done: list[int] = []
        self.stops: list[int] = []
        """The instructions at which threads have stopped because the loops do not know them."""

    @property
    def is_done(self) -> bool:
        """Whether all CTAs have ended in the loops."""
        return sum(self._done) == len(self._numbers)

    def do(self, thread: _Thread, loop: loading.Loop) -> None:
        """Execute parts until none is left, or until a CTA needs more than the loops."""
        arguments = thread.arguments
        state, code = arguments["state"], arguments["code"]
        while True:
            try:
                first, end = self.parts.popleft()
            except IndexError:
                return
            while first < end:
                arguments["numbers"], arguments["steps"] = self._numbers[first:end], self._steps[first:end]
                why = loop(*arguments.values())
                if why != ENDED:
                    if why == NEEDS_PYTHON and code[min(state[PC], len(code) - 1), OP] == PYTHON:
                        self.stops.append(int(state[PC]))
                    self.parts.clear()
                    return
                self._done.append(int(state[CTAS]))
                first += int(state[CTAS])


class _Thread:
    """The arguments of the loops in a thread, and its marks of the bytes of each written buffer."""

    def __init__(self, environment: Environment, arguments: Mapping[str, Any]):
        lanes, memory = environment.lanes, environment.memory
        self.arguments = loading.arrays(lanes.warps, 1, 1)
        self.arguments |= {name: arguments[name] for name in _SHARED_DATA}
        file, truths = np.zeros_like(lanes.file_block), np.zeros_like(lanes.truth_block)
        self.arguments |= {
            "file": file, "truths": truths, "vote_counts": file[VOTE_ROW][: lanes.count],
            "vote_truths": truths[VOTE_TRUTH_ROW][: lanes.count],
        }  # fmt: skip
        self._memory = {
            SHARED: np.zeros(memory.shared_bytes, np.uint8), WRITTEN: np.zeros(memory.shared_bytes, np.uint8),
            LOCAL: np.zeros(len(memory.local[1]), np.uint8),
        }  # fmt: skip
        self._kept: dict[tuple[int, int], _Marks] = {}
        self.marks: dict[int, _Marks] = {}
        """The marks of each written buffer, by its number."""

    def attach(self, arguments: Mapping[str, Any], written: Sequence[int], budget: int) -> None:
        """Get ready for CTAs that may write to these buffers."""
        mine, state = self.arguments, self.arguments["state"]
        mine["file"][:] = arguments["file"]
        state[:] = arguments["state"]
        for column, memory in self._memory.items():
            state[column] = memory.ctypes.data
        state[MEETINGS] = state[ARRIVALS] = state[WAITING] = 1
        state[SAVED], state[LEFT], state[SEEN_LOOKS] = 0, budget, LOOK_PLACES
        buffers = mine["buffers"] = arguments["buffers"].copy()
        buffers[:, PAGES] = UNTOUCHED
        self.marks.clear()
        for k in written:
            start, length = int(buffers[k, BUFFER_START]), int(buffers[k, BUFFER_BYTES])
            marks = self.marks[k] = self._kept.setdefault((start, length), _Marks(start, length))
            buffers[k, PAGES] = marks.pages.ctypes.data
            buffers[k, READ_MARKS], buffers[k, WRITE_MARKS] = marks.reads.ctypes.data, marks.writes.ctypes.data


class _Marks:
    """Bits for the bytes of a buffer that a thread has read and written [page, word], and a byte for each page."""

    def __init__(self, start: int, length: int):
        pages = (start % 64 + length) // (64 * PAGE_WORDS) + 1
        self.pages = np.zeros(pages, np.uint8)
        self.reads, self.writes = (np.zeros((pages, PAGE_WORDS), np.uint64) for _ in range(2))

    def clear(self) -> None:
        """Forget all marks."""
        touched = np.flatnonzero(self.pages)
        self.pages[touched] = 0
        self.reads[touched] = self.writes[touched] = 0


def _conflict(marks: Sequence[_Marks]) -> bool:
    """Whether a thread has written a byte that another one has read or written."""
    pages = np.array([one.pages for one in marks])
    several = (np.count_nonzero(pages, axis=0) > 1) & (pages & WRITTEN_PAGE).any(axis=0)
    where = np.flatnonzero(several)
    read = written = np.zeros((len(where), PAGE_WORDS), np.uint64)
    for one in marks:
        reads, writes = one.reads[where], one.writes[where]
        if (writes & (read | written)).any() or (reads & written).any():
            return True
        read, written = read | reads, written | writes
    return False


def _orders(instruction: Instruction, looks: bool) -> bool:
    """Whether an instruction may order CTAs: by an atomic in global memory, or as a look at it."""
    try:
        operation = instruction.operation
    except UnknownOpcodeError:
        return True
    is_global = instruction.mnemonic not in ("LDS", "ATOMS", "SYNCS", "USETMAXREG")
    return (operation.atomic or looks) and is_global


def _are_apart(buffers: Sequence[Buffer], written: Sequence[int]) -> bool:
    """Whether the written buffers are ordinary ones, and share no memory of the host with any other."""
    spans = [(start := b.views[1].__array_interface__["data"][0], start + b.bytes) for b in buffers]
    for k in written:
        if buffers[k].start >= LOCAL_WINDOW:
            return False
        first, end = spans[k]
        if any(n != k and first < its_end and its_first < end for n, (its_first, its_end) in enumerate(spans)):
            return False
    return True
