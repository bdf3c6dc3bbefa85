"""The caches of code: the SM's own (ICC) and the one behind it (GCC, "L1.5"), then L2 and memory.

A warp that comes to a line of code asks for it, and for the next, whatever it does there. The next comes `line_cycles`
behind it, by where it lies; one that nobody asked for before, as a branch may find it, has the whole `latency_cycles`.
Both caches replace the line of a set that was asked for least lately. A launch puts the beginning of its code into the
second; warm, it finds in both what the launch before it left there, which is a launch of the same code.
"""

from __future__ import annotations

from gpuemu.engine.state import State


def remember(state: State) -> None:
    """What a launch finds in the caches of code."""
    spec, sm = state.spec[0], state.sm[0]
    if spec.cold_code == 0:
        line = -1
        for o in state.path:
            if state.ops[o].code_line != line:
                line = state.ops[o].code_line
                for one in range(line, min(line + 2, sm.code_lines)):
                    if _use(state, sm.icc_at, spec.icc_sets, spec.code_icc_ways, one) == 0:
                        _use(state, sm.gcc_at, spec.gcc_sets, spec.code_gcc_ways, one)
    for one in range(min(sm.code_lines, spec.code_gcc_preloaded_bytes // spec.issue_instruction_line_bytes)):
        _use(state, sm.gcc_at, spec.gcc_sets, spec.code_gcc_ways, one)


def line_there(state: State, line: int, now: int) -> int:
    """When a line is there that a warp comes to `now`; the next one is asked for, too."""
    there = max(now, _asked(state, line, now, 0))
    if line + 1 < state.sm[0].code_lines:
        _asked(state, line + 1, there, 1)
    return there


def _asked(state: State, line: int, now: int, behind: int) -> int:
    """When a line is there that is asked for `now`, `behind` the one before it or alone."""
    spec, sm, pool = state.spec[0], state.sm[0], state.pool
    at, new = sm.code_at + line, pool[sm.code_at + line] < 0
    if _use(state, sm.icc_at, spec.icc_sets, spec.code_icc_ways, line):
        return pool[at]
    if _use(state, sm.gcc_at, spec.gcc_sets, spec.code_gcc_ways, line):
        takes = spec.code_gcc_line_cycles if behind else spec.code_gcc_latency_cycles
    elif new and spec.cold_code:
        takes = spec.code_dram_line_cycles if behind else spec.code_dram_latency_cycles
    else:
        takes = spec.code_l2_line_cycles if behind else spec.code_l2_latency_cycles
    pool[at] = now + takes
    return pool[at]


def _use(state: State, at: int, sets: int, ways: int, line: int) -> int:
    """Whether a cache has a line, which is the last used of its set from now on."""
    pool, first = state.pool, at + line % sets * ways
    last = first
    while last < first + ways - 1 and pool[last] != line:
        last += 1
    found = 1 if pool[last] == line else 0
    for i in range(last, first, -1):
        pool[i] = pool[i - 1]
    pool[first] = line
    return found
