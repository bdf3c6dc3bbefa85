"""Architecture files describe the hardware that gpuemu emulates. Every value has a unit and a source.

arch = load_arch("sm_90") arch.shared_memory.banks                               # 32
arch.provenance["shared_memory.banks"].source          # where that number comes from
arch.with_overrides({"shared_memory.banks": 64})       # a what-if
"""

from gpuemu.arch.files import as_architecture, by_name, load_arch
from gpuemu.arch.model import OPERATION_CLASSES, Architecture, Operation
from gpuemu.arch.overrides import parse_override, parse_overrides
from gpuemu.arch.tensor_core import TensorOperation
from gpuemu.arch.values import Provenance

__all__ = [
    "OPERATION_CLASSES",
    "Architecture",
    "Operation",
    "Provenance",
    "TensorOperation",
    "as_architecture",
    "by_name",
    "load_arch",
    "parse_override",
    "parse_overrides",
]
