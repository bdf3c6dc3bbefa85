"""Convert SASS operands to the registers in a .traceg file, and back.

`LDS.64 R4, [R2+UR4]` has the destination R4 and the source R2 in the file, from which it is read back as `LDS.64 R4,
[R2]`. A `?` replaces an operand that the file has lost and whose position matters.
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
"""Instructions with a predicate before their destination, such as MATCH.ALL.

A tracer that reads only the first operand finds no destination, and lists the register that they write as their first
source.
"""


def registers_of(instruction: Instruction) -> tuple[int | None, tuple[int, ...]]:
    """Return the first general destination register, and the general source registers including an address's base."""
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
    """Return the groups of copies that a DEPBAR allows to be pending; 0 for other instructions."""
    if instruction.operation.kind is not Kind.COUNTER_WAIT or len(instruction.operands) < 2:
        return 0
    return parse_integer(instruction.operands[1]) or 0


def bytes_of(instruction: Instruction) -> int:
    """Return the bytes at each lane's address; 0 without a memory access, and the bytes of a row for LDSM and STSM."""
    if not instruction.accesses_memory:
        return 0
    return 16 if instruction.operation.matrices else instruction.operation.width_bits // 8


def operands_of(opcode: str, destination: int | None, sources: Sequence[int], immediate: int) -> tuple[str, ...]:
    """Return operands that name these registers in the instruction's positions. Raises UnknownOpcodeError."""
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
    """Return the operands of a memory instruction: the first sources form the address, and the data follow."""
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
    """Return an address such as `[R2.64]`; with .E it has 64 bits, so it is in a register pair."""
    there = [number for number in registers if number is not None]
    wide = "E" in modifiers and len(there) == 1 and there[0] % 2 == 0
    return f"[{'+'.join(map(_name, there)) or LOST}{'.64' * wide}]"


def _name(number: int) -> str:
    return "RZ" if number == RZ else f"R{number}"
