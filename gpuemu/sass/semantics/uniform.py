"""Move registers of lanes to registers of warps. Other uniform instructions share builders with vector ones."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.compiled.columns import LEADER
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import check, operand_count
from gpuemu.sass.semantics.lanewise import EncodedStep, encoded_values, raw_word, row_written


@semantics("R2UR")
def r2ur(site: Site) -> Step:
    """R2UR [Pd,] URd, Ra: Ra of the lowest active lane of each warp. Pd is true in lanes with another Ra.

    Without Pd, compilers use it if Ra is the same in all active lanes; inactive lanes may hold anything. With Pd, the
    code repeats it for the other lanes, or branches if lanes differ. .OR keeps Pd true if it was true. .BROADCAST says
    that one lane is active, and .FILL that MOV.SPILL wrote Ra.
    """
    site.only("OR", "BROADCAST", "FILL")
    first = 1 if site.is_predicate(0) else 0
    operand_count(site, first + 2)
    check(site, first + 1)
    if not site.is_uniform(first) or site.is_uniform(first + 1):
        raise site.unsupported("this form of R2UR")
    store = site.destination(first)
    differs = site.set_predicate(0) if first else None
    before = site.predicate(0) if site.has("OR") and first else None
    if site.has("OR") and before is None:
        raise site.unsupported("this form of R2UR")
    values = site.words(first + 1, 1)[0].reshape(-1, WARP)
    warps = np.arange(len(values))

    def step(mask: Mask) -> None:
        leaders = values[:, 0] if mask is None else values[warps, mask.reshape(-1, WARP).argmax(axis=1)]
        if differs is not None:
            others = (values != leaders[:, None]).reshape(-1)
            differs(others if before is None else others | before(), mask)
        store(np.repeat(leaders, WARP), mask)

    encoded = None
    if differs is None:
        encoded = encoded_values(LEADER, "u", [raw_word(site, first + 1)], [], "u", [row_written(site, first)])
    return step if encoded is None else EncodedStep(step, encoded)
