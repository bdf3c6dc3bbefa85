import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.trace import paths
from gpuemu.trace.paths import path_form, path_items
from gpuemu.trace.ranges import parse_range

OFFSETS = 16 * np.arange(2000)


def form(indices, offsets=OFFSETS):
    return path_form(np.array(indices, dtype=np.int32), offsets)


def expanded(value, offsets=OFFSETS) -> list[int]:
    """The code indices that a path form names."""
    if value is None:
        return list(range(len(offsets)))
    result = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            result += item["repeat"] * expanded(item["path"], offsets)
        else:
            first, last = parse_range(item)
            result += np.flatnonzero((offsets >= first) & (offsets <= last)).tolist()
    return result


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([3], "0x0030"),
        ([3, 4, 5], "0x0030-0x0050"),
        ([3, 5], ["0x0030", "0x0050"]),
        ([5, 3], ["0x0050", "0x0030"]),
        ([0, *[1, 2] * 16, 3], ["0x0000", {"repeat": 16, "path": "0x0010-0x0020"}, "0x0030"]),
        ([4] * 1000, {"repeat": 1000, "path": "0x0040"}),
        ([0, *[1, 2, 7] * 5], ["0x0000", {"repeat": 5, "path": ["0x0010-0x0020", "0x0070"]}]),
        (
            [0, *[1, 2, *[3, 4] * 7, 5] * 50, 6],
            ["0x0000", {"repeat": 50, "path": ["0x0010-0x0020", {"repeat": 7, "path": "0x0030-0x0040"}, "0x0050"]},
             "0x0060"],
        ),
        (
            # The inner loop ends where the outer one does, and begins where it does.
            [*[1, *[2, 3] * 4] * 6, *[*[5] * 3, 6] * 2],
            [{"repeat": 6, "path": ["0x0010", {"repeat": 4, "path": "0x0020-0x0030"}]},
             {"repeat": 2, "path": [{"repeat": 3, "path": "0x0050"}, "0x0060"]}],
        ),
    ],
)  # fmt: skip
def test_a_path_is_written_as_people_write_it(indices, expected):
    assert form(indices) == expected
    assert expanded(expected) == indices


def test_the_whole_code_once_needs_no_path():
    assert form(range(5), OFFSETS[:5]) is None
    assert form([0, 1, 2, 3], OFFSETS[:5]) == "0x0000-0x0030"


def test_offsets_need_not_be_16_apart():
    assert form([0, 1, 2, 1, 2], np.array([0, 256, 272])) == [
        "0x0000", {"repeat": 2, "path": "0x0100-0x0110"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "items"),
    [(None, 1), ("0x0000", 1), (["0x0000", "0x0020"], 2), ([{"repeat": 2, "path": ["0x0000", "0x0020"]}, "0x0040"], 4)],
)
def test_items_of_a_path_are_counted(value, items):
    assert path_items(value) == items


programs = st.recursive(
    st.integers(0, 9).map(lambda n: [n]),
    lambda inner: st.tuples(st.integers(1, 5), st.lists(inner, min_size=1, max_size=4)).map(
        lambda loop: loop[0] * [n for part in loop[1] for n in part]
    ),
    max_leaves=12,
).filter(lambda path: len(path) < 5000)


@pytest.mark.slow
@given(st.lists(programs, min_size=1, max_size=5))
def test_a_path_of_nested_loops_expands_to_itself(program):
    indices = [n for part in program for n in part]
    assert expanded(form(indices, OFFSETS[:10]), OFFSETS[:10]) == indices


@given(st.lists(st.integers(0, 2), min_size=1, max_size=300))
def test_any_path_expands_to_itself(indices):
    assert expanded(form(indices, OFFSETS[:3]), OFFSETS[:3]) == indices


@pytest.mark.slow
def test_the_work_on_a_path_without_loops_is_bounded(monkeypatch):
    looked_at = 0

    class Counting(list):
        def __getitem__(self, key):
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(key)

    def counting(self, original=paths._Folding.__init__):
        original(self)
        self.stack = Counting()

    monkeypatch.setattr(paths._Folding, "__init__", counting)
    generator = np.random.default_rng(1)
    body = generator.integers(0, 2000, 500).tolist()
    for indices in (
        generator.integers(0, 2000, 20_000).tolist(),
        generator.integers(0, 50, 20_000).tolist(),
        [n for k in range(40) for n in [*body, k]],  # nearly a loop
        [0, *[n for _ in range(20) for n in body]],
    ):
        looked_at = 0
        assert expanded(form(indices)) == indices
        assert looked_at < 30 * len(indices)
