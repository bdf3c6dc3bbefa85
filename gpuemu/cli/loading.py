"""Load or record the traces that commands replay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.file_kinds import is_machine_code
from gpuemu.cli.launching import LaunchOptions, executed
from gpuemu.cli.progress import ProgressBar

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.cli.results import Results
    from gpuemu.trace.model import Trace
    from gpuemu.views.result import Result


def parse_settings(settings: tuple[str, ...]) -> tuple[dict[str, object], dict[str, int]]:
    """The values of --set, for the hardware and for the trace's layout. Raises GpuemuError."""
    from gpuemu.arch import parse_overrides

    overrides: dict[str, object] = {}
    layout: dict[str, int] = {}
    problems: list[Problem] = []
    for name, value in parse_overrides(settings).items():
        if not name.startswith("layout."):
            overrides[name] = value
        elif isinstance(value, int) and not isinstance(value, bool):
            layout[name.removeprefix("layout.")] = value
        else:
            problems.append(Problem("--set", None, name, repr(value), "expected a whole number"))
    if problems:
        raise GpuemuError(problems)
    return overrides, layout


def loaded_trace(
    trace: str, arch_name: str | None, settings: tuple[str, ...], launch: LaunchOptions | None = None
) -> tuple[Trace, Architecture]:
    """A trace, loaded or recorded from machine code as `launch` says, and its architecture. Raises GpuemuError."""
    loaded, arch, results = _loaded(trace, arch_name, settings, launch or LaunchOptions(), False)
    if results is not None:
        results.deliver(loaded, False)
    return loaded, arch


def _loaded(
    trace: str, arch_name: str | None, settings: tuple[str, ...], launch: LaunchOptions, hold: bool
) -> tuple[Trace, Architecture, Results | None]:
    """The trace of `loaded_trace`, and the results of machine code before they are delivered. `hold`: as for
    `executed`.
    """
    from gpuemu.arch import load_arch

    overrides, layout = parse_settings(settings)
    arch = changed(load_arch(arch_name), overrides) if arch_name is not None else None
    results = None
    if is_machine_code(trace):
        if layout:
            raise GpuemuError.one(
                "--set", None, "layout", "machine code has no layout numbers", "Set them for a trace only"
            )
        loaded, results = executed(trace, launch, arch, hold)
    else:
        loaded = saved_trace(trace, None if arch is None else arch.name, launch, layout)
    if arch is None:
        arch = changed(load_arch(loaded.arch), overrides)
    return loaded, arch, results


def changed(arch: Architecture, overrides: dict[str, object]) -> Architecture:
    """The architecture with the values of --set. Raises GpuemuError, also for a chip of another architecture."""
    from gpuemu.arch.files import having

    for name in overrides:
        section, _, rest = name.partition(".")
        found = having(rest.partition(".")[0]) if section == "chips" else None
        if found is not None and found[1] not in arch.chips:
            right = f"{found[1]} is a chip of {found[0]} and this run is on {arch.name}: add --chip '{found[1]}'"
            raise GpuemuError.one("--set", None, name, "unknown name", right)
    return arch.with_overrides(overrides, where="--set") if overrides else arch


def saved_trace(trace: str, arch: str | None, launch: LaunchOptions, layout: dict[str, int] | None = None) -> Trace:
    """Load a trace; `launch` may name a kernel of a list, and nothing else. Raises GpuemuError."""
    from gpuemu.trace.files import lists_kernels, load_trace, locate

    refused = (replace(launch, kernel=None) if lists_kernels(trace) else launch).given
    if refused:
        locate(trace, arch)  # Say what the file is before refusing the options.
        right = "Remove them: a trace contains its launch"
        raise GpuemuError.one(trace, None, "", f"a trace takes no {refused}", right)
    return load_trace(trace, arch=arch, layout=layout, kernel=launch.kernel)


def run_trace(
    trace: str,
    arch_name: str | None,
    settings: tuple[str, ...],
    launch: LaunchOptions | None = None,
    engine: str = "auto",
    clocks: bool = False,
) -> Result:
    """Load a trace, or record one from machine code as `launch` says, and replay it. Raises GpuemuError.

    `clocks`: a kernel that reads the clock executes again with the replay's cycles before its results are delivered.
    """
    from gpuemu.emulate import run as emulate
    from gpuemu.emulate import with_clocks

    loaded, arch, results = _loaded(trace, arch_name, settings, launch or LaunchOptions(), clocks)
    again = clocks and loaded.again is not None
    if results is not None and not again:
        results.deliver(loaded, False)
    try:
        with ProgressBar("replaying", instructions=loaded.executed_instructions) as bar:
            result = emulate(loaded, arch, engine=engine, observer=bar.observer)
        if again:
            with ProgressBar("executing again", ctas=loaded.launch.ctas) as bar:
                result = with_clocks(result, bar.count_ctas)
    except BaseException:
        if results is not None:
            results.release()
        raise
    if results is not None and again:
        results.deliver(result.trace, True)
    return result
