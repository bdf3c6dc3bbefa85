"""Clusters: CTAs that access each other's shared memory through consecutive address windows, ordered by rank.

The CTAs of a cluster execute in turns (`scheduling.turns`). One continues until all of its lanes wait for an action of
another. Meanwhile, the shared memory of the other CTAs is in the cluster's state, where stores, arrivals and copies
access it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.memory.storage import SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.scheduling.cluster_state import Part

MOST_CTAS = 16
"""Maximum size of a cluster on any chip."""
RANK_SHIFT = WINDOW_BYTES.bit_length() - 1
INSIDE = WINDOW_BYTES - 1


def ranks_of(mask: int) -> Iterator[int]:
    """Return the ranks in a mask of CTAs."""
    return (rank for rank in range(MOST_CTAS) if mask >> rank & 1)


def other_window(address: int) -> int:
    """Return the rank of the other CTA whose shared memory contains a generic address; 0 if there is none."""
    rank = (address - SHARED_WINDOW) // WINDOW_BYTES
    return rank if 0 < rank < MOST_CTAS else 0


def refusal(site: Site, rank: int) -> ExecutionError:
    """Return the error for an impossible access to the shared memory of another CTA of the cluster."""
    environment = site.environment
    cluster, active = environment.memory.cluster, environment.active
    size = 1 if cluster is None else len(cluster.numbers)
    if cluster is None or rank >= size:
        which, right = f"of {size} CTA{'s' * (size > 1)}", "Launch a cluster that has that rank (--cluster)"
    elif rank in cluster.shared or rank == environment.memory.rank:
        which, right = "by an instruction for the CTA's own memory", "Use an address of shared::cluster"
    elif rank in cluster.begun:
        which = "which has exited"
        right = "Synchronize the cluster (cluster.sync()) after the last access, before any of its CTAs exits"
    else:
        which = "which may not have begun"
        right = "Synchronize the cluster (cluster.sync()) before the first access"
    lane = int(site.lanes.exists.argmax() if active is None else active.argmax())
    error = ExecutionError(
        site.instruction, lane, f"an access to the shared memory of CTA {rank} of its cluster, {which}", right
    )
    error.title = "Invalid access to distributed shared memory"
    return error


def whose(address: Any) -> Any:
    """Return the rank of the CTA whose memory contains each of the 32-bit shared addresses (one or an array)."""
    return address >> RANK_SHIFT & 0xFF


def part_of(shared: dict[int, tuple[Part, Part]], rank: int, site: Site) -> tuple[Any, Any]:
    """Return the shared memory of another CTA, and the shadow of its written bytes."""
    if rank not in shared:
        raise refusal(site, rank)
    return shared[rank]
