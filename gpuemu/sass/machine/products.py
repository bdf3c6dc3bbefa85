"""Steps of matrix instructions: operands D, A, B, C of whole warps [, metadata, scales], several registers per lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.warps import complete_warps, fragment

Words = NDArray[np.uint32]
Multiply = Callable[..., Words]
"""Converts A, B, C [, metadata, scales], each [warps, registers, 32], to D."""


def product_step(
    site: Site, counts: tuple[int, int, int], multiply: Multiply, sides: bool | None = False,
    behind: tuple[int, ...] = (), upper: bool = False,
) -> Step:  # fmt: skip
    """Return a step that computes D = multiply(A, B, C) in the warps of a mask; RZ is a matrix of zeros.

    `counts`: registers of A, B, and C or D. `sides`: whether the text has .ROW for A and .COL for B, or None if that is
    optional. `behind`: registers of the operands after C, which `multiply` also receives. The last may be uniform. A
    sparse product has one more operand, the selector of its metadata. `upper`: A, C and D have eight rows. They are
    multiplied as the upper half of matrices with 16 rows, which have twice as many registers.
    """
    if len(site.operands) != 4 + len(behind) + site.has("SP"):
        raise site.unsupported("this form of matrix instruction")
    for operand, side in zip(site.operands, ("", "ROW", "COL", "", "", ""), strict=False):
        named = (side,) if side else ()
        right = {None: ((), named), True: (named,), False: ((),)}[sides]
        if operand.suffixes not in right or operand.negative or operand.absolute or operand.inverted:
            raise site.unsupported(f"the operand {operand.text}")
    sources = [fragment(site, 1 + k, count, uniform=k > 4) for k, count in enumerate((*counts, *behind))]
    target = None if site.operands[0].core == "RZ" else fragment(site, 0, counts[2])

    def step(mask: Mask) -> None:
        warps = complete_warps(site, mask)
        a, b, c, *rest = sources if warps is None else [source[warps] for source in sources]
        d = multiply(_with_lower_rows(a), b, _with_lower_rows(c))[:, : counts[2]] if upper else multiply(a, b, c, *rest)
        if target is not None:
            target[slice(None) if warps is None else warps] = d

    return step


def _with_lower_rows(x: Words) -> Words:
    """Return a matrix of 8 rows as one of 16, whose lower rows are zero."""
    full = np.zeros((len(x), 2 * x.shape[1], WARP), dtype=np.uint32)
    full[:, : x.shape[1]] = x
    return full
