"""The figures at the top of a run's report, under the profiler's names: its duration, its cycles, its instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuemu.views.grid import rests_on
from gpuemu.views.json_result import overrides
from gpuemu.views.result import Result


class Figure(NamedTuple):
    """A figure's name and value, and a note about it."""

    name: str
    value: str
    note: str


def headline(result: Result) -> str:
    """The kernel, the architecture, and the chip."""
    trace, arch = result.trace, result.arch
    code = f", code for {trace.arch}" if trace.arch != arch.code_name else ""
    chosen = arch.provenance["chip"].status == "override" or len(arch.chips) == 1
    default = "" if chosen else f" (default of {arch.name}; --chip chooses another)"
    return f"{trace.name} on {arch.name}{code}, {arch.chip}{default}"


def launch_sizes(result: Result) -> str:
    """The size of the grid, and the resources of a block."""
    launch = result.trace.launch
    sizes = [f"Grid Size {launch.ctas:,}", f"Block Size {launch.threads_per_cta:,}"]
    sizes += [f"{launch.registers_per_thread} registers per thread"]
    return ", ".join([*sizes, f"{launch.shared_bytes:,} bytes of shared memory per block"])


def changed_values(result: Result) -> str:
    """The values of the architecture that are not those of its file."""
    changes = [f"{name}={value}" for name, value in overrides(result.arch).items() if name != "chip"]
    return f"With {', '.join(changes)}" if changes else ""


def figures(result: Result) -> Iterator[Figure]:
    """The figures in their order: those of the whole launch first, where gpuemu estimates them."""
    grid, whole, program = result.grid, result.grid.whole, result.program
    if whole is not None and grid.nanoseconds is not None:
        on = f"estimated, at {grid.clock_mhz:,} MHz"
        overhead = result.arch.chips[grid.chip].launch_cycles
        started = f"of which {overhead:,} are launch overhead" if overhead else ""
        yield Figure("Duration", f"{grid.nanoseconds / 1000:,.2f} us", on)
        yield Figure("Elapsed Cycles", f"{whole.elapsed:,}", started)
    some = program.ctas < grid.ctas
    of_some = f"of the {counted(program.ctas, 'block')} timed" if some else ""
    yield Figure("SM Active Cycles", f"{result.cycles:,}", "; ".join(filter(None, (of_some, result.sureness))))
    issued = len(program.path)
    rate = f"warp instructions, {issued / result.cycles if result.cycles else 0.0:.2f} per cycle"
    yield Figure("Instructions", f"{issued:,}", "; ".join(filter(None, (rate, of_some))))
    if some:
        yield Figure("Blocks", f"{grid.ctas:,}", rests_on(grid) or _no_estimate(result))


def _no_estimate(result: Result) -> str:
    together = min(result.grid.most_ctas, result.grid.resident_ctas)
    timed = f"{result.grid.timed_ctas} timed, too few for an estimate of the launch"
    return f"{timed}: {together} share an SM of {result.grid.chip}"


def counted(number: int, what: str) -> str:
    """A number with its noun, in the plural where it needs one."""
    return f"{number:,} {what}{'s' * (number != 1)}"
