"""Fences, cache control and waits for copies, which do nothing here, and QSPC, which identifies address spaces.

Every access is complete and visible to all lanes when its instruction has executed.
"""

from __future__ import annotations

from gpuemu.sass.compiled.columns import NOTHING, OP
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.addresses import address64
from gpuemu.sass.machine.memory.generic import in_window
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands
from gpuemu.sass.semantics.lanewise import EncodedStep

_KNOWN = {
    "MEMBAR": ("SC", "ALL", "CTA", "SM", "GPU", "SYS", "VC"),
    "ERRBAR": (),
    "CGAERRBAR": (),
    "FENCE": ("VIEW", "ASYNC", "S", "G", "T"),
    "CCTL": (
        "E",
        "U",
        "C",
        "D",
        "I",
        "PF1",
        "PF1.5",
        "PF2",
        "WB",
        "IV",
        "IVALL",
        "RS",
        "RSLB",
        "DML2",
        "RML2",
        "PML2",
        "LDCU",
        "DEEP",
    ),
    "CCTLL": ("PF1", "WB", "IV", "IVALL"),
    "LDGDEPBAR": (),
    "DEPBAR": ("LE",),
}


@semantics(*_KNOWN)
def nothing(site: Site) -> Step:
    """MEMBAR, ERRBAR, FENCE, CCTL, CCTLL, LDGDEPBAR, DEPBAR: they order, cache or wait, but change no values."""
    site.only(*_KNOWN[site.mnemonic])
    return EncodedStep(lambda mask: None, {OP: NOTHING})


@semantics("QSPC")
def query_space(site: Site) -> Step:
    """QSPC.E.{S,L,G,D} Pd, RZ, [address]: whether a generic address is shared, local, global, or in the cluster.

    The shared memory of a cluster (.D, isspacep.shared::cluster) includes the CTA's own, which is all of it here.
    """
    expect_operands(site, 3)
    site.only("E", "S", "L", "G", "D")
    if site.operands[1].core != "RZ" or not site.has("S", "L", "G", "D"):
        raise site.unsupported("this form is not understood")
    store, addresses = site.set_predicate(0), address64(site, 2)

    def step(mask: Mask) -> None:
        at = addresses.every()
        if site.has("S", "D"):
            store(in_window(at, SHARED_WINDOW), mask)
        elif site.has("L"):
            store(in_window(at, LOCAL_WINDOW), mask)
        else:
            store(~(in_window(at, SHARED_WINDOW) | in_window(at, LOCAL_WINDOW)), mask)

    return step
