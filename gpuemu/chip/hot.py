"""Atomics of many CTAs on the same few words: L2 does those of a sector's words one after another."""

from __future__ import annotations

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.trace.model import Trace

BLOCK_BYTES = 512
"""Words of one such block wait for one another."""
WORD_BYTES, SECTOR_WORDS = 4, 8


def turns(trace: Trace) -> int:
    """Turns that the CTAs of a trace ask for of the block of words that most of their atomics go to."""
    atomic = np.array([i.operation.kind is Kind.GLOBAL and i.operation.atomic for i in trace.code])
    if not atomic.any():
        return 0
    memory = np.array([i.accesses_memory for i in trace.code])
    by_cta: dict[int, dict[int, int]] = {}
    for warp in trace.warps:
        asked = by_cta.setdefault(warp.cta, {})
        for row in warp.rows[atomic[warp.path[memory[warp.path]]]].tolist():
            word, times = np.unique(trace.addresses[row][trace.active[row]] // WORD_BYTES, return_counts=True)
            if not len(word):
                continue
            heads = np.flatnonzero(np.diff(word // SECTOR_WORDS, prepend=-1))
            blocks = (word[heads] * WORD_BYTES // BLOCK_BYTES).tolist()
            for block, most in zip(blocks, np.maximum.reduceat(times, heads).tolist(), strict=True):
                asked[block] = asked.get(block, 0) + most
    common = set.intersection(*map(set, by_cta.values()))
    return max((sum(asked[block] for asked in by_cta.values()) for block in common), default=0)
