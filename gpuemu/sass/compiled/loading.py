"""The compiled loops, from disk or from the compiler.

A process loads them when it has executed enough that this pays. Where they are not on disk, another process compiles
them beside an execution that is long enough; until that is done, the executor does everything. The compiler finishes
even if the execution ends first: many programs are shorter than the compilation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuemu.base import cache
from gpuemu.base.compiled import compiler
from gpuemu.base.unaided import has_numba
from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.sass.compiled import source
from gpuemu.sass.compiled.columns import (
    BARRIER_HEADS,
    BUFFER_COLUMNS,
    COLUMNS,
    CONVERGENCE_BARRIERS,
    GROUP_NUMBERS,
    LOOK_PLACES,
    LOOK_ROW,
    MOST_LOOK_ROWS,
    STATE_NUMBERS,
)
from gpuemu.sass.compiled.product_kinds import PRODUCT_KINDS
from gpuemu.sass.compiled.records import Logs
from gpuemu.sass.compiled.shadow import (
    CTA_BARRIER_NUMBERS,
    GROUP_TIMES,
    MOST_PUT_OFF,
    SHADOW_NUMBERS,
    TABLE_COLUMNS,
)
from gpuemu.tensor.mma import forms_of

Loop = Callable[..., int]
CTA_BARRIERS = CLUSTER_BARRIER + 1


class Loaded(NamedTuple):
    """The compiled functions: `loops.run` and `shadow.follow`."""

    run: Loop
    follow: Loop


_loaded: list[Loaded] = []
WORTH_LOADING = 40_000
"""Steps of the executor that take about as long as Numba and the loops on disk take to load."""
WORTH_COMPILING = 1_000_000
"""Steps that take longer than the compiler takes."""
_TEXT_HASHES_BYTES = 1 << 14
_NICE = 5
"""The compiler lets others go first, but must not starve on a busy machine: other processes wait for its result."""


def _text_hash() -> bytes:
    """The hash of the text. Making the text takes a quarter of a second, so the hash of its sources names it."""
    rooms = (Path(__file__).parents[2] / room for room in ("isa", "sass", "tensor"))
    files = hashlib.sha256(b"".join(path.read_bytes() for room in rooms for path in sorted(room.rglob("*.py"))))
    place = cache.cache_folder() / "lanes-texts" / files.hexdigest()[:32]
    found = cache.kept_file(place)
    if found is None:
        found = hashlib.sha256(source.text().encode()).digest()
        cache.keep_file(place, found, _TEXT_HASHES_BYTES)
    return found


@lru_cache
def folder() -> Path:
    """The cache folder of the compiled loops, named after their text and the compiler."""
    content = hashlib.sha256(compiler().encode() + _text_hash())
    content.update(Path(__file__).parents[2].joinpath("base", "whole_programs.py").read_bytes())
    return cache.cache_folder() / f"lanes-{content.hexdigest()[:16]}"


def arrays(warps: int, instructions: int, rows: int, looks: int = 1) -> dict[str, Any]:
    """Empty arguments of the loops, by the names of `loops.run`."""
    lanes = 32 * (warps | 1)
    return {
        "code": np.zeros((instructions, COLUMNS), np.int64),
        "file": np.zeros((rows, lanes), np.uint32),
        "truths": np.zeros((16, lanes), np.uint8),
        "active": np.zeros(lanes, np.uint8),
        "here": np.zeros(lanes, np.uint8),
        "at": np.zeros(lanes, np.uint64),
        "sources": np.zeros(lanes, np.uint64),
        "lending": np.zeros(lanes, np.uint8),
        "x": np.zeros((12, lanes), np.uint32),
        "t": np.zeros((8, lanes), np.uint8),
        "buffers": np.zeros((1, BUFFER_COLUMNS), np.int64),
        "participants": np.zeros((CONVERGENCE_BARRIERS, 32 * warps), np.uint32),
        "meetings": np.zeros((CONVERGENCE_BARRIERS, 32 * warps), np.int64),
        "waiting_at": np.zeros((CONVERGENCE_BARRIERS, 32 * warps), np.int64),
        "counts": np.zeros((CONVERGENCE_BARRIERS, warps), np.int64),
        "alive": np.zeros(32 * warps, np.uint8),
        "members": np.zeros((32 * warps + 2, warps), np.uint32),
        "group_numbers": np.zeros((32 * warps + 2, GROUP_NUMBERS), np.int64),
        "new_members": np.zeros((32 * warps + 2, warps), np.uint32),
        "new_numbers": np.zeros((32 * warps + 2, GROUP_NUMBERS), np.int64),
        "marks": np.zeros(32 * warps + 2, np.int64),
        "heads": np.zeros((CTA_BARRIERS, BARRIER_HEADS), np.int64),
        "waits_at": np.zeros((CTA_BARRIERS, 32 * warps), np.int64),
        "came": np.zeros((CTA_BARRIERS, 32 * warps), np.int64),
        "votes": np.zeros((CTA_BARRIERS, 32 * warps), np.uint8),
        "vote_counts": np.zeros(32 * warps, np.uint32),
        "vote_truths": np.zeros(32 * warps, np.uint8),
        "places": np.zeros(instructions, np.int64),
        "looks": np.zeros((looks, LOOK_ROW + MOST_LOOK_ROWS), np.int64),
        "factors": np.zeros((MOST_LOOK_ROWS, 32 * warps), np.uint64),
        "slots": np.full(LOOK_PLACES, -1, np.int64),
        "lookers": np.zeros((LOOK_PLACES, warps), np.uint32),
        "found": np.zeros(LOOK_PLACES, np.uint64),
        "clocks": np.zeros(LOOK_PLACES, np.int64),
        "new": np.zeros(LOOK_PLACES, np.uint8),
        "waits": np.zeros(32 * warps, np.uint8),
        "forms": np.array([forms_of(*kinds) for kinds in PRODUCT_KINDS], np.int64),
        "zeros": np.zeros((4, lanes), np.uint32),
        "no_rows": np.zeros((0, 0), np.intp),
        "values": np.zeros(1664, np.float32),
        "exponents": np.zeros(1664, np.int32),
        "left": np.zeros((4, lanes), np.uint32),
        "right": np.zeros((64, 32), np.uint32),
        "state": np.zeros(STATE_NUMBERS, np.int64),
        "exists": np.zeros(32 * warps, np.uint8),
        "numbers": np.zeros(0, np.int64),
        "steps": np.zeros(0, np.int64),
        "log_steps": np.zeros((1, 3), np.int32),
        "log_kinds": np.zeros(1, np.int64),
        "log_places": np.zeros((1, 1), np.int64),
        "log_sources": np.zeros((1, 1), np.int64),
        "log_lanes": np.zeros((1, 1), np.uint8),
        "log_sets": np.zeros((1, warps), np.uint32),
        "log_slots": np.full(4, -1, np.int64),
    }


def shadow_arrays(
    lanes: int, instructions: int, shared_units: int, global_units: int, buffers: int = 1
) -> dict[str, Any]:  # fmt: skip
    """The empty columns of a `records.Shadow`, by their names; `lanes`: a multiple of 32."""
    warps = lanes // 32
    return {
        "table": np.zeros((instructions, TABLE_COLUMNS), np.int64),
        "buffers": np.zeros((buffers, 4), np.int64),
        "exists": np.zeros(warps, np.uint32),
        "alive": np.zeros(warps, np.uint32),
        "arrived": np.zeros((CTA_BARRIER_NUMBERS, warps), np.uint32),
        "barriers": np.zeros((CTA_BARRIER_NUMBERS, 2), np.int64),
        "parted": np.zeros(warps, np.uint8),
        "times": np.zeros(warps, np.int64),
        "groups": np.zeros((warps, 2), np.int64),
        "group_times": np.zeros((warps, GROUP_TIMES), np.int64),
        "put_off": np.zeros((MOST_PUT_OFF, 2), np.int64),
        "shared": np.zeros((4, shared_units), np.int64),
        "everywhere": np.zeros((4, global_units), np.int64),
        "filled": np.zeros(0, np.uint8),
        "own": np.zeros(0, np.uint8),
        "gaps": np.zeros(0, np.uint8),
        "units": np.zeros(lanes, np.int64),
        "state": np.zeros(SHADOW_NUMBERS, np.int64),
    }


def load(patience_s: float = 0.0) -> Loaded:
    """The loops; compiled where they are not on disk. Raises ImportError, OSError.

    `patience_s`: how long to wait for another process that compiles them; after that it raises TimeoutError.
    """
    if _loaded:
        return _loaded[0]
    home = folder()
    with cache.turn(home, most_s=patience_s):
        place, is_kept = cache.ready(home)
        path = place / "loops.py"
        if not is_kept:
            path.write_text(source.text(), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"gpuemu_{home.name.replace('-', '_')}", path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded, empty = Loaded(module.run, module.follow), arrays(1, 1, 1)
        loaded.run(*empty.values())
        no_steps = (empty[f"log_{name}"][:0] for name in Logs._fields)
        loaded.follow(tuple(no_steps), tuple(shadow_arrays(32, 1, 1, 1).values()))
        if not is_kept:
            cache.keep(place, home)
    _loaded.append(loaded)
    return loaded


class Loops:
    """Gives the loops to executions of this process when it has executed enough."""

    def __init__(self, compile: str = "from gpuemu.sass.compiled import loading; loading.beside()") -> None:
        self._compile = compile
        self._steps = 0
        self._loop: Loop | None = None
        self._missing = not has_numba()
        self._beside: subprocess.Popen[bytes] | None = None

    def ask(self, steps: int, expected: int = 0) -> Loop | None:
        """The loops, if they are there now. `steps`: how many the executor has taken since the last time.

        `expected`: how many it will probably still take.
        """
        if self._loop is not None or self._missing:
            return self._loop
        self._steps += steps
        if self._steps + expected < WORTH_LOADING:
            return None
        if not cache.is_whole(folder()):
            self._compile_beside(self._steps + expected)
            return None
        try:
            self._loop = load().run
        except (ImportError, OSError, RuntimeError, TimeoutError):
            self._missing = True
        return self._loop

    def _compile_beside(self, steps: int) -> None:
        if steps < WORTH_COMPILING or self._beside is not None:
            return
        if cache.refusal(folder()):
            self._missing = True
            return
        command = [sys.executable, "-c", self._compile]
        quiet = subprocess.DEVNULL
        self._beside = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)

    def force(self) -> None:
        """Have the loops now; whoever asks for them waits for the compiler. Raises as `load`."""
        if self._loop is None:
            self._loop = load(cache.LOCK_S).run
        self._missing = False

    def refuse(self) -> None:
        """Do without."""
        self._loop, self._missing = None, True

    def forget(self) -> None:
        """Begin again, as a new process."""
        self._steps, self._loop, self._missing = 0, None, not has_numba()


LOOPS = Loops()


def beside() -> None:
    """In a process of its own: compile with low priority."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    load()
