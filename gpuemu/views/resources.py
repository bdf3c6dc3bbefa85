"""The resource that each value of the architecture file belongs to, under the names of the bounds and of `gpuemu why`.

    of = owner("mio.request_interval_cycles")
    of.resource, of.causes, of.free     # "load/store unit", ("load_store_unit",), LEAST

The fields of `gpuemu.arch` have their owners (`arch.owners`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuemu.arch import Architecture
from gpuemu.arch.owners import BANDWIDTH as BANDWIDTH
from gpuemu.arch.owners import BARRIER as BARRIER
from gpuemu.arch.owners import COPIES as COPIES
from gpuemu.arch.owners import DATA_PORTS as DATA_PORTS
from gpuemu.arch.owners import DATA_STAGE as DATA_STAGE
from gpuemu.arch.owners import DIVERGENCE as DIVERGENCE
from gpuemu.arch.owners import ENTRIES as ENTRIES
from gpuemu.arch.owners import LATENCY as LATENCY
from gpuemu.arch.owners import LAUNCH as LAUNCH
from gpuemu.arch.owners import LEAST as LEAST
from gpuemu.arch.owners import MOST as MOST
from gpuemu.arch.owners import NO_END as NO_END
from gpuemu.arch.owners import PATH as PATH
from gpuemu.arch.owners import PIPES as PIPES
from gpuemu.arch.owners import PORTS as PORTS
from gpuemu.arch.owners import QUEUES as QUEUES
from gpuemu.arch.owners import RESIDENCY as RESIDENCY
from gpuemu.arch.owners import SENDING as SENDING
from gpuemu.arch.owners import SLOTS as SLOTS
from gpuemu.arch.owners import STORE_DATA as STORE_DATA
from gpuemu.arch.owners import STORES as STORES
from gpuemu.arch.owners import UNIT as UNIT
from gpuemu.arch.owners import WAY_BACK as WAY_BACK
from gpuemu.arch.owners import Owner as Owner
from gpuemu.arch.schema import Leaf, Node, Table, tree


def _leaves(node: Node, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Leaf]]:
    if isinstance(node, Leaf):
        yield ".".join(names), node
    elif isinstance(node, Table):
        yield from _leaves(node.entry, (*names, "*"))
    else:
        for name, inner in node.fields.items():
            yield from _leaves(inner, (*names, name))


VALUES: Mapping[str, Leaf] = {
    name: leaf for name, leaf in _leaves(tree(Architecture)) if name not in ("name", "description")
}
"""The declaration of each value by dotted name; * stands for a class of operations, a tensor mode or a chip."""
OWNERS: Mapping[str, Owner] = {name: leaf.owner for name, leaf in VALUES.items()}


def entry_of(value: str) -> str:
    """The name of a value's entry in OWNERS."""
    return re.sub(r"^(chips|tensor_core\.operations|operations)\..+\.(\w+)$", r"\1.*.\2", value)


def owner(value: str) -> Owner:
    """The owner of a value of an architecture. Raises KeyError for an unknown name."""
    return OWNERS[entry_of(value)]


def is_pipe(resource: str) -> bool:
    """Whether this is the name of a pipe's bound."""
    return not any(of.resource and of.resource != PIPES and of.resource in resource for of in OWNERS.values())
