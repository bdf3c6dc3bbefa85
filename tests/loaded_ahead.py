"""What the process has loaded from which `forked` forks: all commands, the shipped architectures, Numba, the engine."""

from __future__ import annotations

import gc
import importlib

from gpuemu.arch import load_arch
from gpuemu.base import resources
from gpuemu.base.unaided import has_numba
from gpuemu.cli.main import COMMANDS
from gpuemu.engine import building

IMPORTED_LATER = (
    "gpuemu.emulate", "gpuemu.chip.launch", "gpuemu.chip.tracing", "gpuemu.studies.check.api", "gpuemu.studies.why.api",
    "gpuemu.views.json_result", "gpuemu.views.report.page",
)  # fmt: skip
"""What most commands import once they know their options: most of the time of a short one."""

for name in (*(f"gpuemu.cli.{command}" for command in COMMANDS), *IMPORTED_LATER):
    importlib.import_module(name)
for name in resources.names("configs"):
    load_arch(name)
if has_numba():
    from numba.core.registry import cpu_target

    importlib.import_module("gpuemu.engine.compiled")
    if building.is_ready():  # a command would load it for all but the shortest replays
        building.load()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
gc.freeze()  # a forked process need not look through all this
