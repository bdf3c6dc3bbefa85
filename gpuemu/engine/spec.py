"""The numbers of the emulated hardware as the engine's units read them, under the architecture file's own names.

`spec.mio_queue_entries` is `mio.queue_entries`. The engine uses a value as it is. `refusals` names values that it could
not use, because an effect would precede its cause.
"""

from __future__ import annotations

from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING

from gpuemu.engine.records import fields
from gpuemu.engine.values import Values

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

POLICIES = ("greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first")
YOUNGEST, FAIR, ROTATING, OLDEST = range(len(POLICIES))


class Spec(Values):
    """The values, and numbers that follow from them and from words and rates.

    * `load_release`, `store_release`: cycles from the issue until the source of a load or store of one register counts
      as read, the later of its read and the value of the file.
    * `ahead`: cycles by which the clock of the load/store unit runs early, so that sources released before the request
      leaves its queue are known in time.
    * `read_ports`, `write_ports`: ports of the data stage, `separate` or the same.
    * `load_sector_parts`, `load_cycle_parts`: a sector takes the first of the second of a cycle on the path to the SM;
      `store_...` on the path from it, `copy_...` for a line copied through L1, `copy_engine_...` for the copy engine.
    * `clock_mhz`: the clock of the chip.
    * `first_touch_dram`: L2 lacks data and code that nobody has touched before.
    """

    clock_mhz: int
    policy: int
    load_release: int
    store_release: int
    ahead: int
    separate: int
    read_ports: int
    write_ports: int
    load_sector_parts: int
    load_cycle_parts: int
    store_sector_parts: int
    store_cycle_parts: int
    copy_line_parts: int
    copy_cycle_parts: int
    copy_engine_sector_parts: int
    copy_engine_cycle_parts: int
    first_touch_dram: int


_READ: list[attrgetter[tuple[int, ...]]] = []
"""Reads the fields of Values from an architecture: all have the same sections."""


def fill(spec: Spec, arch: Architecture) -> None:
    """Fill a record with the values of an architecture."""
    if not _READ:
        dotted = {name.replace(".", "_"): name for name in arch.flat()}
        _READ.append(attrgetter(*(dotted[name] for name in fields(Values))))
    vars(spec).update(zip(fields(Values), map(int, _READ[0](arch)), strict=True))
    spec.clock_mhz = arch.chips[arch.chip].clock_mhz
    ports = arch.shared_memory.ports
    spec.policy = POLICIES.index(arch.issue.policy)
    spec.separate = int(ports.topology == "separate")
    spec.read_ports = ports.read if spec.separate else ports.unified
    spec.write_ports = ports.write if spec.separate else ports.unified
    spec.first_touch_dram = int(arch.global_memory.first_touch == "dram")
    read = spec.mio_address_read_cycles
    spec.load_release = max(1, read, spec.mio_load_source_release_cycles)
    read += spec.mio_data_read_cycles
    spec.store_release = max(1, read, spec.mio_store_source_release_cycles - spec.mio_cycles_per_source_register)
    spec.ahead = max(0, spec.mio_queue_latency_cycles - min(spec.load_release, spec.store_release))
    memory = arch.global_memory
    spec.load_sector_parts, spec.load_cycle_parts = _sector_time(memory.sector_bytes, memory.bytes_per_cycle)
    spec.store_sector_parts, spec.store_cycle_parts = _sector_time(memory.sector_bytes, memory.store_bytes_per_cycle)
    engine_rate = _sector_time(memory.sector_bytes, arch.copy_engine.load_bytes_per_cycle)
    spec.copy_engine_sector_parts, spec.copy_engine_cycle_parts = engine_rate
    spec.copy_line_parts, spec.copy_cycle_parts = _sector_time(memory.l1.line_bytes, memory.l1.copy_bytes_per_cycle)


def _sector_time(sector_bytes: int, bytes_per_cycle: float) -> tuple[int, int]:
    """The exact fraction of a cycle that a sector takes at a rate as it is written."""
    return (sector_bytes / Fraction(str(bytes_per_cycle))).limit_denominator(1 << 20).as_integer_ratio()


def refusals(spec: Spec) -> list[tuple[str, str, str]]:
    """Combinations of values of which an effect would precede its cause: field, finding, expectation."""
    found: list[tuple[str, str, str]] = []
    each, address, data = spec.mio_cycles_per_source_register, spec.mio_address_read_cycles, spec.mio_data_read_cycles
    before = spec.mio_queue_latency_cycles + each
    atomic = before + each + data
    if spec.mio_queue_latency_cycles < address:
        right = f"expected at most {spec.mio_queue_latency_cycles}, when a request leaves its queue"
        found.append(("mio.address_read_cycles", str(address), right))
    for name, value, least in (
        ("l1.latency_cycles", spec.global_memory_l1_latency_cycles, before),
        ("l2.latency_cycles", spec.global_memory_l2_latency_cycles, before),
        ("latency_cycles", spec.global_memory_latency_cycles, before),
        ("atomic_latency_cycles", spec.global_memory_atomic_latency_cycles, atomic),
    ):
        if value <= least:
            right = f"expected more than {least}, when the request arrives"
            found.append((f"global_memory.{name}", str(value), right))
    return found
