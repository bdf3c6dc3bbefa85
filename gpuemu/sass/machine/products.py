"""Matrix instructions by compiled code, straight from registers to registers, where Numba is installed.

The plain step of an instruction does what compiled code does not: everything until a run has shown to be a long one,
and of the warps those with NaN and infinities, and others that are not ordinary.
"""

from __future__ import annotations

import numpy as np

from gpuemu.isa.fragments import Index
from gpuemu.sass.machine.lanes import RZ, WARP, Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.warps import complete_warps
from gpuemu.tensor.plans import Plan, Rows, numbers


def compiled_step(
    site: Site,
    plain: Step,
    function: str,
    counts: tuple[int, int, int],
    slots: dict[str, int] | None,
    upper: bool = False,
) -> Step:
    """The step of a matrix instruction D, A, B, C [, metadata]; `counts`: registers of A, B and C.

    `slots`: what the plan says (`gpuemu.tensor.plans`); None leaves all to `plain`. `upper`: whether A, C and D have
    eight rows, so that the registers of the lower eight are missing.
    """
    if slots is None:
        return plain
    a, b, c = counts
    whole = 2 if upper else 1
    metadata = site.words(4, 1)[0] if slots.get("sparse") and site.register(4)[1] != RZ else None
    plan = Plan(
        function, site.lanes.count, _rows(site, 1, a, whole * a), _rows(site, 2, b, b), _rows(site, 3, c, whole * c),
        _rows(site, 0, c, whole * c), metadata, **slots,
    )  # fmt: skip
    return _step(site, plain, plan)


def _step(site: Site, plain: Step, plan: Plan) -> Step:
    complete = site.lanes.threads == site.lanes.count
    address = plan.address

    def step(mask: Mask) -> None:
        run = plan.function or plan.load()
        if run is None:
            plain(mask)
        elif mask is None and complete:
            left = run(address)
            if left:
                plain(_lanes(numbers(left)))
        else:
            rest = plan.run(complete_warps(site, mask))
            if rest is not None:
                plain(_lanes(rest))

    def _lanes(warps: Index) -> Mask:
        lanes = np.zeros((site.lanes.warps, WARP), dtype=np.bool_)
        lanes[warps] = True
        return lanes.reshape(-1)

    return step


def _rows(site: Site, k: int, count: int, whole: int) -> Rows:
    """Registers from operand k on, the rest of `whole` missing."""
    file, number = site.register(k)
    if number == len(file) - 1:
        return [None] * whole
    return [*file[number : number + count], *[None] * (whole - count)]
