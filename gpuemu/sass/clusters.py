"""Clusters of CTAs: launches have clusters of one, and a kernel that needs more is refused by name.

A cubin says how large a kernel's clusters are, or that each launch has to (PTX .reqnctapercluster, .explicitcluster).
Code that merely asks runs, and is told of a cluster of one CTA, as where the launch does not say otherwise.
"""

from __future__ import annotations

import re

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.tools.disassembly import DecodedFunction

_RIGHT = "a kernel whose clusters have one CTA is right: several are not executed yet"
_ASKED = re.compile(r"c\[0x0\]\[0x(140|144|148|14c|15c|160|164|188)\]")
"""%is_explicit_cluster, %cluster_nctaid, %nclusterid, %cluster_nctarank."""
_BARRIERS = ("UCGABAR_ARV", "UCGABAR_WAIT")
_WITH_CLUSTERS = "sm_9"


def refuse_clusters(function: DecodedFunction) -> None:
    """Raise GpuemuError for a kernel that cannot run in clusters of one CTA."""
    if function.cluster is None:
        found = "clusters whose size each launch has to say (.explicitcluster)" if function.explicit_cluster else ""
    else:
        x, y, z = function.cluster
        found = f"clusters of {x} x {y} x {z} CTAs (__cluster_dims__)" if x * y * z > 1 else ""
    if found:
        raise GpuemuError.one(function.cubin.file, None, function.source_name, found, _RIGHT)


def notes_of(function: DecodedFunction) -> tuple[str, ...]:
    """What is to be said of code that asks for its cluster, or waits for it, and may mean a larger one."""
    if not function.arch.startswith(_WITH_CLUSTERS) or function.cluster is not None:
        return ()
    asks = any(i.opcode in _BARRIERS or any(map(_ASKED.search, i.operands)) for i in function.code)
    return ("the kernel asks for its cluster: the launch has clusters of one CTA",) * asks
