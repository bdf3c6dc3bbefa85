"""Bitwise logic by truth tables, byte permutation, bit fields and bit counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import (
    as_signed,
    fixed_predicate,
    immediate,
    integer,
    operand_count,
    parts,
)
from gpuemu.sass.semantics.truth_tables import constant_input, function

_ALL = np.uint32(0xFFFFFFFF)
_BYTE = np.arange(256, dtype=np.uint8)
_REVERSED = np.packbits(np.unpackbits(_BYTE[:, None], axis=1)[:, ::-1], axis=1)[:, 0]
_ONES = np.unpackbits(_BYTE[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_TOP, _WRAP = np.uint32(32), np.uint32(31)
_BYTES, _TOP_BYTE = np.array(0x01010101, dtype=np.uint32), np.array(24, dtype=np.uint32)


@semantics("LOP3", "ULOP3")
def lop3(site: Site) -> Step:
    """LOP3.LUT [Pu,] Rd, a, b, c, table, Pp: bit 4a + 2b + c of the table, for each bit.

    Pu is true if Pp is or the result is not 0; with .PAND, if both are so.
    """
    site.only("LUT", "PAND")
    with_predicate = site.is_predicate(0)
    at = 1 if with_predicate else 0
    operand_count(site, at + 6)
    table = immediate(site, at + 4)
    if not site.has("LUT") or table is None or not 0 <= table < 256:
        raise site.unsupported("this truth table")
    sources = [integer(site, at + 1 + i) for i in range(3)]
    for i in range(3):
        if immediate(site, at + 1 + i) == 0:
            table = constant_input(table, i, False)
    compute = function(table)
    get_a, get_b, get_c = sources
    store = site.destination(at)
    if not with_predicate:

        def step(mask: Mask) -> None:
            store(compute(get_a(), get_b(), get_c()), mask)

        return step
    set_predicate, get_other = site.set_predicate(0), site.predicate(at + 5)
    both = site.has("PAND")
    alone = fixed_predicate(site, at + 5) is both  # true of PT with AND, of !PT with OR

    def step_with_predicate(mask: Mask) -> None:
        result = compute(get_a(), get_b(), get_c())
        outcome = result != 0
        if not alone:
            outcome = outcome & get_other() if both else outcome | get_other()
        store(result, mask)
        set_predicate(outcome, mask)

    return step_with_predicate


_LOP_TABLES = {"AND": 0xC0, "OR": 0xFC, "XOR": 0x3C, "PASS_B": 0xCC}


@semantics("LOP", "LOP32I")
def lop(site: Site) -> Step:
    """LOP.AND|OR|XOR|PASS_B Rd, a, b, either inverted with ~."""
    site.only(*_LOP_TABLES)
    operand_count(site, 3)
    if len(site.modifiers) != 1:
        raise site.unsupported("this form of logic")
    compute = function(_LOP_TABLES[site.modifiers[0]])
    store, get_a, get_b = site.destination(0), integer(site, 1, "~"), integer(site, 2, "~")
    return lambda mask: store(compute(get_a(), get_b(), np.uint32(0)), mask)


# -- bytes --------------------------------------------------------------------------------------------------

_PRMT_MODES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543),
    "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210),
    "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""The selectors that the low two bits of the selector stand for in each mode, as PTX tells of prmt."""


@semantics("PRMT", "UPRMT")
def prmt(site: Site) -> Step:
    """PRMT[.mode] Rd, a, selector, c: each nibble selects one of the bytes 0 to 3 of a and 4 to 7 of c.

    Bit 3 of a nibble: the sign of the byte, eight times.
    """
    site.only(*_PRMT_MODES)
    operand_count(site, 4)
    store, get_a, get_c = site.destination(0), integer(site, 1), integer(site, 3)
    selectors = _PRMT_MODES[site.modifiers[0]] if site.modifiers else None
    known = immediate(site, 2)
    if known is None:
        return _permute_by_lanes(site, selectors)
    selector = known & 0xFFFF if selectors is None else selectors[known & 3]
    nibbles = [selector >> 4 * i & 15 for i in range(4)]
    halves = (nibbles[0], nibbles[1]), (nibbles[2], nibbles[3])
    width = 2 if all(low < 8 and low % 2 == 0 and high == low + 1 for low, high in halves) else 1
    kind: Any = np.uint16 if width == 2 else np.uint8
    moves = [(i // width, n // width) for i, n in enumerate(nibbles) if i % width == 0]
    count, of_a = site.lanes.count, 4 // width

    def step(mask: Mask) -> None:
        a, c = parts(get_a(), kind), parts(get_c(), kind)
        result = np.empty(count, dtype=np.uint32)
        out = result.view(kind).reshape(count, of_a)
        for to, at in moves:
            part = (a, c)[at // of_a % 2][:, at % of_a]
            out[:, to] = part if at < 2 * of_a else part.view(np.int8) >> 7
        store(result, mask)

    return step


def _permute_by_lanes(site: Site, selectors: tuple[int, ...] | None) -> Step:
    """A selector that the code does not say."""
    store, get_a, get_selector, get_c = site.destination(0), site.source(1), integer(site, 2), site.source(3)
    count = site.lanes.count
    table = None if selectors is None else np.array(selectors, dtype=np.uint32)
    nibble = np.arange(0, 16, 4, dtype=np.uint32)[:, None]
    words = np.empty((count, 2), dtype=np.uint32)
    source = words.view(np.uint8).reshape(-1)
    first = np.arange(0, 8 * count, 8, dtype=np.uint32)

    def step(mask: Mask) -> None:
        choice = np.broadcast_to(get_selector(), count)
        if table is not None:
            choice = table[choice & 3]
        wanted = choice >> nibble & 15  # [byte of the result, lane]
        words[:, 0], words[:, 1] = get_a(), get_c()
        found = source.take((wanted & 7) + first)
        signs = (found.view(np.int8) >> 7).view(np.uint8)
        chosen = np.where(wanted > 7, signs, found)
        store(np.ascontiguousarray(chosen.T).view(np.uint32)[:, 0], mask)

    return step


# -- bit fields ---------------------------------------------------------------------------------------------


def _reduced(get: Getter, wrap: bool) -> Getter:
    """A width modulo 32, or at most 32."""
    if wrap:
        return lambda: get() & _WRAP
    return lambda: np.minimum(get(), _TOP)


@semantics("BMSK", "UBMSK")
def bmsk(site: Site) -> Step:
    """BMSK Rd, a, b: b ones from bit a upwards, as far as the word goes; .W takes both modulo 32."""
    site.only("W")
    operand_count(site, 3)
    store = site.destination(0)
    get_position, get_width = (_reduced(integer(site, k), site.has("W")) for k in (1, 2))

    def step(mask: Mask) -> None:
        position = get_position()
        start = _ALL << position
        store(start & ~(_ALL << position + get_width()), mask)

    return step


@semantics("SGXT", "USGXT")
def sgxt(site: Site) -> Step:
    """SGXT Rd, a, b: the low b bits of a, sign extended, with .U32 zero extended; .W takes b modulo 32."""
    site.only("W", "U32")
    operand_count(site, 3)
    store, get, unsigned = site.destination(0), integer(site, 1), site.has("U32")
    get_width = _reduced(integer(site, 2), site.has("W"))

    def step(mask: Mask) -> None:
        width = get_width()
        if unsigned:
            store(get() & ~(_ALL << width), mask)
        else:
            unused = as_signed(_TOP - width)
            store((as_signed(get()) << unused >> unused).view(np.uint32), mask)

    return step


# -- bit counts ---------------------------------------------------------------------------------------------


@semantics("POPC", "UPOPC")
def popc(site: Site) -> Step:
    """POPC Rd, a: how many bits are 1."""
    site.only()
    operand_count(site, 2)
    store, get = site.destination(0), integer(site, 1, "~")

    def step(mask: Mask) -> None:
        ones = _ONES.take(np.atleast_1d(get()).view(np.uint8)).view(np.uint32)
        ones *= _BYTES  # the highest byte gets the sum of all
        ones >>= _TOP_BYTE
        store(ones, mask)

    return step


@semantics("BREV", "UBREV")
def brev(site: Site) -> Step:
    """BREV Rd, a: the bits in reverse order."""
    site.only()
    operand_count(site, 2)
    store, get = site.destination(0), integer(site, 1, "~")

    def step(mask: Mask) -> None:
        store(_REVERSED.take(np.atleast_1d(get()).byteswap().view(np.uint8)).view(np.uint32), mask)

    return step


@semantics("FLO", "UFLO")
def flo(site: Site) -> Step:
    """FLO.U32 Rd, a: the position of the highest 1; FLO of the highest bit that differs from the sign.

    .SH: 31 less that, the distance that shifts it to the top. Without such a bit: all ones, as bfind has it.
    """
    site.only("U32", "SH")
    operand_count(site, 2)
    store, get = site.destination(0), integer(site, 1, "~")
    unsigned, distance = site.has("U32"), site.has("SH")

    def step(mask: Mask) -> None:
        values = get()
        if not unsigned:
            values = values ^ (as_signed(values) >> 31).view(np.uint32)
        top = np.frexp(values.astype(np.float64))[1] - np.int32(1)  # -1 of 0
        if distance:
            top = np.where(top < 0, top, 31 - top)
        store(np.asarray(top, dtype=np.int32).view(np.uint32), mask)

    return step
