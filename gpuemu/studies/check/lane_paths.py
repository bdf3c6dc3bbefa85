"""The paths of a warp's lanes: what one lane executes, in its own order, and where its guard was false.

A compiler makes code that is correct along each path. Divergent lanes of a warp take different paths, and may use one
register for different values. So each path is followed separately, once for all lanes with the same path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.trace.model import Trace

if TYPE_CHECKING:
    from gpuemu.sass.machine.recording.recorder import Recorder


@dataclass(frozen=True)
class LanePath:
    """The instructions that lanes of a warp executed. `thread` is the number of the first lane in the CTA.

    `path`: int32 [executed], indices into the code. `off`: bool [executed], where their guard was false.
    """

    cta: int
    thread: int
    path: NDArray[np.int32]
    off: NDArray[np.bool_]

    @property
    def name(self) -> tuple[bytes, bytes]:
        """The key of equal paths."""
        return self.path.tobytes(), self.off.tobytes()


class LanePaths:
    """The distinct paths of lanes, from the records of executions that followed lanes."""

    def __init__(self) -> None:
        self.found: list[LanePath] = []
        self._known: set[bytes] = set()

    def add(self, cta: int, recorder: Recorder) -> None:
        """Add the paths of a CTA, unless an earlier one had the same record."""
        columns = recorder.lanes_of_steps()
        digest = hashlib.blake2b()
        for column in columns:
            digest.update(f"{column.shape}".encode() + column.tobytes())
        if digest.digest() not in self._known:
            self._known.add(digest.digest())
            self.found += _paths(cta, *columns)


def _paths(
    cta: int, steps: NDArray[np.int32], masks: NDArray[np.uint32], sets: NDArray[np.int32], guarded: NDArray[np.int32]
) -> list[LanePath]:
    """The distinct paths of a CTA's lanes. Warps with the same lanes in all sets have the same paths."""
    paths, known = [], set[bytes]()
    for warp in range(masks.shape[1]):
        name = masks[:, warp].tobytes()
        if name in known:
            continue
        known.add(name)
        came = masks[sets, warp]
        here = np.flatnonzero(came)
        came, went, path = came[here], masks[guarded[here], warp], steps[here]
        for lane in _unlike(came, went):
            mine = (came >> lane & 1).astype(np.bool_)
            off = went[mine] >> lane & 1 == 0
            paths.append(LanePath(cta, warp * LANES + lane, path[mine], off))
    return paths


def _unlike(came: NDArray[np.uint32], went: NDArray[np.uint32]) -> list[int]:
    """The first lane of each set of lanes that stayed together all the way."""
    pairs = np.unique(came.astype(np.uint64) << np.uint64(LANES) | went)
    bits = pairs[:, None] >> np.arange(2 * LANES, dtype=np.uint64) & np.uint64(1)
    first: dict[bytes, int] = {}
    for lane in range(LANES):
        if bits[:, LANES + lane].any():
            first.setdefault(bits[:, [lane, LANES + lane]].astype(np.bool_).tobytes(), lane)
    return list(first.values())


def warp_paths(trace: Trace) -> Iterator[LanePath]:
    """The paths of a trace's warps. A trace does not distinguish lanes, and has no guards."""
    for warp in trace.warps:
        yield LanePath(warp.cta, warp.warp * LANES, warp.path, np.zeros(len(warp.path), np.bool_))
