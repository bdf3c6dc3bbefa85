"""Arithmetic, comparison and selection of pairs of float16, or of bfloat16 under .BF16_V2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.lane import halves as lane_halves
from gpuemu.sass.lane import integers
from gpuemu.sass.lane.halves import BRAIN, FLUSH, POSITIVE, SATURATE
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import (
    FLOAT16,
    bits32,
    fma16,
    fma_bf16,
    mul_bf16,
    narrow16,
    quantize,
    saturated32,
)
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import (
    BOOLEANS,
    COMPARISONS,
    combiner,
    comparison_of,
)
from gpuemu.sass.semantics.half_operands import encoded_pairs, is_immediate, packed, pair, words
from gpuemu.sass.semantics.lanewise import LaneStep, Read, Value, constant, encoded_step, truth

_BRAIN = "BF16_V2"


def _pairs(site: Site, k: int, count: int, dtype: type[np.floating[Any]] = np.float32) -> tuple[list[Getter], int]:
    """Return `count` pairs from operand k on, and the number of the next operand."""
    brain, flush = site.has(_BRAIN), site.has("FTZ")
    getters = []
    for _ in range(count):
        get, k = pair(site, k, brain, flush, dtype)
        getters.append(get)
    return getters, k


def _only_pairs(site: Site, last: int) -> None:
    if last != len(site.operands):
        raise site.unsupported("this number of operands")


def _finisher(site: Site) -> Callable[[Any], Any]:
    """Return a function that rounds precise float32 results once more, to words: .SAT, .RELU, rounding, .FTZ."""
    brain, flush, saturate, relu = site.has(_BRAIN), site.has("FTZ"), site.has("SAT"), site.has("RELU")

    def finish(values: Any) -> Any:
        # Clamping before rounding gives the same result, because 0 and 1 are exact and rounding keeps the order.
        if saturate:
            values = saturated32(values)
        elif relu:
            values = np.where(values <= 0, np.float32(0), values)
        return packed(values, brain, flush)

    return finish


@semantics("HFMA2")
def hfma2(site: Site) -> Step:
    """HFMA2 Rd, a, b, c: a x b + c of each half, rounded once. .MMA names the pipe that executes it."""
    site.only("MMA", _BRAIN, "SAT", "RELU", "FTZ")
    (a, b, c), last = _pairs(site, 1, 3, np.float64)
    _only_pairs(site, last)
    store, finish = site.destination(0), _finisher(site)
    multiply_add = fma_bf16 if site.has(_BRAIN) else fma16

    def compute() -> Any:
        return finish(multiply_add(a(), b(), c()))

    if all(o.core == "RZ" or is_immediate(site, k) for k, o in enumerate(site.operands[1:], 1)):
        # The compiler writes a constant to a register this way to use this pipe.
        return LaneStep(site, integers.move, [constant(int(compute()[0]))], [0])
    values, hows = encoded_pairs(site, 1, 3, site.has(_BRAIN))
    by_lane = LaneStep(site, lane_halves.half_multiply_add, [*values, hows, _kind(site)], [0])
    return encoded_step(lambda mask: store(compute(), mask), by_lane)


@semantics("HADD2", "HMUL2")
def hadd2_hmul2(site: Site) -> Step:
    """HADD2 Rd, a, b: a + b of each half. HMUL2 Rd, a, b: a x b."""
    if site.has("F32"):
        return _to_float32(site)
    if site.mnemonic == "HADD2" and any(o.suffixes == ("F32",) for o in site.operands[1:]):
        return _from_float32(site)
    site.only(_BRAIN, "SAT", "RELU", "FTZ")
    (a, b), last = _pairs(site, 1, 2, np.float64)
    _only_pairs(site, last)
    store, finish, brain = site.destination(0), _finisher(site), site.has(_BRAIN)
    values, hows = encoded_pairs(site, 1, 2, brain)
    reads: list[Read] = [*values, hows, int(site.mnemonic == "HMUL2"), _kind(site)]
    by_lane = LaneStep(site, lane_halves.half_combine, reads, [0])
    if site.mnemonic == "HADD2":
        # Float32 has more than twice the bits, so an intermediate rounding to it does not change the result.
        return encoded_step(lambda mask: store(finish(a() + b()), mask), by_lane)
    if brain:
        return encoded_step(lambda mask: store(finish(mul_bf16(a(), b())), mask), by_lane)
    return encoded_step(lambda mask: store(finish(a() * b()), mask), by_lane)


def _to_float32(site: Site) -> Step:
    """HADD2.F32 and HMUL2.F32 Rd, a, b: a + b or a x b of float16 as float32. a + -0 is a conversion.

    Float32 holds every product of two float16 numbers exactly.
    """
    site.only("F32", "SAT")
    finish = saturated32 if site.has("SAT") else np.asarray
    immediates = [k for k in range(1, len(site.operands)) if is_immediate(site, k)]
    same = len({site.operands[k].text for k in immediates}) <= 1
    for k, operand in enumerate(site.operands[1:], 1):
        one_half = same if k in immediates else operand.core == "RZ" or operand.suffixes in (("H0_H0",), ("H1_H1",))
        if not one_half:
            raise site.unsupported("a float32 result of two different halves")
    (a, b), last = _pairs(site, 1, 2)
    _only_pairs(site, last)
    store = site.destination(0)
    values, hows = encoded_pairs(site, 1, 2, False)
    reads: list[Read] = [*values, hows, int(site.mnemonic == "HMUL2"), SATURATE * site.has("SAT")]
    by_lane = LaneStep(site, lane_halves.half_widen, reads, [0])
    if site.mnemonic == "HMUL2":
        return encoded_step(lambda mask: store(bits32(finish(a()[:, 0] * b()[:, 0])), mask), by_lane)
    return encoded_step(lambda mask: store(bits32(finish(a()[:, 0] + b()[:, 0])), mask), by_lane)


def _from_float32(site: Site) -> Step:
    """HADD2 Rd, Ra.F32, -RZ: sm_75's conversion of float32 to float16 toward zero, written to both halves.

    The text names no rounding; the compiler emits it for `cvt.rz.f16.f32`. For constants, it exchanges the operands.
    That form is supported only for numbers that float16 can represent.
    """
    site.only("SAT")
    exchanged = site.operands[2].suffixes == ("F32",)
    addend = site.operands[1 if exchanged else 2]
    if addend.core != "RZ" or not addend.negative or len(site.operands) != 3:
        raise site.unsupported("a sum with a float32")
    store, get = site.destination(0), site.float32(2 if exchanged else 1)

    def step(mask: Mask) -> None:
        wide = np.atleast_1d(get()).astype(np.float64)
        values = quantize(wide, FLOAT16, "RZ")
        if exchanged and not np.array_equal(values, wide):
            raise site.unsupported("the rounding of a float32 in this form")
        narrow = values.astype(np.float32)
        store(words(narrow16(saturated32(narrow) if site.has("SAT") else narrow)[:, None]), mask)

    return step


@semantics("HSET2")
def hset2(site: Site) -> Step:
    """HSET2 Rd, a, b, P: each half is all ones (1.0 under .BF) if the comparison, joined with P, is true, else 0."""
    site.only(_BRAIN, "BF", "FTZ", *COMPARISONS, *BOOLEANS)
    compare, last = _comparison_of_pairs(site, 1)
    store, combine = site.destination(0), _combiner_of_pairs(site, last)
    one = 0x3F80 if site.has(_BRAIN) else 0x3C00
    true = np.uint16(one if site.has("BF") else 0xFFFF)
    halves = np.empty((site.lanes.count, 2), dtype=np.uint16)
    result = halves.view(np.uint32)[:, 0]

    def step(mask: Mask) -> None:
        np.multiply(combine(compare()), true, out=halves)
        store(result, mask)

    values, how = _encoded_comparison(site, 1, last)
    return encoded_step(step, LaneStep(site, lane_halves.half_truths, [*values, *how, int(true)], [0]))


@semantics("HSETP2")
def hsetp2(site: Site) -> Step:
    """HSETP2 Pd, Pd2, a, b, P: Pd from the low halves, Pd2 from the high ones."""
    site.only(_BRAIN, "FTZ", *COMPARISONS, *BOOLEANS)
    compare, last = _comparison_of_pairs(site, 2)
    combine = _combiner_of_pairs(site, last)
    low, high = site.set_predicate(0), site.set_predicate(1)

    def step(mask: Mask) -> None:
        truth = combine(compare())
        low(truth[:, 0], mask)
        high(truth[:, -1], mask)

    values, how = _encoded_comparison(site, 2, last)
    return encoded_step(step, LaneStep(site, lane_halves.half_predicates, [*values, *how], [0, 1]))


def _encoded_comparison(site: Site, first: int, last: int) -> tuple[list[Value], list[int]]:
    """Return the inputs of a comparison of two pairs for compiled code: words and a predicate; and numbers."""
    values, hows = encoded_pairs(site, first, 2, site.has(_BRAIN))
    code = next(number for number, name in enumerate(COMPARISONS) if site.has(name))
    way = next(number for number, name in enumerate(BOOLEANS) if site.has(name))
    return [*values, truth(site, last)], [hows, code, way, _kind(site)]


def _kind(site: Site) -> int:
    """Return the modifiers as `lane.halves` has them."""
    found = BRAIN * site.has(_BRAIN) | FLUSH * site.has("FTZ")
    return found | SATURATE * site.has("SAT") | (0 if site.has("SAT") else POSITIVE * site.has("RELU"))


def _comparison_of_pairs(site: Site, first: int) -> tuple[Getter, int]:
    """Return the result [lane, half] of comparing two pairs, and the number of the next operand."""
    (a, b), last = _pairs(site, first, 2)
    _only_pairs(site, last + 1)
    compare = comparison_of(site)
    return (lambda: compare(a(), b())), last


def _combiner_of_pairs(site: Site, k: int) -> Callable[[Any], Any]:
    """Do the same as `combiner`, for comparisons [lane, half]."""
    combine = combiner(site, k)
    return lambda truth: combine(truth.T).T
