"""Arithmetic, comparison and selection of pairs of float16, or of bfloat16 under .BF16_V2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Setter, Site, Step
from gpuemu.sass.numbers.ieee import (
    FLOAT16,
    LANES,
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
from gpuemu.sass.semantics.half_operands import is_immediate, packed, pair, plain_pair, words

_BRAIN = "BF16_V2"


def _pairs(site: Site, k: int, count: int, dtype: type[np.floating[Any]] = np.float32) -> tuple[list[Getter], int]:
    """`count` pairs from operand k on, and the number of the operand behind them."""
    brain, flush = site.has(_BRAIN), site.has("FTZ")
    getters = []
    for _ in range(count):
        get, k = pair(site, k, brain, flush, dtype)
        getters.append(get)
    return getters, k


def _only_pairs(site: Site, last: int) -> None:
    if last != len(site.operands):
        raise site.unsupported("another number of operands is right")


def _finisher(site: Site) -> Callable[[Any], Any]:
    """From float32 results, exact enough to be rounded once more, to words: .SAT, .RELU, rounding, .FTZ."""
    brain, flush, saturate, relu = site.has(_BRAIN), site.has("FTZ"), site.has("SAT"), site.has("RELU")

    def finish(values: Any) -> Any:
        # Before the rounding is as good as behind it: 0 and 1 are results of it, and it keeps the order.
        if saturate:
            values = saturated32(values)
        elif relu:
            values = np.where(values <= 0, np.float32(0), values)
        return packed(values, brain, flush)

    return finish


@semantics("HFMA2")
def hfma2(site: Site) -> Step:
    """HFMA2 Rd, a, b, c: a x b + c of each half, rounded once; .MMA names the pipe that executes it."""
    site.only("MMA", _BRAIN, "SAT", "RELU", "FTZ")
    (a, b, c), last = _pairs(site, 1, 3, np.float64)
    _only_pairs(site, last)
    store, finish = site.destination(0), _finisher(site)
    quick = _CompiledPairs.of(site, 0, 1, 2)
    multiply_add = fma_bf16 if site.has(_BRAIN) else fma16

    def compute() -> Any:
        return finish(multiply_add(a(), b(), c()))

    if all(o.core == "RZ" or is_immediate(site, k) for k, o in enumerate(site.operands[1:], 1)):
        # The compiler's way of writing a constant to a register through this pipe.
        value = compute()[0]
        return lambda mask: store(value, mask)
    return _with(quick, store, compute)


@dataclass(frozen=True)
class _CompiledPairs:
    """a x b + c of pairs by `lanes_compiled`: words, how the halves of each are taken, and which results there are.

    `positive`: negative ones are zeros. `most`: the bits of the largest.
    """

    words: tuple[Any, Any, Any]
    chosen: Any
    brain: bool
    positive: bool
    most: int
    room: tuple[Any, Any, Any]

    @classmethod
    def of(cls, site: Site, *factors: int | float) -> _CompiledPairs | None:
        """Of an instruction with so many operands; None for what it is not for.

        Each of the three factors is an operand, counted from 0 as if immediates were one, or a float for itself.
        """
        brain, count = site.has(_BRAIN), site.lanes.count
        if site.has("FTZ"):
            return None
        starts = _starts(site, 1)
        rows, chosen = [], np.zeros((3, 4), dtype=np.uint32)
        for k, factor in enumerate(factors):
            if isinstance(factor, float):
                bits = np.array([factor], np.float32).view(np.uint32) >> 16 if brain else _bits16(factor)
                rows.append(np.full(count, bits[0], dtype=np.uint32))
                continue
            plain = plain_pair(site, starts[factor], brain) if factor < len(starts) else None
            if plain is None or plain[2] != 0xFFFF:
                return None
            rows.append(plain[0])
            chosen[k] = plain[1]
        infinity, one = (0x7F80, 0x3F80) if brain else (0x7C00, 0x3C00)
        most = one if site.has("SAT") else infinity
        room = np.empty(2 * count, np.uint32), np.empty((4, 2 * count)), np.empty(count, np.uint32)
        return cls((rows[0], rows[1], rows[2]), chosen, brain, site.has("SAT", "RELU"), most, room)

    def compute(self, module: Any) -> Any:
        """The words, which hold until the next time; None if it must be done otherwise."""
        if module.fma_halves(*self.words, self.chosen, self.brain, self.positive, self.most, *self.room):
            return self.room[2]
        return None


def _starts(site: Site, first: int) -> list[int]:
    """Where operands begin, from the first one on: a pair of immediates is one."""
    starts, k = [], first
    while k < len(site.operands):
        starts.append(k)
        k += 2 if is_immediate(site, k) else 1
    return starts


def _bits16(number: float) -> Any:
    return np.array([number], np.float16).view(np.uint16)


def _with(quick: _CompiledPairs | None, store: Setter, compute: Callable[[], Any]) -> Step:
    """The step of an instruction that may have a quick way."""
    if quick is None:
        return lambda mask: store(compute(), mask)

    def step(mask: Mask) -> None:
        module = LANES.ask()
        found = None if module is None else quick.compute(module)
        store(compute() if found is None else found, mask)

    return step


@semantics("HADD2", "HMUL2")
def hadd2_hmul2(site: Site) -> Step:
    """HADD2 Rd, a, b: a + b of each half; HMUL2 Rd, a, b: a x b."""
    if site.has("F32"):
        return _to_float32(site)
    if site.mnemonic == "HADD2" and any(o.suffixes == ("F32",) for o in site.operands[1:]):
        return _from_float32(site)
    site.only(_BRAIN, "SAT", "RELU", "FTZ")
    (a, b), last = _pairs(site, 1, 2, np.float64)
    _only_pairs(site, last)
    store, finish, brain = site.destination(0), _finisher(site), site.has(_BRAIN)
    if site.mnemonic == "HADD2":
        # Float32 has more than twice the bits: a rounding to it before the last does no harm.
        return _with(_CompiledPairs.of(site, 0, 1.0, 1), store, lambda: finish(a() + b()))
    quick = _CompiledPairs.of(site, 0, 1, -0.0)  # which leaves every product as it is
    if brain:
        return _with(quick, store, lambda: finish(mul_bf16(a(), b())))
    return _with(quick, store, lambda: finish(a() * b()))


def _to_float32(site: Site) -> Step:
    """HADD2.F32 and HMUL2.F32 Rd, a, b: a + b or a x b of float16 as float32; a + -0 is a conversion.

    Float32 holds every product of two float16 exactly.
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
    if site.mnemonic == "HMUL2":
        return lambda mask: store(bits32(finish(a()[:, 0] * b()[:, 0])), mask)
    return lambda mask: store(bits32(finish(a()[:, 0] + b()[:, 0])), mask)


def _from_float32(site: Site) -> Step:
    """HADD2 Rd, Ra.F32, -RZ: sm_75's conversion of float32 to float16 toward zero; both halves get it.

    The text names no rounding; the compiler emits it for `cvt.rz.f16.f32`, and with the operands exchanged
    for constants: there only a number that float16 holds is understood.
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
    """HSET2 Rd, a, b, P: each half all ones where the comparison, combined with P, holds; 1.0 under .BF."""
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

    return step


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

    return step


def _comparison_of_pairs(site: Site, first: int) -> tuple[Getter, int]:
    """The outcome [lane, half] of comparing two pairs, and the number of the operand behind them."""
    (a, b), last = _pairs(site, first, 2)
    _only_pairs(site, last + 1)
    compare, brain = comparison_of(site), site.has(_BRAIN)
    plain = [plain_pair(site, k, brain) for k in _starts(site, first)[:2]]
    if plain[0] is None or plain[1] is None:
        return (lambda: compare(a(), b())), last
    chosen, kept = (np.array([p[n] for p in plain if p is not None], dtype=np.uint32) for n in (1, 2))
    rows = plain[0][0], plain[1][0]
    least = (0x80 if brain else 0x400) if site.has("FTZ") else 0
    infinity = 0x7F80 if brain else 0x7C00
    cases = np.array([0.0, 1.0, 2.0, np.nan]), np.array([1.0, 1.0, 1.0, 1.0])
    holds = sum(1 << n for n in range(4) if compare(*cases)[n])
    outcome = np.empty((site.lanes.count, 2), dtype=np.bool_)

    def quick() -> Any:
        module = LANES.ask()
        if module is None:
            return compare(a(), b())
        module.compare_halves(*rows, chosen, kept, infinity, least, holds, outcome)
        return outcome

    return quick, last


def _combiner_of_pairs(site: Site, k: int) -> Callable[[Any], Any]:
    """As `combiner`, for comparisons [lane, half]."""
    combine = combiner(site, k)
    return lambda truth: combine(truth.T).T
