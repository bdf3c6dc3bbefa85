"""Registers that warps of a CTA hand over: USETMAXREG, setmaxnreg of PTX.

A CTA has the registers that it was launched with, and no others: who asks for more waits until other warps have given
as many up. Those of warps that have exited stay where they are. (Measured on an H100: 384 threads launched with 168
registers each get 40 and 232, not 40 and 240; with 128 each not 40 and 232; nothing from a warpgroup that is gone.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands


@semantics("USETMAXREG")
def set_registers(site: Site) -> Step:
    """USETMAXREG.DEALLOC.CTAPOOL n gives registers up; .TRY_ALLOC.CTAPOOL UPd, n tells whether there were enough.

    Warps ask one after the other, in the order of their numbers.
    """
    site.only("DEALLOC", "TRY_ALLOC", "CTAPOOL")
    held, asks = site.lanes.held, site.has("TRY_ALLOC")
    expect_operands(site, 1 + asks)
    count = _asked(site)
    if not asks:

        def give(mask: Mask) -> None:
            held[_warps(site, mask)] = count

        return give
    store, pool = site.set_predicate(0), site.lanes.pool

    def ask(mask: Mask) -> None:
        granted = np.zeros(site.lanes.count, np.bool_)
        for warp in _warps(site, mask).tolist():
            if int(held.sum()) - int(held[warp]) + count <= pool:
                held[warp] = count
                granted[warp * WARP : (warp + 1) * WARP] = True
        store(granted, mask)

    return ask


def short(site: Site, mask: Mask) -> bool:
    """Whether the CTA has too few registers for any warp of the mask to get what it asks for."""
    held, warps = site.lanes.held, _warps(site, mask)
    return int(held.sum()) - int(held[warps].max(initial=0)) + _asked(site) > site.lanes.pool


def never_granted(site: Site, lane: int) -> tuple[str, str]:
    """What is found, and right, where a lane's warp waits for registers for ever."""
    lanes = site.lanes
    wanted = (int(lanes.held.sum()) - int(lanes.held[lane // WARP]) + _asked(site)) * WARP
    launched = f"it was launched with {lanes.pool * WARP:,}, {lanes.pool // lanes.warps} a thread"
    return (
        f"a wait forever for {_asked(site)} registers a thread: with them the CTA has {wanted:,}, and {launched}",
        "expected counts of setmaxnreg that fit all warps, including those that have exited",
    )


def _asked(site: Site) -> int:
    return int(site.operands[-1].text, 0)


def _warps(site: Site, mask: Mask) -> NDArray[np.int64]:
    here = site.lanes.exists if mask is None else mask
    return np.flatnonzero(here.reshape(-1, WARP).any(axis=1))
