"""Between SASS operands and the registers that a .traceg file has in their place.

`LDS.64 R4, [R2+UR4]` has the destination R4 and the source R2 there; from these it is read back as `LDS.64 R4, [R2]`.
A `?` stands for an operand that the file has lost and whose place matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.isa.opcodes import Kind, describe
from gpuemu.isa.operands import parse_integer, parse_operand
from gpuemu.isa.registers import destination_count, has_destination
from gpuemu.isa.table import parse_opcode
from gpuemu.trace.accel_sim.form import MOST_SOURCES, RZ
from gpuemu.trace.model import Instruction

LOST = "?"
_PREDICATE_FIRST = ("SHFL", "ATOM", "ATOMG")
"""A predicate stands in front of their destination, as in MATCH.ALL: to a tracer that looks at the first operand alone
they have none, and what they write is the first of their sources."""


def registers_of(instruction: Instruction) -> tuple[int | None, tuple[int, ...]]:
    """The first general destination register, and the general source registers, the base of an address among them."""
    count = destination_count(instruction.opcode, instruction.operands)
    destination = None
    for operand in map(parse_operand, instruction.operands[:count]):
        if destination is None and operand.register is not None and operand.register.file == "R":
            destination = operand.register.number
    sources: list[int] = []
    for operand in map(parse_operand, instruction.operands[count:]):
        named = [operand.register] if operand.register else operand.brackets[-1].registers if operand.brackets else ()
        sources += [register.number for register in named if register.file == "R"]
    return destination, tuple(sources[:MOST_SOURCES])


def immediate_of(instruction: Instruction) -> int:
    """What a DEPBAR has: the groups of copies that may still be under way. 0 of all else."""
    if instruction.operation.kind is not Kind.COUNTER_WAIT or len(instruction.operands) < 2:
        return 0
    return parse_integer(instruction.operands[1]) or 0


def bytes_of(instruction: Instruction) -> int:
    """Bytes at each lane's address, 0 of an instruction that accesses no memory. LDSM and STSM: those of a row."""
    if not instruction.accesses_memory:
        return 0
    return 16 if instruction.operation.matrices else instruction.operation.width_bits // 8


def operands_of(opcode: str, destination: int | None, sources: Sequence[int], immediate: int) -> tuple[str, ...]:
    """Operands that name these registers where the instruction has them. Raises UnknownOpcodeError."""
    operation, parsed = describe(opcode), parse_opcode(opcode)
    mnemonic = parsed.mnemonic
    predicate_first = mnemonic in _PREDICATE_FIRST or (mnemonic == "MATCH" and parsed.has("ALL"))
    if destination is None and sources and predicate_first:
        destination, *sources = sources
    named = tuple(_name(number) for number in sources)
    result = (LOST,) if destination is None else (_name(destination),)
    if operation.kind is Kind.COUNTER_WAIT:
        return "SB0", f"{immediate:#x}"
    if operation.kind is Kind.BARRIER:
        return ("0x0",) if mnemonic == "BAR" else ()
    if mnemonic == "WARPGROUP":
        return ("gsb0", f"{immediate:#x}") if parsed.has("DEPBAR") else ()
    if operation.warpgroup_columns:
        return (*result, *named[:-1], "gdesc[?]", *named[-1:])
    if mnemonic == "LDGSTS":
        shared, *far = sources or (None,)
        return _address((shared,), ()), _address(far, ("E",))
    if operation.kind in (Kind.SHARED, Kind.GLOBAL):
        return _access(opcode, destination, sources)
    if mnemonic == "LDC" and sources:
        return (*result, f"c[?][{'+'.join(named)}]")
    if mnemonic == "IMAD" and parsed.has("WIDE", "HI") and len(named) < 3:
        # The third source is a pair, which begins with an even register.
        pair = named[-1:] if len(named) == 2 and sources[-1] % 2 == 0 else ()
        factors = named[: len(named) - len(pair)]
        return (*result, *factors, *([LOST] * (2 - len(factors))), *(pair or (LOST,)))
    if destination is None:
        return (LOST, *named) if named and has_destination(mnemonic) else named
    return (*result, *named)


def _access(opcode: str, destination: int | None, sources: Sequence[int]) -> tuple[str, ...]:
    """Of an instruction that accesses memory: the base of the address is the first source, data come behind it."""
    operation, parsed = describe(opcode), parse_opcode(opcode)
    modifiers = parsed.modifiers
    if not operation.store and not operation.atomic:
        return LOST if destination is None else _name(destination), _address(sources, modifiers)
    data = 2 if "CAS" in modifiers or "CAST" in modifiers else 1
    sent = tuple(_name(number) for number in sources[max(0, len(sources) - data) :])
    address = _address(sources[: max(0, len(sources) - data)], modifiers)
    if not operation.atomic or operation.store:
        return address, *(sent or (LOST,))
    return LOST if destination is None else _name(destination), address, *(sent or (LOST,))


def _address(registers: Sequence[int | None], modifiers: Sequence[str]) -> str:
    """`[R2.64]`: .E says that an address has 64 bits, and then it is in a pair."""
    there = [number for number in registers if number is not None]
    wide = "E" in modifiers and len(there) == 1 and there[0] % 2 == 0
    return f"[{'+'.join(map(_name, there)) or LOST}{'.64' * wide}]"


def _name(number: int) -> str:
    return "RZ" if number == RZ else f"R{number}"
