"""Registers that warps of a CTA transfer: USETMAXREG, which is PTX's setmaxnreg.

A CTA has only the registers that it was launched with. A warp that requests more waits until other warps have released
as many. Registers of warps that have exited are not released. (Measured on an H100: 384 threads launched with 168
registers each get 40 and 232, but not 40 and 240. With 128 each, they do not get 40 and 232. An exited warpgroup
releases nothing.)
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
    """USETMAXREG.DEALLOC.CTAPOOL n releases registers; .TRY_ALLOC.CTAPOOL UPd, n sets UPd if there were enough.

    Warps request in the order of their numbers.
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
    """Whether the CTA has too few registers for the request of any warp of the mask."""
    held, warps = site.lanes.held, _warps(site, mask)
    return int(held.sum()) - int(held[warps].max(initial=0)) + _asked(site) > site.lanes.pool


def never_granted(site: Site, lane: int) -> tuple[str, str]:
    """Return the problem and its correction for a lane whose warp waits for registers forever."""
    lanes = site.lanes
    wanted = (int(lanes.held.sum()) - int(lanes.held[lane // WARP]) + _asked(site)) * WARP
    launched = f"it was launched with {lanes.pool * WARP:,}, {lanes.pool // lanes.warps} per thread"
    return (
        f"a wait forever for {_asked(site)} registers per thread: with them the CTA has {wanted:,}, and {launched}",
        "Choose setmaxnreg counts that fit all warps, including those that have exited",
    )


def _asked(site: Site) -> int:
    return int(site.operands[-1].text, 0)


def _warps(site: Site, mask: Mask) -> NDArray[np.int64]:
    here = site.lanes.exists if mask is None else mask
    return np.flatnonzero(here.reshape(-1, WARP).any(axis=1))
