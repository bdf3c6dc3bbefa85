"""The operations that lanes compute, in a table: what each reads and writes, and the function that computes it.

`reads` and `writes` have a letter for each value: u a register, w a pair, f a float32, d a float64, p a predicate;
behind what it reads, i for each number that the instruction fixes. Compiled code knows an operation by its place here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuemu.sass.lane import doubles, floats, halves, integers


@dataclass(frozen=True)
class Operation:
    """A row of the table."""

    function: Callable[..., Any]
    reads: str
    writes: str

    @property
    def name(self) -> str:
        """The function's."""
        return self.function.__name__


_ROWS: tuple[tuple[Callable[..., Any], str, str], ...] = (
    (integers.move, "u", "u"),
    (integers.move_pair, "w", "w"),
    (integers.choose, "uup", "u"),
    (integers.choose_pair, "wwp", "w"),
    (integers.magnitude, "u", "u"),
    (integers.add_two, "uu", "u"),
    (integers.add_three, "uuu", "u"),
    (integers.add_exactly, "uuuppi", "upp"),
    (integers.multiply_add, "uuu", "u"),
    (integers.multiply_add_carry, "uuup", "u"),
    (integers.multiply_wide, "uuwp", "wp"),
    (integers.multiply_wide_signed, "uuwp", "w"),
    (integers.multiply_high, "uuwp", "up"),
    (integers.multiply_high_signed, "uuwp", "u"),
    (integers.logic, "uuui", "u"),
    (integers.logic_predicate, "uuupii", "up"),
    (integers.predicate_logic, "pppii", "pp"),
    (integers.permute, "uuu", "u"),
    (integers.permute_by_mode, "uuuiiii", "u"),
    (integers.shift_left, "uuii", "u"),
    (integers.shift_right, "uuii", "u"),
    (integers.shift_right_signed, "uuii", "u"),
    (integers.funnel_left, "uuuii", "u"),
    (integers.funnel_right, "uuuii", "u"),
    (integers.funnel_right_signed, "uuuii", "u"),
    (integers.shift_add, "uupiii", "up"),
    (integers.shift_add_high, "uuupiii", "up"),
    (integers.shift_add_sign, "uupiii", "up"),
    (integers.count_ones, "u", "u"),
    (integers.reverse, "u", "u"),
    (integers.leading_one, "uii", "u"),
    (integers.mask_of, "uui", "u"),
    (integers.extend, "uuii", "u"),
    (integers.compare, "uupii", "p"),
    (integers.compare_signed, "uupii", "p"),
    (integers.compare_pairs, "wwpii", "p"),
    (integers.compare_pairs_signed, "wwpii", "p"),
    (integers.compare_upper, "uuppii", "p"),
    (integers.compare_upper_signed, "uuppii", "p"),
    (integers.extreme, "uup", "u"),
    (integers.extreme_signed, "uup", "u"),
    (integers.extreme_of_sum, "uuupii", "u"),
    (integers.extreme_of_three, "uuupii", "u"),
    (integers.distance_between, "uuui", "u"),
    (floats.float_add, "ffii", "u"),
    (floats.float_multiply, "ffii", "u"),
    (floats.float_multiply_add, "fffii", "u"),
    (floats.float_extreme, "ffpii", "u"),
    (floats.float_extreme_sign, "ffpuuii", "u"),
    (floats.float_choose, "ffp", "u"),
    (floats.float_predicates, "ffpiii", "pp"),
    (floats.float_truth, "ffpiiii", "u"),
    (floats.needs_long_division, "ffi", "p"),
    (floats.from_signed, "u", "u"),
    (floats.from_unsigned, "u", "u"),
    (floats.to_integer, "fiiiii", "u"),
    (floats.to_integral, "fii", "u"),
    (floats.pack_halves, "ffii", "u"),
    (floats.pack_brains, "ffii", "u"),
    (floats.reciprocal, "f", "u"),
    (floats.root, "f", "u"),
    (floats.reciprocal_root, "f", "u"),
    (floats.power_of_two, "f", "u"),
    (floats.logarithm, "f", "u"),
    (floats.sine, "f", "u"),
    (floats.cosine, "f", "u"),
    (floats.hyperbolic_tangent, "f", "u"),
    (integers.keep_both, "up", "up"),
    (doubles.double_add, "wwi", "w"),
    (doubles.double_multiply, "wwi", "w"),
    (doubles.double_multiply_add, "wwwi", "w"),
    (doubles.double_predicates, "ddpii", "pp"),
    (doubles.double_choice, "wwii", "pp"),
    (doubles.reciprocal64, "f", "u"),
    (doubles.reciprocal_root64, "f", "u"),
    (doubles.double_from_signed, "u", "w"),
    (doubles.double_from_unsigned, "u", "w"),
    (doubles.double_from_signed_pair, "w", "w"),
    (doubles.double_from_unsigned_pair, "w", "w"),
    (doubles.double_from_single, "fi", "w"),
    (doubles.single_from_double, "d", "u"),
    (doubles.double_to_integer, "diiii", "u"),
    (doubles.double_to_integral, "wi", "w"),
    (doubles.from_signed_directed, "ui", "u"),
    (doubles.from_unsigned_directed, "ui", "u"),
    (doubles.multiply_directed, "ffiii", "u"),
    (doubles.multiply_add_directed, "fffiii", "u"),
    (halves.half_multiply_add, "uuuii", "u"),
    (halves.half_combine, "uuiii", "u"),
    (halves.half_widen, "uuiii", "u"),
    (halves.half_predicates, "uupiiii", "pp"),
    (halves.half_truths, "uupiiiii", "u"),
    (halves.half_extremes, "uupiii", "u"),
)
OPERATIONS = tuple(Operation(*row) for row in _ROWS)
NUMBER_OF = {operation.function: number for number, operation in enumerate(OPERATIONS)}
