"""Integer comparisons, minimum and maximum of two and three numbers, and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Setter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import check, fixed_predicate, integer, operand_count, pair, parts
from gpuemu.sass.semantics.lanewise import LaneStep, Read, Value, truth, wide_word, word, zero

_COMPARISONS = ("LT", "EQ", "LE", "GT", "NE", "GE")
_COMBINATIONS = ("AND", "OR", "XOR")


def _comparison(site: Site, first: int) -> tuple[Callable[..., Any], list[Read]]:
    """Return a function that compares operands `first` and `first` + 1, combined with predicates, and its inputs."""
    site.only(*_COMPARISONS, *_COMBINATIONS, "U32", "S64", "U64", "EX", *(("BF",) if site.mnemonic == "ISET" else ()))
    names = [m for m in site.modifiers if m in _COMPARISONS]
    combinations = [m for m in site.modifiers if m in _COMBINATIONS]
    if len(names) != 1 or len(combinations) != 1:
        raise site.unsupported("this form of comparison")
    extended = site.has("EX")
    operand_count(site, first + 3 + extended)
    wide, unsigned = site.has("S64", "U64"), site.has("U32", "U64")
    if wide and extended:
        raise site.unsupported("this form of comparison")
    function: Callable[..., Any]
    how = [_COMPARISONS.index(names[0]), _COMBINATIONS.index(combinations[0])]
    predicates = [truth(site, first + 2 + k) for k in range(1 + extended)]
    if wide:
        function = integers.compare_pairs if unsigned else integers.compare_pairs_signed
        return function, [wide_word(site, first), wide_word(site, first + 1), *predicates, *how]
    if extended:
        function = integers.compare_upper if unsigned else integers.compare_upper_signed
    else:
        function = integers.compare if unsigned else integers.compare_signed
    return function, [word(site, first), word(site, first + 1), *predicates, *how]


@semantics("ISETP", "UISETP")
def isetp(site: Site) -> Step:
    """ISETP.cmp[.U32|.S64|.U64].op Pu, PT, a, b, Pp: Pu = (a cmp b) op Pp.

    .EX compares upper words. If a = b, the result is the last predicate, which is the result of the lower words.
    """
    if not (site.is_predicate(0) and site.is_predicate(1)) or fixed_predicate(site, 1) is not True:
        raise site.unsupported("a second predicate as destination")
    return LaneStep(site, *_comparison(site, 2), [0])


@semantics("ISET")
def iset(site: Site) -> Step:
    """ISET.cmp[.U32].op Rd, a, b, Pp: Rd = all ones (1.0 with .BF) if (a cmp b) op Pp, otherwise 0."""
    function, reads = _comparison(site, 1)
    values = [value for value in reads if isinstance(value, Value)]
    numbers = [value for value in reads if not isinstance(value, Value)]
    true = np.uint32(0x3F800000 if site.has("BF") else 0xFFFFFFFF)
    store = site.destination(0)

    def step(mask: Mask) -> None:
        store(np.where(function(*[value.get() for value in values], *numbers), true, np.uint32(0)), mask)

    return step


# -- least and greatest -------------------------------------------------------------------------------------

_KINDS: dict[str, type[np.generic]] = {
    "S32": np.int32, "U32": np.uint32, "S16x2": np.int16, "U16x2": np.uint16, "S8x4": np.int8, "U8x4": np.uint8,
}  # fmt: skip
_PACKED = ("S16x2", "U16x2")


class _Extremes:
    """Minimum or maximum, according to an instruction's modifiers and last predicate (true: minimum)."""

    def __init__(self, site: Site, *modifiers: str):
        site.only(*modifiers)
        kinds = [m for m in site.modifiers if m in _KINDS]
        if len(kinds) > 1:
            raise site.unsupported("two types")
        self.kind: type[np.generic] = _KINDS[kinds[0]] if kinds else np.int32
        self.packed = np.dtype(self.kind).itemsize < 4
        self.floor = site.has("RELU")
        if self.floor and self.kind in (np.uint32, np.uint16, np.uint8):
            raise site.unsupported(".RELU of unsigned numbers")
        last = len(site.operands) - 1
        fixed = fixed_predicate(site, last)
        least = site.predicate(last)
        self.choose: Callable[[Any, Any], Any]
        if fixed is not None:
            self.choose = np.minimum if fixed else np.maximum
        elif self.packed:
            self.choose = lambda a, b: np.where(least()[:, None], np.minimum(a, b), np.maximum(a, b))
        else:
            self.choose = lambda a, b: np.where(least(), np.minimum(a, b), np.maximum(a, b))

    @property
    def how(self) -> tuple[int, int]:
        """Whether words are signed, and whether negative results become 0."""
        return int(self.kind is np.int32), int(self.floor)

    def typed(self, values: Any) -> Any:
        """Return words as numbers of the type: [lane], or [lane, part] of packed ones."""
        return parts(values, self.kind) if self.packed else values.view(self.kind)

    def words(self, numbers: Any) -> Any:
        """Return numbers as words, with negative numbers replaced by 0 under .RELU."""
        if self.floor:
            numbers = np.maximum(numbers, self.kind(0))
        return numbers.view(np.uint32)[:, 0] if self.packed else numbers.view(np.uint32)


@semantics("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX")
def imnmx(site: Site) -> Step:
    """IMNMX Rd, a, b, Pp: the minimum if Pp, otherwise the maximum.

    .S64 and .U64 PT, PT, Rd, a, b, Pp, !PT do the same with register pairs. VIMNMX also has .RELU (negative results
    become 0), and works on the bytes or halves of a word (.S16x2, .U16x2). Forms with halves may have two predicates
    after Rd: whether the lower and the upper half of the result are those of a.
    """
    vector = site.mnemonic in ("VIMNMX", "UVIMNMX")
    if not vector and site.has("S64", "U64"):
        return _of_pairs(site)
    extremes = _Extremes(site, "U32", *(("S32", "RELU", *_PACKED, "S8x4", "U8x4") if vector else ()))
    first = 3 if site.is_predicate(1) and site.is_predicate(2) else 1
    of_halves = extremes.kind in (np.int16, np.uint16) and not extremes.floor
    if first == 3 and not of_halves and any(site.operands[k].core not in ("PT", "UPT") for k in (1, 2)):
        raise site.unsupported("predicates as destinations of this form")
    operand_count(site, first + 3)
    if not extremes.packed and not extremes.floor:
        function = integers.extreme if extremes.kind is np.uint32 else integers.extreme_signed
        return LaneStep(site, function, [word(site, first), word(site, first + 1), truth(site, first + 2)], [0])
    if not extremes.packed:
        reads: list[Read] = [word(site, first), zero(), word(site, first + 1), truth(site, first + 2), *extremes.how]
        return LaneStep(site, integers.extreme_of_sum, reads, [0])
    store, get_a, get_b = site.destination(0), integer(site, first), integer(site, first + 1)
    came_from_a: list[Setter] = [site.set_predicate(k) for k in range(1, first if of_halves else 1)]

    def step(mask: Mask) -> None:
        a = extremes.typed(get_a())
        result = extremes.choose(a, extremes.typed(get_b()))
        outcomes = [result[:, half] == a[:, half] for half in range(len(came_from_a))]
        store(extremes.words(result), mask)
        for set_predicate, outcome in zip(came_from_a, outcomes, strict=True):
            set_predicate(outcome, mask)

    return step


def _of_pairs(site: Site) -> Step:
    site.only("S64", "U64")
    operand_count(site, 7)
    smaller = fixed_predicate(site, 5)
    if smaller is None or [fixed_predicate(site, k) for k in (0, 1, 6)] != [True, True, False]:
        raise site.unsupported("predicates of this form")
    kind = np.int64 if site.has("S64") else np.uint64
    store, get_a, get_b = site.destination64(2), pair(site, 3), pair(site, 4)
    choose, count = np.minimum if smaller else np.maximum, site.lanes.count

    def step(mask: Mask) -> None:
        a, b = (np.asarray(get()).view(kind) for get in (get_a, get_b))
        store(np.broadcast_to(choose(a, b), (count,)), mask)

    return step


@semantics("VIMNMX3")
def vimnmx3(site: Site) -> Step:
    """VIMNMX3 Rd, a, b, c, Pp: the minimum of three if Pp, otherwise the maximum. .RELU makes negative results 0."""
    extremes = _Extremes(site, "S32", "U32", "RELU", *_PACKED)
    operand_count(site, 5)
    if not extremes.packed:
        words = (word(site, k) for k in (1, 2, 3))
        return LaneStep(site, integers.extreme_of_three, [*words, truth(site, 4), *extremes.how], [0])
    store, typed = site.destination(0), extremes.typed
    get_a, get_b, get_c = (integer(site, k) for k in (1, 2, 3))

    def step(mask: Mask) -> None:
        result = extremes.choose(extremes.choose(typed(get_a()), typed(get_b())), typed(get_c()))
        store(extremes.words(result), mask)

    return step


@semantics("VIADDMNMX")
def viaddmnmx(site: Site) -> Step:
    """VIADDMNMX Rd, a, b, c, Pp: the minimum of a + b, which wraps, and c if Pp, otherwise the maximum.

    -b subtracts. .RELU replaces negative results by 0. .S16x2 and .U16x2 work on each half.
    """
    extremes = _Extremes(site, "S32", "U32", "RELU", *_PACKED)
    operand_count(site, 5)
    if not extremes.packed:
        terms = word(site, 1, "-"), word(site, 2, "-"), word(site, 3)
        return LaneStep(site, integers.extreme_of_sum, [*terms, truth(site, 4), *extremes.how], [0])
    store, typed = site.destination(0), extremes.typed
    for k in (1, 2):
        check(site, k, "-")
    negate_a, negate_b = (site.operands[k].negative for k in (1, 2))
    get_a, get_b, get_c = site.raw(1), site.raw(2), integer(site, 3)

    def step(mask: Mask) -> None:
        a, b = typed(get_a()), typed(get_b())
        total = (-a if negate_a else a) + (-b if negate_b else b)
        store(extremes.words(extremes.choose(total, typed(get_c()))), mask)

    return step


# -- differences --------------------------------------------------------------------------------------------


@semantics("VABSDIFF")
def vabsdiff(site: Site) -> Step:
    """VABSDIFF[.U32] Rd, a, b, c: Rd = |a - b| + c."""
    site.only("U32")
    operand_count(site, 4)
    reads: list[Read] = [word(site, 1), word(site, 2), word(site, 3), int(not site.has("U32"))]
    return LaneStep(site, integers.distance_between, reads, [0])


@semantics("VABSDIFF4")
def vabsdiff4(site: Site) -> Step:
    """VABSDIFF4.U8 Rd, a, b, c: |a - b| of each byte. .ACC returns c + the sum of the four.

    Without .U8 the bytes are signed, as in PTX's vabsdiff4.u32.s32.s32, but the differences never are. Without .ACC, c
    has no effect. PTX's vabsdiff4 would copy the bytes that its mask omits from c, but the mask of this form omits
    none.
    """
    site.only("U8", "ACC")
    operand_count(site, 4)
    store, get_a, get_b, get_c = site.destination(0), integer(site, 1), integer(site, 2), integer(site, 3)
    accumulate, kind = site.has("ACC"), np.uint8 if site.has("U8") else np.int8

    def step(mask: Mask) -> None:
        a, b = parts(get_a(), kind), parts(get_b(), kind)
        # A difference that does not fit in the signed type wraps to the bits of the unsigned one.
        apart = (np.maximum(a, b) - np.minimum(a, b)).view(np.uint8)
        if accumulate:
            store(apart.sum(axis=1, dtype=np.uint32) + get_c(), mask)
        else:
            store(apart.view(np.uint32)[:, 0], mask)

    return step
