"""The estimate of one configuration on one chip. It is kept under a hash of everything that it depends on."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base import cache
from gpuemu.base.errors import GpuemuError
from gpuemu.chip.least import least
from gpuemu.chip.tracing import execute_launch
from gpuemu.emulate import replay
from gpuemu.program.lowering import lower
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.memory.arguments import NO_ARGUMENTS, Pointer, default_arguments
from gpuemu.sass.machine.memory.tensor_map import TensorMap
from gpuemu.sass.tools.disassembly import decode_function, load_cubin
from gpuemu.studies.elsewhere import program_digest
from gpuemu.studies.rank.configuration import Configuration, RefusedError
from gpuemu.studies.rank.spaces import Space
from gpuemu.views.result import Result

BUDGET = 1_000_000_000
_KEPT_BYTES = 1 << 26
OVER = "over"
"""The key of figures that have only a lower bound."""
Figures = dict[str, Any]
"""The results for a configuration: numbers by name, or the reason under "refused"."""


@dataclass
class EstimateJob:
    """The shared part of all tasks. A task has the numbers of a configuration and of an architecture, and a list.

    The list has, for each architecture, the most nanoseconds that still matter. A task sees its values when it begins.
    """

    space: Space
    archs: tuple[Architecture, ...]
    kept: bool = True
    _sums: dict[int, tuple[Any, bytes]] = field(default_factory=dict, repr=False, compare=False)

    def run(self, task: tuple[int, int, Sequence[float]]) -> Figures:
        """The figures of a configuration, kept ones if nothing that matters has changed since."""
        number, arch = task[0], self.archs[task[1]]
        try:
            made = self.space.prepare(number, arch)
            cubin = _code(made, arch)
            without = made.zero_buffers and not made.args
            if without:
                made = replace(made, args=default_arguments(decode_function(cubin, made.kernel)))
        except RefusedError as error:
            return {"refused": str(error)}
        except GpuemuError as error:
            return {"refused": str(error.problems[0])}
        found = self._estimated(made, cubin, arch, task[2][task[1]])
        if without and made.args and "notes" in found:
            found["notes"] = [*found["notes"], NO_ARGUMENTS]
        return found

    def _estimated(self, made: Configuration, cubin: Cubin, arch: Architecture, most: float) -> Figures:
        """The figures of a launch, kept or new; `most`: see `figures`."""
        place = cache.cache_folder() / "ranks" / self._key(made, cubin, arch)
        before = cache.kept_file(place) if self.kept else None
        if before is not None:
            known: Figures = json.loads(before)
            return known
        try:
            found = figures(made, cubin, arch, most)
        except GpuemuError as error:
            return {"refused": str(error.problems[0])}
        if self.kept and OVER not in found:
            cache.keep_file(place, json.dumps(found).encode(), _KEPT_BYTES)
        return found

    def _key(self, made: Configuration, cubin: Cubin, arch: Architecture) -> str:
        """A hash of the launch, the chip and this version of the program."""
        told = hashlib.sha256(repr((program_digest(), arch, made.kernel, made.grid, made.block)).encode())
        told.update(repr((made.dynamic_shared_bytes, made.zero_shared)).encode() + cubin.content)
        for argument in made.args:
            told.update(self._sum(argument))
        return told.hexdigest()[:32]

    def _sum(self, argument: Any) -> bytes:
        if isinstance(argument, Pointer):
            return repr(argument.offset).encode() + self._sum(argument.array)
        if isinstance(argument, TensorMap):
            return argument.encode(0) + self._sum(argument.array)
        if isinstance(argument, tuple):
            return b"(" + b"".join(map(self._sum, argument)) + b")"
        if not isinstance(argument, np.ndarray):
            return repr((type(argument).__name__, argument)).encode()
        kept = self._sums.get(id(argument))
        if kept is None or kept[0] is not argument:
            content = argument if argument.flags.c_contiguous else np.ascontiguousarray(argument)
            told = hashlib.sha256(repr((argument.dtype, argument.shape)).encode())
            told.update(content.reshape(-1).view(np.uint8).data if content.size else b"")
            kept = self._sums[id(argument)] = (argument, told.digest())
        return kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sums": {}}


def _code(made: Configuration, arch: Architecture) -> Cubin:
    if isinstance(made.path, Cubin):
        return made.path
    cubin = load_cubin(made.path, arch.code_name, options=made.options, kernel=made.kernel)
    for_it = cubin.arch.rstrip("af")
    if for_it != arch.code_name:
        raise RefusedError(f"code for {cubin.arch}, which {arch.chip} ({arch.code_name}) does not run")
    return cubin


def figures(made: Configuration, cubin: Cubin, arch: Architecture, most: float = math.inf) -> Figures:
    """Estimate one launch. If one resource alone needs more than `most` nanoseconds, execute it without timing it.

    Raises GpuemuError for a launch that cannot run. A launch that does not fit executes nothing.
    """
    function = decode_function(cubin, made.kernel)
    # The next configuration must find the arguments as they were, so a kernel stores to copies.
    args = copy.deepcopy(list(made.args))
    trace = execute_launch(replace(made.launch(arch, BUDGET), code=cubin, options=(), args=args))
    program = lower(trace, arch)
    bound = least(trace, arch, program)
    known = {"least_nanoseconds": round(bound.nanoseconds, 1), "least_for": bound.resource}
    if bound.nanoseconds > most:
        return {OVER: True, **known}
    result = replay(trace, arch, program)
    code = {"registers": function.registers_per_thread, "spilled_bytes": function.local_bytes}
    return {**_of_result(result), **code, **known}


def _of_result(result: Result) -> Figures:
    launch, program, arch = result.trace.launch, result.program, result.arch
    sms = arch.chips[arch.chip].sms
    share = launch.ctas / max(1, program.ctas)
    counters, memory = result.counters, result.global_memory
    most = -(-launch.ctas // sms)
    whole = result.grid.nanoseconds
    nanoseconds = float(whole) if whole is not None else result.cycles * 1000 / arch.chips[arch.chip].clock_mhz
    total = sum(result.stalls.values()) or 1
    wavefronts = sum(counts.wavefronts for counts in result.shared_memory.values())
    excess = sum(counts.wavefronts - counts.ideal_wavefronts for counts in result.shared_memory.values())
    beyond = counters.get("lts__t_sectors_srcunit_tex_lookup_hit.sum", 0)
    beyond += counters.get("lts__t_sectors_srcunit_tex_lookup_miss.sum", 0)
    return {
        "nanoseconds": nanoseconds,
        "cycles": result.cycles,
        "limited_by": result.limited_by,
        "occupancy": round(result.occupancy.theoretical, 4),
        "warps": result.occupancy.theoretical_warps,
        "resident_ctas": program.resident_ctas,
        "ctas": launch.ctas,
        "waves": round(launch.ctas / (program.resident_ctas * sms), 4),
        "sms": sms,
        "busy_sms": min(1.0, round(launch.ctas / (most * sms), 4)),
        "shared_bytes": launch.shared_bytes,
        "instructions": round(counters["smsp__inst_executed.sum"] * share),
        "shared_wavefronts": round(wavefronts * share),
        "excess_wavefronts": round(excess * share),
        "global_sectors": round(sum(counts.sectors for counts in memory.values()) * share),
        "l2_sectors": round(beyond * share),
        "stalls": {reason: round(cycles / total, 4) for reason, cycles in result.stalls.items() if cycles},
        "notes": list(result.notes),
    }  # fmt: skip
