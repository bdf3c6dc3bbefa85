"""The rates of a chip in the cycles of a launch, whose clock depends on what it executes."""

from __future__ import annotations

import numpy as np

from gpuemu.arch.chips import Chip
from gpuemu.program.program import Program

_OF_MEMORY = (
    "l2_read_bytes_per_cycle", "l2_together_bytes_per_cycle", "l2_lines_per_cycle", "l2_write_bytes_per_cycle",
    "l2_store_lines_per_cycle", "dram_bytes_per_cycle", "atomics_per_cycle", "float_atomics_per_cycle",
)  # fmt: skip


def at_clock(chip: Chip, program: Program) -> Chip:
    """The chip at the clock of this program. L2 and DRAM keep their clocks, so their rates per SM cycle change."""
    used = [program.ops[number] for number in np.unique(program.path)]
    clock = chip.clock_mhz
    if chip.tensor_clock_mhz is not None and any(op.is_tensor or op.product_cycles for op in used):
        clock = min(clock, chip.tensor_clock_mhz)
    faster = (chip.rates_clock_mhz or chip.clock_mhz) / clock
    if faster == 1.0:
        return chip
    rates = {name: getattr(chip, name) for name in _OF_MEMORY}
    waits = {name: getattr(chip, name) for name in ("dram_wait_cycles", "dram_loaded_cycles")}
    update: dict[str, float] = {"clock_mhz": clock, "rates_clock_mhz": chip.rates_clock_mhz or chip.clock_mhz}
    update |= {name: rate * faster for name, rate in rates.items() if rate is not None}
    update |= {name: round(cycles / faster) for name, cycles in waits.items() if cycles is not None}
    return chip.model_copy(update=update)
