"""A trace with a layout, to sweep."""

from __future__ import annotations

import gpuemu


def tile(rounds: int = 1, **launch: object) -> gpuemu.TraceBuilder:
    """Two warps that read columns of a tile whose rows are `pitch` bytes: a pitch of 128 costs most, one of 132 least."""
    trace = gpuemu.TraceBuilder(
        "tile",
        arch="sm_89",
        block=(64, 1, 1),
        static_shared_bytes="32*pitch",
        layout={"pitch": 128, "first": 0},
        **launch,
    )
    with trace.repeat(rounds):
        for k in range(4):
            trace.emit(f"LDS R{4 + k}, [R0]", lanes=f"pitch*lane + 4*(({k} + first + 4*warp) % 32)")
        trace.emit("FADD R8, R4, R5")
    trace.emit("EXIT")
    return trace
