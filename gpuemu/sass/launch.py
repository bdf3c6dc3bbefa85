"""Executes a launch: every CTA of the grid, or some, and records those that its plan chooses.

    trace = execute_launch(LaunchConfig("k.cubin", args=[array, array, 64]), Listeners(), plan)

Arrays passed as arguments are the kernel's buffers: what it stores is in them afterwards.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.arch import Architecture, load_arch
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.sass.again import Repeat
from gpuemu.sass.barrier_numbers import with_barrier_numbers
from gpuemu.sass.clusters import cluster_size, notes_of
from gpuemu.sass.grid_plan import Executed, GridPlan
from gpuemu.sass.launch_config import LaunchConfig, Listeners
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
from gpuemu.sass.machine.lanes import WARP, Lanes
from gpuemu.sass.machine.memory import Memory
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recorder import Recorder
from gpuemu.sass.machine.system_calls import add_heap
from gpuemu.sass.machine.turns import Turns
from gpuemu.sass.room import check_room
from gpuemu.sass.taken import Taken
from gpuemu.sass.tools.disassembly import DecodedFunction, decode_function, without_padding
from gpuemu.trace.events import table
from gpuemu.trace.lines import with_threads
from gpuemu.trace.model import Launch, Trace
from gpuemu.trace.residency import residency, units
from gpuemu.trace.row_table import joined_sources

_STACK_ALIGNMENT = 16
"""Bytes to which a thread's stack is rounded up."""


class KernelFaultError(GpuemuError):
    """What a kernel must not do. `cause` is the executor's own error."""

    cause: ExecutionError | None = None


def execute_launch(
    config: LaunchConfig, listeners: Listeners, plan: GridPlan | None = None, clock: ReplayedClock | None = None
) -> Trace:
    """Execute a launch and return the trace of its recorded CTAs: those that `config` names, else those of the plan.

    Without a plan these are all CTAs. `clock`: the values of clock reads in a second execution, which
    `gpuemu.run(..., clocks=True)` asks for; the first execution counts instructions instead.

    Raises GpuemuError for arguments that do not fit, an unknown instruction, an integer argument where nothing says
    whether the parameter is a float, and any fault of the kernel, with its instruction, warp, lane and source line.
    """
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
    planned = plan.begin(launch, sms, resident) if plan is not None and config.ctas is None else None
    kept = planned.timed if planned is not None else range(launch.ctas) if config.ctas is None else config.ctas
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
    recorded = {*kept} if planned is None else {*kept, *planned.recorded_beside(config.timed_only)}
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
        handouts=None if planned is None else planned.work_queues(config.timed_only),
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
        lambda cta: executor.begin(cta, Recorder(lanes, code), cta in recorded, budget),
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
    begun = {*executed}

    def run(further: Iterable[int]) -> None:
        """Execute and record further CTAs."""
        numbers = list(further)
        recorded.update(numbers)
        for one in turns.run(numbers, spare, begun):
            begun.add(one.number)
            if one.keep:
                others.add(one)

    if planned is not None:
        planned.explore(environment, Executed(taken, others, work), run, config.timed_only)
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
        _again, replace(config, code=function.cubin, args=tuple(config.args), options=()), plan,
    )))  # fmt: skip
    if planned is None:
        return trace
    addresses, active, spaces = others.columns()
    beyond = replace(
        trace, warps=tuple(warps[len(taken.warps) :]), addresses=addresses, active=active,
        spaces=spaces if spaces.any() else None,
        sources=joined_sources((len(part[0]), part[3]) for part in others.rows),
        events=table(others.events) if has_events else None,
    )  # fmt: skip
    return replace(trace, sample=planned.sample(environment, beyond))


def _again(
    config: LaunchConfig, plan: GridPlan | None, clock: ReplayedClock, progress: Callable[[int, int], None] | None
) -> Trace:
    """Execute a launch a second time, with these values of the clock."""
    return execute_launch(config, Listeners(progress=progress), plan, clock)


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


def _explained(
    error: ExecutionError, function: DecodedFunction, file: str, cta: int, launch: Launch
) -> KernelFaultError:
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
    named, line = (file, None) if source is None else source
    explained = KernelFaultError([Problem(named, line, where, error.found, error.right)])
    explained.cause = error
    return explained
