"""Estimate the memory that gpuemu itself needs for a launch, before it allocates any."""

from __future__ import annotations

from gpuemu.base.errors import GpuemuError
from gpuemu.trace.launch_limits import MOST_STACK_BYTES
from gpuemu.trace.model import Launch

_BYTES_PER_CTA = 160
"""Bytes stored per CTA, whether it executes or not; measured with grids of up to 4 million CTAs."""
MOST_BYTES = 1 << 34


def check_room(launch: Launch, stack_bytes: int, file: str) -> None:
    """Refuse a stack larger than any GPU's, and a grid that needs too much memory. Raises GpuemuError."""
    if stack_bytes > MOST_STACK_BYTES:
        right = f"expected at most {MOST_STACK_BYTES:,}, the local memory of a thread"
        raise GpuemuError.one(file, None, "--stack", f"{stack_bytes:,} bytes", right)
    bytes_needed = launch.ctas * _BYTES_PER_CTA
    if bytes_needed > MOST_BYTES:
        found = f"{launch.ctas:,} CTAs, for which gpuemu would need {bytes_needed / (1 << 30):,.0f} GiB of memory"
        most = MOST_BYTES // _BYTES_PER_CTA // 10**6 * 10**6
        right = f"expected at most {most:,}; a grid of a few waves is as informative if all CTAs do the same work"
        raise GpuemuError.one(file, None, "--grid", found, right)
