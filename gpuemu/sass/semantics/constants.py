"""LDC and ULDC: loads from constant banks."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.spaces import counted, sized
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands, extended, size_of


@semantics("LDC", "ULDC")
def load_constant(site: Site) -> Step:
    """LDC Rd, c[bank][offset]; the offset is a number, or a register plus a number (32 bits, wrapping)."""
    expect_operands(site, 2)
    size = size_of(site)
    if size > 8:
        raise site.unsupported("constants of 128 bits are not understood")
    operand = site.operands[1]
    if not operand.is_constant or operand.suffixes or operand.negative:
        raise site.unsupported(f"the constant {operand.text} is not understood")
    bank, data, register, number = site.constant(operand)
    units = data[: len(data) // size * size].view(UNITS[size])
    extend = extended(site, size)
    store = site.destination64(0) if size == 8 else site.destination(0)
    what = f"{sized(size, 'load')} at constant offset"

    if register is None or register.is_constant:
        offset = number
        if offset % size or offset + size > len(data):
            raise site.unsupported(f"{what} {offset:#x} of a bank of {len(data)} bytes")
        site.expect_known(bank, offset)
        place = slice(offset // size, offset // size + 1)
        return lambda mask: store(extend(units[place])[0], mask)

    lanes = site.lanes.file(register.file)[register.number]
    add = np.uint32(number & 0xFFFFFFFF)
    shift = np.uint32(size.bit_length() - 1)

    def step(mask: Mask) -> None:
        offsets = lanes + add
        if mask is not None:
            offsets = np.where(mask, offsets, np.uint32(0))
        bad = (offsets & np.uint32(size - 1) != 0) | (offsets >= len(units) << int(shift))
        if bad.any():
            lane = int(bad.argmax())
            offset = int(offsets[lane])
            if offset % size:
                right = f"a multiple of {size} is right for it"
            else:
                right = f"constant bank {bank} has {counted(len(data))}"
            raise ExecutionError(site.instruction, lane, f"{what} {offset:#x}", right)
        store(extend(units[(offsets >> shift).astype(np.int64)]), mask)

    return step
