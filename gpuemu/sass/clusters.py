"""The clusters of a launch: how many CTAs they have, as the cubin or the launch says.

A cubin says how large a kernel's clusters are (`__cluster_dims__`), or that each launch has to (PTX .explicitcluster).
Code that merely asks is told of a cluster of one CTA where nobody says otherwise.
"""

from __future__ import annotations

import math
import re

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.clusters import MOST_CTAS
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.trace.model import Launch

_ASKED = re.compile(r"c\[0x0\]\[0x(140|144|148|14c|15c|160|164|188)\]")
"""%is_explicit_cluster, %cluster_nctaid, %nclusterid, %cluster_nctarank."""
_BARRIERS = ("UCGABAR_ARV", "UCGABAR_WAIT")
_WITH_CLUSTERS = "sm_9"
Size = tuple[int, int, int]


def cluster_size(function: DecodedFunction, launch: Launch, given: Size | None) -> Size:
    """CTAs of a cluster along each axis; `given` by the launch. Raises GpuemuError where that cannot be."""
    file, name, own = function.cubin.file, function.source_name, function.cluster
    if given is None and own is None and function.explicit_cluster:
        found = "the kernel leaves the size of its clusters to the launch (.explicitcluster)"
        raise GpuemuError.one(file, None, name, found, "Give it, as in --cluster 2 or cluster=2")
    size = given or own or (1, 1, 1)
    said = "clusters of {} x {} x {} CTAs".format(*size)
    if given is not None and own is not None and given != own:
        raise GpuemuError.one(file, None, "--cluster", said, "expected {} x {} x {} (__cluster_dims__)".format(*own))
    if math.prod(size) > 1 and not function.arch.startswith("sm_9"):
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
    """What is to be said of code that asks for its cluster, or waits for it, and may mean a larger one."""
    if math.prod(size) > 1 or not function.arch.startswith(_WITH_CLUSTERS) or function.cluster is not None:
        return ()
    asks = any(i.opcode in _BARRIERS or any(map(_ASKED.search, i.operands)) for i in function.code)
    return ("the kernel asks for its cluster: the launch has clusters of one CTA (--cluster)",) * asks
