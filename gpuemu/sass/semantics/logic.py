"""Bitwise logic by truth tables, byte permutation, bit fields and bit counts."""

from __future__ import annotations

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import immediate, operand_count
from gpuemu.sass.semantics.lanewise import LaneStep, Read, constant, truth, word, zero


def terms_of(table: int) -> int:
    """Convert a table of three bits, whose bit 4a + 2b + c is the value, to the form of `integers.logic`."""
    found = [table >> (4 * (k & 1) + (k & 2) + (k >> 2)) & 1 for k in range(8)]
    for step in (1, 2, 4):
        for k in range(8):
            if k & step:
                found[k] ^= found[k ^ step]
    return sum(bit << k for k, bit in enumerate(found))


def without_input(table: int, which: int) -> int:
    """Return the table of the same function with input `which` (0 for a) fixed at 0."""
    return sum(1 << k for k in range(8) if table >> (k & ~(4 >> which)) & 1)


@semantics("LOP3", "ULOP3")
def lop3(site: Site) -> Step:
    """LOP3.LUT [Pu,] Rd, a, b, c, table, Pp: bit 4a + 2b + c of the table, for each bit.

    Pu is true if Pp is true or the result is not 0; with .PAND, if both are.
    """
    site.only("LUT", "PAND")
    with_predicate = site.is_predicate(0)
    at = 1 if with_predicate else 0
    operand_count(site, at + 6)
    table = immediate(site, at + 4)
    if not site.has("LUT") or table is None or not 0 <= table < 256:
        raise site.unsupported("this truth table")
    for i in range(3):
        if immediate(site, at + 1 + i) == 0:
            table = without_input(table, i)
    reads: list[Read] = [word(site, at + 1), word(site, at + 2), word(site, at + 3)]
    if not with_predicate:
        return LaneStep(site, integers.logic, [*reads, terms_of(table)], [0])
    both = int(site.has("PAND"))
    return LaneStep(site, integers.logic_predicate, [*reads, truth(site, at + 5), terms_of(table), both], [1, 0])


_LOP_TABLES = {"AND": 0xC0, "OR": 0xFC, "XOR": 0x3C, "PASS_B": 0xCC}


@semantics("LOP", "LOP32I")
def lop(site: Site) -> Step:
    """LOP.AND|OR|XOR|PASS_B Rd, a, b; ~ inverts an operand."""
    site.only(*_LOP_TABLES)
    operand_count(site, 3)
    if len(site.modifiers) != 1:
        raise site.unsupported("this form of logic")
    terms = terms_of(_LOP_TABLES[site.modifiers[0]])
    return LaneStep(site, integers.logic, [word(site, 1, "~"), word(site, 2, "~"), zero(), terms], [0])


# -- bytes --------------------------------------------------------------------------------------------------

_PRMT_MODES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543),
    "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210),
    "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""The byte selection for the low two bits of the selector in each mode, as PTX defines prmt."""


@semantics("PRMT", "UPRMT")
def prmt(site: Site) -> Step:
    """PRMT[.mode] Rd, a, selector, c: each nibble selects one of bytes 0 to 3 of a and 4 to 7 of c.

    Bit 3 of a nibble replicates the sign of the byte eight times.
    """
    site.only(*_PRMT_MODES)
    operand_count(site, 4)
    selectors = _PRMT_MODES[site.modifiers[0]] if site.modifiers else None
    known = immediate(site, 2)
    if selectors is None:
        selector = word(site, 2)
    elif known is not None:
        selector = constant(selectors[known & 3])
    else:
        reads: list[Read] = [word(site, 1), word(site, 2), word(site, 3), *selectors]
        return LaneStep(site, integers.permute_by_mode, reads, [0])
    return LaneStep(site, integers.permute, [word(site, 1), selector, word(site, 3)], [0])


# -- bit fields and counts ----------------------------------------------------------------------------------


@semantics("BMSK", "UBMSK")
def bmsk(site: Site) -> Step:
    """BMSK Rd, a, b: b ones from bit a upward, limited to the word. .W takes both modulo 32."""
    site.only("W")
    operand_count(site, 3)
    return LaneStep(site, integers.mask_of, [word(site, 1), word(site, 2), int(site.has("W"))], [0])


@semantics("SGXT", "USGXT")
def sgxt(site: Site) -> Step:
    """SGXT Rd, a, b: sign-extend the low b bits of a. .U32 extends with zeros, and .W takes b modulo 32."""
    site.only("W", "U32")
    operand_count(site, 3)
    how = [int(site.has("W")), int(not site.has("U32"))]
    return LaneStep(site, integers.extend, [word(site, 1), word(site, 2), *how], [0])


@semantics("POPC", "UPOPC")
def popc(site: Site) -> Step:
    """POPC Rd, a: the number of bits that are 1."""
    site.only()
    operand_count(site, 2)
    return LaneStep(site, integers.count_ones, [word(site, 1, "~")], [0])


@semantics("BREV", "UBREV")
def brev(site: Site) -> Step:
    """BREV Rd, a: the bits in reverse order."""
    site.only()
    operand_count(site, 2)
    return LaneStep(site, integers.reverse, [word(site, 1, "~")], [0])


@semantics("FLO", "UFLO")
def flo(site: Site) -> Step:
    """FLO.U32 Rd, a: the position of the highest 1. FLO: the position of the highest bit unlike the sign.

    .SH returns 31 minus the position, the distance that shifts that bit to the top. Without such a bit, the result is
    all ones, as for bfind.
    """
    site.only("U32", "SH")
    operand_count(site, 2)
    how = [int(not site.has("U32")), int(site.has("SH"))]
    return LaneStep(site, integers.leading_one, [word(site, 1, "~"), *how], [0])
