"""ISETP, ISET, the least and greatest of two and three, and absolute differences against plain integers."""

import operator

import pytest
from harness import execute
from reference import WORD, check, joined, parts, signed

from gpuemu.sass.machine.operands import UnsupportedError

COMPARE = {
    "LT": operator.lt,
    "EQ": operator.eq,
    "LE": operator.le,
    "GT": operator.gt,
    "NE": operator.ne,
    "GE": operator.ge,
}
COMBINE = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}


def number(value, kind):
    """A word, or a part of one, as a number of the type."""
    return value if kind.lstrip(".")[:1] == "U" else signed(value, 16 if "16" in kind else 32)


@pytest.mark.parametrize("name", COMPARE)
@pytest.mark.parametrize("kind", ["", ".U32"])
@pytest.mark.parametrize("combination", COMBINE)
def test_isetp_compares_and_combines(name, kind, combination):
    def expected(b, y, other):
        return {"P0": COMBINE[combination](COMPARE[name](number(b.r[1], kind), number(y, kind)), other)}

    opcode = f"ISETP.{name}{kind}.{combination}"
    check(f"{opcode} P0, PT, R1, R2, P1", lambda b: expected(b, b.r[2], b.p[1]), seeds=1)
    check(f"{opcode} P0, PT, R1, UR2, !P0", lambda b: expected(b, b.ur[2], not b.p[0]), seeds=1)
    check(f"{opcode} P0, PT, R1, -0x1, PT", lambda b: expected(b, WORD, True), seeds=1)
    check(f"{opcode} P0, PT, R1, RZ, !PT", lambda b: expected(b, 0, False), seeds=1)


@pytest.mark.parametrize("name", COMPARE)
@pytest.mark.parametrize("kind", ["", ".U32"])
def test_two_comparisons_make_one_of_64_bits(name, kind):
    """R3:R2 against R5:R4, R3 and R5 often the same."""
    words = [0, 1, 0x7FFFFFFF, 0x80000000, WORD]
    pairs = [(x, y) for x in words for y in words]
    lanes = [(x, y, low_x, low_y) for x, y in pairs for low_x, low_y in pairs]
    lanes += lanes[: -len(lanes) % 32]
    registers = {3: [v[0] for v in lanes], 5: [v[1] for v in lanes], 2: [v[2] for v in lanes], 4: [v[3] for v in lanes]}
    found = execute(
        f"ISETP.{name}.U32.AND P0, PT, R2, R4, PT\nISETP.{name}{kind}.AND.EX P1, PT, R3, R5, PT, P0",
        registers=registers,
        lanes=len(lanes),
    )
    bits = (lambda v: v) if kind else (lambda v: signed(v, 64))
    wanted = [COMPARE[name](bits(x << 32 | low_x), bits(y << 32 | low_y)) for x, y, low_x, low_y in lanes]
    assert found.predicates[1].tolist() == wanted


def test_an_extended_comparison_combines_last():
    def longer(b):
        return b.p[2] if b.r[1] == b.r[2] else signed(b.r[1]) > signed(b.r[2])

    check("ISETP.GT.OR.EX P0, PT, R1, R2, !P1, P2", lambda b: {"P0": longer(b) or not b.p[1]})
    check("ISETP.EQ.AND.EX P0, PT, R1, R1, PT, P2", lambda b: {"P0": b.p[2]})


def test_iset_makes_all_ones_or_one():
    check("ISET.LT.AND R0, R1, R2, PT", lambda b: {"R0": WORD * (signed(b.r[1]) < signed(b.r[2]))})
    check("ISET.BF.GE.U32.AND R0, R1, R2, P0", lambda b: {"R0": 0x3F800000 * (b.r[1] >= b.r[2] and b.p[0])})


def extreme(values, least, relu):
    found = min(values) if least else max(values)
    return max(found, 0) if relu else found


def lanes_of(value, kind):
    """The numbers that a word holds."""
    return [number(v, kind) for v in (parts(value, 16) if "16" in kind else [value])]


def word(numbers, kind):
    return joined(numbers, 16 if "16" in kind else 32)


KINDS = ["", ".U32", ".S16x2", ".U16x2", ".RELU", ".S16x2.RELU"]


@pytest.mark.parametrize("mnemonic", ["IMNMX", "VIMNMX"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("predicate", "least"), [("PT", True), ("!PT", False), ("P0", None)])
def test_least_and_greatest_of_two(mnemonic, kind, predicate, least):
    if mnemonic == "IMNMX" and kind not in ("", ".U32"):
        return

    def expected(b, y):
        which = b.p[0] if least is None else least
        pairs = zip(lanes_of(b.r[1], kind), lanes_of(y, kind), strict=True)
        return {"R0": word((extreme(p, which, "RELU" in kind) for p in pairs), kind)}

    check(f"{mnemonic}{kind} R0, R1, R2, {predicate}", lambda b: expected(b, b.r[2]))
    check(f"{mnemonic}{kind} R0, R1, 0x3e0, {predicate}", lambda b: expected(b, 0x3E0), seeds=1)


@pytest.mark.parametrize("kind", ["S16x2", "U16x2"])
def test_the_predicates_of_packed_extremes_say_which_half_came_from_the_first(kind):
    def expected(b):
        a, y = lanes_of(b.r[1], kind), lanes_of(b.r[2], kind)
        found = [max(pair) for pair in zip(a, y, strict=True)]
        return {"R0": word(found, kind), "P0": a[0] >= y[0], "P3": a[1] >= y[1]}

    check(f"VIMNMX.{kind} R0, P0, P3, R1, R2, !PT", expected)
    check(
        f"VIMNMX.{kind} R1, P0, P3, R1, R2, !PT",
        lambda b: {("R1" if k == "R0" else k): v for k, v in expected(b).items()},
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("predicate", "least"), [("PT", True), ("!PT", False)])
def test_least_and_greatest_of_three(kind, predicate, least):
    def expected(b):
        groups = zip(*(lanes_of(b.r[i], kind) for i in (1, 2, 3)), strict=True)
        return {"R0": word((extreme(g, least, "RELU" in kind) for g in groups), kind)}

    check(f"VIMNMX3{kind} R0, R1, R2, R3, {predicate}", expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("predicate", "least"), [("PT", True), ("!PT", False)])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_sum_that_wraps_and_then_the_least_or_greatest(kind, predicate, least, sign):
    bits = 16 if "16" in kind else 32

    def total(x, y):
        value = (x - y if sign else x + y) & (1 << bits) - 1
        return value if "U" in kind.replace("RELU", "") else signed(value, bits)

    def expected(b):
        groups = zip(*(lanes_of(b.r[i], kind) for i in (1, 2, 3)), strict=True)
        return {"R0": word((extreme((total(x, y), z), least, "RELU" in kind) for x, y, z in groups), kind)}

    check(f"VIADDMNMX{kind} R0, R1, {sign}R2, R3, {predicate}", expected)


def test_absolute_differences_are_added():
    check("VABSDIFF R0, R1, R2, R3", lambda b: {"R0": abs(signed(b.r[1]) - signed(b.r[2])) + b.r[3]})
    check("VABSDIFF.U32 R0, R1, R2, 0x3", lambda b: {"R0": abs(b.r[1] - b.r[2]) + 3})


def test_absolute_differences_of_bytes():
    def apart(b):
        return [abs(x - y) for x, y in zip(parts(b.r[1], 8), parts(b.r[2], 8), strict=True)]

    check("VABSDIFF4.U8 R0, R1, R2, RZ", lambda b: {"R0": joined(apart(b), 8)})
    check("VABSDIFF4.U8 R0, R1, R2, R3", lambda b: {"R0": joined(apart(b), 8)})
    check("VABSDIFF4.U8.ACC R0, R1, R2, R3", lambda b: {"R0": sum(apart(b)) + b.r[3]})

    def signed_apart(b):
        return [abs((x ^ 128) - (y ^ 128)) for x, y in zip(parts(b.r[1], 8), parts(b.r[2], 8), strict=True)]

    check("VABSDIFF4 R0, R1, R2, R3", lambda b: {"R0": joined(signed_apart(b), 8)})
    check("VABSDIFF4.ACC R0, R1, R2, R3", lambda b: {"R0": sum(signed_apart(b)) + b.r[3]})


@pytest.mark.parametrize(
    "sass",
    [
        "ISETP.LT.AND P0, P1, R1, R2, PT",
        "ISETP.LT P0, PT, R1, R2, PT",
        "ISETP.AND P0, PT, R1, R2, PT",
        "ISETP.LT.AND P0, PT, -R1, R2, PT",
        "ISETP.LT.AND.EX P0, PT, R1, R2, PT",
        "ISETP.LTU.AND P0, PT, R1, R2, PT",
        "IMNMX.S64 R0, R1, R2, PT",
        "IMNMX.S16x2 R0, R1, R2, PT",
        "VIMNMX R0, P0, P1, R1, R2, PT",
        "VIMNMX.U32.RELU R0, R1, R2, PT",
        "VABSDIFF4.S8 R0, R1, R2, R3",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=r"R\d"):
        execute(sass)
