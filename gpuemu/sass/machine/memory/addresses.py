"""Address operands: `[R2]`, `[R2.64+0x10]`, `[R2.X4+UR4+-0x8]`, `[R2.U32+UR4]`, `desc[UR4][R2.64]`, `[0x40]`.

- Shared and local addresses are 32-bit sums of a register (times 4, 8 or 16 with .X4, .X8, .X16), a uniform register
  and a number; they wrap.
- Global and generic addresses (.E) are 64 bits: `[R2]` and `[R2.64]` are the pair R2, R3; `[UR4]` is the pair UR4, UR5;
  `[R2.U32+UR4]` is R2 zero-extended plus that pair; the number is sign-extended.
- `desc[UR4]` selects the cache policy and address checks; it does not change the address.

In nearly all code, lanes differ only in the low word of one register. The high word and uniform registers have the same
value in all lanes. Therefore the pattern of the addresses is that of one register, and everything else is part of the
base.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import Register
from gpuemu.sass.machine.lanes import RZ, Lanes, Mask
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.patterns import Pattern, Place

SCALES = {(): 0, ("X4",): 2, ("X8",): 3, ("X16",): 4}
_LOW = 0xFFFF_FFFF
_ALL = 0xFFFF_FFFF_FFFF_FFFF

Words = NDArray[np.uint32]


def address_terms(site: Site, k: int) -> tuple[Register | None, Register | None, int]:
    """Return the terms of an address: a register, a uniform register, a number."""
    operand = site.operands[k]
    inside = operand.address
    if inside is None:
        raise site.unsupported(f"operand {operand.text} is not a supported address")
    found = inside.of("R"), inside.of("UR")
    if inside.unknown or len(inside.registers) != sum(register is not None for register in found):
        raise site.unsupported(f"the address {operand.text} is not understood")
    return *found, inside.number or 0


class _Common:
    """A register that usually has one value in all lanes."""

    def __init__(self, row: Words, shift: int):
        self.row = row
        self.shift = shift
        self._bytes = b""
        self._value: int | None = None

    def value(self) -> int | None:
        """Return its value, shifted to its position in the address; None if it differs between lanes."""
        now = self.row.tobytes()
        if now != self._bytes:
            self._bytes = now
            same = now == now[:4] * len(self.row)
            self._value = self.row.item(0) << self.shift if same else None
        return self._value


class Addresses:
    """The addresses of an operand: a register `row` (times 2^scale), registers in `common`, and a number."""

    def __init__(self, site: Site, row: Words, scale: int, common: list[_Common], number: int, bits: int):
        self._patterns = site.environment.patterns
        self._row = row
        self._first = row[:1].reshape(())
        self._scale = np.uint32(scale) if scale else None
        self._common = common
        self._number = number
        self.bits = bits
        self._limit = _LOW if bits == 32 else _ALL
        self._pattern: Pattern = self._patterns.place(np.zeros(0, np.uint32), None, b"").pattern

    def of(self, mask: Mask) -> Place:
        """Return the addresses of the mask's lanes."""
        row, lanes, mask_name = self._row, None, b""
        if mask is None and self._scale is None:
            name = (row - self._first).tobytes()
        else:
            if self._scale is not None:
                row = row << self._scale
            if mask is not None:
                mask_name = mask.tobytes()
                known = self._pattern
                if known.lanes is None or known.mask_name != mask_name:
                    lanes = self._patterns.lanes(mask, mask_name)
                else:
                    lanes = known.lanes
                row = row.take(lanes)
                if not len(row):
                    return self._patterns.place(row, lanes, mask_name)
            name = (row - row[0]).tobytes()
        pattern = self._pattern
        if name != pattern.name or mask_name != pattern.mask_name:
            pattern = self._pattern = self._patterns.find(np.frombuffer(name, np.int32), lanes, mask_name, name)
        first = row.item(0)
        base = first + self._number
        for register in self._common:
            value = register.value()
            if value is None:
                return self._any_place(mask, mask_name)
            base += value
        # Distances are computed in 32 bits. They are the same in 64 bits only if no lane's low word wraps.
        if self.bits == 64 and (first + pattern.low < 0 or first + pattern.high > _LOW):
            return self._any_place(mask, mask_name)
        return Place(base & self._limit, pattern)

    def _any_place(self, mask: Mask, mask_name: bytes) -> Place:
        lanes = None if mask is None else self._patterns.lanes(mask, mask_name)
        addresses = self.every()
        return self._patterns.place(addresses if lanes is None else addresses[lanes], lanes, mask_name)

    def every(self) -> NDArray[Any]:
        """Return the addresses of all lanes of the CTA, active or not: uint32 or uint64 [lanes]."""
        kind: Any = np.uint32 if self.bits == 32 else np.uint64
        total: NDArray[Any] = (self._row << (self._scale or np.uint32(0))).astype(kind) + kind(
            self._number & self._limit
        )
        for register in self._common:
            total = total + (register.row.astype(kind) << kind(register.shift))
        return total


def address32(site: Site, k: int, origin: int = 0) -> Addresses:
    """Return operand k as 32-bit addresses that count from `origin`."""
    register, uniform, number = address_terms(site, k)
    lanes = site.lanes
    scale = SCALES.get(() if register is None else register.suffixes)
    if scale is None or (uniform is not None and uniform.suffixes):
        raise site.unsupported(f"the address {site.operands[k].text} is not understood")
    row = lanes.registers[RZ if register is None else register.number]
    common = [] if uniform is None else [_Common(lanes.uniform_registers[uniform.number], 0)]
    return Addresses(site, row, scale, common, number - origin, 32)


def address64(site: Site, k: int) -> Addresses:
    """Return operand k as 64-bit addresses."""
    register, uniform, number = address_terms(site, k)
    lanes = site.lanes
    text = site.operands[k].text
    if not site.has("E"):
        raise site.unsupported("a 32-bit global address is not understood")
    if uniform is not None and uniform.suffixes not in ((), ("64",)):
        raise site.unsupported(f"the address {text} is not understood")
    row = lanes.registers[RZ if register is None else register.number]
    common: list[_Common] = []
    if register is not None and register.suffixes != ("U32",):
        if register.suffixes != ("64",) and (register.suffixes or uniform is not None):
            raise site.unsupported(f"the address {text} is not understood")
        common += _high_word(lanes, lanes.registers, register.number)
    if uniform is not None:
        common.append(_Common(lanes.uniform_registers[uniform.number], 0))
        common += _high_word(lanes, lanes.uniform_registers, uniform.number)
    return Addresses(site, row, 0, common, number, 64)


def _high_word(lanes: Lanes, file: Words, number: int) -> list[_Common]:
    """Return the next register, as the upper half of a pair; RZ and URZ have none."""
    return [] if number == len(file) - 1 else [_Common(file[number + 1], 32)]
