"""Launches a kernel functionally: every CTA of the grid executes, and those asked for are recorded.

    trace = trace_kernel("k.cubin", kernel="name", grid=(1, 1, 1), block=(128, 1, 1), args=[array, array, 64])

Arrays passed as arguments are the kernel's buffers: what it stores is in them afterwards.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.arch import Architecture, as_architecture, load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.again import Repeat
from gpuemu.sass.barrier_numbers import with_barrier_numbers
from gpuemu.sass.clusters import cluster_size, notes_of
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.launch_config import DEFAULT_BUDGET, DEFAULT_STACK_BYTES, SILENT, LaunchConfig, Listeners
from gpuemu.sass.machine.clock import ReplayedClock
from gpuemu.sass.machine.cluster_state import Clusters
from gpuemu.sass.machine.constant_banks import (
    NOTHING_KEPT,
    constant_banks,
    is_cooperative,
    shared_memory,
    shared_memory_size,
)
from gpuemu.sass.machine.cta import Cta, CtaExecutor
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.handouts import Handouts
from gpuemu.sass.machine.lanes import WARP, Lanes
from gpuemu.sass.machine.memory import LOCAL_WINDOW, Device, Memory
from gpuemu.sass.machine.observer import Observer
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recorder import Recorder
from gpuemu.sass.machine.system_calls import add_heap
from gpuemu.sass.machine.turns import Turns
from gpuemu.sass.producers import copied
from gpuemu.sass.room import check_room
from gpuemu.sass.sampling import Taken, of_one_sm, sampled, work_of_all
from gpuemu.sass.scout import counted, scout
from gpuemu.sass.tools.disassembly import DecodedFunction, decode_function, without_padding
from gpuemu.trace.events import table
from gpuemu.trace.launch_limits import Extent, extent
from gpuemu.trace.lines import with_threads
from gpuemu.trace.model import GridSample, Launch, Trace
from gpuemu.trace.residency import residency, units
from gpuemu.trace.row_table import joined_sources

_CHIP = re.compile(r"sm_\d+[af]?")
_STACK_ALIGNMENT = 16
"""Bytes to which a thread's stack is rounded up."""


def trace_kernel(
    path: str | os.PathLike[str] | Cubin, kernel: str | None = None, grid: Extent = 1, block: Extent = WARP,
    dynamic_shared_bytes: int = 0, args: Sequence[Any] = (), *,
    arch: str | os.PathLike[str] | Architecture | None = None, options: Sequence[str] = (),
    ctas: Iterable[int] | None = None, budget: int = DEFAULT_BUDGET, stack_bytes: int = DEFAULT_STACK_BYTES,
    zero_shared: bool = False, timed_only: bool = False, printer: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None, watch: Callable[[Callable[[], int]], None] | None = None,
    observer: Observer | None = None, cluster: Extent | None = None, device: Device | None = None,
    noise: int | None = None, clock: ReplayedClock | None = None,
) -> Trace:  # fmt: skip
    """Execute a kernel of a .cu or .cubin file (or of a Cubin already read) and return the trace of its CTAs.

    `grid` in CTAs, `block` in threads, each a number or up to three. An array in `args` is a device buffer and is
    updated in place. `arch` is an Architecture, its name or its path. `LaunchConfig` describes these and the other
    parameters, `Listeners` describes `printer`, `progress`, `watch` and `observer`. The text of printf is also in the
    trace's `printed`. `clock`: the values of clock reads in a second execution, which `gpuemu.run(..., clocks=True)`
    asks for; the first execution counts instructions instead.

    Raises GpuemuError for arguments that do not fit, an unknown instruction, an integer argument where nothing says
    whether the parameter is a float, and any fault of the kernel, with its instruction, warp, lane and source line.
    """
    where = "trace_kernel()"
    if arch is not None and not (isinstance(arch, str) and _CHIP.fullmatch(arch)):
        arch = as_architecture(arch, where=where)
    config = LaunchConfig(
        path, kernel, extent("grid", grid, where), extent("block", block, where),
        None if cluster is None else extent("cluster", cluster, where), dynamic_shared_bytes, args, arch, options,
        None if ctas is None else sorted(set(ctas)), timed_only, budget, stack_bytes, zero_shared, device, noise,
    )  # fmt: skip
    return execute_launch(config, Listeners(printer, progress, watch, observer), clock)


def execute_launch(config: LaunchConfig, listeners: Listeners = SILENT, clock: ReplayedClock | None = None) -> Trace:
    """Execute a launch and return the trace of its recorded CTAs. See `trace_kernel` for `clock` and errors."""
    arch, observer = config.arch, listeners.observer
    # A what-if architecture of the user's own is compiled for as the chip that it says it is.
    name = arch.code_name if isinstance(arch, Architecture) else arch
    function = decode_function(config.code, config.kernel, name, options=config.options)
    hardware = arch if isinstance(arch, Architecture) else load_arch(name or function.arch)
    code = without_padding(function.code)
    launch = Launch(
        config.grid, config.block, max(1, function.registers_per_thread), function.static_shared_bytes,
        config.dynamic_shared_bytes,
    )  # fmt: skip
    _check_bounds(function, launch)
    size = cluster_size(function, launch, config.cluster)
    file = function.cubin.file
    check_room(launch, config.stack_bytes, file)
    head = Trace(
        function.source_name,
        function.arch,
        launch,
        code,
        (),
        np.zeros((0, WARP), np.int64),
        np.zeros((0, WARP), np.bool_),
        file=file,
    )
    resident = min(residency(head, hardware).values())
    sms = hardware.chips[hardware.chip].sms
    at_once = resident * sms
    if launch.ctas > at_once and is_cooperative(function):
        found = f"{launch.ctas} CTAs of a kernel that synchronizes the grid"
        right = f"a cooperative launch takes the {at_once} that live on the chip at once ({sms} SMs x {resident})"
        raise GpuemuError.one(file, None, "--grid", found, right)
    kept = range(0, launch.ctas, sms)[:resident] if config.ctas is None else config.ctas
    for cta in kept:
        if not 0 <= cta < launch.ctas:
            raise GpuemuError.one("--cta", None, "", f"CTA {cta}", f"the grid has CTAs 0 to {launch.ctas - 1}")
    lanes = Lanes(launch.threads_per_cta, config.noise)
    shared_bytes, shared_base, system_wrote = shared_memory(function, launch, hardware)
    memory = Memory(
        shared_bytes=shared_bytes,
        shared_base=shared_base,
        # Frames of wide variables are aligned to the stack's first value, which is this.
        local_bytes_per_lane=units(max(function.local_bytes, config.stack_bytes), _STACK_ALIGNMENT),
        lanes=lanes,
        zero_shared=config.zero_shared,
        system_wrote=system_wrote,
        spread=0 if observer is None else observer.spread,
        noise=config.noise,
    )
    constants, known = constant_banks(
        function, launch, memory, config.args, hardware, size, config.device or NOTHING_KEPT
    )
    add_heap(memory, function.image.codeless)
    repeat = Repeat(code, memory.buffers, clock is None and (observer is None or not observer.forgives))
    sample = config.ctas is None and launch.ctas > len(kept)
    beside = sampled(launch, kept, sms, None) if sample and not config.timed_only else []
    heavy: list[int] = []
    work = np.zeros(launch.ctas)
    printed: list[str] = []

    def take(text: str) -> None:
        printed.append(text)
        if listeners.printer is not None:
            listeners.printer(text)

    environment = Environment(
        hardware,
        launch,
        lanes,
        memory,
        constants,
        code,
        known,
        shared_memory_size(launch, hardware),
        codeless=function.image.codeless,
        printer=take,
        observer=observer,
        replayed=clock,
        handouts=Handouts(min(launch.ctas, at_once)) if sample and config.timed_only else None,
    )
    if observer is not None:
        observer.launches(environment)
    try:
        clusters = Clusters(size, launch.grid, lanes.exists) if math.prod(size) > 1 else None
        executor = CtaExecutor(environment, clusters)
    except UnsupportedError as error:
        raise _unknown(error, function, file) from None
    if listeners.watch is not None:
        listeners.watch(executor.instructions)
    budget = config.budget
    turns = Turns(
        executor,
        lambda cta: executor.begin(cta, Recorder(lanes, code), cta in wanted or cta in beside or cta in heavy, budget),
        at_once,
        f"{sms} SMs x {resident}",
        observer,
        repeat.instructions,
    )
    taken, others = Taken(WARP), Taken(WARP)
    threads = np.zeros(0, np.int64)
    wanted = set(kept)
    executed = kept if config.timed_only else range(launch.ctas)
    spare = range(launch.ctas) if config.timed_only else range(0)
    ended: dict[int, Cta] = {}
    in_order = deque(kept)
    done = 0
    if listeners.progress is not None:
        listeners.progress(0, len(executed))

    def record() -> None:
        """Take down the CTAs that have ended, each when all before it have."""
        nonlocal threads
        while in_order and in_order[0] in ended:
            cta = ended.pop(in_order.popleft())
            if observer is not None:
                observer.recorded(cta.number, cta.recorder)
            taken.add(cta)
            its_threads = cta.recorder.threads(len(code) + len(executor.barriers_used))
            threads = np.concatenate([threads, np.zeros(len(its_threads) - len(threads), np.int64)]) + its_threads

    try:
        for one in turns.run(executed, spare):
            if one.number in wanted:
                ended[one.number] = one
                record()
            elif one.keep:
                others.add(one)
            done += one.keep or not config.timed_only
            work[one.number] = one.budget - one.left
            if listeners.progress is not None:
                listeners.progress(done, len(executed))
    except ExecutionError as error:
        if observer is None or not observer.forgives:
            raise _explained(error, function, file, turns.now, launch) from None
        observer.fails(error)
        observer.ends()
        ended |= {one.number: one for one in turns.begun() if one.keep}
        in_order = deque(sorted(ended))
        record()
    except UnsupportedError as error:
        raise _unknown(error, function, file) from None
    first, left = scout(environment) if sample else ({}, None)
    if sample and config.timed_only and taken.warps:
        each = sum(len(warp.path) for warp in taken.warps) // len(kept)
        beside = sampled(launch, kept, sms, each, left)
        try:
            for one in turns.run(beside, spare, kept):
                if one.keep:
                    others.add(one)
            work = work_of_all(launch, [*taken.warps, *others.warps], sms, left, partial(counted, environment))
            by_now = {warp.cta for warp in (*taken.warps, *others.warps)}
            heavy = of_one_sm(work, sorted(cta for cta in by_now if cta % sms == 0), sms, resident)
            for one in turns.run([cta for cta in heavy if cta not in by_now]):
                others.add(one)
        except (ExecutionError, UnsupportedError):  # what is known by then does
            heavy = []
    known_warps = [(of.warps, table(of.events)) for of in (taken, others) if sample]
    copies = copied(environment, known_warps, first)
    replayed, warps, threads = with_barrier_numbers(code, taken.warps + others.warps, threads, executor.barriers_used)
    addresses, active, spaces = taken.columns()
    has_events = any(i.has_events for i in code)
    trace = Trace(
        function.source_name,
        function.arch,
        launch,
        replayed,
        tuple(warps[: len(taken.warps)]),
        addresses,
        active,
        file=file,
        printed="".join(printed),
        spaces=spaces if spaces.any() else None,
        sources=joined_sources((len(part[0]), part[3]) for part in taken.rows),
        events=table(taken.events) if has_events else None,
        source_paths=function.source_paths,
        lacks=notes_of(function, size),
        buffer_bytes=sum(buffer.bytes for buffer in memory.buffers),
    )
    trace = replace(trace, code=with_threads(trace, threads))
    trace = replace(trace, again=repeat.again(executor, partial(
        _again, replace(config, code=function.cubin, args=tuple(config.args), options=()),
    )))  # fmt: skip
    if not sample:
        return trace
    addresses, active, spaces = others.columns()
    beyond = replace(
        trace, warps=tuple(warps[len(taken.warps) :]), addresses=addresses, active=active,
        spaces=spaces if spaces.any() else None,
        sources=joined_sources((len(part[0]), part[3]) for part in others.rows),
        events=table(others.events) if has_events else None,
    )  # fmt: skip
    follow = len([cta for cta in {warp.cta for warp in beyond.warps} if cta % sms == 0])
    buffers = tuple((buffer.start, buffer.bytes) for buffer in memory.buffers if buffer.start < LOCAL_WINDOW)
    hands_out = environment.handouts is not None and environment.handouts.any
    return replace(
        trace,
        sample=GridSample(
            beyond, follow, tuple(heavy), first, buffers, hands_out, work if work.all() else None, copies
        ),
    )  # fmt: skip


def _again(config: LaunchConfig, clock: ReplayedClock, progress: Callable[[int, int], None] | None) -> Trace:
    """Execute a launch a second time, with these values of the clock."""
    return execute_launch(config, Listeners(progress=progress), clock)


def _check_bounds(function: DecodedFunction, launch: Launch) -> None:
    """Refuse a block that the code was not compiled for: by __launch_bounds__ (PTX: .maxntid), or .reqntid."""
    file, found, required = function.cubin.file, str(launch.block), function.required_block
    if required is not None and launch.block != required:
        right = f"{required} is right, for which alone {function.source_name} was compiled (.reqntid)"
        raise GpuemuError.one(file, None, "block", found, right)
    most = math.prod(function.max_threads or (launch.threads_per_cta,))
    if launch.threads_per_cta > most:
        right = f"at most {most} threads are right, for which {function.source_name} was compiled (__launch_bounds__)"
        raise GpuemuError.one(file, None, "block", f"{found}, {launch.threads_per_cta} threads", right)


def as_given(source: tuple[str, int] | None, what: Any) -> tuple[str, int] | None:
    """A source line, its file called as the user called it."""
    if source is None or not isinstance(what, str | os.PathLike):
        return source
    return (os.fspath(what), source[1]) if Path(source[0]) == Path(what).resolve() else source


def _unknown(error: UnsupportedError, function: DecodedFunction, file: str) -> GpuemuError:
    """The refusal of an instruction: its function, its address there, its text, and what of it is not known."""
    offset = error.instruction.offset
    source = as_given(function.source_line(offset), file)
    where = function.image.place(offset) + _called_from(function, offset)
    right = "an instruction that the executor knows is right"
    if source is not None:
        return GpuemuError.one(source[0], source[1], where, f"{error}", right)
    return GpuemuError.one(file, None, where, f"{error}", right)


def _called_from(function: DecodedFunction, offset: int) -> str:
    """The calls that inlined an instruction, the innermost first: ", called at k.cu:42"; "" where there are none."""
    return "".join(f", called at {file}:{line}" for file, line in function.call_sites(offset))


def _explained(error: ExecutionError, function: DecodedFunction, file: str, cta: int, launch: Launch) -> GpuemuError:
    """The error as a kernel's author wants it: source line, instruction, CTA, warp, lane."""
    instruction = error.instruction
    source = as_given(function.source_line(instruction.offset), file)
    place = function.image.place(instruction.offset).replace("+", " at ")
    where = f"{place}, {instruction}{_called_from(function, instruction.offset)}, CTA {cta}"
    if error.lane is not None:
        x, y, _ = launch.block
        thread = error.lane
        where += f", warp {error.lane // WARP}, lane {error.lane % WARP}"
        where += f", thread ({thread % x}, {thread // x % y}, {thread // (x * y)})"
    if source is not None:
        return GpuemuError.one(source[0], source[1], where, error.found, error.right)
    return GpuemuError.one(file, None, where, error.found, error.right)
