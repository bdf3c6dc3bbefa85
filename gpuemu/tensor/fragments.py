"""Compiled products' way to fragments: registers of a warp to columns of A, numbers of B, and C and D by column.

Lane 4 g + t has row g. Of two registers that hold the upper and the lower eight rows, the words of one t are a
`column`: 16 rows in order (`isa.fragments`). A chunk is what a register of B holds of K: 4 words, one for each t;
of A it has two registers. All of A is brought into columns first, at `room` + 64 (4 x chunk + t). A sparse A is spread
out on the way: each word goes to the two words of B's rows that its metadata chooses, zeros go to the others. Or it
stays as it is, and B's rows are chosen instead: see `tensor_kernel_chosen`.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.tensor.plans import METADATA, SLOT, A
from gpuemu.tensor.vector_code import I1, I32, I64, Code, Variable, Vector, permutes, pick, vector

WORDS, COLUMN, TRUTHS = vector(I32, 32), vector(I32, 16), vector(I1, 16)
COLUMN_BYTES, REGISTER_BYTES = 64, 128


class Plan:
    """A plan as compiled code reads it, and which warp it is at: `offset` is that of its lanes in a register."""

    def __init__(self, code: Code, address: Vector):
        self._code = code
        self._address = address
        self._slots = {name: self._at(code.number(number)) for name, number in SLOT.items()}  # once, not for each warp
        self.offset = code.number(0)
        chosen = self.slot("chosen") if permutes() else code.number(0)
        self.chosen = chosen.compare("!=", 0)
        self.chunks_of_a = self.slot("chunks").logical_shift(chosen)
        """Pairs of its registers, or twice as many where it is spread out."""

    def slot(self, name: str) -> Vector:
        """A number."""
        return self._slots[name]

    def number(self, name: str) -> Vector:
        """A number of 32 bits."""
        return self.slot(name).to(I32)

    def register(self, first: int, number: Vector | int) -> Vector:
        """The address of the warp's lanes of a register, counted from the first of its matrix."""
        of = number if isinstance(number, Vector) else self._code.number(number)
        return self._at(of + first) + self.offset

    def words(self, first: int, number: Vector | int) -> Vector:
        """The register."""
        return self._code.load(WORDS, self.register(first, number))

    def _at(self, slot: Vector) -> Vector:
        return self._code.load(I64, self._address + slot * 8, align=8)


def each_warp(code: Code, address: Vector, body: Callable[[Plan], Vector]) -> Vector:
    """`body` of each warp of the plan; it says whether it could do it. A bit for each that it could not."""
    left = Variable(code, I64)
    left.set(0)
    plan = Plan(code, address)
    offsets = plan.slot("offsets")
    with code.loop(plan.slot("warps")) as warp:
        plan.offset = code.load(I64, offsets + warp * 8, align=8)
        bad = (body(plan) ^ 1).to(I64, signed=False)
        left.set(left.get() | bad << warp)
    return left.get()


def column(upper: Vector, lower: Vector, t: int) -> Vector:
    """The words of the lanes 4 g + t of two registers."""
    return pick(upper, lower, [4 * g + t for g in range(8)] + [32 + 4 * g + t for g in range(8)])


def register(columns: list[Vector], lower: bool) -> Vector:
    """The inverse of `column`: the register of the upper or the lower eight rows from the columns of t = 0 to 3."""
    first = 8 if lower else 0
    left = pick(columns[0], columns[1], [first + g + 16 * t for g in range(8) for t in range(2)])
    right = pick(columns[2], columns[3], [first + g + 16 * t for g in range(8) for t in range(2)])
    return pick(left, right, [2 * g + t % 2 + 16 * (t // 2) for g in range(8) for t in range(4)])


def columns_of_a(code: Code, plan: Plan, room: Vector) -> Vector:
    """A of the warp to columns; whether that could be done."""
    fine = Variable(code, I1)
    fine.set(1)
    with code.either(plan.slot("sparse").compare("==", 0) | plan.chosen) as (dense, sparse):
        with dense, code.loop(plan.chunks_of_a) as chunk:
            upper, lower = plan.words(A, chunk * 2), plan.words(A, chunk * 2 + 1)
            for t in range(4):
                code.store(column(upper, lower, t), room + (chunk * 4 + t) * COLUMN_BYTES, align=64)
        with sparse:
            fine.set(_spread(code, plan, room))
    return fine.get()


def _spread(code: Code, plan: Plan, room: Vector) -> Vector:
    """A sparse A as a dense one; False where metadata names an element twice. See `tensor_selected.sparse_rows`."""
    metadata = metadata_by_row(code, plan)
    wrong = Variable(code, TRUTHS)
    wrong.set(0)
    kinds = [plan.slot("each").compare("==", each) for each in (1, 2)]
    with code.loop(plan.slot("chunks").logical_shift(1)) as pair:
        upper, lower = plan.words(A, pair * 2), plan.words(A, pair * 2 + 1)
        for t in range(4):
            word = column(upper, lower, t)
            target = room + (pair * 8 + (t // 2 * 4 + t % 2 * 2)) * COLUMN_BYTES
            with code.either(kinds[0] | kinds[1]) as (wide, bytes_):
                with wide:
                    nibble = metadata(pair * 4 + t)
                    with code.either(kinds[0]) as (words, halves):
                        with words:
                            second = (nibble & 2).compare("!=", 0)
                            found = second.choose(word & 0, word), second.choose(word, 0)
                            _store_two(code, found, target)
                        with halves:
                            wrong.set(wrong.get() | ((nibble ^ nibble.logical_shift(2)) & 3).compare("==", 0))
                            _store_two(code, _halves(word, nibble), target)
                with bytes_:
                    found_bytes = []
                    for half in range(2):
                        nibble = metadata(pair * 8 + (2 * t + half)) & 15
                        places = nibble & 3, nibble.logical_shift(2)
                        wrong.set(wrong.get() | places[0].compare("==", places[1]))
                        numbers = [word.logical_shift(16 * half + 8 * k) & 0xFF for k in range(2)]
                        found_bytes.append(numbers[0] << places[0] * 8 | numbers[1] << places[1] * 8)
                    _store_two(code, (found_bytes[0], found_bytes[1]), target)
    return wrong.get().any() ^ 1


def _halves(word: Vector, nibble: Vector) -> tuple[Vector, Vector]:
    """Two halves at two of four places, in two words; two bits of the nibble for each: which word, and which half."""
    lower = (word & 0xFFFF) << ((nibble & 1) << 4)
    upper = word.logical_shift(16) << ((nibble & 4) << 2)
    second = [(nibble & bit).compare("!=", 0) for bit in (2, 8)]
    zero = word & 0
    ones = second[0].choose(zero, lower), second[1].choose(zero, upper)
    others = second[0].choose(lower, zero), second[1].choose(upper, zero)
    return ones[0] | ones[1], others[0] | others[1]


def _store_two(code: Code, words: tuple[Vector, Vector], target: Vector) -> None:
    for k, word in enumerate(words):
        code.store(word, target + k * COLUMN_BYTES, align=64)


def metadata_by_row(code: Code, plan: Plan) -> Callable[[Vector], Vector]:
    """The nibble of each row for a group of B's rows, by the group's number."""
    words = plan.words(METADATA, 0)
    room = code.room(4 * COLUMN_BYTES)
    # In threads of four that follow each other, or by twos: see the plan's `threads`, 0 for whole numbers and 8 bits.
    halves = plan.slot("threads").compare("!=", 0)
    with code.either(halves) as (floats, others):
        with floats:
            for t in range(4):
                code.store(column(words & 0xFFFF, words.logical_shift(16), t), room + t * COLUMN_BYTES, align=64)
        with others:
            for t in range(0, 4, 2):
                found = pick(words, words, [4 * g + t for g in range(8)] + [32 + 4 * g + t + 1 for g in range(8)])
                code.store(found, room + t // 2 * COLUMN_BYTES, align=64)
    first, in_word = plan.slot("selector"), halves.choose(code.number(2), code.number(3))

    def nibble(group: Vector) -> Vector:
        """Of four bits each there are four or eight in a word; others stand above it."""
        word = code.load(COLUMN, room + (first + group.logical_shift(in_word)) * COLUMN_BYTES, align=64)
        place = group & ((code.number(1) << in_word) - 1)
        return word.logical_shift((place * 4).to(I32))

    return nibble
