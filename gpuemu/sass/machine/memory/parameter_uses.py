"""How machine code uses a parameter of unknown type: integer or floating-point arithmetic.

A parameter is a word of constant bank 0. From each read, its value is followed along all paths to instructions that
must interpret it as a number. The paths include instructions that move or rearrange bits (MOV, SEL, PRMT, shifts,
masks). One use as a float makes it a float. Code does inspect the bits of floats with integer instructions (square
roots do), but hardly ever uses an integer as the bits of a float. A value that is only stored may be either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import or_

from gpuemu.isa.operands import Operand, Sum, parse_integer, parse_operand
from gpuemu.isa.registers import destination_count, is_number, register_name, register_number, written_and_read
from gpuemu.isa.table import Opcode
from gpuemu.sass.image.nv_info import Parameter
from gpuemu.trace.model import Instruction

_LOADS = ("LDC", "LDCU", "ULDC")
_LARGEST_NUMBER = 8
_BANK = Sum((), 0, ())
_PRODUCTS = ("IMAD", "UIMAD")
_MOVING_PRODUCTS = (("MOV",), ("SHL",), ("U32",))
"""Forms of IMAD: a move, a shift, and the shift by 16 that converts a bf16 to a float."""
_ATOMIC_FLOATS = ("F32", "F64", "F16", "F16x2", "BF16", "BF16x2", "BF16_V2")


Values = dict[tuple[int, str], int]
"""Parameters in registers, as a bit for each parameter.

The key is a register, and the guard under which this is all that the register contains; "" if the guard does not
matter.
"""
_UNSURE = 1 << 4096
"""A bit beside those of the parameters: on another path, the register contains something else."""


class Use(Enum):
    """How code uses a parameter."""

    NONE = "not at all"
    WHOLE = "as a whole number"
    FLOAT = "as a float"
    EITHER = "as bits, of a whole number or of a float"


def parameter_uses(
    code: Sequence[Instruction], base: int, parameters: Sequence[Parameter], targets: Mapping[int, Sequence[int]]
) -> tuple[Use, ...]:
    """Return the use of each parameter. `base`: their start in constant bank 0; `targets`: those of branches."""
    found: list[set[Use]] = [set() for _ in parameters]
    known = _Parameters(base, parameters)
    paths = _paths(code, targets)
    joins = {0, *(at for following in paths.values() for at in following)}
    before: dict[int, Values] = {0: {}}
    waiting = [0] if code else []
    while waiting:
        at = waiting.pop()
        values = dict(before[at])
        while True:
            _step(code[at], values, known, found)
            following = paths.get(at, (at + 1,))
            at += 1
            if following != (at,) or at in joins:
                break
        waiting += [other for other in following if _comes_in(values, other, before)]
    return tuple(_verdict(uses) for uses in found)


def _paths(code: Sequence[Instruction], targets: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """Return the successors of each instruction that may not continue with the next one, as indices of the code."""
    index = {instruction.offset: at for at, instruction in enumerate(code)}
    found = {}
    for at, instruction in enumerate(code):
        leaves, last = "leaves" in instruction.parsed.row.notes, at + 1 == len(code)
        if not (leaves or last or instruction.mnemonic == "CALL"):
            continue
        goes_on = (not leaves or bool(instruction.guard) or _conditional(instruction)) and not last
        named = () if instruction.mnemonic == "RET" else instruction.operands[-1:]
        offsets = [number for number in map(parse_integer, named) if number is not None]
        offsets += targets.get(instruction.offset, ())
        following = [index[offset] for offset in offsets if offset in index]
        found[at] = (*([at + 1] if goes_on else []), *dict.fromkeys(following))
    return found


def _conditional(instruction: Instruction) -> bool:
    """Whether a branch has a predicate among its operands: BRA.DIV, BRA !P0, 0x100."""
    return any(parse_operand(operand).register is not None for operand in instruction.operands[:-1])


def _comes_in(values: Values, at: int, before: dict[int, Values]) -> bool:
    """Add a path's values to those before an instruction; return whether they change."""
    comes = {key: held for key, held in values.items() if key[1] == ""}
    there = before.get(at)
    if there is None:
        before[at] = comes
        return True
    joined = {key: _either(comes.get(key, 0), there.get(key, 0)) for key in {**there, **comes}}
    before[at] = joined
    return joined != there


def _either(one: int, other: int) -> int:
    """Return the contents of a register that holds one or the other."""
    return one if one == other else one | other | _UNSURE


def _step(instruction: Instruction, values: Values, known: _Parameters, found: Sequence[set[Use]]) -> None:
    """Process one instruction: note its uses of parameters, and update the registers that contain them."""
    opcode, operands, guard = instruction.parsed, instruction.operands, instruction.guard
    written = written_and_read(instruction.opcode, operands, "")[0]
    results = [r for r in written if is_number(r)]
    sources = [parse_operand(operand) for operand in operands[destination_count(instruction.opcode, operands) :]]

    def held_in(operand: Operand) -> int:
        registers = [register_number(register) for register, _ in operand.registers]
        return _all(values.get((r, guard), values.get((r, ""), 0)) for r in registers)

    moved = [0] * len(results)
    if opcode.mnemonic in _LOADS:
        # Several words may belong to several parameters.
        moved = [known.at(sources[0], 4 * word) for word in range(len(results))]
        if known.anywhere(sources[0]):
            _note(found, _UNSURE - 1, Use.EITHER)
    elif opcode.row.numbers == "moved" or _is_moving_product(opcode):
        held = _all(known.at(source) | held_in(source) for source in sources)
        moved = [held] * len(results)
        if not results:
            _note(found, held, Use.WHOLE)  # a mask that ends in a predicate tests bits of an integer
    else:
        use = _use(opcode)
        for source in sources:
            address = bool(source.brackets) and not source.is_constant
            _note(found, held_in(source), Use.WHOLE if address else use)
            _note(found, known.at(source), use)
    predicates = {register_name(r) for r in written if not is_number(r)}
    for key in [key for key in values if key[1] != "" and (key[0] in results or key[1].lstrip("@!") in predicates)]:
        del values[key]
    for register, parameters in zip(results, moved, strict=True):
        before = values.pop((register, ""), 0)
        if guard:
            values[register, guard] = parameters
            parameters = _either(parameters, before) if before else parameters
        if parameters:
            values[register, ""] = parameters


def _all(parameters: Iterable[int]) -> int:
    return reduce(or_, parameters, 0)


@dataclass(frozen=True)
class _Parameters:
    """The places of the parameters in constant bank 0, from `base` on."""

    base: int
    places: Sequence[Parameter]

    def at(self, operand: Operand, further: int = 0) -> int:
        """Return the bit of the parameter at an operand's place, or `further` bytes after it."""
        if not operand.is_constant or operand.brackets[0] != _BANK or operand.brackets[1].number is None:
            return 0
        place = operand.brackets[1].number + further - self.base
        if self.anywhere(operand):
            return 0
        return _all((p.offset <= place < p.offset + p.size) << number for number, p in enumerate(self.places))

    def anywhere(self, operand: Operand) -> bool:
        """Whether a register selects the parameter; an index into one array parameter does not count."""
        if not operand.is_constant or operand.brackets[0] != _BANK or not operand.brackets[1].registers:
            return False
        place = (operand.brackets[1].number or 0) - self.base
        inside = [p for p in self.places if p.offset <= place < p.offset + p.size]
        return not any(p.size > _LARGEST_NUMBER for p in inside)


def _is_moving_product(opcode: Opcode) -> bool:
    return opcode.mnemonic in _PRODUCTS and opcode.modifiers[:1] in _MOVING_PRODUCTS


def _use(opcode: Opcode) -> Use:
    match opcode.row.numbers:
        case "float":
            return Use.FLOAT
        case "whole":
            return Use.WHOLE
        case "typed" if not opcode.has("EXCH", "CAS"):
            return Use.FLOAT if opcode.has(*_ATOMIC_FLOATS) else Use.WHOLE
    return Use.EITHER


def _note(found: Sequence[set[Use]], held: int, use: Use) -> None:
    """Note a use; a use that may be of another value gives no type."""
    for number, uses in enumerate(found):
        if held >> number & 1:
            uses.add(Use.EITHER if held & _UNSURE else use)


def _verdict(uses: set[Use]) -> Use:
    return next((use for use in (Use.FLOAT, Use.WHOLE, Use.EITHER) if use in uses), Use.NONE)
