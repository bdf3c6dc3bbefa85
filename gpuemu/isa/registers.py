"""The registers that an instruction writes and reads, from its SASS text, for a register scoreboard.

Machine code with control words does not need this module. Traces that were written by hand, or imported without control
words, do. Registers are small integers: R0..R254 as 0..254, P0..P6 from 300, UR0..UR254 from 400, UP0..UP6 from 700.
RZ, PT, URZ and UPT hold constants and never appear. SASS names the first register of a 64- or 128-bit value; the
mnemonic's row in `isa.table` and the modifiers give the number of registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from gpuemu.isa.opcodes import Kind, describe
from gpuemu.isa.operands import Register, parse_operand
from gpuemu.isa.products import fragment_registers
from gpuemu.isa.table import Opcode, parse_opcode

PREDICATES, UNIFORM = 300, 400
"""First numbers of predicates and of uniform registers; general registers are below both."""
_BASES = {"R": 0, "P": PREDICATES, "UR": UNIFORM, "UP": 700}
_PREDICATES = 7
_REGISTER_FILES, _PREDICATE_FILES = ("R", "UR"), ("P", "UP")
_FRAGMENTS = ("A", "B", "C")
_DESCRIPTOR_WORDS = 4
"""Words of the descriptors of A and B of a warpgroup's product, gdesc[UR4]; sm_100 has one descriptor for each."""


def register_number(register: Register) -> int:
    """Return the number of a register that is not constant."""
    return _BASES[register.file] + register.number


def register_name(number: int) -> str:
    """Return the name of a register number, such as R4, P0 or UR2."""
    file = max((file for file, base in _BASES.items() if number >= base), key=lambda file: _BASES[file])
    return f"{file}{number - _BASES[file]}"


def is_number(number: int) -> bool:
    """Whether a register number stands for a register of 32 bits, not a truth value."""
    return number < PREDICATES or UNIFORM <= number < _BASES["UP"]


def _registers(text: str, words: int = 1) -> tuple[int, ...]:
    """Return every register named in an operand; a general or uniform one is the first of a value of `words` words.

    R4.F32 among pairs is a single register, which serves both halves.
    """
    if text == "PR":
        return tuple(_BASES["P"] + i for i in range(_PREDICATES))
    found: list[int] = []
    for register, pair in parse_operand(text).registers:
        span = 1 if register.is_predicate or register.suffixes == ("F32",) else 2 if pair else words
        found.extend(register_number(register) + i for i in range(span))
    return tuple(found)


def _words(code: str, opcode: Opcode) -> int:
    """Return the number of 32-bit words for a width code of the table and the modifiers of an opcode."""
    if code.isdecimal():
        return int(code)
    match code:
        case "n":
            return 4 if opcode.has("128", "256") else 2 if opcode.has("64") else 1
        case "m":
            return opcode.matrices
        case "x":
            return opcode.tensor_registers
        case "d":
            return 2 if opcode.has("64", "S64", "U64", "M832") else 1
        case "w":
            return 2 if opcode.has("WIDE") else 1
        case "h":  # both add a 64-bit source to the product; .HI keeps the sum's upper half
            return 2 if opcode.has("WIDE", "HI") else 1
        case "c":
            return 1 if opcode.has("32") else 2
        case "s":
            return 2 if opcode.has("SF") and opcode.has("SP") else 1
        case "t" | "f":
            return _converted(opcode)["tf".index(code)]
    return fragment_registers(opcode).get(code, 1)


def _converted(opcode: Opcode) -> tuple[int, int]:
    """Return the 32-bit words of (result, source) of conversions such as F2F.F64.F32 or F2I.U64.F64.TRUNC."""
    types = [m for m in opcode.modifiers if m in ("F16", "BF16", "F32", "F64")]
    floating, integer = 2 if "F64" in types else 1, 2 if opcode.has("S64", "U64") else 1
    match opcode.mnemonic.removeprefix("U"):
        case "F2I":
            return integer, floating
        case "I2F":
            return floating, integer
        case "F2F":
            return 2 if types[:1] == ["F64"] else 1, 2 if types[1:2] == ["F64"] else 1
    return floating, floating


def destination_count(opcode: str, operands: tuple[str, ...]) -> int:
    """Count the destinations among the operands: first predicates, a register, then more predicates."""
    return len(_destinations(parse_opcode(opcode), operands))


def _destinations(opcode: Opcode, operands: tuple[str, ...]) -> list[str]:
    """Return the width of each destination, from the first operand on."""
    found: list[str] = []
    for what in opcode.row.writes:
        file = parse_operand(operands[len(found)]).bare if len(found) < len(operands) else ""
        if what == "m" or (what == "p" and file in _PREDICATE_FILES):
            found.append("1")
        elif what[0] == "r":
            if file not in _REGISTER_FILES:
                break
            if what == "rx" and opcode.has("STAT"):
                found.append("1")
            found.append(what[1:] or "1")
    return found


def _sources(opcode: Opcode, operands: tuple[str, ...], whole: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the source operands and the words of each one's register; a fragment counts one word unless `whole`."""
    widths = opcode.row.reads
    for position, operand in enumerate(operands[len(_destinations(opcode, operands)) :]):
        if operand.startswith("gdesc"):
            yield operand, _DESCRIPTOR_WORDS if opcode.row.operation == "warpgroup" else 2
            continue
        width = widths[min(position, len(widths) - 1)]
        if width == "q":
            yield operand, 2 if "[" in operand or opcode.has("WS") else 8 if opcode.has("2CTA") else 4
            continue
        single = "[" in operand or (width in _FRAGMENTS and not whole)
        yield operand, 1 if single else _words(width, opcode)


def has_destination(mnemonic: str) -> bool:
    """Whether instructions of this name write any register: general, uniform or predicate."""
    return bool(parse_opcode(mnemonic).row.writes)


@lru_cache(maxsize=65536)
def written_and_read(opcode: str, operands: tuple[str, ...], guard: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the registers that the instruction writes, and those that it reads, including its guard.

    `operands`: the comma-separated operand texts. `guard`: such as "@!P0", or "".
    """
    parsed = parse_opcode(opcode)
    results = zip(operands, _destinations(parsed, operands), strict=False)
    written = [_registers(text, _words(code, parsed)) for text, code in results]
    read = [_registers(guard.removeprefix("@")), *(_registers(*source) for source in _sources(parsed, operands, True))]
    return tuple(dict.fromkeys(chain(*written))), tuple(dict.fromkeys(chain(*read)))


@lru_cache(maxsize=65536)
def source_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the general registers of each source operand, in operand order; only the first register of a fragment."""
    return tuple(_general(_registers(*source)) for source in _sources(parse_opcode(opcode), operands))


def general_results(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """Return the general registers that it writes, without predicate and uniform registers."""
    return _general(written_and_read(opcode, operands, "")[0])


def _general(registers: Iterable[int]) -> tuple[int, ...]:
    return tuple(register for register in registers if register < PREDICATES)


def mma_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the registers of A, B and C of a tensor instruction; RZ has no registers."""
    return tuple(_registers(*source) for source in _sources(parse_opcode(opcode), operands, True))[:3]


def sent_registers(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """Return the general registers that a memory or special-function instruction sends, in the order of sending.

    Data precedes the address, and an address sends its upper half first. SHFL sends the value, the mask, then the lane.
    Source: an H200, measured by the banks of the FFMAs that wait for the registers.
    """
    slots = source_registers(opcode, operands)
    registers = list(zip(operands[len(operands) - len(slots) :], slots, strict=True))
    data = [sent for text, sent in registers if "[" not in text]
    if "reversed" in parse_opcode(opcode).row.notes:
        data[1:] = reversed(data[1:])
    address = [register for text, sent in registers if "[" in text for register in sent]
    return (*(register for sent in data for register in sent), *reversed(address))


MOST_FETCHED = 8
"""Maximum number of registers that arithmetic reads; a register named twice counts twice. Machine code has up to three
pairs, and two more are to spare. The operand collector has room for this number.
"""
MOST_SOURCE_WORDS = 12
"""Maximum number of registers that an instruction sends: CAS of 128 bits has an address of two and two values of four.
"""


def source_words(opcode: str, operands: tuple[str, ...]) -> int:
    """Count the 32-lane registers that a memory instruction sends to the load/store unit: address and data.

    Uniform registers and immediates travel with the instruction and cost nothing here. A data operand counts at its
    full width even when it is RZ. An instruction that sends no register still takes one slot.
    """
    general = 0
    for operand, words in _sources(parse_opcode(opcode), operands):
        if "[" in operand:
            general += len(_general(_registers(operand)))
        elif parse_operand(operand).bare == "R":
            general += words
    return max(1, general)


def indexes_constants(opcode: str, operands: tuple[str, ...]) -> bool:
    """Whether the instruction is an LDC with a register in its address."""
    named = (r for o in map(parse_operand, operands) if o.is_constant for r in o.brackets[1].registers)
    return parse_opcode(opcode).mnemonic == "LDC" and any(r.file == "R" and not r.is_constant for r in named)


def mistake(opcode: str, operands: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with the operands and what was expected, or None."""
    operation, parsed = describe(opcode), parse_opcode(opcode)
    waits = parsed.mnemonic == "WARPGROUP" and parsed.has("DEPBAR")
    fewest = 2 if operation.warpgroup_columns else int(waits or operation.kind in (Kind.SHARED, Kind.GLOBAL))
    if operation.tensor:
        fewest = 4 + parsed.has("SP") + 2 * parsed.has("SF")  # D, A, B, C; metadata of a sparse A; scales
    if len(operands) < fewest:
        return f"{opcode} with {len(operands)} operands", f"expected at least {fewest}"
    for operand in map(parse_operand, operands):
        if operand.mistake:
            return f"{opcode} with the operand {operand.text}", operand.mistake
    if operation.kind is Kind.FIXED and not operation.tensor:
        fetched = sum(map(len, source_registers(opcode, operands)))
        if fetched > MOST_FETCHED:
            return f"{opcode} reads {fetched} registers", f"An instruction may read {MOST_FETCHED}"
    return None
