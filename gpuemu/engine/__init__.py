"""The emulated streaming multiprocessor: it replays programs and logs what happened when.

`execute(program, arch, engine)` is the whole interface. The engine knows nothing of files, opcodes or reports.
"""

from gpuemu.engine.building import ENGINES, compiling
from gpuemu.engine.drivers import StuckError, execute
from gpuemu.engine.log import Log
from gpuemu.engine.observer import Observer

__all__ = ["ENGINES", "Log", "Observer", "StuckError", "compiling", "execute"]
