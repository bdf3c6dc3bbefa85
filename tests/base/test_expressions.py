import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import FUNCTIONS, compile_expression

WHERE = ("t.yaml", 7, "lanes")
NAMES = ("lane", "warp", "pitch")
LANE = np.arange(32)
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def evaluate(text: str, **values) -> np.ndarray:
    values = {"lane": LANE, "warp": 3, "pitch": 48, **values}
    return compile_expression(text, list(values), where=WHERE).evaluate(values)


def refusal(text: str, **values) -> str:
    with pytest.raises(GpuemuError) as caught:
        evaluate(text, **values)
    return "\n".join(brief(caught.value))


def refused(found: str) -> str:
    return f"t.yaml:7: lanes: {found}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 + 5", 12),
        ("7 - 12", -5),
        ("7 * -5", -35),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("7 % 5", 2),
        ("-7 % 5", 3),
        ("7 % -5", -3),
        ("12 & 10", 8),
        ("12 | 10", 14),
        ("12 ^ 10", 6),
        ("3 << 4", 48),
        ("-1 << 63", LEAST),
        ("48 >> 4", 3),
        ("-1 >> 70", -1),
        ("5 >> 70", 0),
        ("0 << 1000", 0),
        ("~5", -6),
        ("-5", -5),
        ("+5", 5),
        ("3 == 3", 1),
        ("3 != 3", 0),
        ("3 < 4", 1),
        ("4 <= 3", 0),
        ("4 > 3", 1),
        ("3 >= 4", 0),
        ("(1 + 2) * 3", 9),
        ("1 + 2 * 3", 7),
        ("0x10 + 0b11", 19),
        ("9223372036854775807", GREATEST),
        ("min(3, 5)", 3),
        ("max(3, 5)", 5),
        ("where(2, 10, 20)", 10),
        ("where(0, 10, 20)", 20),
        ("swizzle(8, 1, 3, 3)", 8),
        ("swizzle(64, 1, 3, 3)", 72),
        ("  warp*pitch  ", 144),
    ],
)
def test_each_operator_and_function_does_what_python_does(text, value):
    result = evaluate(text)
    assert result.dtype == np.int64
    assert result.shape == ()
    assert int(result) == value


def test_an_expression_is_evaluated_for_all_lanes_at_once():
    result = evaluate("16*(lane % 16) + 8*(lane // 16)")
    assert result.tolist() == [16 * (t % 16) + 8 * (t // 16) for t in range(32)]


def test_values_of_different_shapes_are_broadcast():
    order = np.arange(3)[:, None]
    result = evaluate("lane + 100*i + pitch", i=order)
    assert result.tolist() == [[lane + 100 * i + 48 for lane in range(32)] for i in range(3)]


def test_only_the_names_that_it_reads_shape_the_result():
    compiled = compile_expression("2*lane + warp", NAMES, where=WHERE)
    assert compiled.names == {"lane", "warp"}
    assert evaluate("7").shape == ()


def test_the_truth_of_a_comparison_counts_as_a_number():
    assert evaluate("(lane < 8) + (lane < 16)").tolist() == [2] * 8 + [1] * 8 + [0] * 16
    assert evaluate("-(lane < 2)").tolist() == [-1, -1] + [0] * 30
    assert evaluate("~(lane == 0)").tolist() == [-2] + [-1] * 31
    assert evaluate("(lane < 8) - (lane < 16)").tolist() == [0] * 8 + [-1] * 8 + [0] * 16
    assert evaluate("(lane < 2) << 4").tolist() == [16, 16] + [0] * 30


def test_where_chooses_lane_by_lane():
    assert evaluate("where(lane & 1, 100, lane)").tolist() == [100 if t & 1 else t for t in range(32)]


@given(
    st.integers(0, 1 << 20), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)
)  # fmt: skip
def test_swizzle_is_its_own_definition(x, b, m, s):
    expected = x ^ ((x >> s) & (((1 << b) - 1) << m))
    assert int(evaluate(f"swizzle({x}, {b}, {m}, {s})")) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lanes", "unknown name 'lanes' in 'lanes'"),
        ("3*zz", "unknown name 'zz' in '3*zz'"),
        ("min + 1", "'min' without arguments in 'min + 1'"),
        ("min(1)", "min with 1 argument in 'min(1)'"),
        ("min(1, 2, 3)", "min with 3 arguments in 'min(1, 2, 3)'"),
        ("min(x=1, y=2)", "min with 2 named arguments in 'min(x=1, y=2)'"),
        ("swizle(1, 2, 3, 4)", "unknown function 'swizle' in 'swizle(1, 2, 3, 4)'"),
        ("open(1)", "unknown function 'open' in 'open(1)'"),
        (
            "lane.real()",
            "unknown function 'lane.real' in 'lane.real()'",
        ),
        ("lane.real", "'lane.real' in 'lane.real'"),
        ("lane[0]", "'lane[0]' in 'lane[0]'"),
        ("1 + [2][0]", "'[2][0]' in '1 + [2][0]'"),
        ("(1, 2)", "'(1, 2)' in '(1, 2)'"),
        ("lambda: 1", "'lambda: 1' in 'lambda: 1'"),
        ("lane @ 2", "'lane @ 2' in 'lane @ 2'"),
        (
            "lane in warp",
            "'lane in warp' in 'lane in warp'",
        ),
        ("f'{lane}'", "'f'{lane}'' in 'f'{lane}''"),
        ("lane / 2", "'/' in 'lane / 2'"),
        ("2 ** lane", "'**' in '2 ** lane'"),
        ("lane and 1", "'and' in 'lane and 1'"),
        ("lane or 1", "'or' in 'lane or 1'"),
        ("not lane", "'not' in 'not lane'"),
        ("1 if lane else 2", "'if' in '1 if lane else 2'"),
        (
            "0 < lane < 8",
            "a chained comparison in '0 < lane < 8'",
        ),
        ("1.5*lane", "1.5 in '1.5*lane'"),
        ("'lane'", "'lane' in ''lane''"),
        ("True", "True in 'True'"),
        (
            "9223372036854775808",
            "9223372036854775808 in '9223372036854775808'",
        ),
        (
            "lane lane",
            "'lane lane' (invalid syntax)",
        ),
        ("", "'' (invalid syntax)"),
        ("x = 3", "'x = 3' (invalid syntax)"),
    ],
)
def test_what_is_no_integer_expression_is_refused_by_its_part(text, found):
    assert refusal(text) == refused(found)


def test_a_null_character_is_refused_in_words_that_print():
    message = refusal("lane\0")
    assert message.startswith("t.yaml:7: lanes: 'lane\\x00' (")
    assert message.isprintable()


def test_a_text_over_several_lines_is_shown_on_one():
    assert refusal("(lane +\n zz)") == refused("unknown name 'zz' in '(lane +\\n zz)'")


def test_a_very_long_expression_is_refused_before_python_sees_it():
    found = "an expression of 100001 characters"
    assert refusal("-" * 100_000 + "1") == refused(found)


@pytest.mark.parametrize("text", ["-" * 300 + "1", "+".join(["lane"] * 300)])
def test_a_deeply_nested_expression_is_refused(text):
    assert refusal(text) == refused("an expression nested too deeply")


@pytest.mark.parametrize("text", ["-" * 3900 + "1", "(" * 1900 + "1" + ")" * 1900])
def test_nesting_that_exhausts_the_parser_is_refused_as_well(text):
    assert refusal(text).startswith("t.yaml:7: lanes: ")


def test_a_sum_of_two_hundred_terms_is_still_read():
    assert int(evaluate("+".join(["warp"] * 200))) == 600


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("100 // lane", "divides by 0"),
        ("100 % (lane - 5)", "divides by 0"),
        ("where(lane == 0, 0, 100 // lane)", "divides by 0"),
        ("1 << (lane - 1)", "shifts by a negative number"),
        ("lane >> -1", "shifts by a negative number"),
        ("lane << 60", "leaves 64 bits"),
        ("1 << 10000000000", "leaves 64 bits"),
        ("1 << 63", "leaves 64 bits"),
        ("lane + 9223372036854775807", "leaves 64 bits"),
        ("-9223372036854775807 - lane", "leaves 64 bits"),
        ("lane * 9223372036854775807", "leaves 64 bits"),
        ("4294967296 * 2147483648", "leaves 64 bits"),
        ("(-9223372036854775807 - 1) // (0 - 1)", "leaves 64 bits"),
        ("-(-9223372036854775807 - 1)", "leaves 64 bits"),
    ],
)
def test_a_value_that_some_lane_lacks_is_refused(text, what):
    found = f"'{text}', which {what}"
    assert refusal(text) == refused(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807 + 0", GREATEST),
        ("-9223372036854775807 - 1", LEAST),
        ("-4294967296 * 2147483648", LEAST),
        ("3037000499 * 3037000499", 3037000499**2),
        ("(-9223372036854775807 - 1) % -1", 0),
        ("1 << 62", 1 << 62),
    ],
)
def test_the_last_values_that_fit_are_exact(text, value):
    assert int(evaluate(text)) == value


def test_equal_texts_give_equal_expressions():
    first, second = (compile_expression("lane + 1", NAMES, where=WHERE) for _ in range(2))
    assert first == second


# Random expression trees: each is its text and how Python's own integers compute it for one lane.

REFERENCE = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: bounded_shift(x, y),
    ">>": lambda x, y: x >> y,
    "==": lambda x, y: int(x == y),
    "!=": lambda x, y: int(x != y),
    "<": lambda x, y: int(x < y),
    "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y),
    ">=": lambda x, y: int(x >= y),
    "min": min,
    "max": max,
}


class OutOfRangeError(ArithmeticError):
    pass


def bounded_shift(x: int, bits: int) -> int:
    if bits > 200 and x:
        raise OutOfRangeError
    return x << min(bits, 200)


def fits(x: int) -> int:
    if not LEAST <= x <= GREATEST:
        raise OutOfRangeError
    return x


def leaves():
    numbers = st.one_of(st.integers(0, 70), st.integers(0, GREATEST))
    return st.one_of(
        numbers.map(lambda n: (str(n), lambda lane, warp: n)),
        st.just(("lane", lambda lane, warp: lane)),
        st.just(("warp", lambda lane, warp: warp)),
    )


def grow(children):
    def binary(operator, left, right):
        inside = f"{operator}({left[0]}, {right[0]})"
        text = inside if operator in FUNCTIONS else f"({left[0]} {operator} {right[0]})"
        return text, lambda lane, warp: fits(REFERENCE[operator](left[1](lane, warp), right[1](lane, warp)))

    def unary(operator, child):
        apply = {"-": lambda x: -x, "+": lambda x: x, "~": lambda x: ~x}[operator]
        return f"({operator}{child[0]})", lambda lane, warp: fits(apply(child[1](lane, warp)))

    def choice(condition, yes, no):
        def value(lane, warp):
            chosen, x, y = (part[1](lane, warp) for part in (condition, yes, no))
            return x if chosen else y

        return f"where({condition[0]}, {yes[0]}, {no[0]})", value

    return st.one_of(
        st.builds(binary, st.sampled_from(sorted(REFERENCE)), children, children),
        st.builds(unary, st.sampled_from("+-~"), children),
        st.builds(choice, children, children, children),
    )


@pytest.mark.slow
@given(st.recursive(leaves(), grow, max_leaves=12))
def test_random_expressions_give_what_pythons_integers_give_or_are_refused(expression):
    text, reference = expression
    warp = 5
    try:
        expected = [reference(lane, warp) for lane in range(32)]
    except (OutOfRangeError, ZeroDivisionError, ValueError):
        with pytest.raises(GpuemuError, match="expected an expression defined for every lane"):
            evaluate(text, warp=warp)
        return
    assert np.broadcast_to(evaluate(text, warp=warp), 32).tolist() == expected


def test_numbers_and_calls_of_any_length_are_refused_in_a_line():
    digits = "0x" + "f" * 3900
    part = f"{digits[:97]}..."
    assert refusal(digits) == refused(f"{part} in '{part}'")
    dotted = "lane" + ".a" * 400
    text = f"{dotted}(1)"
    assert refusal(text) == refused(f"unknown function '{dotted[:97]}...' in '{text[:97]}...'")
    assert refusal(dotted) == f"t.yaml:7: lanes: '{dotted[:97]}...' in '{dotted[:97]}...'"
