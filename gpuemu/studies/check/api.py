"""`gpuemu.check`: execute a kernel, or follow a trace, with all tools.

report = gpuemu.check("k.cu", kernel="reduce", block=(256, 1, 1), args=[array, out])
for finding in report.errors:
    print(finding.title, finding.sentence)
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from gpuemu.arch import Architecture, load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code
from gpuemu.sass.launch_config import DEFAULT_STACK_BYTES, SILENT, LaunchConfig, Listeners
from gpuemu.studies.check.controlcheck import check_control
from gpuemu.studies.check.findings import TOOLS, Findings, Point
from gpuemu.studies.check.initcheck import Uninitialised
from gpuemu.studies.check.report import Report
from gpuemu.studies.check.skipped_tools import but_for, idle_of_kernel, idle_of_trace
from gpuemu.trace.launch_limits import Extent, extent
from gpuemu.trace.model import Instruction, Trace

DEFAULT_BUDGET = 20_000_000
"""The warp instructions of a CTA after which it counts as endless."""
_MOST_CTAS = 8
"""The number of CTAs whose paths controlcheck follows."""


def check(
    what: str | os.PathLike[str] | Trace | Any,
    kernel: str | None = None,
    grid: Extent = 1,
    block: Extent = 32,
    dynamic_shared_bytes: int = 0,
    args: Sequence[Any] = (),
    *,
    tools: Iterable[str] = TOOLS,
    arch: str | Architecture | None = None,
    options: Sequence[str] = (),
    budget: int = DEFAULT_BUDGET,
    stack_bytes: int = DEFAULT_STACK_BYTES,
    zero_shared: bool = False,
    printer: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cluster: Extent | None = None,
) -> Report:
    """The bugs of a kernel in a .cu or .cubin file, or of a trace.

    The launch arguments are those of `trace_kernel`; arrays are updated in place. An array of `gpuemu.empty` has no
    values until the kernel writes them. `tools`: some of memcheck, racecheck, synccheck, initcheck, controlcheck.
    `options` go to the compiler of a .cu. A trace contains its launch, and takes no options. It has addresses but no
    values, so memcheck and initcheck skip it.

    Raises GpuemuError for input that is wrong in itself.
    """
    chosen = tuple(tool for tool in TOOLS if tool in set(tools))
    unknown = sorted(set(tools) - set(TOOLS))
    if unknown or not chosen:
        found = f"'{unknown[0]}'" if unknown else "none"
        raise GpuemuError.one("--tool", None, "", found, f"expected one of {', '.join(TOOLS)}")
    if isinstance(what, Trace) or (isinstance(what, str | os.PathLike) and not is_machine_code(what)):
        from gpuemu.trace.files import load_trace

        named = arch.name if isinstance(arch, Architecture) else arch
        trace = what if isinstance(what, Trace) else load_trace(what, arch=named, kernel=kernel)
        if options:
            raise GpuemuError.one(trace.file, None, "", "a trace takes no options for a compiler", "Give a .cu")
        own = trace.launch
        for name, given, usual, right in (("grid", grid, 1, own.grid), ("block", block, 32, own.block)):
            if given != usual and extent(name, given, "check()") != right:
                raise GpuemuError.one(
                    "check()", None, name, f"{given}", f"expected {right}, because a trace contains its launch"
                )
        if len(args):
            raise GpuemuError.one("check()", None, "args", "a trace takes no arguments", "Give a .cu or .cubin")
        return _check_trace(trace, chosen, load_arch(arch) if isinstance(arch, str) else arch)
    config = LaunchConfig(
        what, kernel, extent("grid", grid, "check()"), extent("block", block, "check()"),
        None if cluster is None else extent("cluster", cluster, "check()"), dynamic_shared_bytes, args,
        load_arch(arch) if isinstance(arch, str) else arch, options, budget=budget, stack_bytes=stack_bytes,
        zero_shared=zero_shared,
    )  # fmt: skip
    return check_launch(config, chosen, Listeners(printer, progress))


@lru_cache(maxsize=8)
def _of_code(name: str) -> Architecture:
    """The shipped architecture for machine code of this name. Reading one takes as long as a small kernel."""
    return load_arch(name)


def _latencies(name: str, notes: list[str], given: Architecture | None) -> Architecture | None:
    """The architecture whose latencies code for `name` relies on; None, with a note, if it is not known.

    It is the architecture of that name, or else a given one for chips with such code.
    """
    try:
        return _of_code(name)
    except GpuemuError:
        if given is not None and given.code_name == name:
            return given
        notes.append(f"controlcheck does not know the latencies of {name}")
        return None


def _check_trace(trace: Trace, tools: tuple[str, ...], given: Architecture | None) -> Report:
    from gpuemu.studies.check.trace_check import follow

    findings = Findings()

    def point(instruction: Instruction, thread: int | None, cta: int | None, does: str = "") -> Point:
        source = None if instruction.line is None else (trace.file, instruction.line)
        return Point(instruction, thread, cta, source, does)

    if "racecheck" in tools or "synccheck" in tools:
        follow(trace, findings, point, tools)
    notes = list(trace.lacks)
    if "controlcheck" in tools and trace.has_control_words:
        latencies = _latencies(trace.arch, notes, given)
        if latencies is not None:
            check_control(trace, latencies, findings, point)
    kept = tuple(f for f in findings.sorted() if f.tool in tools)
    if not trace.knows_copies and "racecheck" in tools:
        notes.append("what asynchronous copies write is left out of racecheck")
    launch, idle = trace.launch, but_for(idle_of_trace(trace, tools), kept)
    return Report(trace.name, trace.arch, launch.grid, launch.block, tools, kept, tuple(notes), idle)


def check_launch(config: LaunchConfig, tools: tuple[str, ...] = TOOLS, listeners: Listeners = SILENT) -> Report:
    """Check one launch with these tools. gpuemu chooses the CTAs to record; its arrays are updated in place."""
    from gpuemu.chip.tracing import execute_launch
    from gpuemu.sass.image.cubin import Cubin
    from gpuemu.sass.image.ptx_text import Ptx
    from gpuemu.sass.launch import as_given
    from gpuemu.sass.machine.observer import Observer
    from gpuemu.sass.tools.disassembly import decode_function
    from gpuemu.studies.check.array_overruns import Gaps, look_between_arrays
    from gpuemu.studies.check.listener import LanePathListener, ToolListener
    from gpuemu.studies.check.shuffles import Disturbed, report_shuffles

    what, args, given = config.code, config.args, config.arch
    assert not isinstance(given, str)
    function = decode_function(what, config.kernel, None if given is None else given.code_name, options=config.options)
    hardware = _of_code(function.arch) if given is None else given
    findings = Findings()

    def point(instruction: Instruction, thread: int | None, cta: int | None, does: str = "") -> Point:
        callers = tuple(filter(None, (as_given(line, what) for line in function.call_sites(instruction.offset))))
        return Point(instruction, thread, cta, as_given(function.source_line(instruction.offset), what), does, callers)

    ctas, budget = math.prod(config.grid), config.budget
    kept = sorted({*range(min(ctas, _MOST_CTAS)), ctas - 1})
    shuffles = "synccheck" in tools and any(i.mnemonic == "SHFL" for i in function.code)
    again = copy.deepcopy(list(args)) if "memcheck" in tools or shuffles else []
    looker = LanePathListener if "controlcheck" in tools else ToolListener
    ptx = Ptx(function.cubin.content, function.name)
    watch = looker(frozenset(tools), findings, point, _unfilled(args), ptx=ptx)

    def launch(
        arguments: Sequence[Any], observer: Observer, record: Sequence[int], speak: bool,
        cubin: Cubin = function.cubin, zeros: bool = config.zero_shared,
    ) -> Trace:  # fmt: skip
        one = replace(
            config,
            code=cubin,
            args=arguments,
            arch=hardware,
            options=(),
            ctas=record,
            budget=budget,
            zero_shared=zeros,
            device=None if config.device is None else config.device.copy(),
        )
        heard = (listeners.printer, listeners.progress) if speak else (None, None)
        return execute_launch(one, Listeners(*heard, observer=observer))

    trace = launch(args, watch, kept, True)
    if "memcheck" in tools and watch.reaches_buffers and not watch.failed:
        launch(copy.deepcopy(again), ToolListener(frozenset(tools), findings, point, [], watch), [], False)
    if not watch.failed and len(kept) == ctas:
        budget = min(budget, 4 * _longest(trace))  # With other values or addresses, the launch may never end.
    if shuffles and watch.suspects and not (watch.failed or findings.undefined):

        def disturbed(offsets: frozenset[int]) -> bytes | None:
            other = Disturbed(offsets, watch.masks)
            launch(copy.deepcopy(again), other, [], False)
            return other.outcome

        report_shuffles(watch.suspects, disturbed, findings, point)
    if "memcheck" in tools and not watch.failed:

        def listened(gaps: Gaps, cubin: Cubin) -> None:
            launch(copy.deepcopy(again), gaps, [], False, cubin, True)

        watch.notes += look_between_arrays(function, ptx, listened, findings, point)
    if isinstance(watch, LanePathListener):
        latencies = _latencies(function.arch, watch.notes, given)
        if latencies is not None:
            check_control(trace, latencies, findings, point, watch.lane_paths)
    found = tuple(f for f in findings.sorted() if f.tool in tools)
    idle = but_for(idle_of_kernel(trace, tools, bool(_unfilled(args))), found)
    return Report(
        function.source_name, function.arch, config.grid, config.block, tools, found, (*trace.lacks, *watch.notes), idle
    )  # fmt: skip


def _longest(trace: Trace) -> int:
    """The most warp instructions that a CTA of the trace executed."""
    executed: dict[int, int] = {}
    for warp in trace.warps:
        executed[warp.cta] = executed.get(warp.cta, 0) + len(warp.path)
    return max(executed.values(), default=1)


def _unfilled(args: Sequence[Any]) -> list[int]:
    """The addresses in this process of the arrays without values."""
    found = []
    for argument in args:
        if isinstance(argument, Uninitialised):
            found.append(np.asarray(argument).__array_interface__["data"][0])
        elif isinstance(argument, tuple):
            found += _unfilled(argument)
    return found
