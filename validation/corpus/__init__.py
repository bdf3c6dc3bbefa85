"""The kernels of the corpus in a fixed order: microbenchmarks first, then the kernels that they should predict.

Everything is generated, and every machine generates the same text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from validation.corpus import (
    classics,
    control,
    examples,
    global_memory,
    memory,
    queues,
    random_mixes,
    residents,
    tensor,
    tiles,
    units,
)
from validation.corpus.kernel import Kernel

_PARTS: tuple[Callable[[], list[Kernel]], ...] = (
    units.kernels,
    tensor.kernels,
    memory.kernels,
    global_memory.kernels,
    queues.kernels,
    control.kernels,
    random_mixes.kernels,
    tiles.kernels,
    classics.kernels,
    examples.kernels,
    residents.kernels,
)


@lru_cache
def corpus() -> tuple[Kernel, ...]:
    """All kernels. Two kernels of one name are a mistake of the generator."""
    kernels = tuple(kernel for part in _PARTS for kernel in part())
    names = [kernel.name for kernel in kernels]
    if len(set(names)) != len(names):
        raise ValueError(f"two kernels are called {next(n for n in names if names.count(n) > 1)}")
    return kernels


def kernels_for(capability: int) -> tuple[Kernel, ...]:
    """The kernels that run on chips of a compute capability, such as 90."""
    return tuple(kernel for kernel in corpus() if kernel.least_capability <= capability)
