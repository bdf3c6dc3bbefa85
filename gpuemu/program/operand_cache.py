"""Finds the registers that an instruction reads from the operand cache, by the reuse flags of earlier instructions.

Each operand slot has a latch for each bank of the register file. A register read with the reuse flag stays in its latch
until another register of the bank is read for the slot. NOP, loads, other slots and mma in between do not change that.
Reads of another warp of the sub-core do, and an instruction that yields keeps nothing (H200: chains of FFMA of three
even registers, with all kinds of instructions between). The fragments A and B of an mma stay in addition until the next
operation on the tensor pipe.
"""

from __future__ import annotations

from typing import Any

from gpuemu.isa.operands import parse_operand
from gpuemu.isa.registers import mma_registers, source_registers
from gpuemu.program.op import Fetches, Op
from gpuemu.program.program import OPERANDS, SLOTS
from gpuemu.trace.model import Instruction

Registers = tuple[int, ...]


class OperandCache:
    """The contents of the operand cache at a place of the code, if no other warp came between."""

    def __init__(self, banks: int):
        self._banks = banks
        self._place = 0
        self._kept: dict[int, tuple[int, int]] = {}  # by latch: the register, and the place since which it is there
        self._fragments: tuple[Registers, Registers] = ((), ())

    def clear(self) -> None:
        """Forget everything: the code that follows may be reached another way."""
        self._kept.clear()
        self.clear_fragments()

    def clear_fragments(self) -> None:
        """Forget the fragments of an mma."""
        self._fragments = ((), ())

    def read(self, op: Op, instruction: Instruction, tensor: bool) -> tuple[frozenset[int], dict[str, Any]]:
        """The registers that an instruction fetches, and the fields of its op: fetches by bank, with the kept registers
        and without.

        The only source of MOV or I2FP uses the slot of FFMA's second, the second source of a sum that of FFMA's third.
        A register named twice is read once, into two latches. The `tensor` pipe has latches of its own (H200: HFMA2.MMA
        does not wait for those of an FFMA).
        """
        slots = source_registers(instruction.opcode, instruction.operands)
        self._place += any(slots)
        texts = instruction.operands[len(instruction.operands) - len(slots) :]
        adds = "third" in instruction.parsed.row.notes
        fetches: dict[int, list[int]] = {}
        fetches_anew: dict[int, list[int]] = {}
        held = []
        oldest = self._place
        for number, (registers, text) in enumerate(zip(slots, texts, strict=True)):
            slot = OPERANDS - 1 if adds and number == 1 else number % OPERANDS
            slot = (1 if len(slots) == 1 else slot) + (OPERANDS if tensor else 0)
            for register in registers:
                latch = register % self._banks * SLOTS + slot
                fetches_anew.setdefault(register, []).append(latch)
                kept, since = self._kept.pop(latch, (-1, 0))
                if kept == register:
                    oldest = min(oldest, since)
                    held.append(latch)
                else:
                    fetches.setdefault(register, []).append(latch)
                if parse_operand(text).reuse and not op.yields:
                    self._kept[latch] = register, self._place
        return frozenset(fetches), {
            "fetches": self._by_bank(fetches),
            "fetches_anew": self._by_bank(fetches_anew),
            "held": tuple(held),
            "kept_for": self._place - oldest,
        }

    def _by_bank(self, fetches: dict[int, list[int]]) -> Fetches:
        return tuple(
            tuple((register, tuple(latches)) for register, latches in fetches.items() if register % self._banks == bank)
            for bank in range(self._banks)
        )

    def kept_fragments(self, op: Op, instruction: Instruction) -> tuple[bool, bool, bool]:
        """Whether an mma finds A, B and C; C is never kept. The mma keeps the fragments that its flags say."""
        a, b, _ = mma_registers(instruction.opcode, instruction.operands)
        found = a == self._fragments[0], b == self._fragments[1], False
        keeps = [parse_operand(text).reuse and not op.yields for text in instruction.operands[1:3]]
        self._fragments = (a if keeps[0] else (), b if keeps[1] else ())
        return found
