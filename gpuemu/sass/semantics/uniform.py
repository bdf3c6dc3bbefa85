"""From the registers of lanes to those of warps; other uniform instructions share builders with vector ones."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.lanes import WARP, Mask
from gpuemu.sass.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import check, operand_count


@semantics("R2UR")
def r2ur(site: Site) -> Step:
    """R2UR URd, Ra: Ra of the lowest lane of each warp that takes part.

    Compilers use it where Ra is the same in all lanes that take part; those that do not may hold anything.
    """
    site.only()
    operand_count(site, 2)
    check(site, 1)
    if not site.is_uniform(0) or site.is_uniform(1):
        raise site.unsupported("this form of R2UR")
    store = site.destination(0)
    values = site.words(1, 1)[0].reshape(-1, WARP)
    warps = np.arange(len(values))

    def step(mask: Mask) -> None:
        leaders = values[:, 0] if mask is None else values[warps, mask.reshape(-1, WARP).argmax(axis=1)]
        store(np.repeat(leaders, WARP), mask)

    return step
