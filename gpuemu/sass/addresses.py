"""Address operands: `[R2]`, `[R2.64+0x10]`, `[R2.X4+UR4+-0x8]`, `[R2.U32+UR4]`, `desc[UR4][R2.64]`, `[0x40]`.

- Shared and local addresses are 32-bit sums of a register (times 4, 8 or 16 where it says .X4, .X8, .X16), a
  uniform register and a number; they wrap.
- Global and generic addresses (.E) are 64 bits: `[R2]` and `[R2.64]` are the pair R2, R3; `[UR4]` is the pair
  UR4, UR5; `[R2.U32+UR4]` is R2 zero-extended plus that pair; the number is sign-extended.
- `desc[UR4]` chooses cache policy and address checks; it does not change the address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.lanes import RZ, URZ, Lanes
from gpuemu.sass.operands import Site

AddressGetter = Callable[[], NDArray[Any]]
"""Gives the address of each lane: uint32 or uint64 [lanes]. It may be a register itself: do not write to it."""

_OPERAND = re.compile(r"(?:desc\[UR(?:\d+|Z)\])?\[([^\[\]]+)\]\Z")
_TERM = re.compile(r"(UR|R)(\d+|Z)((?:\.\w+)*)\Z")
_NUMBER = re.compile(r"-?0x[0-9a-f]+\Z")
_SCALES = {(): 0, ("X4",): 2, ("X8",): 3, ("X16",): 4}


@dataclass(frozen=True)
class _Sum:
    """The terms of an address: a register, a uniform register, their suffixes, a number."""

    register: int | None
    suffixes: tuple[str, ...]
    uniform: int | None
    uniform_suffixes: tuple[str, ...]
    number: int


def _parse(site: Site, k: int) -> _Sum:
    text = site.operands[k].text
    match = _OPERAND.match(text)
    if match is None:
        raise site.unsupported(f"operand {text} is no address that is understood")
    registers: dict[str, tuple[int, tuple[str, ...]]] = {}
    number = 0
    for term in match[1].split("+"):
        if _NUMBER.match(term):
            number += int(term, 16)
            continue
        part = _TERM.match(term)
        if part is None or part[1] in registers:
            raise site.unsupported(f"the address {text} is not understood")
        last = URZ if part[1] == "UR" else RZ
        suffixes = tuple(s for s in part[3].split(".")[1:] if s != "reuse")
        registers[part[1]] = (last if part[2] == "Z" else int(part[2]), suffixes)
    register, suffixes = registers.get("R", (None, ()))
    uniform, uniform_suffixes = registers.get("UR", (None, ()))
    return _Sum(register, suffixes, uniform, uniform_suffixes, number)


def address32(site: Site, k: int, origin: int = 0) -> AddressGetter:
    """Operand k as 32-bit addresses that count from `origin`: uint32 [lanes]."""
    parts = _parse(site, k)
    lanes = site.lanes
    if parts.suffixes not in _SCALES or parts.uniform_suffixes:
        raise site.unsupported(f"the address {site.operands[k].text} is not understood")
    number = np.uint32((parts.number - origin) & 0xFFFFFFFF)
    uniform = None if parts.uniform is None else lanes.uniform_registers[parts.uniform]
    if parts.register is None:
        base = np.zeros(lanes.count, dtype=np.uint32) if uniform is None else uniform
        uniform = None
    else:
        base = lanes.registers[parts.register]
    shift = np.uint32(_SCALES[parts.suffixes])

    def get() -> NDArray[Any]:
        address = base
        if shift:
            address = address << shift
        if uniform is not None:
            address = address + uniform
        if number:
            address = address + number
        return address

    return get


def address64(site: Site, k: int) -> AddressGetter:
    """Operand k as 64-bit addresses: uint64 [lanes]."""
    parts = _parse(site, k)
    lanes = site.lanes
    text = site.operands[k].text
    if not site.has("E"):
        raise site.unsupported("a 32-bit global address is not understood")
    if parts.uniform_suffixes not in ((), ("64",)):
        raise site.unsupported(f"the address {text} is not understood")
    number = np.uint64(parts.number & 0xFFFF_FFFF_FFFF_FFFF)
    terms: list[AddressGetter] = []
    if parts.register is not None:
        if parts.suffixes == ("U32",):
            word = lanes.registers[parts.register]
            terms.append(lambda: word.astype(np.uint64))
        elif parts.suffixes == ("64",) or (parts.suffixes == () and parts.uniform is None):
            terms.append(_pair(lanes, lanes.registers, parts.register))
        else:
            raise site.unsupported(f"the address {text} is not understood")
    if parts.uniform is not None:
        terms.append(_pair(lanes, lanes.uniform_registers, parts.uniform))
    if not terms:
        fixed = np.full(lanes.count, number, dtype=np.uint64)
        return lambda: fixed
    first, *others = terms

    def get() -> NDArray[Any]:
        address = first()
        for other in others:
            address = address + other()
        if number:
            address += number
        return address

    return get


def _pair(lanes: Lanes, file: NDArray[np.uint32], number: int) -> AddressGetter:
    """Two consecutive registers as fresh uint64 [lanes]; RZ and URZ are 0."""
    count = lanes.count
    if number == len(file) - 1:
        return lambda: np.zeros(count, dtype=np.uint64)
    low, high = file[number], file[number + 1]

    def get() -> NDArray[Any]:
        words = np.empty((count, 2), dtype=np.uint32)
        words[:, 0] = low
        words[:, 1] = high
        return words.view(np.uint64)[:, 0]

    return get
