"""Operands of an instruction as functions that read and write lanes.

A `Site` is one instruction of the code bound to the lanes of a CTA. Its methods convert operand texts of the
disassembler (`-R4.reuse`, `|R7|`, `~UR5`, `!P0`, `0x3f800000`, `c[0x0][0x160]`, `1.5`, `R2.H0_H0`) to getters and
setters once. Each step of the execution only calls these. Getters return an array over the lanes or one NumPy scalar;
callers must never write to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import Operand, Register, immediate32, parse_operand
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import Lanes, Mask, whole_warps, write
from gpuemu.trace.model import Instruction

Getter = Callable[[], Any]
Setter = Callable[[Any, Mask], None]
Step = Callable[[Mask], None]

_SIGN32 = np.uint32(0x80000000)
_SIGN64 = np.uint64(1 << 63)


class UnsupportedError(ValueError):
    """The executor does not support this instruction or this form of it; the message says which."""

    def __init__(self, instruction: Instruction, what: str):
        self.instruction = instruction
        self.what = what
        super().__init__(f"{instruction}: {what}")


class Site:
    """One instruction bound to the lanes, from which the semantics of its opcode are built."""

    def __init__(self, instruction: Instruction, environment: Environment):
        self.instruction = instruction
        self.environment = environment
        self.lanes: Lanes = environment.lanes
        self.mnemonic, self.modifiers = instruction.mnemonic, instruction.parsed.modifiers
        self.operands = tuple(parse_operand(o) for o in instruction.operands)

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode has one of these modifiers."""
        return self.instruction.has(*modifiers)

    def only(self, *known: str) -> None:
        """Refuse the instruction if its opcode has any other modifier."""
        for modifier in self.modifiers:
            if modifier not in known:
                raise self.unsupported(f"the modifier .{modifier}")

    def unsupported(self, what: str) -> UnsupportedError:
        """Return an error for a form that the semantics do not support."""
        return UnsupportedError(self.instruction, what)

    # -- registers ------------------------------------------------------------------------------------------

    def is_predicate(self, k: int) -> bool:
        """Whether operand k exists and is a predicate."""
        register = self.operands[k].register if k < len(self.operands) else None
        return register is not None and register.is_predicate

    def register(self, k: int) -> tuple[NDArray[np.uint32], int]:
        """Return the register file [register, lane] and number of operand k."""
        register = self.operands[k].register
        if register is None or register.is_predicate:
            raise self.unsupported(f"operand {k + 1} is not a register")
        return self.lanes.file(register.file), register.number

    def is_uniform(self, k: int) -> bool:
        """Whether operand k is a uniform register or predicate."""
        return self.operands[k].core.startswith("U")

    def words(self, k: int, count: int) -> list[NDArray[np.uint32]]:
        """Return the lanes of `count` consecutive registers from operand k; RZ stays RZ."""
        file, number = self.register(k)
        last = len(file) - 1
        return [file[last if number == last else number + i] for i in range(count)]

    def guard_lanes(self, text: str) -> NDArray[np.bool_]:
        """Return the lanes of the predicate of a guard such as @P0 or @!UP1; its ! is not applied."""
        register = parse_operand(text.lstrip("@!")).register
        if register is None or not register.is_predicate:
            raise self.unsupported(f"the guard {text}")
        return np.asarray(self.lanes.predicate_file(register.file)[register.number])

    # -- sources --------------------------------------------------------------------------------------------

    def raw(self, k: int) -> Getter:
        """Return operand k as 32 bits without its decorations: uint32 lanes or scalar."""
        operand = self.operands[k]
        if operand.register is not None:
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
        """Return operand k as an integer: uint32 lanes or scalar, with -, |x| (of the signed value) and ~ applied."""
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
        """Return operand k as 64 bits, a register pair or constant: uint64 lanes or scalar, with - and ~ applied.

        The returned array is valid until the next call.
        """
        operand = self.operands[k]
        if operand.register is not None:
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
                if self.has("64", "S64", "U64"):  # the text has all 64 bits, not only the low word
                    wide = np.uint64(int(operand.core, 0) % (1 << 64))

                def get() -> Any:
                    return wide

        if operand.negative:
            return lambda: np.uint64(0) - get()
        if operand.inverted:
            return lambda: ~get()
        return get

    def float32(self, k: int) -> Getter:
        """Return operand k as float32 lanes or scalar, with -x and |x| applied to the sign bit."""
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
        """Return operand k as float64 lanes or scalar; an immediate gives the high word."""
        operand = self.operands[k]
        value = None if operand.register or operand.brackets else immediate32(operand.core, double=True)
        if value is not None:
            bits64 = np.uint64(int(value) << 32)
            get: Getter = lambda: bits64  # noqa: E731
        else:
            bare = Site.__new__(Site)
            bare.__dict__.update(self.__dict__)
            bare.operands = (
                replace(operand, suffixes=(), negative=False, absolute=False, inverted=False, negated=False),
            )
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
        """Return operand k, a predicate: bool lanes, with ! applied."""
        operand = self.operands[k]
        lanes = self._predicate_lanes(k)
        if operand.negated:
            return lambda: ~lanes
        return lambda: lanes

    # -- destinations ---------------------------------------------------------------------------------------

    def destination(self, k: int) -> Setter:
        """Return a function that stores uint32 lanes (or a scalar) in the register of operand k."""
        file, number = self.register(k)
        if number == len(file) - 1:
            return lambda values, mask: None
        target = file[number]
        if file is self.lanes.uniform_registers:
            return lambda values, mask: write(target, values, whole_warps(mask))
        return lambda values, mask: write(target, values, mask)

    def destination64(self, k: int) -> Setter:
        """Return a function that stores 64-bit lanes, or a scalar, in the register pair of operand k."""
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
        """Return a function that stores bool lanes in the predicate of operand k; PT ignores them."""
        if self.operands[k].core in ("PT", "UPT"):
            return lambda values, mask: None
        target = self._predicate_lanes(k)
        if self.operands[k].core.startswith("UP"):
            return lambda values, mask: write(target, values, whole_warps(mask))
        return lambda values, mask: write(target, values, mask)

    # -- inside ---------------------------------------------------------------------------------------------

    def _predicate_lanes(self, k: int) -> NDArray[np.bool_]:
        register = self.operands[k].register
        if register is None or not register.is_predicate:
            raise self.unsupported(f"operand {k + 1} is not a predicate")
        return np.asarray(self.lanes.predicate_file(register.file)[register.number])

    def _constant(self, operand: Operand, size: int) -> Getter | None:
        """Return a getter of `size` bytes of a constant bank, or None for another operand."""
        if not operand.is_constant:
            return None
        number, data, register, start = self.constant(operand)
        kind = np.uint32 if size == 4 else np.uint64
        if register is None:
            if not 0 <= start <= len(data) - size:
                found = f"constant offset {start:#x}"
                raise ExecutionError(
                    self.instruction, None, found, f"expected an offset in the {len(data)} bytes of the bank"
                )
            self.expect_known(number, start)
            value = data[start : start + size].view(kind)[0]
            return lambda: value
        lanes = self.lanes.file(register.file)[register.number]

        def indexed() -> Any:
            starts = lanes.astype(np.int64) + start
            starts = np.clip(starts, 0, len(data) - size)
            return np.ascontiguousarray(data[starts[:, None] + np.arange(size)]).view(kind)[:, 0]

        return indexed

    def constant(self, operand: Operand) -> tuple[int, NDArray[np.uint8], Register | None, int]:
        """Return a constant's bank number and bytes, and the register and the number whose sum is its offset."""
        bank, offset = operand.brackets
        if bank.registers or bank.unknown or bank.number is None:
            raise self.unsupported(f"the constant bank of {operand.text}, in a register")
        data = self.environment.constants.get(bank.number)
        if data is None:
            raise self.unsupported(f"constant bank {bank.number}, which the cubin does not have")
        if offset.unknown or len(offset.registers) > 1 or any(r.is_predicate or r.suffixes for r in offset.registers):
            raise self.unsupported(f"the constant {operand.text} is not understood")
        return bank.number, data, next(iter(offset.registers), None), offset.number or 0

    def expect_known(self, bank: int, offset: int) -> None:
        """Refuse the instruction if it reads a word that only a driver would have filled in."""
        if not self.environment.knows(bank, offset):
            raise self.unsupported(f"c[0x0][{offset:#x}], a word of the driver's")
