"""The instruction descriptor of tcgen05.mma (sm_100): 32 bits that give a product's shape and types.

    bits 0-1   which metadata of a sparse A    bits 13, 14  A, B negative
    bit  2     A is sparse                     bits 15, 16  A, B transposed: K runs along the rows of shared memory
    bit  3     sums of integers saturate       bits 17-22   N / 8
    bits 4-5   type of D; or, with scales,     bit  23      scales are powers of two (ue8m0), not ue4m3
               which byte has B's scale        bits 24-28   M / 16
    bits 7-9   type of A                       bits 29-30   which byte has A's scale
    bits 10-12 type of B                       bit  31      K is 96 (packed floats of 4 bits, sm_103)

A weight-stationary product (.ws) has the largest shift of its columns in bits 30-31: 0, 8, 16 or 32.

A product multiplies 32 bytes of each stored row of A. A sparse A stores half of its elements, so that B has 64 bytes of
each column.

Source: the tables of the PTX manual, chapter tcgen05, matrix shape and instruction descriptor.
"""

from __future__ import annotations

from typing import NamedTuple

A_BYTES = 32
"""The bytes of a stored row of A that a product multiplies, whatever the type; as many of a column of a dense B."""
SHIFTS = (0, 8, 16, 32)
"""The largest shift of the columns of .ws, by its number."""
HALF_TYPES = {0: "f16", 1: "bf16", 2: "tf32"}
NARROW_TYPES = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
BYTE_TYPES = {0: "u8", 1: "s8"}
PACKED_TYPES = {1: "e2m1", 5: "e2m1"}
_TYPES = {"UTCHMMA": HALF_TYPES, "UTCQMMA": NARROW_TYPES, "UTCIMMA": BYTE_TYPES, "UTCOMMA": PACKED_TYPES}
_SUMS = {0: "f16", 1: "f32", 2: "s32"}
BITS = {"tf32": 32, "f16": 16, "bf16": 16}
"""The bits of an element in shared memory, where they are not 8. Packed numbers of 4 bits count as bytes, too."""


class InstructionDescriptor(NamedTuple):
    """A product D [m, n] of A [m, k] and B [n, k]; pairs are those of A and B."""

    m: int
    n: int
    accumulator: str
    types: tuple[str, str]
    negative: tuple[bool, bool]
    transposed: tuple[bool, bool]
    sparse: bool
    saturates: bool
    scale_bytes: tuple[int, int]
    powers_of_two: bool
    selector: int
    most_shift: int
    longer: bool
    """K is 96 instead of 64."""

    @property
    def halves(self) -> bool:
        """Whether metadata of a sparse A is in halves of a column; see `tensor_layouts`."""
        return self.types[0] in BITS


def decode(bits: int, mnemonic: str, scaled: bool) -> InstructionDescriptor | None:
    """Decode a descriptor of a UTCHMMA, UTCQMMA, UTCIMMA or UTCOMMA; None for a type that does not exist."""
    known = _TYPES[mnemonic]
    types = tuple(known.get(bits >> at & 7, "") for at in (7, 10))
    accumulator = "f32" if scaled else _SUMS.get(bits >> 4 & 3, "")
    if not all(types) or not accumulator or (accumulator == "s32") != (mnemonic == "UTCIMMA"):
        return None
    if mnemonic == "UTCHMMA" and len({BITS[kind] for kind in types}) > 1:
        return None
    flags = [bool(bits >> at & 1) for at in range(32)]
    return InstructionDescriptor(
        m=(bits >> 24 & 31) * 16, n=(bits >> 17 & 63) * 8, accumulator=accumulator, types=(types[0], types[1]),
        negative=(flags[13], flags[14]), transposed=(flags[15], flags[16]), sparse=flags[2],
        saturates=flags[3] and mnemonic == "UTCIMMA", scale_bytes=(bits >> 29 & 3, bits >> 4 & 3),
        powers_of_two=flags[23], selector=bits & 3, most_shift=SHIFTS[bits >> 30],
        longer=flags[31] and mnemonic == "UTCOMMA",
    )  # fmt: skip


def exists(said: InstructionDescriptor, ctas: int, stationary: bool, scaled: bool) -> bool:
    """Whether there is a product of this shape. `stationary`: .ws; `scaled`: with block scales."""
    m, n = said.m, said.n
    if stationary:
        return not scaled and ctas == 1 and m in (32, 64, 128) and n in ((64, 128) if said.sparse else (64, 128, 256))
    if m not in {1: (64, 128), 2: (128, 256)}[ctas] or (scaled and m < (128 if not said.sparse else 128 * ctas)):
        return False
    step = 8 * ctas
    if said.accumulator == "s32" and (ctas == 2 or n > 32):
        step *= 2
    return 0 < n <= 256 and n % step == 0
