"""A run as plain data, which `--format json` prints and `gpuemu diff` reads. `result.schema.json` describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.views.result import Result
from gpuemu.views.sure.estimate import Sure
from gpuemu.views.sure.estimate import as_data as sure_data

VERSION = 1


def as_data(result: Result, sure: Sure | None = None) -> dict[str, Any]:
    """The result as dicts, lists, words and whole numbers, in a fixed order. Two equal runs give equal data.

    `sure`: the answer of `Result.sure`, if it was asked for.
    """
    trace, program = result.trace, result.program
    return {
        "gpuemu_result": VERSION,
        "kernel": trace.name,
        "trace": trace.file,
        "trace_arch": trace.arch,
        "arch": result.arch.name,
        "overrides": overrides(result.arch),
        "layout": trace.layout,
        "launch": {name: _plain(value) for name, value in asdict(trace.launch).items()},
        "ctas": program.ctas,
        "grid_ctas": trace.launch.ctas,
        "resident_ctas": program.resident_ctas,
        "grid": _grid(result),
        "residency_limits": program.residency_limits,
        "dependences": "control_words" if program.uses_control_words else "register_scoreboard",
        "notes": list(result.notes),
        **_clock(result),
        "sureness": result.sureness,
        "sure": None if sure is None else sure_data(sure),
        **totals(result),
        "scheduler": asdict(result.scheduler),
        "occupancy": asdict(result.occupancy),
        "warps": [{**asdict(warp), "clock_reads": list(warp.clock_reads)} for warp in result.warps],
    }


def _clock(result: Result) -> dict[str, Any]:
    """The outcome of a second execution with the replay's clock values; {} if there was none."""
    saved = result.clocks
    if saved is None:
        return {}
    found = {"path_depends_at": saved.path or None, "addresses_depend_at": saved.addresses or None}
    return {"clock": {**found, "ctas_without_values": [list(ends) for ends in saved.ranges]}}


def _grid(result: Result) -> dict[str, Any]:
    grid = result.grid
    return {
        "chip": grid.chip,
        "sms": grid.sms,
        "clock_mhz": grid.clock_mhz,
        "most_ctas": grid.most_ctas,
        "waves": grid.waves,
        "nanoseconds": grid.nanoseconds,
        "limited_by": None if grid.whole is None else grid.whole.limited_by,
        "limits": None if grid.whole is None else dict(grid.whole.limits),
        "counters": None if grid.whole is None else grid.whole.counters,
    }


def totals(result: Result) -> dict[str, Any]:
    """The numbers of the run as a whole: cycles, shared and global memory, counters, stalls, bounds."""
    return {
        "cycles": result.cycles,
        "shared_memory": [
            {
                "row": row,
                "instructions": counts.instructions,
                "wavefronts": counts.wavefronts,
                "ideal_wavefronts": counts.ideal_wavefronts,
                "bank_conflicts": counts.bank_conflicts,
                "data_stage_wait_cycles": counts.data_stage_wait_cycles,
            }
            for row, counts in result.shared_memory.items()
        ],
        "shuffles": shuffles(result),
        "global_memory": [{"row": row, **asdict(counts)} for row, counts in result.global_memory.items()],
        "l1": asdict(result.l1),
        "counters": dict(result.counters),
        "stalls": dict(result.stalls),
        "bounds": [asdict(bound) for bound in result.bounds],
    }


def shuffles(result: Result) -> int:
    """The number of shuffles. They use the data stage but no bank, so no row of shared memory counts them."""
    is_shuffle = np.array([op.kind is Kind.SHUFFLE for op in result.program.ops])
    return int(np.count_nonzero(is_shuffle[result.program.path]))


def overrides(arch: Architecture) -> dict[str, Any]:
    """The values of an architecture that were changed after its file was read."""
    provenance = arch.provenance
    return {name: _plain(v) for name, v in arch.flat().items() if provenance[name].status == "override"}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
