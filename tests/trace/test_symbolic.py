import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.base.expressions import compile_expression
from gpuemu.trace.symbolic import MOST_SAMPLES, NAMES, expression_of

LANE = np.arange(32)


def evaluated(text: str, executions: int, warps, ctas=None) -> np.ndarray:
    compiled = compile_expression(text, NAMES, where=("", None, ""))
    values = {
        "cta": np.array(ctas or [0] * len(warps))[:, None, None],
        "warp": np.array(warps)[:, None, None],
        "i": np.arange(executions)[None, :, None],
        "lane": LANE[None, None, :],
    }
    return np.broadcast_to(compiled.evaluate(values), (len(warps), executions, 32)).copy()


def found_again(text: str, executions: int = 1, warps=(0,), ctas=None, known=None) -> str | None:
    return expression_of(evaluated(text, executions, list(warps), ctas), list(warps), ctas, known)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "512",
        "lane",
        "16*lane",
        "512 + 16*lane",
        "128*warp + 4*i + 132*lane",
        "512 + 32*(lane % 16) + 16*(lane // 16)",
        "16*lane ^ 16*(lane // 8 % 2)",
        "1024 + (16*lane ^ 16*(lane // 8 % 2))",
        "128*(lane % 16) ^ 16*(lane % 8) ^ 16*(lane // 16)",
        "2048*warp + (128*(lane % 16) ^ 16*(lane % 8) ^ 16*(lane // 16))",
        "1024 + 4096*(i % 2) + 256*(i // 2) + (16*lane ^ 16*(lane // 8 % 2))",
        "5000 - 7*i - 16*lane",
        "5000 - lane",
        "0x7f0000000000 + 65536*cta + 512*warp + 16*lane",
        "8192*cta + (1024*warp ^ 16*warp ^ 16*lane)",
    ],
)
def test_a_rule_is_found_and_written_as_people_write_it(text):
    ctas, warps = [c for c in range(3) for _ in range(4)], [0, 1, 2, 3] * 3
    assert found_again(text, 6, warps, ctas) == text


def test_a_variable_that_does_not_vary_is_not_named():
    assert found_again("1024*warp + 16*lane + 4*i", 1, [3]) == "3072 + 16*lane"


def test_warps_that_are_not_all_there_have_a_rule_too():
    assert found_again("64*warp + lane", 1, [1, 2, 5]) is not None
    assert found_again("64*warp + lane", 1, [4, 5, 6, 7]) == "256 + 64*(warp % 4) + lane"


@pytest.mark.parametrize(
    ("lanes", "rule", "expected"),
    [
        (LANE < 8, "100*warp + 16*lane", "100*warp + 16*lane"),
        (LANE % 4 == 0, "100*warp + 16*lane", "100*warp + 16*lane"),
        (LANE == 5, "100*warp + 16*lane", "80 + 100*warp"),
        ((LANE == 3) | (LANE == 0), "16*lane", "16*lane"),
        (LANE < 0, "16*lane", "0"),
        (LANE >= 20, "16*(lane - 20)", "16*(lane % 16) - 64"),
        ((LANE // 4) % 2 == 0, "16*lane ^ 32*(lane // 8 % 2)", "16*lane ^ 32*(lane // 8 % 2)"),
    ],
)
def test_lanes_that_take_no_part_have_no_say(lanes, rule, expected):
    table = evaluated(rule, 3, [0, 1])
    known = np.broadcast_to(lanes, table.shape)
    table = np.where(known, table, 123)
    found = expression_of(table, [0, 1], None, known)
    assert found == expected
    assert (evaluated(found, 3, [0, 1]) == table)[known].all()


def test_a_table_without_a_rule_has_none():
    generator = np.random.default_rng(0)
    assert expression_of(generator.integers(0, 4096, (2, 3, 32)), [0, 1]) is None
    assert expression_of(evaluated("where(lane == 13, 4*lane + 4, 4*lane)", 3, [0]), [0]) is None


def test_one_number_out_of_line_among_many_executions_is_seen():
    # The executions that guesses come from do not include this one.
    table = evaluated("4*lane + 128*i", 1000, [0])
    assert expression_of(table, [0]) == "128*i + 4*lane"
    table[0, 777, 9] += 4
    assert expression_of(table, [0]) is None


def test_addresses_at_the_end_of_64_bits_are_exact_or_not_written():
    top = (1 << 63) - 1
    assert expression_of(np.full((1, 1, 32), top), [0]) in (None, f"{top:#x}")
    table = np.where(LANE == 7, top, 0)[None, None, :]
    found = expression_of(table, [0])
    assert found is None or (evaluated(found, 1, [0]) == table).all()


# Any table.

parts = st.lists(st.integers(0, 1 << 16), min_size=5, max_size=5)


@pytest.mark.slow
@given(
    lane=parts, warp=parts, i=parts, cta=parts, base=st.integers(0, 1 << 40),
    exclusive=st.sets(st.sampled_from(NAMES)), warps=st.integers(1, 6), executions=st.integers(1, 9),
    ctas=st.integers(1, 3), mask=st.integers(1, (1 << 32) - 1) | st.just((1 << 32) - 1),
)  # fmt: skip
def test_parts_of_bits_added_or_joined_by_xor_are_found(
    lane, warp, i, cta, base, exclusive, warps, executions, ctas, mask
):
    numbers = [w for _ in range(ctas) for w in range(warps)], [c for c in range(ctas) for _ in range(warps)]
    values = {
        "cta": np.array(numbers[1])[:, None, None], "warp": np.array(numbers[0])[:, None, None],
        "i": np.arange(executions)[None, :, None], "lane": LANE[None, None, :],
    }  # fmt: skip
    table = np.full((ctas * warps, executions, 32), base)
    joined = np.zeros_like(table)
    for name, its in {"lane": lane, "warp": warp, "i": i, "cta": cta}.items():
        for bit, part in enumerate(its):
            change = part * (values[name] >> bit & 1)
            table, joined = (table, joined ^ change) if name in exclusive else (table + change, joined)
    table = table + joined
    found = expression_of(table, *numbers)
    assert found is not None
    assert (evaluated(found, executions, *numbers) == table).all()
    # With some lanes unknown there may be none, but never a wrong one.
    known = np.broadcast_to((mask >> LANE & 1).astype(bool), table.shape)
    found = expression_of(table, *numbers, known)
    assert found is None or (evaluated(found, executions, *numbers) == table)[known].all()


@pytest.mark.slow
@given(st.data())
def test_what_is_found_for_any_table_is_exact(data):
    warps, executions = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    generator = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    most = data.draw(st.sampled_from([1, 2, 4, 1 << 20, 1 << 62]))
    table = generator.integers(0, most, (warps, executions, 32))
    if data.draw(st.booleans()):
        table[:] = table[:1, :1]
    known = generator.random(table.shape) < data.draw(st.sampled_from([0.05, 0.2, 0.9, 1]))
    found = expression_of(table, list(range(warps)), None, known)
    assert found is None or (evaluated(found, executions, list(range(warps))) == table)[known].all()


def test_a_rule_over_many_executions_is_guessed_from_few():
    executions = 40 * MOST_SAMPLES
    text = "4*(i % 4096) + (16*lane ^ 16*(lane // 8 % 2))"
    assert found_again(text, executions) == "4*i + (16*lane ^ 16*(lane // 8 % 2))"
