"""gpuemu: a cycle-level emulator of one NVIDIA streaming multiprocessor.

import gpuemu

result = gpuemu.run("v5_swizzle", "sm_89")
result.cycles
result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
"""

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from gpuemu.arch import Architecture, load_arch
from gpuemu.arch import by_name as _by_name
from gpuemu.banks import access as _access
from gpuemu.banks.access import SharedAccess
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.emulate import run
from gpuemu.tensor import mma as _products
from gpuemu.trace.builder import TraceBuilder
from gpuemu.trace.files import load_trace
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result, WarpResult

if TYPE_CHECKING:
    from gpuemu import triton as triton
    from gpuemu.sass.launch import trace_kernel
    from gpuemu.sass.machine.memory import Device
    from gpuemu.sass.machine.tensor_map import TensorMap
    from gpuemu.studies.check.api import check
    from gpuemu.studies.check.initcheck import empty
    from gpuemu.studies.judge.api import judge
    from gpuemu.studies.layout import search as _layouts
    from gpuemu.studies.rank.api import rank
    from gpuemu.studies.rank.configuration import Configuration
    from gpuemu.studies.sweeps.api import sweep
    from gpuemu.studies.why.api import why

    search = _by_name(_layouts.search)

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


shared_access = _by_name(_access.shared_access)
mma = _by_name(_products.mma)

_LATER = {
    "Configuration": "studies.rank.configuration",
    "Device": "sass.machine.memory",
    "TensorMap": "sass.machine.tensor_map",
    "check": "studies.check.api",
    "empty": "studies.check.initcheck",
    "judge": "studies.judge.api",
    "rank": "studies.rank.api",
    "search": "studies.layout.search",
    "sweep": "studies.sweeps.api",
    "trace_kernel": "sass.launch",
    "why": "studies.why.api",
}
"""Names that are imported when they are asked for, and where from: a run does not wait for them, nor for extras."""


def __getattr__(name: str) -> _Any:
    if name == "triton":  # a room of its own, which takes Triton's wheel
        return import_module("gpuemu.triton")
    if name not in _LATER:
        raise AttributeError(f"module 'gpuemu' has no attribute {name!r}")
    found = getattr(import_module(f"gpuemu.{_LATER[name]}"), name)
    globals()[name] = _by_name(found) if name == "search" else found
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__", "triton"]
