"""gpuemu: a cycle-level emulator of one NVIDIA streaming multiprocessor.

import gpuemu

result = gpuemu.run("v5_swizzle", "sm_89")
result.cycles
result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
"""

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from gpuemu import triton as triton
    from gpuemu.arch import Architecture, load_arch
    from gpuemu.arch import by_name as _by_name
    from gpuemu.banks import access as _access
    from gpuemu.banks.access import SharedAccess
    from gpuemu.base.errors import GpuemuError, Problem
    from gpuemu.chip.tracing import trace_kernel
    from gpuemu.emulate import run
    from gpuemu.sass.machine.memory.storage import Device
    from gpuemu.sass.machine.memory.tensor_map import TensorMap
    from gpuemu.studies.check.api import check
    from gpuemu.studies.check.initcheck import empty
    from gpuemu.studies.judge.api import judge
    from gpuemu.studies.layout import search as _layouts
    from gpuemu.studies.rank.api import rank
    from gpuemu.studies.rank.configuration import Configuration
    from gpuemu.studies.sweeps.api import sweep
    from gpuemu.studies.why.api import why
    from gpuemu.tensor import mma as _products
    from gpuemu.trace.builder import TraceBuilder
    from gpuemu.trace.files import load_trace
    from gpuemu.trace.model import Trace
    from gpuemu.views.result import Result, WarpResult

    mma = _by_name(_products.mma)
    search = _by_name(_layouts.search)
    shared_access = _by_name(_access.shared_access)

__version__ = "0.2.0"

__all__ = [
    "Architecture",
    "Configuration",
    "Device",
    "GpuemuError",
    "Problem",
    "Result",
    "SharedAccess",
    "TensorMap",
    "Trace",
    "TraceBuilder",
    "WarpResult",
    "check",
    "empty",
    "judge",
    "load_arch",
    "load_trace",
    "mma",
    "rank",
    "run",
    "search",
    "shared_access",
    "sweep",
    "trace_kernel",
    "why",
]


_HOMES = {
    "Architecture": "arch",
    "Configuration": "studies.rank.configuration",
    "Device": "sass.machine.memory.storage",
    "GpuemuError": "base.errors",
    "Problem": "base.errors",
    "Result": "views.result",
    "SharedAccess": "banks.access",
    "TensorMap": "sass.machine.memory.tensor_map",
    "Trace": "trace.model",
    "TraceBuilder": "trace.builder",
    "WarpResult": "views.result",
    "check": "studies.check.api",
    "empty": "studies.check.initcheck",
    "judge": "studies.judge.api",
    "load_arch": "arch",
    "load_trace": "trace.files",
    "mma": "tensor.mma",
    "rank": "studies.rank.api",
    "run": "emulate",
    "search": "studies.layout.search",
    "shared_access": "banks.access",
    "sweep": "studies.sweeps.api",
    "trace_kernel": "chip.tracing",
    "why": "studies.why.api",
}
"""The module of each name. A name is imported when it is first used.

Therefore a command does not wait for the modules of other commands, and Ctrl-C works before anything is imported.
"""
_BY_NAME = ("mma", "search", "shared_access")
"""Functions that also accept the name of an architecture."""
_ROOMS = ("arch", "banks", "base", "chip", "emulate", "engine", "isa", "program", "tensor", "trace", "triton", "views")
"""Modules that `import gpuemu` makes available."""


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return import_module(f"gpuemu.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gpuemu' has no attribute {name!r}")
    found = getattr(import_module(f"gpuemu.{_HOMES[name]}"), name)
    if name in _BY_NAME:
        found = import_module("gpuemu.arch").by_name(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__", "triton"]
