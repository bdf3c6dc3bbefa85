"""Which registers an instruction finds in the operand cache, for the reuse flags of those before it.

Each operand slot has a latch for each bank of the register file. A register that was read with the reuse flag stays in
its latch until another register of the bank is read for the slot; NOP, loads, other slots and mma in between do no
harm, but what another warp of the sub-core reads does, and an instruction that yields keeps nothing (H200: chains
of FFMA of three even registers, with all kinds of instructions between). The fragments A and B of an mma stay beside
them until the next operation on the tensor pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.registers import mma_registers, source_registers

if TYPE_CHECKING:
    from gpuemu.program import Op
    from gpuemu.trace.model import Instruction

_SLOTS = 3
_ADD_IN_THIRD_SLOT = frozenset(("FADD", "HADD2", "DADD"))
"""A sum is a product with 1 to which the second source is added: it stands where FFMA has its third."""
_REUSE = ".reuse"

Registers = tuple[int, ...]


class OperandCache:
    """What it holds at a place of the code, if no other warp came between."""

    def __init__(self, banks: int):
        self._banks = banks
        self._place = 0
        self._kept: dict[tuple[int, int], tuple[int, int]] = {}  # by bank and latch: the register, since which place
        self._fragments: tuple[Registers, Registers] = ((), ())

    def clear(self) -> None:
        """Forget everything: the code that follows may be reached another way."""
        self._kept.clear()
        self.clear_fragments()

    def clear_fragments(self) -> None:
        """Forget what an mma kept."""
        self._fragments = ((), ())

    def read(self, op: Op, instruction: Instruction) -> frozenset[int]:
        """Set which latches its sources need empty and fill, with what is kept and without; returns what is not kept.

        For each bank a bit for each operand slot. A register that is named twice needs one empty latch and fills two.
        One that was kept and is not any longer leaves its latch with this instruction.
        """
        slots = source_registers(instruction.opcode, instruction.operands)
        self._place += any(slots)
        texts = instruction.operands[len(instruction.operands) - len(slots) :]
        adds = instruction.opcode.split(".")[0] in _ADD_IN_THIRD_SLOT
        needs, fills, leaves, needs_anew, fills_anew = ([0] * self._banks for _ in range(5))
        seen: set[int] = set()
        seen_anew: set[int] = set()
        oldest = self._place
        for slot, (registers, text) in enumerate(zip(slots, texts, strict=True)):
            latch = 1 << (_SLOTS - 1 if adds and slot == 1 else slot % _SLOTS)
            for register in registers:
                bank = register % self._banks
                fills_anew[bank] |= latch
                if register not in seen_anew:
                    needs_anew[bank] |= latch
                kept, since = self._kept.pop((bank, latch), (-1, 0))
                keeps = _REUSE in text and not op.yields
                if kept == register:
                    oldest = min(oldest, since)
                    if not keeps:
                        leaves[bank] |= latch
                else:
                    fills[bank] |= latch
                    if register not in seen:
                        needs[bank] |= latch
                    seen.add(register)
                if keeps:
                    self._kept[bank, latch] = register, self._place
            seen_anew.update(registers)
        op.needs, op.fills, op.leaves = tuple(needs), tuple(fills), tuple(leaves)
        op.needs_anew, op.fills_anew = tuple(needs_anew), tuple(fills_anew)
        op.kept_for = self._place - oldest
        return frozenset(seen)

    def kept_fragments(self, op: Op, instruction: Instruction) -> tuple[bool, bool, bool]:
        """Whether an mma finds A, B and C, which never is; keeps those that it says."""
        a, b, _ = mma_registers(instruction.opcode, instruction.operands)
        found = a == self._fragments[0], b == self._fragments[1], False
        keeps = [_REUSE in text and not op.yields for text in instruction.operands[1:3]]
        self._fragments = (a if keeps[0] else (), b if keeps[1] else ())
        return found
