"""LDC, ULDC and LDCU: loads from constant banks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import Register
from gpuemu.sass.compiled.columns import (
    BANK,
    BANK_END,
    BANK_LEAST,
    CONSTANT,
    DATA,
    OFFSET,
    OP,
    ROW,
    SIGNED,
    SIZE,
)
from gpuemu.sass.lane import integers
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Mask, any_lane, whole_warps, write
from gpuemu.sass.machine.memory.spaces import counted, sized
from gpuemu.sass.machine.memory.storage import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands, extended, size_of
from gpuemu.sass.semantics.lanewise import (
    UNIFORM_ROWS,
    Columns,
    EncodedStep,
    LaneStep,
    constant,
    constant_pair,
    row_written,
)


@semantics("LDC", "LDCU", "ULDC")
def load_constant(site: Site) -> Step:
    """LDC Rd, c[bank][offset]; the offset is a number, or a register plus a number (32 bits, wrapping)."""
    expect_operands(site, 2)
    size = size_of(site)
    operand = site.operands[1]
    if not operand.is_constant or operand.suffixes or operand.negative:
        raise site.unsupported(f"the constant {operand.text} is not understood")
    bank, data, register, number = site.constant(operand)
    what = f"{sized(size, 'load')} at constant offset"
    fixed = register is None or register.is_constant
    if fixed and (number % size or number + size > len(data)):
        raise site.unsupported(f"{what} {number:#x} of a bank of {len(data)} bytes")
    if fixed:
        for word in range(number, number + size, 4):
            site.expect_known(bank, word)
    if size == 16:
        if not fixed:
            raise site.unsupported("constants of 128 bits at an offset in a register are not understood")
        return _four_words(site, data[number : number + size].view(np.uint32))
    units = data[: len(data) // size * size].view(UNITS[size])
    extend = extended(site, size)
    if register is None or fixed:
        value = int(extend(units[number // size : number // size + 1])[0])
        if size == 8:
            return LaneStep(site, integers.move_pair, [constant_pair(value)], [0])
        return LaneStep(site, integers.move, [constant(value)], [0])
    store = site.destination64(0) if size == 8 else site.destination(0)
    encoded = _encoded(site, bank, units, register, number)

    lanes = site.lanes.file(register.file)[register.number]
    add = np.uint32(number & 0xFFFFFFFF)
    shift = np.uint32(size.bit_length() - 1)

    def step(mask: Mask) -> None:
        offsets = lanes + add
        if mask is not None:  # inactive lanes use the offset of an active one
            if not any_lane(mask):
                return
            offsets = np.where(mask, offsets, offsets[mask][0])
        bad = (offsets & np.uint32(size - 1) != 0) | (offsets >= len(units) << int(shift))
        if bad.any():
            lane = int(bad.argmax())
            offset = int(offsets[lane])
            if offset % size:
                right = f"expected a multiple of {size}"
            else:
                right = f"Stay within the {counted(len(data))} of constant bank {bank}"
            raise ExecutionError(site.instruction, lane, f"{what} {offset:#x}", right)
        first = int(offsets[0])
        if not site.environment.knows(bank, first):
            right = "gpuemu does not know its value: do not read it"
            raise ExecutionError(site.instruction, None, f"c[0x0][{first:#x}], a word of the driver's", right)
        store(extend(units[(offsets >> shift).astype(np.int64)]), mask)

    return step if encoded is None else EncodedStep(step, encoded)


def _encoded(site: Site, bank: int, units: NDArray[Any], register: Register, number: int) -> Columns | None:
    """Return a load at an offset in a register as numbers. Loops load only known words around `number`."""
    size, knows = units.itemsize, site.environment.knows
    if not 0 <= number < units.nbytes or not knows(bank, number):
        return None
    least, end = (0, units.nbytes) if bank else (number // 4 * 4, number // 4 * 4 + 4)
    while least and knows(bank, least - 4):
        least -= 4
    while end < units.nbytes and knows(bank, end):
        end += 4
    row = register.number + (UNIFORM_ROWS if register.file.startswith("U") else 0)
    return {
        OP: CONSTANT, SIZE: size.bit_length() - 1, SIGNED: int(site.has("S8", "S16")), ROW: row, OFFSET: number,
        DATA: row_written(site, 0), BANK: units.ctypes.data, BANK_LEAST: least, BANK_END: min(end, units.nbytes),
    }  # fmt: skip


def _four_words(site: Site, words: NDArray[Any]) -> Step:
    registers, uniform = site.words(0, 4), site.is_uniform(0)

    def step(mask: Mask) -> None:
        for register, word in zip(registers, words, strict=True):
            write(register, word, whole_warps(mask) if uniform else mask)

    return step
