"""Places in global memory, in the text that Numba compiles: see `loops`. `threads` has the marks of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    BUFFER_BYTES,
    BUFFER_START,
    BUFFERS,
    HOST_START,
    IS_READ,
    IS_WRITTEN,
    LAST_BUFFER,
    PAGE_WORDS,
    PAGES,
    READ_MARKS,
    READ_PAGE,
    UNTOUCHED,
    WRITE_MARKS,
    WRITTEN_PAGE,
)

peek64 = peek8 = poke64 = poke8 = None
"""Functions of `lane.scalars`, or made by `source`."""
_NONE = np.uint64(0)


def span(here: Any, at: Any) -> Any:
    """The least and the greatest address of some lanes, and all bits that any of them has."""
    least, most, bits = np.uint64(0xFFFFFFFFFFFFFFFF), _NONE, _NONE
    for i in range(here.size):
        address = at[i]
        least = min(least, address if here[i] else np.uint64(0xFFFFFFFFFFFFFFFF))
        most = max(most, address if here[i] else _NONE)
        bits |= address if here[i] else _NONE
    return least, most, bits


def buffer_of(least: Any, most: Any, size: Any, buffers: Any, state: Any) -> Any:
    """The buffer in which all addresses from `least` to `most` are, -1 for none."""
    k = state[LAST_BUFFER]
    for turn in range(state[BUFFERS] + 1):
        if turn:
            k = turn - 1
        start, length = np.uint64(buffers[k, BUFFER_START]), np.uint64(buffers[k, BUFFER_BYTES])
        if least >= start and length >= size and most - start <= length - size:
            state[LAST_BUFFER] = k
            return k
    return -1


def mark_word(marks: Any, word: Any, bits: Any, pages: Any, kind: Any) -> None:
    """Mark bytes, given as bits, and their page."""
    place = marks + 8 * word
    poke64(place, peek64(place) | bits)  # type: ignore[misc]
    page = pages + word // PAGE_WORDS
    poke8(page, peek8(page) | kind)  # type: ignore[misc]


def mark(here: Any, at: Any, size: Any, buffers: Any, k: Any, reads: Any) -> Any:
    """Mark what these lanes read or write of a buffer; whether they may."""
    pages, marks, kind = buffers[k, PAGES], buffers[k, WRITE_MARKS], np.uint8(WRITTEN_PAGE)
    if reads:
        marks, kind = buffers[k, READ_MARKS], np.uint8(READ_PAGE)
    if pages == UNTOUCHED:
        return reads != 0
    start = np.uint64(buffers[k, BUFFER_START]) & ~np.uint64(63)
    ones, word, bits = (np.uint64(1) << size) - np.uint64(1), np.int64(-1), _NONE
    for i in range(here.size):
        if here[i]:
            offset = at[i] - start
            if np.int64(offset >> np.uint64(6)) != word:
                if word >= 0:
                    mark_word(marks, word, bits, pages, kind)
                word, bits = np.int64(offset >> np.uint64(6)), _NONE
            bits |= ones << (offset & np.uint64(63))
    if word >= 0:
        mark_word(marks, word, bits, pages, kind)
    return True


def point_global(here: Any, at: Any, size: Any, buffers: Any, reads: Any, state: Any) -> Any:
    """Turn device addresses into those of the host; whether the access is one to buffers that needs no executor.

    `reads`: 1 for an access that reads, 0 for one that writes.
    """
    least, most, bits = span(here, at)
    if bits & (size - np.uint64(1)) or state[BUFFERS] == 0:
        return False
    k = buffer_of(least, most, size, buffers, state)
    if k >= 0:
        if buffers[k, PAGES] and not mark(here, at, size, buffers, k, reads):
            return False
        buffers[k, IS_READ] |= reads
        buffers[k, IS_WRITTEN] |= 1 - reads
        moved = np.uint64(buffers[k, HOST_START]) - np.uint64(buffers[k, BUFFER_START])
        for i in range(at.size):
            at[i] += moved
        return True
    for i in range(here.size):
        if here[i]:
            k = buffer_of(at[i], at[i], size, buffers, state)
            if k < 0:
                return False
            if buffers[k, PAGES] and not mark(here[i : i + 1], at[i : i + 1], size, buffers, k, reads):
                return False
            buffers[k, IS_READ] |= reads
            buffers[k, IS_WRITTEN] |= 1 - reads
            at[i] += np.uint64(buffers[k, HOST_START]) - np.uint64(buffers[k, BUFFER_START])
    return True
