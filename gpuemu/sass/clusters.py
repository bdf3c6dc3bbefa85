"""The clusters of a launch: their number of CTAs, from the cubin or from the launch.

A cubin gives the size of a kernel's clusters (`__cluster_dims__`), or leaves it to each launch (PTX .explicitcluster).
If neither gives a size, code that asks for its cluster gets a cluster of one CTA.
"""

from __future__ import annotations

import math
import re

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.memory.clusters import MOST_CTAS
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.trace.model import Launch

_ASKED = re.compile(r"c\[0x0\]\[0x(140|144|148|14c|15c|160|164|188)\]")
"""Constants of %is_explicit_cluster, %cluster_nctaid, %nclusterid and %cluster_nctarank."""
_BARRIERS = ("UCGABAR_ARV", "UCGABAR_WAIT")
_WITH_CLUSTERS = ("sm_9", "sm_10")
Size = tuple[int, int, int]


def cluster_size(function: DecodedFunction, launch: Launch, given: Size | None) -> Size:
    """Return the CTAs of a cluster along each axis; the launch may give them. Raises GpuemuError for a bad size."""
    file, name, own = function.cubin.file, function.source_name, function.cluster
    if given is None and own is None and function.explicit_cluster:
        found = "the kernel leaves the size of its clusters to the launch (.explicitcluster)"
        raise GpuemuError.one(file, None, name, found, "Give it, as in --cluster 2 or cluster=2")
    size = given or own or (1, 1, 1)
    said = "clusters of {} x {} x {} CTAs".format(*size)
    if given is not None and own is not None and given != own:
        raise GpuemuError.one(file, None, "--cluster", said, "expected {} x {} x {} (__cluster_dims__)".format(*own))
    if math.prod(size) > 1 and not function.arch.startswith(_WITH_CLUSTERS):
        raise GpuemuError.one(
            file, None, "--cluster", f"{function.arch} has no clusters", "Compile the kernel for sm_90"
        )
    if not 1 <= math.prod(size) <= MOST_CTAS or min(size) < 1:
        raise GpuemuError.one(file, None, "--cluster", said, f"expected 1 to {MOST_CTAS} CTAs")
    if any(ctas % each for ctas, each in zip(launch.grid, size, strict=True)):
        grid = "{} x {} x {} CTAs".format(*launch.grid)
        raise GpuemuError.one(
            file, None, "--grid", f"{grid} in {said}", "expected a multiple of the cluster along each axis"
        )
    return size


def notes_of(function: DecodedFunction, size: Size) -> tuple[str, ...]:
    """Return a note for code that uses its cluster and may expect a larger one than the launch has."""
    if math.prod(size) > 1 or not function.arch.startswith(_WITH_CLUSTERS) or function.cluster is not None:
        return ()
    asks = any(i.opcode in _BARRIERS or any(map(_ASKED.search, i.operands)) for i in function.code)
    return ("the kernel uses its cluster, but the launch has clusters of one CTA (--cluster)",) * asks
