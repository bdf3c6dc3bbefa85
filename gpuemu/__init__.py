"""gpuemu: a cycle-level emulator of one NVIDIA streaming multiprocessor.

import gpuemu

arch = gpuemu.load_arch("sm_89")
result = gpuemu.run(gpuemu.load_trace("v5_swizzle"), arch)
result.cycles
result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
"""

from typing import TYPE_CHECKING, Any

from gpuemu.arch import Architecture, load_arch
from gpuemu.banks.wavefronts import SharedAccess, shared_access
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.emulate import run
from gpuemu.tensor.mma import mma
from gpuemu.trace.builder import TraceBuilder
from gpuemu.trace.files import load_trace
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result, WarpResult

if TYPE_CHECKING:
    from gpuemu.sass.launch import trace_kernel
    from gpuemu.sass.machine.tensor_map import TensorMap
    from gpuemu.studies.layout.search import search
    from gpuemu.studies.sweeps.api import sweep

__version__ = "0.1.0"

__all__ = [
    "Architecture",
    "GpuemuError",
    "Problem",
    "Result",
    "SharedAccess",
    "TensorMap",
    "Trace",
    "TraceBuilder",
    "WarpResult",
    "load_arch",
    "load_trace",
    "mma",
    "run",
    "search",
    "shared_access",
    "sweep",
    "trace_kernel",
]


def __getattr__(name: str) -> Any:
    if name == "search":
        from gpuemu.studies.layout.search import search

        return search
    # Executing machine code needs the extra `sass`; replaying traces does not wait for it.
    if name == "trace_kernel":
        from gpuemu.sass.launch import trace_kernel

        return trace_kernel
    if name == "sweep":  # nor does a single run
        from gpuemu.studies.sweeps.api import sweep

        return sweep
    if name == "TensorMap":
        from gpuemu.sass.machine.tensor_map import TensorMap

        return TensorMap
    raise AttributeError(f"module 'gpuemu' has no attribute {name!r}")
