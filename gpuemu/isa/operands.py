"""The one parser of operands: SASS text becomes small records that timing and execution both read.

    -|R4.reuse|          register R4, negative, absolute, kept in the operand cache
    R2.H0_H0             register R2 with a suffix
    !UP3                 predicate UP3, negated
    c[0x0][R4+0x160]     constant: brackets of a bank and of an offset
    [R2.X4+UR4+-0x8]     address: one pair of brackets; desc[UR4][R2.64] has another in front
    gdesc[UR8].tnspB     descriptor of a matrix
    0x10, 1.5, +INF      immediates; SR_TID.X, B0, gsb0, PR are names

Parsing never fails. `mistake` describes what is wrong with an operand, such as a register that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LAST = {"R": 255, "UR": 255, "P": 7, "UP": 7}
"""The number of the constant register of each register file: RZ, URZ, PT, UPT. sm_90 has UR0 to UR62 only."""
_REGISTER = re.compile(r"(UR|R|UP|P)(\d+|(?<=R)Z|(?<=P)T)((?:\.\w+)*)\Z")
_NAMED = re.compile(r"\b(U?R)(\d+)")
_DECORATED = re.compile(r"(!?)(-(?!\d|INF|QNAN))?(~?)(\|?)(.*)", re.DOTALL)
_BRACKETS = re.compile(r"(\w*)((?:\[[^\[\]]*\])+)((?:\.\w+)*)\Z")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]+\Z")
_NO_COUNTER = re.compile(r"SB(?![0-5]\Z)\d*\Z")
_SPECIAL = {"INF": 0x7F800000, "QNAN": 0x7FFFFFFF}


@dataclass(frozen=True, slots=True)
class Register:
    """A register: `file` is R, UR, P or UP. The `number` of a constant register is that of RZ, URZ, PT or UPT."""

    file: str
    number: int
    suffixes: tuple[str, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether this is RZ, URZ, PT or UPT."""
        return self.number == LAST[self.file]

    @property
    def is_predicate(self) -> bool:
        """Whether the register holds a truth value."""
        return self.file.endswith("P")


@dataclass(frozen=True, slots=True)
class Sum:
    """The contents of brackets: registers, a number (None if there is none), and terms that are neither."""

    registers: tuple[Register, ...]
    number: int | None
    unknown: tuple[str, ...]

    def of(self, file: str) -> Register | None:
        """Return the register of a file if it is the only one."""
        found = [register for register in self.registers if register.file == file]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand, without its decorations.

    `core`: its text without decorations. `suffixes`: such as ("H0_H0",) or ("64",). `reuse`: whether the operand cache
    keeps it. `register`: set for a register. `brackets`: the contents of brackets as sums, with the word before them in
    `prefix`. `mistake`: what was expected, or "" if nothing is wrong.
    """

    text: str
    core: str
    suffixes: tuple[str, ...]
    negative: bool
    absolute: bool
    inverted: bool
    negated: bool
    reuse: bool = False
    register: Register | None = None
    prefix: str = ""
    brackets: tuple[Sum, ...] = ()
    mistake: str = ""

    @property
    def bare(self) -> str:
        """Register file of an undecorated register, as destinations are; "" for anything else."""
        decorated = self.negative or self.absolute or self.inverted or self.negated or self.suffixes
        return "" if self.register is None or decorated else self.register.file

    @property
    def address(self) -> Sum | None:
        """The sum that forms a memory address, with or without a descriptor before it."""
        known = {("", 1), ("desc", 2)}
        return self.brackets[-1] if (self.prefix, len(self.brackets)) in known and not self.suffixes else None

    @property
    def is_constant(self) -> bool:
        """Whether the operand is in a constant bank: brackets with the bank, then brackets with the offset."""
        return self.prefix in ("c", "cx") and len(self.brackets) == 2

    @property
    def registers(self) -> tuple[tuple[Register, bool], ...]:
        """The registers that it names, except constant ones. The flag says whether the text calls it a pair."""
        named = [(self.register, self.suffixes[:1] == ("64",))] if self.register else []
        for place, inside in enumerate(self.brackets):
            described = self.prefix == "desc" and place == 0
            named += [(register, described or register.suffixes[:1] == ("64",)) for register in inside.registers]
        return tuple((register, pair) for register, pair in named if not register.is_constant)


def named_registers(operands: Iterable[str]) -> list[tuple[str, int]]:
    """Return the file and number of every general (R) and uniform (UR) register in the operands and their addresses."""
    return [(file, int(number)) for operand in operands for file, number in _NAMED.findall(operand)]


def parse_register(text: str) -> Register | None:
    """Parse `UR4`, `RZ`, `P0` or `R2.X4`; return None for other text and for a register that does not exist."""
    match = _REGISTER.match(text)
    if match is None:
        return None
    file, number, after = match.groups()
    last = LAST[file]
    if number.isdecimal() and (len(number) > 3 or int(number) >= last):
        return None
    suffixes = tuple(suffix for suffix in after.split(".")[1:] if suffix != "reuse")
    return Register(file, int(number) if number.isdecimal() else last, suffixes)


def parse_integer(text: str) -> int | None:
    """Parse `0x10` or `-0x1`; return None for other text."""
    return int(text, 16) if _HEXADECIMAL.match(text) else None


def _sum(text: str) -> Sum:
    terms = [(term, parse_register(term), parse_integer(term)) for term in re.split(r"\+|(?=-)", text) if term]
    registers = tuple(register for _, register, _ in terms if register is not None)
    numbers = [number for _, _, number in terms if number is not None]
    unknown = tuple(term for term, register, number in terms if register is None and number is None)
    return Sum(registers, sum(numbers) if numbers else None, unknown)


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Operand:
    """Parse an operand: `-|R4.reuse|` is R4, negative and absolute, and `!P0` is P0, negated."""
    decorated = _DECORATED.match(text.strip())
    assert decorated is not None  # the pattern matches every text
    negated, negative, inverted, absolute = map(bool, decorated.groups()[:4])
    rest = decorated[5].replace("|", "")
    # Spaces in brackets have no meaning. Elsewhere, a space precedes a branch target, as in BRX R2 -0x10.
    rest = rest.replace(" ", "") if "[" in rest else rest.partition(" ")[0]
    suffixes: tuple[str, ...] = ()
    mistake, prefix, register = "", "", None
    brackets: tuple[Sum, ...] = ()
    if _REGISTER.match(rest):
        register = parse_register(rest)
        if register is None:
            mistake = "expected R0 to R254, UR0 to UR254, P0 to P6, UP0 to UP6 and RZ, URZ, PT, UPT"
        rest, *after = rest.split(".")
        suffixes = tuple(suffix for suffix in after if suffix != "reuse")
    elif (match := _BRACKETS.match(rest)) is not None:
        prefix, insides, ending = match.groups()
        brackets = tuple(_sum(inside) for inside in insides[1:-1].split("]["))
        suffixes = tuple(ending.split(".")[1:])
        rest = prefix + insides
        if any(_REGISTER.match(term) for inside in brackets for term in inside.unknown):
            mistake = "expected registers that exist in an address"
    elif "[" in rest or "]" in rest:
        mistake = "expected brackets that close, such as [R2+0x10]"
    elif _NO_COUNTER.match(rest):
        mistake = "expected SB0 to SB5"
    found = suffixes, negative, absolute, inverted, negated
    return Operand(text, rest, *found, ".reuse" in text, register, prefix, brackets, mistake)


def immediate32(text: str, double: bool = False, floating: bool = False) -> np.uint32 | None:
    """Return the 32 bits of an immediate such as `0x10`, `-0x1`, `7`, `1.5`, `+INF` or `-QNAN`; None for other text.

    A decimal point or an exponent makes it a float. For a float, `double` requests the high word of its 64 bits. With
    `floating` or `double`, a decimal number without point or exponent is a float, too: FADD's 1 is 1.0.
    """
    special = _SPECIAL.get(text.lstrip("+-")) if text[:2] not in ("++", "+-", "-+", "--") else None
    if special is not None:
        if double:
            special = 0x7FF00000 if special == _SPECIAL["INF"] else special
        return np.uint32(special | 0x80000000 * text.startswith("-"))
    integer = r"-?0x[0-9a-fA-F]+\Z" if floating or double else r"-?(0x[0-9a-fA-F]+|\d+)\Z"
    if re.match(integer, text):
        return np.uint32(int(text, 0) & 0xFFFFFFFF)
    try:
        value = float(text)
    except ValueError:
        return None
    if double:
        return np.uint32(int(np.float64(value).view(np.uint64)) >> 32)
    return np.float32(value).view(np.uint32)
