"""Runs recorded machine code on the emulator, the way `measure` ran it on the GPU.

The clock of a warp is what the emulator says its clock reads would have returned; cycles are counted from
them exactly as for the hardware's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base.extras import MissingToolError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.trace.model import Trace
from validation import records
from validation.corpus.kernel import OUTPUT_WORDS, input_words
from validation.records import Measurement

LOAD_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
STORE_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
TENSOR = "sm__inst_executed_pipe_tensor_op_hmma.sum"


@dataclass(frozen=True)
class Replay:
    """An emulated kernel: cycles and clocks in the form of a Measurement, or `error` in one line."""

    name: str
    cycles: int = 0
    clocks: tuple[tuple[int, ...], ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


@lru_cache(maxsize=2)
def _units(path: str) -> list[bytes]:
    return records.read_code(Path(path))


@lru_cache(maxsize=4)
def _cubin(path: str, unit: int) -> Cubin:
    return load_cubin(_units(path)[unit])


@lru_cache(maxsize=8)
def trace_of(folder: Path, m: Measurement) -> Trace:
    """The trace of a measured kernel, from the machine code recorded beside its measurement.

    The last few are kept, because a search runs one kernel on many architectures.
    """
    cubin = _cubin(str(folder / records.CODE_FILE), m.unit)
    return gpuemu.trace_kernel(
        cubin, kernel=m.name, grid=(m.ctas, 1, 1), block=(32 * m.warps, 1, 1), dynamic_shared_bytes=m.shared_bytes,
        args=[np.zeros(OUTPUT_WORDS, dtype=np.uint32), input_words(), m.iterations],
    )  # fmt: skip


def clocks_of(result: gpuemu.Result, m: Measurement) -> tuple[tuple[int, ...], ...]:
    """The clocks of the second pass of the warps that took part, CTA by CTA, the earliest being 0."""
    running = set(m.running_warps)
    reads = [warp.clock_reads[-m.reads :] for warp in result.warps if warp.warp in running]
    if not reads or any(len(warp) != m.reads for warp in reads):
        raise ValueError(f"{m.name}: not {m.reads} clock reads a pass")
    first = min(warp[0] for warp in reads)
    return tuple(tuple(clock - first for clock in warp) for warp in reads)


def replay(folder: Path, m: Measurement, arch: Architecture) -> Replay:
    """Trace and run one kernel. Raises MissingToolError: no kernel's failure is that a tool is not installed."""
    started = time.perf_counter()
    try:
        result = gpuemu.run(trace_of(folder, m), arch)
        clocks = clocks_of(result, m)
    except MissingToolError:
        raise
    except (gpuemu.GpuemuError, ValueError) as error:
        return Replay(m.name, error=" ".join(str(error).split())[:300], seconds=time.perf_counter() - started)
    counters = {name: int(result.counters[name]) for name in (LOAD_WAVEFRONTS, STORE_WAVEFRONTS, INSTRUCTIONS, TENSOR)}
    return Replay(m.name, max(w[-1] for w in clocks), clocks, counters, time.perf_counter() - started)


def _replay_unit(job: tuple[str, list[Measurement], Architecture]) -> list[Replay]:
    folder, measurements, arch = job
    return [replay(Path(folder), m, arch) for m in measurements]


def replay_all(
    folder: Path, measurements: Sequence[Measurement], arch: Architecture, jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Replay]:  # fmt: skip
    """Every kernel, unit by unit in parallel processes; the result does not depend on how many."""
    by_unit: dict[int, list[Measurement]] = {}
    for m in measurements:
        by_unit.setdefault(m.unit, []).append(m)
    work: list[list[Measurement]] = [part for group in by_unit.values() for part in _parts(group)]
    done: dict[str, Replay] = {}
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, max(1, len(work)))) as pool:
        futures = [pool.submit(_replay_unit, (str(folder), part, arch)) for part in work]
        for future in as_completed(futures):
            for one in future.result():
                done[one.name] = one
            if progress is not None:
                progress(len(done), len(measurements))
    return {m.name: done[m.name] for m in measurements}


def _parts(group: Sequence[Measurement], size: int = 32) -> Iterable[list[Measurement]]:
    for start in range(0, len(group), size):
        yield list(group[start : start + size])
