"""gpuemu: a cycle-level emulator of one NVIDIA streaming multiprocessor.

import gpuemu

result = gpuemu.run("v5_swizzle", "sm_89")
result.cycles
result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuemu.arch import Architecture, by_name, load_arch
from gpuemu.banks import access
from gpuemu.banks.access import SharedAccess
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.emulate import run
from gpuemu.tensor import mma as products
from gpuemu.trace.builder import TraceBuilder
from gpuemu.trace.files import load_trace
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result, WarpResult

if TYPE_CHECKING:
    from gpuemu.sass.launch import trace_kernel
    from gpuemu.sass.machine.tensor_map import TensorMap
    from gpuemu.studies.check.api import check
    from gpuemu.studies.check.initcheck import empty
    from gpuemu.studies.judge.api import judge
    from gpuemu.studies.layout import search as layouts
    from gpuemu.studies.rank.api import rank
    from gpuemu.studies.rank.configuration import Configuration
    from gpuemu.studies.sweeps.api import sweep
    from gpuemu.studies.why.api import why

    search = by_name(layouts.search)

__version__ = "0.2.0"

__all__ = [
    "Architecture",
    "Configuration",
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


shared_access = by_name(access.shared_access)
mma = by_name(products.mma)


def __getattr__(name: str) -> Any:
    if name == "search":
        from gpuemu.studies.layout import search as layouts

        globals()[name] = by_name(layouts.search)
        return globals()[name]
    if name == "check":
        from gpuemu.studies.check.api import check

        return check
    if name == "empty":
        from gpuemu.studies.check.initcheck import empty

        return empty
    # Executing machine code needs the extra `sass`; replaying traces does not wait for it.
    if name == "trace_kernel":
        from gpuemu.sass.launch import trace_kernel

        return trace_kernel
    if name == "sweep":  # nor does a single run
        from gpuemu.studies.sweeps.api import sweep

        return sweep
    if name == "judge":
        from gpuemu.studies.judge.api import judge

        return judge
    if name == "rank":
        from gpuemu.studies.rank.api import rank

        return rank
    if name == "Configuration":
        from gpuemu.studies.rank.configuration import Configuration

        return Configuration
    if name == "why":
        from gpuemu.studies.why.api import why

        return why
    if name == "triton":  # a room of its own, which takes Triton's wheel
        return import_module("gpuemu.triton")
    if name == "TensorMap":
        from gpuemu.sass.machine.tensor_map import TensorMap

        return TensorMap
    raise AttributeError(f"module 'gpuemu' has no attribute {name!r}")
