"""Operands of matrix instructions as they were last decoded, and what is known of their results.

A product in blocks multiplies each fragment of A with several of B, and each of B with several of A, out of the same
registers. Decoded operands are kept by the register that they start in, beside the bits that they were decoded from:
if those are still there, so is the operand.
"""

from __future__ import annotations

from gpuemu.isa.fragments import MmaMode, Registers
from gpuemu.tensor.mma import Bounds, Numerics, Operand, multiply

_LONGEST_PAUSE = 64


class FragmentStore:
    """The operands and results of a CTA's matrix instructions."""

    def __init__(self) -> None:
        self._operands: dict[tuple[str, bool, int], tuple[bytes, Operand]] = {}
        self._results: dict[int, tuple[bytes, Bounds]] = {}
        self._pause = 0
        self._left_out = 0

    def product(self, numerics: Numerics, mode: MmaMode, registers: list[Registers], numbers: list[int]) -> Registers:
        """D = A x B + C; registers of A, B and C [registers, 32 x warps], the numbers of the first of D, A, B, C."""
        a, b, c = registers
        d, first_a, first_b, first_c = numbers
        left, right = self.operand(mode, False, first_a, a), self.operand(mode, True, first_b, b)
        return self.multiply(numerics, left, right, c, first_c, d)

    def operand(self, mode: MmaMode, right: bool, first: int, registers: Registers) -> Operand:
        """A, or B where `right`, from the registers [registers, 32 x warps] of which the first is number `first`."""
        name = registers.tobytes()
        kept = self._operands.get((mode.name, right, first))
        if kept is not None and kept[0] == name:
            return kept[1]
        operand = Operand(mode, right, name)
        self._operands[mode.name, right, first] = name, operand
        return operand

    def multiply(
        self, numerics: Numerics, left: Operand, right: Operand, c: Registers, first_c: int, first_d: int
    ) -> Registers:
        """D = A x B + C; `first_c` and `first_d` are the numbers of the registers of C and D."""
        known = self._results.get(first_c)
        c_bounds = known[1] if known is not None and known[0] == c.tobytes() else None
        # Where nothing can be gained, looking for it costs more than it brings in the rare case.
        hopeful = self._left_out >= self._pause
        d, d_bounds = multiply(numerics, left, right, c, c_bounds, hopeful)
        if d_bounds is not None:
            self._results[first_d] = d.tobytes(), d_bounds
            self._pause = 0
        elif hopeful:
            self._pause, self._left_out = min(2 * self._pause + 1, _LONGEST_PAUSE), 0
        else:
            self._left_out += 1
        return d
