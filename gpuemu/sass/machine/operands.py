"""Operands of an instruction as functions that read and write lanes.

A `Site` is one instruction of the code bound to the lanes of a CTA. Its methods turn operand texts as the
disassembler prints them (`-R4.reuse`, `|R7|`, `~UR5`, `!P0`, `0x3f800000`, `c[0x0][0x160]`, `1.5`, `R2.H0_H0`) into
getters and setters once; a step of the execution then only calls those.

Getters return an array over the lanes or one NumPy scalar; never write into what they return.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import PT, RZ, URZ, Lanes, Mask, whole_warps, write
from gpuemu.trace.model import Instruction

Getter = Callable[[], Any]
Setter = Callable[[Any, Mask], None]
Step = Callable[[Mask], None]

_REGISTER = re.compile(r"(UR|R)(\d+|Z)\Z")
_PREDICATE = re.compile(r"(UP|P)([0-6]|T)\Z")
_CONSTANT = re.compile(r"(c|cx)\[([^\]]+)\]\[([^\]]+)\]\Z")
_SIGN32 = np.uint32(0x80000000)
_SIGN64 = np.uint64(1 << 63)


class UnsupportedError(ValueError):
    """The executor does not know this instruction or this form of it; the message says which."""

    def __init__(self, instruction: Instruction, what: str):
        self.instruction = instruction
        self.what = what
        super().__init__(f"{instruction}: {what}")


@dataclass(frozen=True)
class Operand:
    """An operand, its decorations taken off. `suffixes` such as ("H0_H0",) or ("64",); reuse flags are dropped."""

    text: str
    core: str
    suffixes: tuple[str, ...]
    negative: bool
    absolute: bool
    inverted: bool
    negated: bool


def parse_operand(text: str) -> Operand:
    """Take an operand apart: `-|R4.reuse|` is R4, negative and absolute; `!P0` is P0, negated."""
    rest = text.strip()
    negated = rest.startswith("!")
    rest = rest.removeprefix("!")
    negative = rest.startswith("-") and not re.match(r"-(\d|0x|INF|QNAN)", rest)
    rest = rest[1:] if negative else rest
    inverted = rest.startswith("~")
    rest = rest.removeprefix("~")
    absolute = rest.startswith("|")
    rest = rest.replace("|", "")
    suffixes: tuple[str, ...] = ()
    if re.match(r"(U?R(\d+|Z)|U?P[\dT])\b", rest):
        rest, *after = rest.split(".")
        suffixes = tuple(s for s in after if s != "reuse")
    elif rest.startswith(("c[", "cx[")) and "]." in rest:
        rest, _, after_text = rest.rpartition("].")
        rest += "]"
        suffixes = tuple(after_text.split("."))
    return Operand(text, rest, suffixes, negative, absolute, inverted, negated)


class Site:
    """One instruction bound to the lanes: what the semantics of its opcode are built from."""

    def __init__(self, instruction: Instruction, environment: Environment):
        self.instruction = instruction
        self.environment = environment
        self.lanes: Lanes = environment.lanes
        self.mnemonic, *modifiers = instruction.opcode.split(".")
        self.modifiers = tuple(modifiers)
        self.operands = tuple(parse_operand(o) for o in instruction.operands)

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode carries one of these modifiers."""
        return any(m in self.modifiers for m in modifiers)

    def only(self, *known: str) -> None:
        """Refuse the instruction if its opcode carries any modifier but these."""
        for modifier in self.modifiers:
            if modifier not in known:
                raise self.unsupported(f"the modifier .{modifier}")

    def unsupported(self, what: str) -> UnsupportedError:
        """An error for a form that the semantics do not know."""
        return UnsupportedError(self.instruction, what)

    # -- registers ------------------------------------------------------------------------------------------

    def is_predicate(self, k: int) -> bool:
        """Whether operand k exists and is a predicate."""
        return k < len(self.operands) and _PREDICATE.match(self.operands[k].core) is not None

    def register(self, k: int) -> tuple[NDArray[np.uint32], int]:
        """The register file [register, lane] and number of operand k."""
        match = _REGISTER.match(self.operands[k].core)
        if match is None:
            raise self.unsupported(f"operand {k + 1} is no register")
        uniform = match[1] == "UR"
        zero = URZ if uniform else RZ
        number = zero if match[2] == "Z" else int(match[2])
        return (self.lanes.uniform_registers if uniform else self.lanes.registers), number

    def is_uniform(self, k: int) -> bool:
        """Whether operand k is a uniform register or predicate."""
        return self.operands[k].core.startswith("U")

    def words(self, k: int, count: int) -> list[NDArray[np.uint32]]:
        """The lanes of `count` consecutive registers from operand k; RZ stays RZ."""
        file, number = self.register(k)
        last = len(file) - 1
        return [file[last if number == last else number + i] for i in range(count)]

    def guard_lanes(self, text: str) -> NDArray[np.bool_]:
        """The lanes of the predicate of a guard such as @P0 or @!UP1; its ! is not applied."""
        name = text.lstrip("@!")
        file = self.lanes.uniform_predicates if name.startswith("U") else self.lanes.predicates
        return np.asarray(file[PT if name.endswith("T") else int(name[-1])])

    # -- sources --------------------------------------------------------------------------------------------

    def raw(self, k: int) -> Getter:
        """Operand k as 32 bits, decorations not applied: uint32 lanes or scalar."""
        operand = self.operands[k]
        if _REGISTER.match(operand.core):
            file, number = self.register(k)
            lanes = file[number]
            return lambda: lanes
        constant = self._constant(operand, 4)
        if constant is not None:
            return constant
        value = immediate32(operand.core)
        if value is None:
            raise self.unsupported(f"operand {operand.text} is not understood")
        return lambda: value

    def source(self, k: int) -> Getter:
        """Operand k as an integer: uint32 lanes or scalar, with -, |x| (of the signed value) and ~ applied."""
        operand, get = self.operands[k], self.raw(k)
        if operand.absolute:
            plain = get
            get = lambda: np.abs(np.asarray(plain()).view(np.int32)).view(np.uint32)  # noqa: E731
        if operand.negative:
            positive = get
            return lambda: np.uint32(0) - np.asarray(positive())
        if operand.inverted:
            upright = get
            return lambda: ~np.asarray(upright())
        return get

    def source64(self, k: int) -> Getter:
        """Operand k as 64 bits, a register pair or constant: uint64 lanes or scalar, with - and ~ applied.

        What it returns holds until it is called again.
        """
        operand = self.operands[k]
        if _REGISTER.match(operand.core):
            low, high = self.words(k, 2)
            together = np.empty(len(low), dtype=np.uint64)
            low_words, high_words = together.view(np.uint32)[::2], together.view(np.uint32)[1::2]

            def get() -> Any:
                low_words[:] = low
                high_words[:] = high
                return together
        else:
            constant = self._constant(operand, 8)
            if constant is not None:
                get = constant
            else:
                value = immediate32(operand.core)
                if value is None:
                    raise self.unsupported(f"operand {operand.text} is not understood")
                wide = np.uint64(np.int64(value.view(np.int32)))

                def get() -> Any:
                    return wide

        if operand.negative:
            return lambda: np.uint64(0) - get()
        if operand.inverted:
            return lambda: ~get()
        return get

    def float32(self, k: int) -> Getter:
        """Operand k as float32 lanes or scalar, with -x and |x| applied to the sign bit."""
        operand = self.operands[k]
        value = immediate32(operand.core, floating=True)
        get = self.raw(k) if value is None else lambda: value
        absolute, negative = operand.absolute, operand.negative
        if not absolute and not negative:
            return lambda: np.asarray(get()).view(np.float32)

        def signed() -> Any:
            bits = np.asarray(get())
            if absolute:
                bits = bits & ~_SIGN32
            if negative:
                bits = bits ^ _SIGN32
            return bits.view(np.float32)

        return signed

    def float64(self, k: int) -> Getter:
        """Operand k as float64 lanes or scalar; an immediate gives the high word."""
        operand = self.operands[k]
        value = None if _REGISTER.match(operand.core) or "[" in operand.core else immediate32(operand.core, double=True)
        if value is not None:
            bits64 = np.uint64(int(value) << 32)
            get: Getter = lambda: bits64  # noqa: E731
        else:
            bare = Site.__new__(Site)
            bare.__dict__.update(self.__dict__)
            bare.operands = (Operand(operand.text, operand.core, (), False, False, False, False),)
            get = bare.source64(0)

        def signed() -> Any:
            bits = np.asarray(get())
            if operand.absolute:
                bits = bits & ~_SIGN64
            if operand.negative:
                bits = bits ^ _SIGN64
            return bits.view(np.float64)

        return signed

    def predicate(self, k: int) -> Getter:
        """Operand k, a predicate: bool lanes, with ! applied."""
        operand = self.operands[k]
        lanes = self._predicate_lanes(k)
        if operand.negated:
            return lambda: ~lanes
        return lambda: lanes

    # -- destinations ---------------------------------------------------------------------------------------

    def destination(self, k: int) -> Setter:
        """Stores uint32 lanes (or a scalar) in the register of operand k."""
        file, number = self.register(k)
        if number == len(file) - 1:
            return lambda values, mask: None
        target = file[number]
        if file is self.lanes.uniform_registers:
            return lambda values, mask: write(target, values, whole_warps(mask))
        return lambda values, mask: write(target, values, mask)

    def destination64(self, k: int) -> Setter:
        """Stores 64-bit lanes, or a scalar, in the register pair of operand k."""
        file, number = self.register(k)
        if number == len(file) - 1:
            return lambda values, mask: None
        low, high = file[number], file[number + 1]
        uniform = file is self.lanes.uniform_registers

        def store(values: Any, mask: Mask) -> None:
            if uniform:
                mask = whole_warps(mask)
            words = np.ascontiguousarray(values).view(np.uint32)
            write(low, words[0::2], mask)
            write(high, words[1::2], mask)

        return store

    def set_predicate(self, k: int) -> Setter:
        """Stores bool lanes in the predicate of operand k; PT takes nothing."""
        if self.operands[k].core in ("PT", "UPT"):
            return lambda values, mask: None
        target = self._predicate_lanes(k)
        if self.operands[k].core.startswith("UP"):
            return lambda values, mask: write(target, values, whole_warps(mask))
        return lambda values, mask: write(target, values, mask)

    # -- inside ---------------------------------------------------------------------------------------------

    def _predicate_lanes(self, k: int) -> NDArray[np.bool_]:
        match = _PREDICATE.match(self.operands[k].core)
        if match is None:
            raise self.unsupported(f"operand {k + 1} is no predicate")
        number = PT if match[2] == "T" else int(match[2])
        lanes = self.lanes
        return np.asarray((lanes.uniform_predicates if match[1] == "UP" else lanes.predicates)[number])

    def _constant(self, operand: Operand, size: int) -> Getter | None:
        """A getter of `size` bytes of a constant bank, or None if the operand is none."""
        match = _CONSTANT.match(operand.core)
        if match is None:
            return None
        bank, offset = match[2], match[3]
        if not bank.startswith("0x"):
            raise self.unsupported(f"the constant bank {bank} in a register")
        number = int(bank, 16)
        data = self.environment.constants.get(number)
        if data is None:
            raise self.unsupported(f"constant bank {number}, which the cubin does not have")
        kind = np.uint32 if size == 4 else np.uint64
        match = re.fullmatch(r"(?:(-?0x[0-9a-f]+)|((?:UR|R)(?:\d+|Z))(?:\+(-?0x[0-9a-f]+))?)", offset)
        if match is None:
            raise self.unsupported(f"the constant offset {offset}")
        fixed, register, plus = match.groups()
        if register is None:
            start = int(fixed, 16)
            if not 0 <= start <= len(data) - size:
                found = f"constant offset {start:#x}"
                raise ExecutionError(self.instruction, None, found, f"the bank has {len(data)} bytes")
            self.expect_known(number, start)
            value = data[start : start + size].view(kind)[0]
            return lambda: value
        lanes = self.environment.register_lanes(register)
        offset_bytes = int(plus or "0x0", 16)

        def indexed() -> Any:
            starts = lanes.astype(np.int64) + offset_bytes
            starts = np.clip(starts, 0, len(data) - size)
            return np.ascontiguousarray(data[starts[:, None] + np.arange(size)]).view(kind)[:, 0]

        return indexed

    def expect_known(self, bank: int, offset: int) -> None:
        """Refuse the instruction if it reads what a driver would have filled in and nobody did here."""
        if not self.environment.knows(bank, offset):
            raise self.unsupported(f"c[0x0][{offset:#x}], a word of the driver's")


def immediate32(text: str, double: bool = False, floating: bool = False) -> np.uint32 | None:
    """The 32 bits of an immediate: `0x10`, `-0x1`, `7`, `1.5`, `+INF`, `-QNAN`; None if it is none.

    A decimal point or exponent makes a float, of which `double` asks for the high word of 64 bits.
    `floating` and `double` say that a decimal number without either is a float, too: FADD's 1 is 1.0.
    """
    special = {
        "+INF": 0x7F800000,
        "INF": 0x7F800000,
        "-INF": 0xFF800000,
        "+QNAN": 0x7FFFFFFF,
        "QNAN": 0x7FFFFFFF,
        "-QNAN": 0xFFFFFFFF,
    }
    if text in special:
        if double:
            wide = {
                0x7F800000: 0x7FF00000,
                0xFF800000: 0xFFF00000,
                0x7FFFFFFF: 0x7FFFFFFF,
                0xFFFFFFFF: 0xFFFFFFFF,
            }
            return np.uint32(wide[special[text]])
        return np.uint32(special[text])
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
