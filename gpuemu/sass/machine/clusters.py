"""Clusters: CTAs that reach each other's shared memory, by addresses of windows one behind another, by rank.

The CTAs of a cluster execute in turns (`machine.turns`): one goes on until all of its lanes wait for what another must
do. While one does, the shared memory of the others lies in its cluster's state, where stores, arrivals and copies reach
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuemu.sass.machine.cluster_state import Part
from gpuemu.sass.machine.memory import SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.machine.operands import Site, UnsupportedError

MOST_CTAS = 16
"""Of a cluster, on any chip."""
RANK_SHIFT = WINDOW_BYTES.bit_length() - 1
INSIDE = WINDOW_BYTES - 1


def ranks_of(mask: int) -> Iterator[int]:
    """The ranks that a mask of CTAs names."""
    return (rank for rank in range(MOST_CTAS) if mask >> rank & 1)


def other_window(address: int) -> int:
    """Of a generic address, the rank of the other CTA in whose shared memory it lies; 0 if in none."""
    rank = (address - SHARED_WINDOW) // WINDOW_BYTES
    return rank if 0 < rank < MOST_CTAS else 0


def refusal(site: Site, rank: int) -> UnsupportedError:
    """The error for an access to the shared memory of another CTA that is not there."""
    return site.unsupported(f"the shared memory of CTA {rank} of a cluster: no such CTA executes")


def whose(address: Any) -> Any:
    """Of shared addresses of 32 bits, one or an array, the rank of the CTA in whose memory each lies."""
    return address >> RANK_SHIFT & 0xFF


def part_of(shared: dict[int, tuple[Part, Part]], rank: int, site: Site) -> tuple[Any, Any]:
    """The shared memory of another CTA, and what of it has been written."""
    if rank not in shared:
        raise refusal(site, rank)
    return shared[rank]
