"""Compiled products of a sparse A of 16-bit floats whose rows choose among B's by a permutation of the processor's.

Half as many products as with an A that is spread out, whose other half are zeros; see `tensor_fragments`. Element e of
A's word, of its lanes 4 g + t in chunk c, is one of the rows 4 (4 c + t) to 4 (4 c + t) + 3 of B, which are half of the
eight rows of B's chunk 2 c + t / 2. Those lie there by column, for each column eight numbers in order.
"""

from __future__ import annotations

from typing import Any

from gpuemu.tensor.fragments import Plan, metadata_by_row
from gpuemu.tensor.kernel_elements import PAIRS, Rooms
from gpuemu.tensor.vector_code import F32, I32, Code, Variable, Vector, permuted, pick, vector

_FLOATS = vector(F32, 16)
_ROWS = 8
"""Of B in a chunk."""


def choose(code: Code, plan: Plan, rooms: Rooms) -> None:
    """The places of A's elements among the eight rows of a chunk, two in a word; and B's values by column."""
    nibble = metadata_by_row(code, plan)
    with code.loop(plan.chunks_of_a * 4) as word:
        of = nibble(word)
        places = (of & 3) + ((of & 12) << 14) + ((word & 1) * (4 * 0x10001)).to(I32)
        code.store(places, rooms.places + word * 64, align=64)
    with code.loop(plan.slot("chunks")) as chunk:
        at = rooms.b + chunk * 256
        even, odd = ([code.load(_FLOATS, at + 128 * e + 64 * k, align=64) for k in range(2)] for e in range(2))
        for k in range(2):
            for half in range(2):
                order = [8 * half + lane + 16 * e for lane in range(8) for e in range(2)]
                code.store(pick(even[k], odd[k], order), at + 128 * k + 64 * half, align=64)


def raise_to_chosen(code: Code, rooms: Rooms, first: Vector, chunks: Vector, tops: list[Variable]) -> None:
    """The largest exponents of products of a block, whose first chunk of B and number of chunks are given."""
    with code.loop(chunks * 2) as number:
        word = first * 2 + number
        exponents = code.load(PAIRS, rooms.a_exponents + word * 64, align=64)
        places = code.load(PAIRS, rooms.places + word * 64, align=64)
        chunk = rooms.b_exponents + word.logical_shift(1) * 128
        others = [code.load(PAIRS, chunk + 64 * k, align=64) for k in range(2)]
        for k, top in enumerate(tops):
            other = permuted(others[k // 4], places + _ROWS * (k % 4))
            top.set(top.get().largest(exponents + other))


def add_chosen(
    code: Code, rooms: Rooms, first: Vector, chunks: Vector, scales: list[Vector], totals: list[Variable], real: Any
) -> None:
    """The products of such a block."""
    with code.loop(chunks * 2) as number:
        word = first * 2 + number
        both = code.load(PAIRS, rooms.places + word * 64, align=64).as_bits(I32)
        chunk = rooms.b + word.logical_shift(1) * 256
        others = [code.load(_FLOATS, chunk + 64 * k, align=64) for k in range(4)]
        for e in range(2):
            at = (word.logical_shift(2) * 2 + e) * 4 + (word & 3)
            values = code.load(_FLOATS, rooms.a + at * 64, align=64).to(real)
            places = both.logical_shift(16 * e)
            for k, total in enumerate(totals):
                other = permuted(others[k // 2], places + _ROWS * (k % 2)).to(real)
                total.set(total.get() + (values * other * scales[k]).to(I32))
