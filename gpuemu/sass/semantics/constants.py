"""LDC and ULDC: loads from constant banks."""

from __future__ import annotations

import re

import numpy as np

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.spaces import counted, sized
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands, extended, size_of

_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(?:((?:UR|R)(?:\d+|Z))(?:\+(-?0x[0-9a-f]+))?|(0x[0-9a-f]+))\]\Z")


@semantics("LDC", "ULDC")
def load_constant(site: Site) -> Step:
    """LDC Rd, c[bank][offset]; the offset is a number, or a register plus a number (32 bits, wrapping)."""
    expect_operands(site, 2)
    size = size_of(site)
    if size > 8:
        raise site.unsupported("constants of 128 bits are not understood")
    text = site.operands[1].text
    match = _CONSTANT.match(text)
    if match is None:
        raise site.unsupported(f"the constant {text} is not understood")
    bank, register, plus, fixed = match.groups()
    data = site.environment.constants.get(int(bank, 16))
    if data is None:
        raise site.unsupported(f"constant bank {int(bank, 16)}, which the cubin does not have")
    units = data[: len(data) // size * size].view(UNITS[size])
    extend = extended(site, size)
    store = site.destination64(0) if size == 8 else site.destination(0)
    what = f"{sized(size, 'load')} at constant offset"

    if register is None or register.endswith("Z"):
        offset = int(fixed or plus or "0x0", 16)
        if offset % size or offset + size > len(data):
            raise site.unsupported(f"{what} {offset:#x} of a bank of {len(data)} bytes")
        site.expect_known(int(bank, 16), offset)
        place = slice(offset // size, offset // size + 1)
        return lambda mask: store(extend(units[place])[0], mask)

    lanes = site.environment.register_lanes(register)
    add = np.uint32(int(plus or "0x0", 16) & 0xFFFFFFFF)
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
                right = f"constant bank {int(bank, 16)} has {counted(len(data))}"
            raise ExecutionError(site.instruction, lane, f"{what} {offset:#x}", right)
        store(extend(units[(offsets >> shift).astype(np.int64)]), mask)

    return step
