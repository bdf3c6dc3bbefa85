"""Atomics of many CTAs on the same few words: L2 executes the atomics on one sector one after another."""

from __future__ import annotations

import numpy as np

from gpuemu.arch.chips import Chip
from gpuemu.isa.opcodes import Kind
from gpuemu.trace.model import Trace

BLOCK_BYTES = 512
"""Atomics on words of one such block wait for each other."""
WORD_BYTES, SECTOR_WORDS = 4, 8


_FLOATS = ("F16", "F32", "F64", "BF16", "F16x2", "BF16x2", "BF16_V2")
"""Modifiers of atomics that add floating-point numbers."""


def serialized_cycles(trace: Trace, chip: Chip) -> float:
    """Cycles that L2 takes for the atomics of a trace's CTAs on the busiest block of words that all of them use."""
    each = 1 / chip.atomics_per_cycle if chip.atomics_per_cycle else 0.0
    of_float = 1 / chip.float_atomics_per_cycle if chip.float_atomics_per_cycle else each
    cost = np.array([of_float if i.has(*_FLOATS) else each for i in trace.code])
    atomic = np.array([i.operation.kind is Kind.GLOBAL and i.operation.atomic for i in trace.code])
    if not atomic.any():
        return 0.0
    memory = np.array([i.accesses_memory for i in trace.code])
    by_cta: dict[int, dict[int, float]] = {}
    for warp in trace.warps:
        asked = by_cta.setdefault(warp.cta, {})
        pcs = warp.path[memory[warp.path]]
        for row, cycles in zip(warp.rows[atomic[pcs]].tolist(), cost[pcs[atomic[pcs]]].tolist(), strict=True):
            word, times = np.unique(trace.addresses[row][trace.active[row]] // WORD_BYTES, return_counts=True)
            if not len(word):
                continue
            heads = np.flatnonzero(np.diff(word // SECTOR_WORDS, prepend=-1))
            blocks = (word[heads] * WORD_BYTES // BLOCK_BYTES).tolist()
            for block, most in zip(blocks, np.maximum.reduceat(times, heads).tolist(), strict=True):
                asked[block] = asked.get(block, 0.0) + most * cycles
    common = set.intersection(*map(set, by_cta.values()))
    return max((sum(asked[block] for asked in by_cta.values()) for block in common), default=0.0)
