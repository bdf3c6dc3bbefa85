"""Functions of three bits from their truth tables, as LOP3 and PLOP3 have them.

Bit 4a + 2b + c of a table is the value for the inputs a, b, c. The functions work bitwise on integer lanes
and on bool lanes alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any

Function2 = Callable[[Any, Any], Any]
Function3 = Callable[[Any, Any, Any], Any]

_OF_TWO: tuple[tuple[int, Function2], ...] = (
    (2, lambda x, y: x ^ x),
    (2, lambda x, y: ~(x | y)),
    (2, lambda x, y: ~x & y),
    (1, lambda x, y: ~x),
    (2, lambda x, y: x & ~y),
    (1, lambda x, y: ~y),
    (1, lambda x, y: x ^ y),
    (2, lambda x, y: ~(x & y)),
    (1, lambda x, y: x & y),
    (2, lambda x, y: ~(x ^ y)),
    (0, lambda x, y: y),
    (2, lambda x, y: ~x | y),
    (0, lambda x, y: x),
    (2, lambda x, y: x | ~y),
    (1, lambda x, y: x | y),
    (2, lambda x, y: ~(x ^ x)),
)
"""Operations and function of each table of two inputs, of which bit 2x + y is the value."""


def constant_input(table: int, which: int, value: bool) -> int:
    """The table of the function whose input `which` (0 for a) is fixed at `value`: it ignores that input."""
    bit = 4 >> which
    return sum(1 << i for i in range(8) if table >> ((i | bit) if value else (i & ~bit)) & 1)


def _of_two(table: int, order: tuple[int, ...], last: int) -> int:
    """The table of the first two inputs in `order` where the third is `last`."""
    first, second, third = (4 >> i for i in order)
    return sum(1 << 2 * x + y for x in (0, 1) for y in (0, 1) if table >> (x * first + y * second + last * third) & 1)


def _split(low: int, high: int) -> tuple[int, Callable[[Any, Any, Any], Any]]:
    """Operations and function of x, y, z that is `low` of x, y where z is 0 and `high` where it is 1."""
    cost_low, at_low = _OF_TWO[low]
    cost_high, at_high = _OF_TWO[high]
    cost_change, change = _OF_TWO[low ^ high]
    if low == high:
        return cost_low, lambda x, y, z: at_low(x, y)
    if low == high ^ 15:
        return cost_low + 1, lambda x, y, z: at_low(x, y) ^ z
    if low == 0:
        return cost_high + 1, lambda x, y, z: at_high(x, y) & z
    if high == 0:
        return cost_low + 2, lambda x, y, z: at_low(x, y) & ~z
    if low == 15:
        return cost_high + 2, lambda x, y, z: at_high(x, y) | ~z
    if high == 15:
        return cost_low + 1, lambda x, y, z: at_low(x, y) | z
    return cost_low + cost_change + 2, lambda x, y, z: at_low(x, y) ^ change(x, y) & z


@cache
def function(table: int) -> Function3:
    """The function of a, b, c with this table, in few operations."""
    best: tuple[int, Function3] | None = None
    for order in permutations(range(3)):
        cost, of_ordered = _split(_of_two(table, order, 0), _of_two(table, order, 1))
        if best is None or cost < best[0]:
            best = cost, _reordered(of_ordered, order)
    assert best is not None
    return best[1]


def _reordered(compute: Function3, order: tuple[int, ...]) -> Function3:
    first, second, third = order

    def of_inputs(*inputs: Any) -> Any:
        return compute(inputs[first], inputs[second], inputs[third])

    return of_inputs
