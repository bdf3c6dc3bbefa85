"""Runs recorded machine code on the emulator as `measure` ran it on the GPU.

The clock of a warp is the value that the emulator gives to its clock reads. Cycles are counted from them as for the
hardware.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu import emulate
from gpuemu.arch import Architecture
from gpuemu.base.extras import MissingToolError
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.program.program import Program
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.trace.model import Trace
from validation import records
from validation.corpus.kernel import OUTPUT_WORDS, input_words
from validation.records import KernelLaunch

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


@lru_cache(maxsize=32)
def trace_of(code: Path, launch: KernelLaunch) -> Trace:
    """The trace of a kernel from recorded machine code, the file code.tar.xz of a data folder.

    The last few traces are kept, because a search runs one kernel on many architectures. They cannot execute again,
    because that would keep their arrays, too.
    """
    return replace(executed(code, launch, np.zeros(OUTPUT_WORDS, dtype=np.uint32)), again=None)


@lru_cache(maxsize=32)
def _program(code: Path, launch: KernelLaunch, lowered: Lowered) -> Program:
    """The program of `trace_of`. It is kept, because a search mostly varies values that lowering does not read."""
    return lower(trace_of(code, launch), lowered.arch)


@dataclass(frozen=True)
class Lowered:
    """An architecture that equals others for which lowering makes the same program."""

    values: tuple[tuple[str, object], ...]
    arch: Architecture = field(compare=False, repr=False)

    @classmethod
    def of(cls, arch: Architecture) -> Lowered:
        """The architecture with the values that lowering reads."""
        values = tuple(one for one in arch.flat().items() if not one[0].startswith(REPLAY_ONLY))
        return cls((("name", arch.name), *values), arch)


def executed(code: Path, launch: KernelLaunch, out: NDArray[np.uint32]) -> Trace:
    """The trace of a kernel that has executed; `out` has its results."""
    return gpuemu.trace_kernel(
        _cubin(str(code), launch.unit), kernel=launch.name, grid=(launch.ctas, 1, 1), block=(32 * launch.warps, 1, 1),
        dynamic_shared_bytes=launch.shared_bytes, ctas=range(launch.ctas),
        args=[out, input_words(), launch.iterations],
    )  # fmt: skip


def clocks_of(result: gpuemu.Result, launch: KernelLaunch) -> tuple[tuple[int, ...], ...]:
    """The clocks of the second pass of the warps that took part, CTA by CTA, counted from the earliest."""
    running = set(launch.running_warps)
    reads = [warp.clock_reads[-launch.reads :] for warp in result.warps if warp.warp in running]
    if not reads or any(len(warp) != launch.reads for warp in reads):
        raise ValueError(f"{launch.name}: not {launch.reads} clock reads a pass")
    first = min(warp[0] for warp in reads)
    return tuple(tuple(clock - first for clock in warp) for warp in reads)


def replay(code: Path, launch: KernelLaunch, arch: Architecture) -> Replay:
    """Trace and run one kernel of the file `code`; the replay knows no measured figure.

    Raises MissingToolError, because a missing tool is no kernel's failure.
    """
    started = time.perf_counter()
    try:
        if launch.ctas > 1:  # on the GPU they waited for a common instant
            arch = arch.with_overrides({"launch.cta_interval_cycles": 0})
        result = emulate.replay(trace_of(code, launch), arch, _program(code, launch, Lowered.of(arch)))
        clocks = clocks_of(result, launch)
    except MissingToolError:
        raise
    except (gpuemu.GpuemuError, ValueError) as error:
        return Replay(launch.name, error=" ".join(str(error).split())[:300], seconds=time.perf_counter() - started)
    counters = {name: int(result.counters[name]) for name in (LOAD_WAVEFRONTS, STORE_WAVEFRONTS, INSTRUCTIONS, TENSOR)}
    return Replay(launch.name, max(w[-1] for w in clocks), clocks, counters, time.perf_counter() - started)


def executor(jobs: int) -> Executor:
    """An executor with that many processes; with one job this process does the work."""
    return ProcessPoolExecutor(jobs) if jobs > 1 else ThreadPoolExecutor(1)


def _replay_unit(job: tuple[str, list[KernelLaunch], Architecture]) -> list[Replay]:
    code, launches, arch = job
    return [replay(Path(code), launch, arch) for launch in launches]


def replay_all(
    code: Path, launches: Sequence[KernelLaunch], arch: Architecture, jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Replay]:  # fmt: skip
    """Replay every kernel, unit by unit in parallel processes; with one job in this process, with the same result."""
    by_unit: dict[int, list[KernelLaunch]] = {}
    for launch in launches:
        by_unit.setdefault(launch.unit, []).append(launch)
    work: list[list[KernelLaunch]] = [part for group in by_unit.values() for part in _parts(group)]
    done: dict[str, Replay] = {}
    with executor(min(jobs or os.cpu_count() or 1, max(1, len(work)))) as pool:
        futures = [pool.submit(_replay_unit, (str(code), part, arch)) for part in work]
        for future in as_completed(futures):
            for one in future.result():
                done[one.name] = one
            if progress is not None:
                progress(len(done), len(launches))
    return {launch.name: done[launch.name] for launch in launches}


def _parts(group: Sequence[KernelLaunch], size: int = 32) -> Iterable[list[KernelLaunch]]:
    for start in range(0, len(group), size):
        yield list(group[start : start + size])
