"""The shared memory of other CTAs of a cluster, which launches here do not have.

That of the CTA of rank r lies r windows behind that of rank 0.
"""

from __future__ import annotations

from gpuemu.sass.machine.memory import SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.machine.operands import Site, UnsupportedError

MOST_CTAS = 16
"""Of a cluster, on any chip."""


def other_rank(address: int) -> int:
    """Of a shared address of 32 bits, the rank of the CTA in whose memory it lies; 0 is the CTA itself."""
    return address >> WINDOW_BYTES.bit_length() - 1


def other_window(address: int) -> int:
    """Of a generic address, the rank of the other CTA in whose shared memory it lies; 0 if in none."""
    rank = (address - SHARED_WINDOW) // WINDOW_BYTES
    return rank if 0 < rank < MOST_CTAS else 0


def refusal(site: Site, rank: int) -> UnsupportedError:
    """The error for an access to the shared memory of another CTA: no fault of the kernel's."""
    return site.unsupported(f"the shared memory of CTA {rank} of a cluster: those of several CTAs are not executed yet")
