"""The device properties of the chosen chip, as a program queries them. gpuemu computes them where it can."""

from __future__ import annotations

import hashlib

from gpuemu.arch import Architecture
from gpuemu.programs.protocol import Chip

_GIB = 1 << 30
_MEMORY_BYTES = {
    "A100": 40 * _GIB, "A100 80GB": 80 * _GIB, "H100": 80 * _GIB, "H100 PCIe": 80 * _GIB, "H100 NVL": 94 * _GIB,
    "H200": 141 * _GIB, "B200": 180 * _GIB, "RTX 3080": 10 * _GIB, "RTX 3090": 24 * _GIB, "RTX 4090": 24 * _GIB,
    "RTX 5090": 32 * _GIB,
}  # fmt: skip
_OTHER_MEMORY_BYTES = 16 * _GIB
_MOST_MEMORY_BYTES = 900 * _GIB  # the heap has room for a TiB
_PRODUCTS = {"RTX": "NVIDIA GeForce ", "GTX": "NVIDIA GeForce "}
_CONSTANT_BYTES = 1 << 16
_DEFAULT_SHARED_BYTES = 48 << 10
_BUS_BITS = 4096
_DOUBLE_RATES = {(8, 0): 2, (9, 0): 2, (10, 0): 2}
"""How many times faster float is than double; 32 or 64 times on other chips. These chips have three copy engines."""
_PERSISTING, _WINDOW_BYTES = (5, 8), 128 << 20
"""The part of L2 that a program may set aside, and the largest window of an access policy, as an H200 reports them."""


def capability(arch: Architecture) -> tuple[int, int]:
    """The compute capability, such as (9, 0)."""
    major, minor = arch.compute_capability.split(".")
    return int(major), int(minor)


def dram_bytes_per_nanosecond(arch: Architecture) -> float:
    """The bandwidth of DRAM in GB/s."""
    chip = arch.chips[arch.chip]
    if chip.dram_gigabytes_per_second is not None:
        return chip.dram_gigabytes_per_second
    rate = chip.dram_bytes_per_cycle or arch.global_memory.bytes_per_cycle * chip.sms
    return rate * chip.clock_mhz / 1000


def describe(arch: Architecture) -> Chip:
    """The chip as device queries report it."""
    name = next((prefix + arch.chip for word, prefix in _PRODUCTS.items() if arch.chip.startswith(word)), None)
    memory = min(_MEMORY_BYTES.get(arch.chip, _OTHER_MEMORY_BYTES), _MOST_MEMORY_BYTES)
    uuid = hashlib.sha256(f"gpuemu {arch.name} {arch.chip}".encode()).digest()[:16]
    return Chip(name or f"NVIDIA {arch.chip}", memory, uuid, _attributes(arch))


def _attributes(arch: Architecture) -> dict[int, int]:
    """Values by the numbers of CUdevice_attribute, which are also those of cudaDeviceAttr. Missing numbers mean 0."""
    chip, sm, shared = arch.chips[arch.chip], arch.sm, arch.shared_memory
    major, minor = capability(arch)
    block, grid = (1024, 1024, 64), ((1 << 31) - 1, 65535, 65535)
    bus_rate = dram_bytes_per_nanosecond(arch) * 1e9 / (2 * _BUS_BITS / 8)
    limits = {
        1: sm.max_threads_per_cta, 2: block[0], 3: block[1], 4: block[2], 5: grid[0], 6: grid[1], 7: grid[2],
        8: _DEFAULT_SHARED_BYTES, 9: _CONSTANT_BYTES, 10: 32, 11: (1 << 31) - 1, 12: sm.registers,
        13: chip.clock_mhz * 1000, 16: chip.sms, 36: round(bus_rate / 1000), 37: _BUS_BITS,
        38: (chip.l2_kibibytes or 0) * 1024, 39: sm.max_warps * 32, 75: major, 76: minor,
        81: shared.capacity_bytes, 82: sm.registers, 87: _DOUBLE_RATES.get((major, minor), 32 if major < 8 else 64),
        97: shared.max_bytes_per_cta, 106: sm.max_ctas, 111: shared.reserved_bytes_per_cta,
    }  # fmt: skip
    alignments = {14: 512, 30: 512, 51: 32}
    # One device that is not integrated, with the first bus number after the bridge (33). Accesses of a
    # kernel to memory from malloc (88) fail, as they do on an H200 in an x86-64 server.
    there = dict.fromkeys((15, 19, 31, 41, 78, 79, 80, 83, 89, 90, 91, 95, 99, 102, 115), 1) | {33: 1}
    there |= {40: 3 if (major, minor) in _DOUBLE_RATES else 2, 120: int(major >= 9)}
    persisting = {108: limits[38] * _PERSISTING[0] // _PERSISTING[1], 109: _WINDOW_BYTES} if major >= 8 else {}
    return limits | alignments | there | persisting
