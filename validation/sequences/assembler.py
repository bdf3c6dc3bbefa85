"""Writes instructions as machine code: their form filled in, the guard, the control word and the reuse flags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import ControlWord, Instruction
from validation.sequences.forms import REUSE, Form, Forms, Operand, UnknownFormError, form_of, put, text_of

_GUARD, _CONTROL = (12, 4), (105, 21)
_NO_COUNTER = 7
_LONG_STALL = 12
_REUSE_BITS = {24: 0, 32: 1, 64: 2}
"""The reuse flag of a register by where the register stands."""
_BRANCH = "BRA"
_BRANCH_WORD = 0x947 | 0x3800000 << 64
_DISTANCE = re.compile(r"[+-]0x[0-9a-f]+$")
_REGISTER = re.compile(r"(?<![\w.])R(?:\d+|Z)(?!\w)(?:\|?\.\w+)*")
"""A vector register with what follows it behind points."""


def assemble(code: Sequence[Instruction], forms: Forms, file: str) -> bytes:
    """The machine code of these instructions; `file` names them in messages.

    Raises GpuemuError with every instruction that cannot be written.
    """
    words, problems = [], []
    for instruction in code:
        found = _word(instruction, forms)
        if isinstance(found, int):
            words.append(found.to_bytes(INSTRUCTION_BYTES, "little"))
        else:
            problems.append(Problem(file, instruction.line, "code", *found))
    if problems:
        raise GpuemuError(problems)
    return b"".join(words)


def is_branch(instruction: Instruction) -> bool:
    """Whether it is the branch by a distance that only `assemble` writes."""
    return instruction.opcode == _BRANCH


def yields(control: ControlWord) -> bool:
    """Whether the yield bit is set: a stall count of 0 or of 12 and more always comes with it, and nvdisasm insists."""
    return control.yields or control.stall_cycles == 0 or control.stall_cycles >= _LONG_STALL


def _word(instruction: Instruction, forms: Forms) -> int | tuple[str, str]:
    """The 128 bits, or what was found and what would be right."""
    if instruction.control is None:
        return f"'{instruction}'", "expected a control word before it, such as [B------:R-:W-:-:S02]"
    reuse = 0
    if is_branch(instruction):
        if len(instruction.operands) != 1 or _DISTANCE.match(instruction.operands[0]) is None:
            return f"'{instruction}'", "expected a distance in bytes from the next instruction, such as BRA +0x20"
        word = _branch(int(instruction.operands[0], 16))
    else:
        text = text_of(instruction)
        name, operands = form_of(text.replace(REUSE, ""))
        try:
            form = forms.find(name)
        except UnknownFormError as error:
            nearest = "; ".join(f"'{known}'" for known in error.nearest) or "none"
            return f"'{text}', a form that no known code has", f"The nearest known ones are {nearest}"
        word = form.filled(operands)
        reuse = _reuse_flags(text, form, operands)
        if reuse and yields(instruction.control):
            return f"'{instruction.control} {text}'", "expected either reuse flags or the yield bit, not both"
    guard = instruction.guard.removeprefix("@")
    if guard:
        number = guard.lstrip("!UP")
        word = put(word, _GUARD, (7 if number == "T" else int(number)) | (8 if "!" in guard else 0))
    else:
        word = put(word, _GUARD, 7)
    return put(word, _CONTROL, _control_bits(instruction.control) | reuse << 17)


def _branch(distance: int) -> int:
    """A branch by so many bytes from the instruction behind it: in 4-byte steps, the lowest eight bits apart."""
    steps = distance // 4 & (1 << 56) - 1
    return _BRANCH_WORD | (steps & 255) << 16 | steps >> 8 << 34


def _control_bits(control: ControlWord) -> int:
    write = _NO_COUNTER if control.write_counter is None else control.write_counter
    read = _NO_COUNTER if control.read_counter is None else control.read_counter
    waits = 0 if yields(control) else 1
    return control.stall_cycles | waits << 4 | write << 5 | read << 8 | control.wait_mask << 11


def _reuse_flags(text: str, form: Form, operands: tuple[Operand, ...]) -> int:
    """The flags of the registers that are written with `.reuse`; a result's register has none."""
    places = [place for place, operand in zip(form.places or (), operands, strict=True) if operand.file == "R"]
    kept = [bit for (bit, _), register in zip(places, _REGISTER.findall(text), strict=True) if REUSE in register]
    return sum(1 << _REUSE_BITS[bit] for bit in kept if bit in _REUSE_BITS)
