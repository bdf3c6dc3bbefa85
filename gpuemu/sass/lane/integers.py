"""Integer arithmetic, logic, shifts and comparisons of one lane, and predicates.

Parameters that come last and are no operands are numbers that the opcode or its operands fix: `code`, `distance`,
`ones` and the like.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.lane.arrays import (
    high,
    low,
    pair,
    select,
    signed,
    signed64,
    unsigned64,
    wide,
    wide_signed,
)

_ALL, _ZERO, _ONE, _TWO, _FOUR = (np.uint32(n) for n in (0xFFFFFFFF, 0, 1, 2, 4))
_TOP, _HALF_WORD = np.uint32(31), np.uint32(16)
_SIGN = np.uint32(0x80000000)
_ONE_CARRY, _TWO_CARRIES = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFFFFFF)
_ONE64, _WORD64 = np.uint64(1), np.uint64(32)
_LT, _EQ, _LE, _GT, _NE, _GE = range(6)
_AND, _OR, _XOR = range(3)


def move(a: Any) -> Any:
    """A register as it is."""
    return a


def move_pair(a: Any) -> Any:
    """A pair as it is."""
    return a


def choose(a: Any, b: Any, p: Any) -> Any:
    """a where p, else b."""
    return select(p, a, b)


def choose_pair(a: Any, b: Any, p: Any) -> Any:
    """Pair a where p, else b."""
    return select(p, a, b)


def magnitude(a: Any) -> Any:
    """|a|; the least integer stays as it is."""
    return select(a >= _SIGN, low(_ZERO - a), a)


def add_two(a: Any, b: Any) -> Any:
    """a + b."""
    return low(a + b)


def add_three(a: Any, b: Any, c: Any) -> Any:
    """a + b + c."""
    return low(a + b + c)


def add_exactly(a: Any, b: Any, c: Any, p: Any, q: Any, ones: Any) -> Any:
    """a + b + c + p + q + ones, whether that reaches 2^32, and whether it reaches 2^33."""
    total = wide(a) + wide(b) + wide(c) + wide(p) + wide(q) + wide(ones)
    return low(total), total > _ONE_CARRY, total > _TWO_CARRIES


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """The low word of a x b + c."""
    return low(a * b + c)


def multiply_add_carry(a: Any, b: Any, c: Any, p: Any) -> Any:
    """The low word of a x b + c + p."""
    return low(wide(a) * wide(b) + wide(c) + wide(p))


def multiply_wide(a: Any, b: Any, c: Any, p: Any) -> Any:
    """a x b + c + p of unsigned words and a pair, and the carry out of 64 bits."""
    total = wide(a) * wide(b) + c
    outcome = total + wide(p)
    return outcome, (total < c) | (outcome < total)


def multiply_wide_signed(a: Any, b: Any, c: Any, p: Any) -> Any:
    """a x b + c + p of signed words and a pair, in 64 bits."""
    product = wide_signed(signed(a)) * wide_signed(signed(b))
    return unsigned64(product) + c + wide(p)


def multiply_high(a: Any, b: Any, c: Any, p: Any) -> Any:
    """The high word of a x b + c + p of unsigned words and a pair, and the carry out of 64 bits."""
    outcome, carry = multiply_wide(a, b, c, p)
    return high(outcome), carry


def multiply_high_signed(a: Any, b: Any, c: Any, p: Any) -> Any:
    """The high word of a x b + c + p of signed words and a pair."""
    return high(multiply_wide_signed(a, b, c, p))


def logic(a: Any, b: Any, c: Any, terms: int) -> Any:
    """A function of three bits as a sum without carries: `terms` has a bit for 1, a, b, ab, c, ac, bc and abc."""
    outcome = low(a ^ a)
    if terms & 1:
        outcome = low(~outcome)
    if terms & 2:
        outcome = low(outcome ^ a)
    if terms & 4:
        outcome = low(outcome ^ b)
    if terms & 8:
        outcome = low(outcome ^ (a & b))
    if terms & 16:
        outcome = low(outcome ^ c)
    if terms & 32:
        outcome = low(outcome ^ (a & c))
    if terms & 64:
        outcome = low(outcome ^ (b & c))
    if terms & 128:
        outcome = low(outcome ^ (a & b & c))
    return outcome


def logic_predicate(a: Any, b: Any, c: Any, p: Any, terms: int, both: int) -> Any:
    """The result of `logic`, and a predicate: the result is not 0, or p is true; with `both`, both hold."""
    outcome = logic(a, b, c, terms)
    truth = outcome != _ZERO
    return outcome, joined(truth, p, _AND if both else _OR)


def predicate_logic(p: Any, q: Any, r: Any, table: int, other: int) -> Any:
    """Bit 4p + 2q + r of two tables."""
    at = wide(p) << wide(2) | wide(q) << wide(1) | wide(r)
    return wide(table) >> at & _ONE64 != wide(0), wide(other) >> at & _ONE64 != wide(0)


def is_negative(a: Any) -> Any:
    """The sign of a register as a predicate."""
    return a >= _SIGN


def permute(a: Any, selector: Any, c: Any) -> Any:
    """Each nibble of the selector chooses one of the bytes 0 to 3 of a and 4 to 7 of c; its bit 3 its sign instead."""
    source = pair(a, c)
    outcome = low(a ^ a)
    for place in range(4):
        nibble = wide(low(selector >> np.uint32(4 * place)))
        byte = low(source >> ((nibble & np.uint64(7)) << np.uint64(3))) & np.uint32(0xFF)
        sign = low(_ZERO - low(low(byte) >> np.uint32(7))) & np.uint32(0xFF)
        byte = select(nibble & np.uint64(8) != wide(0), low(sign), low(byte))
        outcome = low(outcome | low(byte << np.uint32(8 * place)))
    return outcome


def permute_by_mode(a: Any, mode: Any, c: Any, zero: int, one: int, two: int, three: int) -> Any:
    """As `permute`, with one of four selectors by the low two bits of `mode`."""
    odd, upper = low(mode & _ONE) != _ZERO, low(mode & _TWO) != _ZERO
    selector = select(upper, select(odd, low(three), low(two)), select(odd, low(one), low(zero)))
    return permute(a, selector, c)


# -- shifts -------------------------------------------------------------------------------------------------


def _reduced(distance: Any, bits: int, wraps: int) -> Any:
    """A distance modulo `bits`, or at most `bits`, as 64 bits."""
    most = low(bits)
    if wraps:
        return wide(low(distance & low(most - _ONE)))
    return wide(select(distance > most, most, distance))


def shift_left(a: Any, distance: Any, bits: int, wraps: int) -> Any:
    """a shifted left; nothing is left of it from 32 on."""
    far = _reduced(distance, bits, wraps)
    half = far >> _ONE64
    return low(wide(a) << half << (far - half))


def shift_right(a: Any, distance: Any, bits: int, wraps: int) -> Any:
    """a shifted right, zeros above it."""
    far = _reduced(distance, bits, wraps)
    half = far >> _ONE64
    return low(wide(a) >> half >> (far - half))


def shift_right_signed(a: Any, distance: Any, bits: int, wraps: int) -> Any:
    """a shifted right, its sign above it."""
    far = signed64(_reduced(distance, bits, wraps))
    half = far >> signed64(_ONE64)
    return low(wide_signed(signed(a)) >> half >> (far - half))


def funnel_left(lower: Any, distance: Any, upper: Any, bits: int, wraps: int) -> Any:
    """The high word of two, shifted left."""
    far = _reduced(distance, bits, wraps)
    half = far >> _ONE64
    return high(pair(lower, upper) << half << (far - half))


def funnel_right(lower: Any, distance: Any, upper: Any, bits: int, wraps: int) -> Any:
    """The low word of two, shifted right, zeros above them."""
    far = _reduced(distance, bits, wraps)
    half = far >> _ONE64
    return low(pair(lower, upper) >> half >> (far - half))


def funnel_right_signed(lower: Any, distance: Any, upper: Any, bits: int, wraps: int) -> Any:
    """The low word of two, shifted right, their sign above them."""
    far = signed64(_reduced(distance, bits, wraps))
    half = far >> signed64(_ONE64)
    return low(signed64(pair(lower, upper)) >> half >> (far - half))


def shift_add(a: Any, b: Any, p: Any, distance: int, flip: int, ones: int) -> Any:
    """(a << distance) + b + p + ones, the first with its bits inverted where `flip` has them, and the carry."""
    shifted = low(wide(a) << wide(distance)) ^ low(flip)
    total = wide(shifted) + wide(b) + wide(p) + wide(ones)
    return low(total), total > _ONE_CARRY


def shift_add_high(a: Any, c: Any, b: Any, p: Any, distance: int, flip: int, ones: int) -> Any:
    """As `shift_add`, with the high word of c:a << distance."""
    shifted = low(pair(a, c) >> (_WORD64 - wide(distance))) ^ low(flip)
    total = wide(shifted) + wide(b) + wide(p) + wide(ones)
    return low(total), total > _ONE_CARRY


def shift_add_sign(a: Any, b: Any, p: Any, distance: int, flip: int, ones: int) -> Any:
    """As `shift_add_high`, c being the sign of a."""
    shifted = low(wide_signed(signed(a)) >> signed64(_WORD64 - wide(distance))) ^ low(flip)
    total = wide(shifted) + wide(b) + wide(p) + wide(ones)
    return low(total), total > _ONE_CARRY


# -- bits ---------------------------------------------------------------------------------------------------


def count_ones(a: Any) -> Any:
    """How many bits are 1."""
    a = low(a - (low(a >> _ONE) & np.uint32(0x55555555)))
    a = low((a & np.uint32(0x33333333)) + (low(a >> _TWO) & np.uint32(0x33333333)))
    a = low((a + low(a >> _FOUR)) & np.uint32(0x0F0F0F0F))
    return low(low(a * np.uint32(0x01010101)) >> np.uint32(24))


def reverse(a: Any) -> Any:
    """The bits in reverse order."""
    a = low(low(a >> _ONE) & np.uint32(0x55555555) | low(low(a & np.uint32(0x55555555)) << _ONE))
    a = low(low(a >> _TWO) & np.uint32(0x33333333) | low(low(a & np.uint32(0x33333333)) << _TWO))
    a = low(low(a >> _FOUR) & np.uint32(0x0F0F0F0F) | low(low(a & np.uint32(0x0F0F0F0F)) << _FOUR))
    a = low(low(a >> np.uint32(8)) & np.uint32(0x00FF00FF) | low(low(a & np.uint32(0x00FF00FF)) << np.uint32(8)))
    return low(low(a >> _HALF_WORD) | low(a << _HALF_WORD))


def leading_one(a: Any, is_signed: int, distance: int) -> Any:
    """The position of the highest 1, of the highest bit unlike the sign, or 31 less that; all ones without one."""
    if is_signed:
        a = select(a >= _SIGN, low(~a), a)
    found = a != _ZERO
    for step in range(5):
        a = low(a | low(a >> np.uint32(1 << step)))
    place = low(count_ones(a) - _ONE)
    if distance:
        place = low(_TOP - place)
    return select(found, place, _ALL)


def mask_of(position: Any, width: Any, wraps: int) -> Any:
    """`width` ones from a position upwards, as far as the word goes."""
    first, count = _reduced(position, 32, wraps), _reduced(width, 32, wraps)
    return low(((_ONE64 << count) - _ONE64) << first)


def extend(a: Any, width: Any, wraps: int, is_signed: int) -> Any:
    """The low bits of a, with their sign or zeros above them."""
    unused = _WORD64 - _reduced(width, 32, wraps)
    moved = low(wide(a) << unused)
    if is_signed:
        return low(wide_signed(signed(moved)) >> signed64(unused))
    return low(wide(moved) >> unused)


# -- comparisons --------------------------------------------------------------------------------------------


def joined(truth: Any, p: Any, way: int) -> Any:
    """Two predicates by AND, OR or XOR."""
    if way == _AND:
        return truth & p
    if way == _OR:
        return truth | p
    return truth ^ p


def _compared(a: Any, b: Any, code: int) -> Any:
    if code == _LT:
        return a < b
    if code == _EQ:
        return a == b
    if code == _LE:
        return a <= b
    if code == _GT:
        return a > b
    if code == _NE:
        return a != b
    return a >= b


def compare(a: Any, b: Any, p: Any, code: int, way: int) -> Any:
    """Unsigned words compared, joined with p."""
    return joined(_compared(a, b, code), p, way)


def compare_signed(a: Any, b: Any, p: Any, code: int, way: int) -> Any:
    """Signed words compared, joined with p."""
    return joined(_compared(signed(a), signed(b), code), p, way)


def compare_pairs(a: Any, b: Any, p: Any, code: int, way: int) -> Any:
    """Unsigned pairs compared, joined with p."""
    return joined(_compared(a, b, code), p, way)


def compare_pairs_signed(a: Any, b: Any, p: Any, code: int, way: int) -> Any:
    """Signed pairs compared, joined with p."""
    return joined(_compared(signed64(a), signed64(b), code), p, way)


def _upper(a: Any, b: Any, below: Any, code: int) -> Any:
    """Upper words compared; where they are equal, `below` holds, the outcome of the lower words."""
    if code == _NE:
        return (a != b) | below
    if code == _EQ:
        return (a == b) & below
    if code in (_LT, _LE):
        return (a < b) | ((a == b) & below)
    return (a > b) | ((a == b) & below)


def compare_upper(a: Any, b: Any, p: Any, below: Any, code: int, way: int) -> Any:
    """Upper words of unsigned numbers compared, joined with p."""
    return joined(_upper(a, b, below, code), p, way)


def compare_upper_signed(a: Any, b: Any, p: Any, below: Any, code: int, way: int) -> Any:
    """Upper words of signed numbers compared, joined with p."""
    return joined(_upper(signed(a), signed(b), below, code), p, way)


def extreme(a: Any, b: Any, p: Any) -> Any:
    """The least of unsigned words where p, else the greatest."""
    return select((a < b) == p, a, b)


def extreme_signed(a: Any, b: Any, p: Any) -> Any:
    """The least of signed words where p, else the greatest."""
    return select((signed(a) < signed(b)) == p, a, b)


def clamp_below(a: Any) -> Any:
    """A signed word, or 0 where it is less."""
    return select(a >= _SIGN, _ZERO, a)


def extreme_of_sum(a: Any, b: Any, c: Any, p: Any, is_signed: int, floor: int) -> Any:
    """The least of a + b and c where p, else the greatest; `floor`: 0 instead of a negative result."""
    total = low(a + b)
    chosen = extreme_signed(total, c, p) if is_signed else extreme(total, c, p)
    return clamp_below(chosen) if floor else chosen


def extreme_of_three(a: Any, b: Any, c: Any, p: Any, is_signed: int, floor: int) -> Any:
    """The least of three where p, else the greatest; `floor`: 0 instead of a negative result."""
    chosen = extreme_signed(extreme_signed(a, b, p), c, p) if is_signed else extreme(extreme(a, b, p), c, p)
    return clamp_below(chosen) if floor else chosen


def distance_between(a: Any, b: Any, c: Any, is_signed: int) -> Any:
    """|a - b| + c."""
    flip = _SIGN if is_signed else _ZERO
    greater = low(a ^ flip) > low(b ^ flip)
    return low(select(greater, low(a - b), low(b - a)) + c)


def keep_both(a: Any, p: Any) -> Any:
    """A word and a predicate as they are."""
    return a, p
