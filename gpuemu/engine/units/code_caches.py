"""The caches of code: the SM's own (`code.icc`) and the next level (`code.gcc`, "L1.5"), then L2 and memory.

A warp that reaches a line of code requests it and the next line, whatever it executes there. The next line arrives
`line_cycles` later; the value depends on the level that has it. A line that nobody has requested before, such as a
branch target, takes the whole `latency_cycles`. Both caches have sets of `ways` lines and evict the least recently used
line. A launch puts the first `code.gcc.preloaded_bytes` of its code into the second cache. A warm launch finds in both
caches the lines that the previous launch of the same code left. Code of up to 32 KiB therefore costs nothing in loops
and in warm launches.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit


class Code(Record):
    """Both caches of code by set and way, and the cycle in which each of the `lines` arrives, -1 if nobody has
    requested it.

    `waits`: whether a warp may have to wait. It never waits if all lines have been in the SM's cache.
    """

    lines: int
    waits: int
    icc_at: int
    gcc_at: int
    icc_sets: int
    gcc_sets: int

    def begin(self, m: Setup, number: int) -> None:
        """Lines of code and sets count from 0, so the sets after the last line stay empty."""
        s = m.spec
        self.lines = 1 + max(op.code_line for op in m.program.ops)
        icc, gcc = s.code_icc_capacity_bytes // s.code_icc_ways, s.code_gcc_capacity_bytes // s.code_gcc_ways
        self.icc_sets, self.gcc_sets = (
            min(max(1, of_way // s.issue_instruction_line_bytes), self.lines) for of_way in (icc, gcc)
        )
        icc, gcc = self.icc_sets * s.code_icc_ways, self.gcc_sets * s.code_gcc_ways
        self.waits = int(s.first_touch_dram or self.lines > icc)
        m.room.numbers("code_there", self.lines, -1)
        self.icc_at, self.gcc_at = (m.room.numbers("code_ways", count, -1) for count in (icc, gcc))


def remember(state: State) -> None:
    """Put into the caches the code that a launch finds there."""
    spec = state.spec[0]
    code: Code = state.code[0]
    if spec.first_touch_dram == 0:
        line = -1
        for i in range(len(state.path)):
            o = state.path[i]
            if state.ops[o].code_line != line:
                line = state.ops[o].code_line
                for one in range(line, min(line + 2, code.lines)):
                    if _use(state, code.icc_at, code.icc_sets, spec.code_icc_ways, one) == 0:
                        _use(state, code.gcc_at, code.gcc_sets, spec.code_gcc_ways, one)
    for one in range(min(code.lines, spec.code_gcc_preloaded_bytes // spec.issue_instruction_line_bytes)):
        _use(state, code.gcc_at, code.gcc_sets, spec.code_gcc_ways, one)


def line_there(state: State, line: int, now: int) -> int:
    """The cycle in which a line arrives that a warp reaches `now`. The warp also requests the next line."""
    there = max(now, _asked(state, line, now, 0))
    if line + 1 < state.code[0].lines:
        _asked(state, line + 1, there, 1)
    return there


def _asked(state: State, line: int, now: int, behind: int) -> int:
    """The cycle in which a line arrives that is requested `now`, either alone or `behind` the line before it."""
    spec = state.spec[0]
    code: Code = state.code[0]
    there: list[int] = state.code_there
    new = there[line] < 0
    if _use(state, code.icc_at, code.icc_sets, spec.code_icc_ways, line):
        return there[line]
    if _use(state, code.gcc_at, code.gcc_sets, spec.code_gcc_ways, line):
        takes = spec.code_gcc_line_cycles if behind else spec.code_gcc_latency_cycles
    elif new and spec.first_touch_dram:
        takes = spec.code_dram_line_cycles if behind else spec.code_dram_latency_cycles
    else:
        takes = spec.code_l2_line_cycles if behind else spec.code_l2_latency_cycles
    there[line] = now + takes
    return there[line]


def _use(state: State, at: int, sets: int, ways: int, line: int) -> int:
    """Whether a cache has a line. The line is the most recently used of its set afterwards."""
    ways_of: list[int] = state.code_ways
    last = first = at + line % sets * ways
    while last < first + ways - 1 and ways_of[last] != line:
        last += 1
    found = 1 if ways_of[last] == line else 0
    for i in range(last, first, -1):
        ways_of[i] = ways_of[i - 1]
    ways_of[first] = line
    return found


CODE_CACHES = Unit("code_caches", records={"code": Kept(Code)}, columns=("code_there", "code_ways"))
