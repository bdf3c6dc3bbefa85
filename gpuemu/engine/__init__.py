"""The emulated streaming multiprocessor, on SimPy: programs in, logs of what happened when out.

`sm.execute(program, machine)` is the whole interface. The engine knows nothing of files, opcodes or reports.
"""

from gpuemu.engine.log import Log
from gpuemu.engine.machine import Machine
from gpuemu.engine.sm import StuckError, execute

__all__ = ["Log", "Machine", "StuckError", "execute"]
