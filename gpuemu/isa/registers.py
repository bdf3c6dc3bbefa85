"""Which registers an instruction writes and reads, from its SASS text: what a register scoreboard needs.

Machine code with control words never asks this; traces written by hand or imported without them do.
Registers are small integers: R0..R254 as 0..254, P0..P6 from 300, UR0..UR62 from 400, UP0..UP6 from 500.
RZ, PT, URZ and UPT hold constants and never appear. SASS names the first register of a 64- or 128-bit value;
how many follow it is known from the opcode.
"""

from __future__ import annotations

from functools import lru_cache

from gpuemu.isa.opcodes import Kind, describe, matrices, warpgroup_shape
from gpuemu.isa.operands import Register, parse_operand

_BASES = {"R": 0, "P": 300, "UR": 400, "UP": 500}
_PREDICATES = 7
_REGISTER_FILES, _PREDICATE_FILES = ("R", "UR"), ("P", "UP")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_DESTINATION = _names(
    "STS STG ST STL STSM RED BAR BRA BRX BRXU JMP JMX EXIT NOP DEPBAR LDGDEPBAR LDGSTS MEMBAR ERRBAR CCTL "
    "CCTLL FENCE BSSY BSYNC BREAK WARPSYNC YIELD NANOSLEEP RET CALL KILL BPT ENDCOLLECTIVE PMTRIG "
    "ARRIVES WARPGROUP"
)
_SETS_PREDICATES = _names("ISETP FSETP DSETP HSETP2 UISETP PLOP3 UPLOP3")
_SETS_A_PREDICATE = _names("FCHK")
_PREDICATES_AFTER = {
    "IADD3": 2, "UIADD3": 2, "LEA": 1, "ULEA": 1, "IMAD": 1, "UIMAD": 1, "VOTE": 1, "VOTEU": 1, "B2R": 1,
}  # fmt: skip
"""How many predicates may stand as destinations behind the register: carries, and what a vote found."""
_FP64 = _names("DFMA DADD DMUL DSETP DMNMX")
_CONVERSIONS = _names("F2F F2I I2F FRND")
_SENDS_DATA = _names("STS STG ST STL STSM RED ATOM ATOMG ATOMS")
_AS_WIDE_AS_NAMED = _names("LDS LDG LD LDL LDC ULDC ATOMS ATOM ATOMG")


def register_number(register: Register) -> int:
    """The number of a register that is no constant one."""
    return _BASES[register.file] + register.number


def is_number(number: int) -> bool:
    """Whether a register, by its number, holds 32 bits, and no truth value."""
    return number < _BASES["P"] or _BASES["UR"] <= number < _BASES["UP"]


def _registers(text: str, words: int = 1) -> tuple[int, ...]:
    """Every register named in an operand; a general or uniform one starts a value of `words` words."""
    if text == "PR":
        return tuple(_BASES["P"] + i for i in range(_PREDICATES))
    found: list[int] = []
    for register, pair in parse_operand(text).registers:
        span = 1 if register.is_predicate else 2 if pair else words
        found.extend(register_number(register) + i for i in range(span))
    return tuple(found)


def _words(modifiers: list[str]) -> int:
    return 4 if "128" in modifiers else 2 if "64" in modifiers else 1


_MMA_WIDTHS = {
    "8816": (2, 1, 1), "16816": (4, 2, 1), "16832": (4, 4, 2), "8832": (2, 1, 1), "16864": (4, 4, 2),
    "88128": (2, 1, 1), "168128": (4, 2, 1), "168256": (4, 4, 2),
    "884": (4, 2, 2), "8x8x4": (4, 2, 2), "16x8x4": (8, 4, 2), "16x8x8": (8, 8, 4), "16x8x16": (8, 16, 8),
}  # fmt: skip
"""Of IMMA, BMMA and DMMA."""


def _mma_widths(mnemonic: str, modifiers: list[str]) -> tuple[int, int, int]:
    """32-bit registers per lane of (C and D, A, B)."""
    if "SP" in modifiers:
        return _sparse_widths(mnemonic, modifiers)
    if mnemonic == "IMMA" and "16832" in modifiers and ("S4" in modifiers or "U4" in modifiers):
        return 4, 2, 1
    if mnemonic == "QMMA":
        return (4 if "F32" in modifiers else 2), *((4, 2) if "16832" in modifiers else (2, 1))
    if mnemonic in ("IMMA", "BMMA", "DMMA"):
        return next((_MMA_WIDTHS[m] for m in modifiers if m in _MMA_WIDTHS), (4, 2, 1))
    accumulators = 4 if "F32" in modifiers else 2
    if "16816" in modifiers or ("1688" in modifiers and "TF32" in modifiers):
        return accumulators, 4, 2
    return accumulators, 2, 1


def _sparse_widths(mnemonic: str, modifiers: list[str]) -> tuple[int, int, int]:
    """As `_mma_widths`: A and B have as many registers, B's being twice as long as A's."""
    small = {"HMMA": "1688" if "TF32" in modifiers else "16816", "QMMA": "16832"}.get(mnemonic, "16832")
    if mnemonic == "IMMA" and ("S4" in modifiers or "U4" in modifiers):
        small = "16864"
    accumulators = 4 if mnemonic == "IMMA" or "F32" in modifiers else 2
    return accumulators, *((2, 2) if small in modifiers else (4, 4))


def _conversion_widths(mnemonic: str, modifiers: list[str]) -> tuple[int, int]:
    """32-bit words of (result, source) of F2F.F64.F32, I2F.F64.S64, F2I.U64.F64.TRUNC and their kin."""
    types = [m for m in modifiers if m in ("F16", "BF16", "F32", "F64")]
    floating = 2 if "F64" in types else 1
    integer = 2 if "S64" in modifiers or "U64" in modifiers else 1
    match mnemonic:
        case "F2I":
            return integer, floating
        case "I2F":
            return floating, integer
        case "F2F":
            return 2 if types[:1] == ["F64"] else 1, 2 if types[1:2] == ["F64"] else 1
    return floating, floating


def _destination_words(mnemonic: str, modifiers: list[str]) -> int:
    if mnemonic == "LDSM":
        return matrices(modifiers)
    if mnemonic in ("IMAD", "UIMAD"):
        return 2 if "WIDE" in modifiers else 1
    if mnemonic in _FP64 or mnemonic == "SYNCS":
        return 2
    if mnemonic == "CS2R":
        return 1 if "32" in modifiers else 2
    if mnemonic in _CONVERSIONS:
        return _conversion_widths(mnemonic, modifiers)[0]
    return _words(modifiers) if mnemonic in _AS_WIDE_AS_NAMED else 1


def _source_words(mnemonic: str, modifiers: list[str], position: int) -> int:
    """32-bit words of the source at `position`, counted from 0 behind the destinations."""
    if mnemonic == "STSM":
        return matrices(modifiers)
    if mnemonic in _SENDS_DATA:
        return _words(modifiers)
    if mnemonic in ("IMAD", "UIMAD"):
        # Both add a 64-bit third source to the product; .HI keeps the sum's upper half.
        return 2 if position == 2 and ("WIDE" in modifiers or "HI" in modifiers) else 1
    if mnemonic in _FP64:
        return 2
    if mnemonic in _CONVERSIONS:
        return _conversion_widths(mnemonic, modifiers)[1]
    return 1


def destination_count(opcode: str, operands: tuple[str, ...]) -> int:
    """How many operands, from the first, are destinations: predicates, a register, predicates behind it."""
    mnemonic = opcode.partition(".")[0]
    if mnemonic in _NO_DESTINATION:
        return 0
    count = 0

    def take(files: tuple[str, ...], most: int) -> None:
        nonlocal count
        end = min(len(operands), count + most)
        while count < end and parse_operand(operands[count]).bare in files:
            count += 1

    take(_PREDICATE_FILES, 2 if mnemonic in _SETS_PREDICATES else 1)
    if mnemonic == "R2P":
        return 1
    if mnemonic in _SETS_PREDICATES or mnemonic in _SETS_A_PREDICATE:
        return count
    before = count
    take(_REGISTER_FILES, 1)
    if count > before:
        take(_PREDICATE_FILES, _PREDICATES_AFTER.get(mnemonic, 0))
    return count


def has_destination(mnemonic: str) -> bool:
    """Whether instructions of that name write a register at all, general, uniform or of predicates."""
    return mnemonic not in _NO_DESTINATION


@lru_cache(maxsize=65536)
def written_and_read(opcode: str, operands: tuple[str, ...], guard: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The registers that the instruction writes, and those it reads (its guard among them).

    `operands` are the comma-separated operand texts; `guard` is such as "@!P0" or "".
    """
    mnemonic, *modifiers = opcode.split(".")
    reads = list(_registers(guard.removeprefix("@")))
    if mnemonic in ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA") and len(operands) >= 4:
        c, a, b = _mma_widths(mnemonic, modifiers)
        reads += _registers(operands[1], a) + _registers(operands[2], b) + _registers(operands[3], c)
        reads += _registers(operands[4]) if "SP" in modifiers else ()
        return _registers(operands[0], c), tuple(dict.fromkeys(reads))
    shape = warpgroup_shape(modifiers) if mnemonic in ("HGMMA", "IGMMA", "QGMMA") else None
    if shape is not None:
        c = shape[0] // (4 if "F16" in modifiers else 2)
        sources = [o for o in operands[1:] if o != "gsb0"]
        for k, operand in enumerate(sources):
            described = operand.startswith("gdesc")
            reads += _registers(operand, 4 if described or k == 0 else c)
        return _registers(operands[0], c), tuple(dict.fromkeys(reads))
    destinations = destination_count(mnemonic, operands)
    writes: list[int] = []
    for operand in operands[:destinations]:
        writes += _registers(operand, _destination_words(mnemonic, modifiers))
    for position, operand in enumerate(operands[destinations:]):
        words = 1 if "[" in operand else _source_words(mnemonic, modifiers, position)
        reads += _registers(operand, words)
    return tuple(dict.fromkeys(writes)), tuple(dict.fromkeys(reads))


@lru_cache(maxsize=65536)
def source_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The general registers of each source operand, in the order of the operands."""
    mnemonic, *modifiers = opcode.split(".")
    sources = operands[destination_count(mnemonic, operands) :]
    return tuple(
        tuple(
            register
            for register in _registers(operand, 1 if "[" in operand else _source_words(mnemonic, modifiers, position))
            if register < _BASES["P"]
        )
        for position, operand in enumerate(sources)
    )


def general_results(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """The general registers that it writes: no predicates, no uniform ones."""
    return tuple(register for register in written_and_read(opcode, operands, "")[0] if register < _BASES["P"])


def mma_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The registers of A, B and C of a tensor instruction; those of an RZ are none."""
    mnemonic, *modifiers = opcode.split(".")
    c, a, b = _mma_widths(mnemonic, modifiers)
    return _registers(operands[1], a), _registers(operands[2], b), _registers(operands[3], c)


def sent_registers(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """The general registers that a memory or special-function instruction sends, in that order.

    H200, by which bank's FFMA wait for them: data before the address, of addresses the last half first; of SHFL the
    value, the mask, the lane.
    """
    slots = source_registers(opcode, operands)
    registers = list(zip(operands[len(operands) - len(slots) :], slots, strict=True))
    data = [sent for text, sent in registers if "[" not in text]
    if opcode.startswith("SHFL"):
        data[1:] = reversed(data[1:])
    address = [register for text, sent in registers if "[" in text for register in sent]
    return (*(register for sent in data for register in sent), *reversed(address))


MOST_SOURCE_WORDS = 12
"""Registers that an instruction sends at most: CAS of 128 bits has an address of two and twice four."""


def source_words(opcode: str, operands: tuple[str, ...]) -> int:
    """How many 32-lane registers a memory instruction sends to the load/store unit: address and data.

    Uniform registers and immediates travel with the instruction and cost nothing here. A data operand
    counts at its full width even when it is RZ. An instruction that sends no register still takes one slot.
    """
    mnemonic, *modifiers = opcode.split(".")
    general = 0
    for operand in operands[destination_count(mnemonic, operands) :]:
        if "[" in operand:
            general += sum(1 for r in _registers(operand) if r < _BASES["P"])
        elif parse_operand(operand).bare == "R":
            general += _source_words(mnemonic, modifiers, 0)
    return max(1, general)


def indexes_constants(opcode: str, operands: tuple[str, ...]) -> bool:
    """Whether it is an LDC that has a register in its address."""
    named = (r for o in map(parse_operand, operands) if o.is_constant for r in o.brackets[1].registers)
    return opcode.partition(".")[0] == "LDC" and any(r.file == "R" and not r.is_constant for r in named)


def mistake(opcode: str, operands: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with the operands, and what would be right; None if nothing is."""
    operation, modifiers = describe(opcode), opcode.split(".")
    needs_one = operation.kind in (Kind.SHARED, Kind.GLOBAL) or opcode.startswith("WARPGROUP.DEPBAR")
    fewest = 2 if operation.warpgroup_columns else int(needs_one)
    if operation.tensor:
        fewest = 5 if "SP" in modifiers else 4  # D, A, B, C, and where a sparse A has zeros
    if len(operands) < fewest:
        return f"{opcode} with {len(operands)} operands", f"at least {fewest} are right"
    for operand in map(parse_operand, operands):
        if operand.mistake:
            return f"{opcode} with the operand {operand.text}", operand.mistake
    return None
