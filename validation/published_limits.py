"""Probes of the SM's limits: what fits on it, what is refused, and which sub-core a warp lives on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gpuemu
from validation.published_bench import probe
from validation.published_probes import interval

KIB = 1024
GRANULE = 128
"""Bytes of shared memory are searched in steps of this; every chip's allocation unit divides its limits."""


LIFE = 60
"""NOPs of a CTA that is to live on while others are launched: 900 cycles. The emptiest SM is full after 800."""


def _run(
    arch: gpuemu.Architecture, ctas: int, warps: int, registers: int = 16, shared: int = 0, nops: int = 1,
    stall: int = 15,
) -> gpuemu.Result:  # fmt: skip
    """CTAs that do nothing for so many NOPs and exit."""
    name = f"sm_{arch.compute_capability.replace('.', '')}"
    trace = gpuemu.TraceBuilder(
        "limits", arch=name, grid=(ctas, 1, 1), block=(32 * warps, 1, 1), registers_per_thread=registers,
        dynamic_shared_bytes=shared,
    )  # fmt: skip
    with trace.repeat(nops):
        trace.emit("NOP", control=f"B------:R-:W-:{'Y' if stall > 11 else '-'}:S{stall:02d}")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return gpuemu.run(trace.build(), arch)


def _resident_warps(arch: gpuemu.Architecture, ctas: int, warps: int, registers: int = 16, shared: int = 0) -> int:
    """Warps that begin before any has ended."""
    found = _run(arch, ctas, warps, registers, shared, LIFE).warps
    first_end = min(warp.end_cycle for warp in found)
    return sum(warp.start_cycle < first_end for warp in found)


def _most(fits: Callable[[int], bool], high: int) -> int:
    """The largest number up to `high` that fits, when everything below one that fits does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _accepted(run: Callable[[], object]) -> bool:
    try:
        run()
    except gpuemu.GpuemuError:
        return False
    return True


@probe("exact")
def resident_warps(arch: gpuemu.Architecture) -> float:
    """64 CTAs of 4 warps with few registers that live on; warps launched before one of them has ended."""
    return _resident_warps(arch, 64, 4)


@probe("exact")
def resident_ctas(arch: gpuemu.Architecture) -> float:
    """64 CTAs of one warp with few registers that live on; CTAs launched before one of them has ended."""
    return _resident_warps(arch, 64, 1)


@probe("exact")
def resident_registers(arch: gpuemu.Architecture) -> float:
    """16 CTAs of 4 warps with 128 registers a thread that live on; registers of the warps launched before one of them
    has ended."""
    return _resident_warps(arch, 16, 4, 128) * 32 * 128


@probe("exact")
def most_registers(arch: gpuemu.Architecture) -> float:
    """One warp; the most registers a thread may have before the launch is refused."""
    return _most(lambda n: n == 0 or _accepted(lambda: _run(arch, 1, 1, n)), 1024)


@probe("exact")
def most_threads(arch: gpuemu.Architecture) -> float:
    """One CTA; the most threads, in whole warps, before the launch is refused."""
    return 32 * _most(lambda n: n == 0 or _accepted(lambda: _run(arch, 1, n)), 64)


@probe("exact")
def most_shared(arch: gpuemu.Architecture) -> float:
    """One CTA; the most shared memory, in KiB, before the launch is refused."""
    return _most(lambda n: _accepted(lambda: _run(arch, 1, 1, shared=n * GRANULE)), 4096) * GRANULE / KIB


def _shared_of(arch: gpuemu.Architecture, ctas: int) -> int:
    """The most shared memory, in bytes, with which so many CTAs are resident at once."""

    def fits(n: int) -> bool:
        return _accepted(lambda: _run(arch, 1, 1, shared=n * GRANULE)) and (
            _resident_warps(arch, ctas, 1, shared=n * GRANULE) == ctas
        )

    return _most(fits, 4096) * GRANULE


@probe("exact")
def shared_reserved(arch: gpuemu.Architecture) -> float:
    """The most shared memory with which two CTAs are resident, less twice that of four; KiB taken of each CTA."""
    return (_shared_of(arch, 2) - 2 * _shared_of(arch, 4)) / KIB


@probe("exact")
def shared_capacity(arch: gpuemu.Architecture) -> float:
    """Twice what two resident CTAs can have at most and what is taken of each, in KiB."""
    return 2 * (_shared_of(arch, 2) / KIB + shared_reserved(arch))


@probe("exact")
def sub_cores(arch: gpuemu.Architecture) -> float:
    """32 warps of 60 NOPs with stall count 1; the most that issue in one cycle, one for each sub-core."""
    result = _run(arch, 1, 32, nops=LIFE, stall=1)
    return int(np.bincount(result.log.issue).max())


@probe("rate")
def issue_rate(arch: gpuemu.Architecture) -> float:
    """NOPs with stall count 1 of 16 warps, between clock reads; instructions a cycle and sub-core."""
    return 1 / interval(arch, "NOP")


@probe("exact")
def warps_on_own_sub_core(arch: gpuemu.Architecture) -> float:
    """32 warps; how many live on the sub-core warp mod 4."""
    return sum(warp.sub_core == warp.warp % 4 for warp in _run(arch, 1, 32).warps)
