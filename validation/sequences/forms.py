"""Instruction forms, learnt from machine code that ran: where in the 128 bits each operand stands.

A form is an instruction's text without its numbers, those of registers and predicates and those in hexadecimal, such
as `IMAD.WIDE.U32 R#, R#, #, R#`: everything else in it (modifiers, signs, immediates with a point) is taken from the
code as it was found. Branches are no forms: what they hold is a distance, and their text a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from itertools import islice, product
from operator import or_
from pathlib import Path
from typing import NamedTuple

from gpuemu.sass.tools.disassembly import disassemble, load_cubin
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction
from validation.records import read_code

REUSE = ".reuse"
_RELATIVE = {"BRA", "BRX", "BRXU", "BSSY", "CALL", "JMP", "JMX", "JMXU", "LEPC", "RET"}
_OPERAND = re.compile(r"(?<![\w.])(U?R|!?U?P)(\d+|Z|T)(?!\w)|-?0x[0-9a-f]+")
ALL_SET = {"R": 255, "UR": 63, "P": 7, "UP": 7, "!P": 7, "!UP": 7}
"""RZ, URZ and PT: all bits set."""
_REGISTERS = ("R", "UR")
_WRITTEN, _READ = ((81, 3), (84, 3)), ((87, 3), (77, 3), (68, 3))
_PLACES = {
    "R": tuple((bit, 8) for bit in (16, 24, 32, 64)),
    "UR": tuple((bit, 6) for bit in (16, 24, 32, 64)),
    "P": _WRITTEN + _READ,
    "UP": _WRITTEN + _READ,
    "!P": _READ,
    "!UP": _READ,
    # immediates, offsets of addresses, truth tables, offsets in a constant bank, the bank, barriers,
    # shifts of LEA, lanes and bounds of SHFL
    "": ((32, 32), (40, 24), (72, 8), (38, 16), (54, 5), (54, 4), (75, 5), (53, 5), (40, 13)),
}
"""Where an operand may stand: the lowest bit, and how many."""
_STEP = 13
_ENOUGH, _CUBINS = 8, 3
"""After so many examples, or in so many cubins, what still looks alike is alike in all code (two operands that are
always RZ): the order of the text decides."""


class Operand(NamedTuple):
    """A register, a predicate (`file` with "!" where it is negated) or, without a `file`, a number."""

    file: str
    number: int


Place = tuple[int, int]


def form_of(text: str) -> tuple[str, tuple[Operand, ...]]:
    """The form of an instruction (written without reuse flags), and its operands in order."""
    operands = []

    def taken_out(match: re.Match[str]) -> str:
        file, number = match.groups()
        if file is None:
            operands.append(Operand("", int(match[0], 16)))
            return "#"
        operands.append(Operand(file, int(number) if number.isdigit() else ALL_SET[file]))
        return f"{file}#"

    return _OPERAND.sub(taken_out, text), tuple(operands)


def text_of(instruction: Instruction) -> str:
    """Opcode and operands, without the guard."""
    return f"{instruction.opcode} {', '.join(instruction.operands)}".strip()


def put(word: int, place: Place, value: int) -> int:
    """The word with these bits of it replaced."""
    return word & ~_mask(place) | (value << place[0]) & _mask(place)


def _holds(word: int, place: Place, number: int) -> bool:
    return -(1 << place[1]) < 2 * number < 2 << place[1] and put(word, place, number) == word


def _possible(name: str, operands: tuple[Operand, ...]) -> list[tuple[Place, ...]]:
    """All places of each operand, the likely first: a result is the first register, and a comparison has none."""
    found, result = [], "SETP" not in name
    for file, _ in operands:
        places = _PLACES[file]
        if file in _REGISTERS:
            found.append(places if result else places[1:] + places[:1])
            result = False
        else:
            found.append(places)
    return found


def _mask(place: Place) -> int:
    return (1 << place[1]) - 1 << place[0]


@dataclass
class Form:
    """A form and what its examples so far leave open: for each operand the places where it may stand.

    `word` is the first example, found in the cubin of number `cubin`.
    """

    word: int
    cubin: int
    open: list[tuple[Place, ...]]
    seen: set[tuple[Operand, ...]] = field(default_factory=set)
    settled: bool = False

    def add(self, word: int, operands: tuple[Operand, ...]) -> None:
        """Learn from one more example; nothing new comes once it is settled."""
        if self.settled or operands in self.seen:
            return
        self.seen.add(operands)
        for i, operand in enumerate(operands):
            self.open[i] = tuple(place for place in self.open[i] if _holds(word, place, operand.number))
        self.settled = len(self.seen) >= _ENOUGH or len(list(islice(self._choices(), 2))) < 2

    def _choices(self) -> Iterator[tuple[Place, ...]]:
        """The ways to give each operand a place of its own, those in the order of the text first."""
        for places in product(*self.open):
            masks = [_mask(place) for place in places]
            if sum(masks) == reduce(or_, masks, 0):
                yield places

    @property
    def places(self) -> tuple[Place, ...] | None:
        """Where each operand stands; None where no places fit all examples."""
        return next(self._choices(), None)

    def filled(self, operands: tuple[Operand, ...]) -> int:
        """The word with these operands."""
        word = self.word
        for place, operand in zip(self.places or (), operands, strict=True):
            word = put(word, place, operand.number)
        return word


class UnknownFormError(Exception):
    """No code has this form; `nearest` are known ones."""

    def __init__(self, form: str, nearest: list[str]):
        super().__init__(form)
        self.form, self.nearest = form, nearest


class Forms:
    """The forms in these cubins, which are read one after the other and only as far as a wanted form demands.

    What is learnt of a form depends on the order of the cubins alone, not on what else was asked for.
    """

    def __init__(self, cubins: Sequence[bytes]):
        self._cubins = cubins
        self._read = 0
        self._forms: dict[str, Form] = {}

    def find(self, name: str) -> Form:
        """The form of that name; raises UnknownFormError."""
        while not ((form := self._forms.get(name)) and self._settled(form)) and self._read < len(self._cubins):
            self._read_next()
        if form is None or form.places is None:
            raise UnknownFormError(name, self._nearest(name))
        return form

    def _settled(self, form: Form) -> bool:
        return form.settled or self._read >= form.cubin + _CUBINS

    def _read_next(self) -> None:
        cubin = load_cubin(self._cubins[self._read])
        for kernel in map(cubin.kernel, cubin.kernels):
            for i, instruction in enumerate(disassemble(cubin, kernel)):
                if instruction.mnemonic not in _RELATIVE:
                    place = slice(i * INSTRUCTION_BYTES, (i + 1) * INSTRUCTION_BYTES)
                    word = int.from_bytes(kernel.machine_code[place], "little")
                    self._learn(text_of(instruction).replace(REUSE, ""), word)
        self._read += 1

    def _learn(self, text: str, word: int) -> None:
        name, operands = form_of(text)
        form = self._forms.get(name)
        if form is None:
            form = self._forms[name] = Form(word, self._read, _possible(name, operands))
        if not self._settled(form):
            form.add(word, operands)

    def _nearest(self, name: str) -> list[str]:
        mnemonic = re.split(r"[ .]", name, maxsplit=1)[0]
        usable = [known for known, form in self._forms.items() if form.places is not None]
        alike = [known for known in usable if re.split(r"[ .]", known, maxsplit=1)[0] == mnemonic]
        return get_close_matches(name, alike or usable, n=3, cutoff=0.0)


def recorded_forms(code: Path) -> Forms:
    """The forms in the machine code that a GPU's data folder keeps.

    Alike kernels lie next to each other in it, so it is read in steps: most forms turn up in the first few units.
    """
    units = read_code(code)
    return Forms([units[i] for start in range(_STEP) for i in range(start, len(units), _STEP)])
