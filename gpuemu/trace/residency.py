"""The number of CTAs that fit on the SM, and their registers and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.warp import LANES

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.trace.model import Launch, Trace


def residency(trace: Trace, arch: Architecture) -> dict[str, int]:
    """Return how many CTAs of this launch fit on the SM by each limit: warps, CTAs, registers, shared memory.

    Each sub-core allocates registers to warps from its part of them. The SM allocates shared memory to CTAs. Both use
    the architecture's allocation units. Raises GpuemuError if not even one CTA fits, with each limit that forbids it.
    """
    launch, sm, shared = trace.launch, arch.sm, arch.shared_memory
    problems = []

    def refuse(field_name: str, found: str, right: str) -> None:
        problems.append(Problem(trace.file, None, f"launch.{field_name}", found, right))

    if launch.threads_per_cta > sm.max_threads_per_cta:
        refuse(
            "block", f"{launch.threads_per_cta} threads", f"expected at most {sm.max_threads_per_cta} for {arch.name}"
        )
    if launch.registers_per_thread > sm.max_registers_per_thread:
        right = f"expected at most {sm.max_registers_per_thread}"
        refuse("registers_per_thread", str(launch.registers_per_thread), right)
    if launch.shared_bytes > shared.max_bytes_per_cta:
        refuse(
            "dynamic_shared_bytes",
            f"{launch.shared_bytes} bytes of static and dynamic shared memory",
            f"expected at most {shared.max_bytes_per_cta} per CTA for {arch.name}",
        )
    warps = launch.warps_per_cta
    limits = limits_of(launch, arch)
    if limits["registers"] == 0:
        refuse(
            "registers_per_thread",
            f"{warps} warps of {units(launch.registers_per_thread * LANES, sm.register_allocation_unit)} registers",
            f"expected at most {_warps_with_registers(launch, arch)} such warps, which fill the registers of the SM",
        )
    if limits["warps"] == 0:
        refuse("block", f"{warps} warps", f"expected at most {sm.max_warps} per SM")
    if limits["shared memory"] == 0 and not problems:
        refuse(
            "dynamic_shared_bytes",
            f"{shared_bytes_taken(trace, arch)} bytes, including the reserved ones",
            f"expected at most {shared.capacity_bytes} per SM",
        )
    if problems:
        raise GpuemuError(problems)
    return limits


def limits_of(launch: Launch, arch: Architecture) -> dict[str, int]:
    """Do the same as `residency`, with 0 for a limit that forbids even one CTA."""
    sm, shared = arch.sm, arch.shared_memory
    warps = launch.warps_per_cta
    bytes_taken = units(launch.shared_bytes + shared.reserved_bytes_per_cta, shared.allocation_unit_bytes)
    return {
        "warps": sm.max_warps // warps,
        "CTAs": sm.max_ctas,
        "registers": _warps_with_registers(launch, arch) // warps if launch.registers_per_thread else sm.max_ctas,
        "shared memory": shared.capacity_bytes // bytes_taken if bytes_taken else sm.max_ctas,
    }


def _warps_with_registers(launch: Launch, arch: Architecture) -> int:
    """Number of warps for which the SM has registers."""
    registers = units(launch.registers_per_thread * LANES, arch.sm.register_allocation_unit)
    if not registers:
        return arch.sm.max_warps
    return arch.sm.sub_cores * (arch.sm.registers // arch.sm.sub_cores // registers)


def units(amount: int, unit: int) -> int:
    """Round `amount` up to whole units."""
    return -(-amount // unit) * unit


def shared_bytes_taken(trace: Trace, arch: Architecture) -> int:
    """Return the shared memory of a CTA in whole allocation units, including the bytes that the driver reserves."""
    shared = arch.shared_memory
    return units(trace.launch.shared_bytes + shared.reserved_bytes_per_cta, shared.allocation_unit_bytes)


def carveout(bytes_wanted: int, arch: Architecture) -> int:
    """Return the smallest carveout, in bytes, for as many CTAs as fit, even if the grid has fewer."""
    enough = [size for size in arch.shared_memory.carveouts_bytes if size >= bytes_wanted]
    return min(enough, default=bytes_wanted)
