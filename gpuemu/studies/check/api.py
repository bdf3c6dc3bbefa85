"""`gpuemu.check`: execute a kernel, or follow a trace, with all tools.

report = gpuemu.check("k.cu", kernel="reduce", block=(256, 1, 1), args=[array, out])
for finding in report.errors:
    print(finding.title, finding.sentence)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from gpuemu.arch import Architecture, load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code
from gpuemu.sass.launch_config import DEFAULT_STACK_BYTES, SILENT, LaunchConfig, Listeners
from gpuemu.studies.check.controlcheck import check_control
from gpuemu.studies.check.findings import TOOLS, Findings, Point
from gpuemu.studies.check.report import Report
from gpuemu.studies.check.skipped_tools import but_for, idle_of_kernel, idle_of_trace
from gpuemu.trace.launch_limits import Extent, extent
from gpuemu.trace.model import Instruction, Trace

DEFAULT_BUDGET = 20_000_000
"""The warp instructions of a CTA after which it counts as endless."""


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
    from gpuemu.sass.tools.disassembly import decode_function
    from gpuemu.studies.check.launch_check import LaunchCheck, unfilled_arrays

    given = config.arch
    assert not isinstance(given, str)
    name = None if given is None else given.code_name
    function = decode_function(config.code, config.kernel, name, options=config.options)
    hardware = _of_code(function.arch) if given is None else given
    launch = LaunchCheck(function, config, hardware, tools, listeners)
    trace = launch.run()
    findings, notes = launch.findings, launch.notes
    if "controlcheck" in tools:
        latencies = _latencies(function.arch, notes, given)
        if latencies is not None:
            check_control(trace, latencies, findings, launch.point, launch.lane_paths)
    found = tuple(f for f in findings.sorted() if f.tool in tools)
    idle = but_for(idle_of_kernel(trace, tools, bool(unfilled_arrays(config.args))), found)
    return Report(
        function.source_name, function.arch, config.grid, config.block, tools, found, (*trace.lacks, *notes), idle
    )  # fmt: skip
