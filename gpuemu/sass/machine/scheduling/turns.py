"""CTAs that are resident on the chip together execute in turns, because one may wait for a store of another.

They begin in the order of their numbers, and one executes until it ends or waits. A CTA that waits is set aside. The
next one begins if the chip has room for it. Otherwise gpuemu resumes the CTA that was set aside first among those for
which an awaited word has changed. Launches without such waits execute each CTA to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.sass.machine.scheduling.line import Line
from gpuemu.sass.machine.scheduling.live_cta import Cta, Ended
from gpuemu.sass.machine.scheduling.polls import Look
from gpuemu.sass.machine.scheduling.waiting_loops import always_looks, awaited
from gpuemu.sass.semantics.register_pool import never_granted

MOST_LOOKS = 20_000
"""Unsuccessful looks of all CTAs together after which loops that count looks are considered endless."""


class Turns:
    """The CTAs of a launch. `at_once`: the number resident on the chip, and `residency` names them.

    `instructions` receives the warp instructions of each CTA that has ended. `ahead` executes the first CTAs of a line
    at once, if possible. The function removes them from the line, and returns those that have ended and one that has
    only begun.
    """

    def __init__(
        self,
        executor: CtaExecutor,
        begin: Callable[[int], Cta],
        at_once: int,
        residency: str,
        observer: Observer | None,
        instructions: dict[int, int] | None = None,
        ahead: Callable[[Line], tuple[list[Ended], Cta | None]] | None = None,
    ):
        self._executor = executor
        self._begin = begin
        self._at_once = at_once
        self._residency = residency
        self._observer = observer
        self._waiting: deque[Cta] = deque()
        self._current: Cta | None = None
        self._instructions = instructions
        self._ahead = ahead

    @property
    def now(self) -> int:
        """Number of the CTA that executes."""
        return 0 if self._current is None else self._current.number

    @property
    def current(self) -> Cta | None:
        """The CTA that executes."""
        return self._current

    def begun(self) -> list[Cta]:
        """Return the CTAs that have begun and not ended."""
        return [*self._waiting, *([] if self._current is None else [self._current])]

    def run(
        self, numbers: Sequence[int], others: Sequence[int] = (), done: Collection[int] = ()
    ) -> Iterator[Cta | Ended]:
        """Execute these CTAs, and yield each one that has ended.

        `others`, except those in `done`, begin only if one of these CTAs waits for them. Raises ExecutionError.
        """
        wanted: Collection[int] = numbers if isinstance(numbers, range) else frozenset(numbers)
        control = self._executor.environment.launch_control
        taken: Collection[int] = () if control is None else control.taken
        to_begin, spare = Line(numbers, taken), Line(others, {*numbers, *done, *taken} if others else ())
        if control is not None:
            control.watch(to_begin, spare)
        ended, spent = {number for number in taken if number in wanted}, 0
        while len(ended) < len(wanted):
            mate = next((cta for cta in self._waiting if cta.may_go_on), None)
            if mate is not None:
                self._waiting.remove(mate)
                cta = mate
                self._go_back(cta, False)
            elif to_begin and len(self._waiting) < self._at_once:
                done_ahead, begun = ([], None) if self._ahead is None or self._waiting else self._ahead(to_begin)
                for one in done_ahead:
                    if self._instructions is not None:
                        self._instructions[one.number] = one.executed
                    if one.number in wanted and one.number not in ended:
                        ended.add(one.number)
                        yield one
                if begun is None and done_ahead:
                    continue
                cta = self._current = begun or self._begin(to_begin.next())
                if self._observer is not None and begun is None:
                    self._observer.starts(cta.number)
            else:
                woken = next((cta for cta in self._waiting if self._changed(cta)), None)
                in_vain = woken is not None
                if woken is not None:
                    spent = 0
                elif spare and len(self._waiting) < self._at_once:
                    to_begin.put_in_front(spare.next())
                    continue
                else:
                    woken = self._patient(spent < MOST_LOOKS)
                    if woken is None:
                        raise self._stuck(len(to_begin) + len(spare))
                    woken.looks.patience *= 2
                    spent += woken.looks.patience if _hopes(woken) else 0
                self._waiting.remove(woken)
                cta = woken
                self._go_back(cta, in_vain)
            if self._executor.go_on(cta):
                if self._observer is not None:
                    self._observer.ends()
                self._current = None
                if self._instructions is not None:
                    self._instructions[cta.number] = cta.executed
                if cta.number in wanted and cta.number not in ended:
                    ended.add(cta.number)
                    yield cta
            else:
                self._executor.set_aside(cta)
                self._current = None
                self._waiting.append(cta)
                self._call_mates(cta, to_begin, spare)
                if self._observer is not None:
                    self._observer.waits()
            if control is not None:
                ended.update(number for number in control.just_taken() if number in wanted)

        self._waiting = deque(cta for cta in self._waiting if cta.cluster is None)

    @staticmethod
    def _call_mates(cta: Cta, to_begin: Line, spare: Line) -> None:
        """Let the others of a cluster begin next."""
        if cta.cluster is None:
            return
        for rank, number in reversed(list(enumerate(cta.cluster.numbers))):
            if rank not in cta.cluster.begun:
                for queue in (to_begin, spare):
                    if number in queue:
                        queue.remove(number)
                to_begin.put_in_front(number)

    def _go_back(self, cta: Cta, in_vain: bool) -> None:
        self._current = cta
        self._executor.bring_back(cta, in_vain)
        if self._observer is not None:
            self._observer.resumes(cta.number)

    def _changed(self, cta: Cta) -> bool:
        """Whether a word that a CTA looked at has changed since."""
        polls = self._executor.polls
        return any(look.place is not None and polls.memory_at(look) != look.memory for look in cta.waits_for)

    def _patient(self, hopeful: bool) -> Cta | None:
        """Return the CTA with the fewest looks among those whose loops might end alone. `hopeful` considers all."""
        counting = [
            cta
            for cta in self._waiting
            if not all(look.exact for look in cta.waits_for) and (hopeful or not _hopes(cta))
        ]
        return min(counting, key=lambda cta: cta.looks.patience, default=None)

    def _stuck(self, unbegun: int) -> ExecutionError:
        """Return the error of the first CTA, if no CTA can continue."""
        begun = len(self._waiting)
        cta = self._waiting.popleft()
        looks, stuck_at = cta.waits_for, cta.stuck_at
        self._go_back(cta, stuck_at is None)
        waits = self._executor.at_mbarriers(cta, looks)
        if waits and (stuck_at is not None or looks[0].place is None):
            first = waits[0]
            found = f"a wait forever at the mbarrier at byte {first.byte:,} of shared memory: its phase of parity "
            error = ExecutionError(
                first.instruction, int(np.argmax(first.lanes)), f"{found}{first.parity} {first.lacks}",
                first.right,
            )  # fmt: skip
            error.waits = tuple(waits)
            return error
        if stuck_at is not None:
            site, lane = stuck_at
            found, right = (
                "a wait forever for other CTAs of its cluster",
                "Let the other CTAs arrive, and copy or send what it waits for",
            )
            return ExecutionError(site.instruction, lane, found, right)
        look = looks[0]
        instruction = look.site.instruction
        lane = int(np.argmax(look.lanes))
        if look.site.mnemonic == "USETMAXREG":
            return ExecutionError(instruction, lane, *never_granted(look.site, lane))
        if look.place is None:
            found = "a wait forever for other threads of the CTA"
            return ExecutionError(instruction, lane, found, "Let another thread end it")
        lane, address = self._first(look, lane)
        found = f"a wait forever at {address:#x}{self._in_buffer(address)}{self._until(look, lane)}"
        if unbegun:
            right = (
                f"Launch at most {self._at_once} CTAs, which fit on the chip at once ({self._residency}), or wait "
                f"only for CTAs with lower numbers: {begun} CTAs wait and {unbegun} have not begun"
            )
        else:
            who = "no other CTA is left" if begun == 1 else f"all {begun} CTAs that are left wait"
            right = f"Another CTA must write that word, but {who}"
        return ExecutionError(instruction, lane, found, right)

    @staticmethod
    def _first(look: Look, lane: int) -> tuple[int, int]:
        assert look.place is not None
        pattern = look.place.pattern
        first = lane if pattern.lanes is None else int(pattern.lanes[0])
        return first, look.place.base + int(pattern.offsets[first if pattern.lanes is None else 0])

    def _in_buffer(self, address: int) -> str:
        for buffer in self._executor.environment.memory.buffers:
            if buffer.start <= address < buffer.start + buffer.bytes and buffer.start < LOCAL_WINDOW:
                return f", byte {address - buffer.start} of {buffer.name}"
        return ""

    def _until(self, look: Look, lane: int) -> str:
        """Return the current value, and the value that is awaited if the code shows it clearly."""
        value = int.from_bytes(look.memory[: look.unit_bytes], "little")
        executor = self._executor
        test = awaited(executor.environment.code, executor.number_of(look.site.instruction))
        if test is not None and look.unit_bytes <= 4:
            words, k, operand = test
            try:
                against = np.broadcast_to(executor.site(k).source(operand)(), look.site.lanes.count)[lane]
            except UnsupportedError:
                return f": it finds {value}"
            return f": it finds {value} and waits until that {words} {int(against)}"
        return f": it finds {value} again and again"


def _hopes(cta: Cta) -> bool:
    """Whether a CTA looks at memory that another one may still write, and does not just execute a loop."""
    return any(look.place is not None and always_looks(look.site.instruction) for look in cta.waits_for)
