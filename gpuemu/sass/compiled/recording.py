"""The logs of compiled loops on their way to a CTA's record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import LOG_BLOCKS, LOG_SETS, LOG_STEPS, LOGS, NO_BLOCK, WITH_GUARDS
from gpuemu.sass.compiled.records import Logs
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.recording.patterns import Patterns, Place
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.trace.model import Instruction

_STEPS, _SETS = 1 << 13, 1 << 10
"""Steps and sets of lanes that the loops log until they come back. A launch may then stop the recording."""
_BLOCK_BYTES = 1 << 22
"""Bytes of addresses that the loops log until they come back."""
_MOST_KNOWN = 1 << 14


class Recording:
    """The logs of the loops, as their arguments (`arrays`), for CTAs with these lanes; an observer may take them."""

    def __init__(self, lanes: Lanes, patterns: Patterns, code: Sequence[Instruction], observer: Observer | None):
        self._lanes, self._patterns, self._observer = lanes, patterns, observer
        self._accesses = np.array([i.accesses_memory for i in code], np.bool_)
        copies = any(i.mnemonic == "LDGSTS" for i in code)
        count = lanes.count
        blocks = max(16, _BLOCK_BYTES // (8 * count))
        self.arrays: dict[str, Any] = {
            "log_steps": np.zeros((_STEPS, 3), np.int32),
            "log_kinds": np.zeros(blocks, np.int64),
            "log_places": np.zeros((blocks, count), np.int64),
            "log_sources": np.zeros((blocks, count if copies else 1), np.int64),
            "log_lanes": np.zeros((blocks, count), np.uint8),
            "log_sets": np.zeros((_SETS, lanes.warps), np.uint32),
            "log_slots": np.full(4 * _SETS, -1, np.int64),
        }
        self._recorder: Recorder | None = None
        self._known: dict[tuple[int, bytes, bytes, bytes], int] = {}
        self._sets: list[int] = []

    def begin(self, recorder: Recorder | None, state: Any) -> None:
        """Log for this recorder from now on; None if the CTA is not recorded."""
        if recorder is not self._recorder:
            self._recorder = recorder
            self._known.clear()
            self._forget_sets(state)
        state[LOGS] = 1 if self._observer is None else WITH_GUARDS
        state[LOG_STEPS] = state[LOG_BLOCKS] = 0

    def _forget_sets(self, state: Any) -> None:
        self._sets.clear()
        self.arrays["log_slots"][:] = -1
        state[LOG_SETS] = 0

    def flush(self, state: Any) -> None:
        """Give the recorder and the observer what has been logged, and log no more."""
        log_steps, blocks = self.arrays["log_steps"][: state[LOG_STEPS]], int(state[LOG_BLOCKS])
        if self._observer is not None:
            kinds, places, sources, lanes = (
                self.arrays[f"log_{name}"][:blocks] for name in ("kinds", "places", "sources", "lanes")
            )
            sets, slots = self.arrays["log_sets"], self.arrays["log_slots"]
            self._observer.logged(Logs(log_steps, kinds, places, sources, lanes, sets, slots))
        if self._recorder is not None:
            self._record(self._recorder, log_steps, blocks, int(state[LOG_SETS]))
        state[LOGS] = state[LOG_STEPS] = state[LOG_BLOCKS] = 0
        if state[LOG_SETS] == _SETS:
            self._forget_sets(state)

    def _record(self, recorder: Recorder, log_steps: Any, blocks: int, sets: int) -> None:
        for words in self.arrays["log_sets"][len(self._sets) : sets]:
            lanes = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").view(np.bool_)
            self._sets.append(recorder.set_of(None if lanes.all() else lanes))
        if len(log_steps):
            numbers = np.array(self._sets, np.int32)
            recorder.add_steps(log_steps[:, 0], numbers[log_steps[:, 1]], numbers[log_steps[:, 2]])
        if self._observer is None or self._observer.needs_addresses:
            recorder.add_blocks([self._block(row, recorder) for row in range(blocks)])
        else:
            accesses = np.count_nonzero(self._accesses[log_steps[:, 0]])
            recorder.add_blocks([recorder.block(None)] * int(accesses))

    def _block(self, row: int, recorder: Recorder) -> int:
        """Return the recorder's number of an access."""
        kind = int(self.arrays["log_kinds"][row])
        if kind == NO_BLOCK:
            return recorder.block(None)
        lanes, places = self.arrays["log_lanes"][row], self.arrays["log_places"][row]
        sources = self.arrays["log_sources"][row]
        copies = sources[0] != -1
        name = kind, lanes.tobytes(), places.tobytes(), sources.tobytes() if copies else b""
        number = self._known.get(name)
        if number is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            mask = lanes.view(np.bool_)
            source = self._place(sources, mask, name[1]) if copies else None
            number = self._known[name] = recorder.block(self._place(places, mask, name[1]), kind, source)
        return number

    def _place(self, addresses: Any, mask: Any, name: bytes) -> Place:
        if mask.all():
            return self._patterns.place(addresses.view(np.uint64), None, b"")
        lanes = self._patterns.lanes(mask, name)
        return self._patterns.place(addresses.view(np.uint64)[lanes], lanes, name)
