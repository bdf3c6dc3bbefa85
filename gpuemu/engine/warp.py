"""A warp on the SM: where it stands, when it may issue next, and the log of what it did."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING

from gpuemu.engine.machine import NEVER
from gpuemu.engine.pipes import Pipe
from gpuemu.program.program import END
from gpuemu.program.stall_reasons import WAIT

if TYPE_CHECKING:
    from gpuemu.engine.scheduler import SubCore
    from gpuemu.program.program import Access, Op, Program

COUNTERS = 6


class Request:
    """A memory instruction on its way through the queue and the load/store unit.

    `sources_read_at` and `done_at` are NEVER until the unit has decided them. `late`: cycles by which an mma or a
    special function holds back registers behind the first; `refused`: by which the unit took others when it was
    complete; `comes_later`: by which its result comes later. `number`: its place among the program's
    requests. What has results is done at `done_at` at the earliest, until they are written.
    """

    __slots__ = (
        "access", "comes_later", "done_at", "issued_at", "late", "number", "op", "refused",
        "sources_read_at", "warp",
    )  # fmt: skip

    def __init__(self, warp: Warp, op: Op, access: Access, issued_at: int, undecided: int, number: int = -1):
        self.warp = warp
        self.op = op
        self.access = access
        self.issued_at = issued_at
        self.late = 0
        self.comes_later = 0
        self.number = number
        self.refused = 0
        self.sources_read_at = undecided
        self.done_at = undecided


class Warp:
    """The mutable state of one resident warp.

    `age`: its number in the program, and so its place in the order of launch. `next_request` gives the number of the
    next instruction that goes to the load/store unit, and its access.
    `op` is its next instruction, END behind the last; `ready_at` the earliest cycle at which it may issue for all
    that the warp itself knows; `pipe` what it also needs. After the stall count it was to wait from
    `stalled_until`, for `reason`, if `waits` is set; a taken branch alone (`held_for`) holds it until `held_until`.
    `issue_count`: how much it issued lately, as `warp_order` counts it; with its last instruction it `yielded`.
    `reads` counts the instructions that filled latches since one of another warp of the sub-core did; `forwarded`:
    when what wrote a register issued, of those that another instruction may find on the forwarding path.
    The line of code behind that of the last branch's target, which `next_line` begins, has been fetched at `line_at`.
    `branched_at`: when it last took a branch.
    At `barrier` it goes on issuing until `blocked_from`, and what does not wait for barriers beyond; then the
    barrier must open, at `opens_at` (NEVER while that is not known); the last opened in the very cycle `passed_at`, in
    which the warp issued. Since its last barrier it has `sent` something to memory; it had before that
    one, which `flushes` it.

    The logs: `issue_log` the cycle of every issue; `wait_log` three numbers for each instruction that had to
    wait for something it depends on: its position in the path, when it was ready, the reason.
    """

    __slots__ = (
        "advance",
        "age",
        "barrier",
        "blocked_from",
        "branched_at",
        "copies",
        "counter_loads",
        "counter_reason",
        "counter_release",
        "cta_slot",
        "flushes",
        "forwarded",
        "held_for",
        "held_until",
        "issue_count",
        "issue_log",
        "line_at",
        "log_issue",
        "next_line",
        "next_request",
        "op",
        "opens_at",
        "outstanding",
        "passed_at",
        "path",
        "pipe",
        "reads",
        "ready_at",
        "reason",
        "register_readers",
        "register_reason",
        "register_release",
        "sent",
        "slot",
        "stalled_until",
        "start_cycle",
        "sub_core",
        "undecided",
        "wait_log",
        "waits",
        "yielded",
    )  # fmt: skip

    def __init__(self, program: Program, age: int, slot: int, cta_slot: int, start_cycle: int):
        self.path = [program.ops[i] for i in program.path[program.issues_of(age)].tolist()]
        self.age = age
        self.slot = slot
        self.cta_slot = cta_slot
        self.start_cycle = start_cycle
        self.advance = chain(self.path, (END,)).__next__
        requests = program.requests_of(age)
        accesses = [program.accesses[i] for i in program.access[requests].tolist()]
        self.next_request = zip(range(requests.start, requests.stop), accesses, strict=True).__next__
        self.op: Op = self.advance()
        self.pipe: Pipe
        self.sub_core: SubCore
        self.ready_at = start_cycle
        self.stalled_until = start_cycle
        self.held_until = start_cycle
        self.held_for = WAIT
        self.reason = WAIT
        self.waits = False
        self.next_line = self.line_at = -1
        self.branched_at = -1
        self.reads = 0
        self.issue_count = 0
        self.yielded = False
        self.forwarded: dict[int, int] = {}
        self.barrier = END
        self.blocked_from = NEVER
        self.opens_at = NEVER
        self.passed_at = NEVER
        self.sent = self.flushes = False
        # Dependence counters: when each falls to 0 as far as is decided, how many raises are undecided,
        # what kind of instruction holds it longest, and whether that is a load whose result it stands for.
        self.counter_release = [0] * COUNTERS
        self.undecided = [0] * COUNTERS
        self.counter_loads = [False] * COUNTERS
        self.counter_reason = [WAIT] * COUNTERS
        # For counters that a DEPBAR lets stay above 0: the requests behind each raise.
        self.outstanding: dict[int, list[Request]] = {}
        self.copies: list[Request] = []
        # The register scoreboard: when each register is written and by what kind of instruction, and the
        # memory instructions that may still have to read it.
        self.register_release: dict[int, int] = {}
        self.register_reason: dict[int, int] = {}
        self.register_readers: dict[int, list[Request]] = {}
        self.issue_log = array("q")
        self.log_issue = self.issue_log.append
        self.wait_log = array("q")

    def past_barrier(self, possible: int) -> int:
        """When its next instruction may issue for the sake of the barrier, if else it might at `possible`."""
        op = self.op
        if op.passes_barrier or possible >= self.opens_at or (possible < self.blocked_from and op.slips_barrier):
            return possible
        return self.opens_at

    def earliest_end(self, now: int) -> int:
        """A cycle before which it cannot have ended: it issues at most one instruction a cycle from `now` on."""
        issued = len(self.issue_log)
        next_issue = self.issue_log[-1] + 1 if issued else self.start_cycle
        return max(now, next_issue) + len(self.path) - issued

    def stands(self, begin: int, cycles: int) -> bool:
        """Its stall count stands for so many cycles from `begin` on. Returns whether it still ran then."""
        ends = self.stalled_until if self.waits else self.ready_at
        if ends < begin or not self.issue_log:
            return False
        if not self.waits:
            self.ready_at = ends + cycles
            return True
        self.stalled_until = ends + cycles
        if self.stalled_until > self.held_until:
            self.held_until, self.held_for = self.stalled_until, WAIT
        return True

    def log_wait(self) -> None:
        """Note how long the instruction that was just logged had to wait, and why."""
        self.waits = False
        if self.ready_at > self.stalled_until:
            self.wait_log.extend((len(self.issue_log) - 1, self.ready_at, self.reason))


NOBODY = Warp.__new__(Warp)
"""A warp that is never ready: who the scheduler stays with when it stays with nobody."""
NOBODY.ready_at = NEVER
NOBODY.blocked_from = NEVER
NOBODY.branched_at = -1
NOBODY.waits = False
NOBODY.pipe = Pipe()
