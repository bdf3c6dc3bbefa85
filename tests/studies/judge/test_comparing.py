"""What counts as right: tolerances by element, and by what is typical of an argument."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuemu.studies.judge.comparing import allowed, wrong


def is_right(got: object, expected: object, tolerance: float | None = None) -> bool:
    found, right = np.asarray(got), np.asarray(expected)
    return wrong(found, np.zeros_like(right), right, tolerance) is None


LARGE = np.array([1e6, *[1.0] * 7], np.float32)


@pytest.mark.parametrize(
    ("got", "expected", "right"),
    [
        (np.array([1e6, *[0.0] * 7], np.float32), LARGE, False),
        (np.array([1e6, *[1.00005] * 7], np.float32), LARGE, True),
        (np.array([1e6 + 200, *[1.0] * 7], np.float32), LARGE, False),
        (np.float32([1.0, 1e-7]), np.float32([1.0, -1e-7]), True),
        (np.float32([1.0, np.nan, np.inf]), np.float32([1.0, np.nan, np.inf]), True),
        (np.float32([1.0, np.nan]), np.float32([1.0, 1.0]), False),
        (np.float32([1.0, np.inf]), np.float32([1.0, -np.inf]), False),
        (np.float32([0.0, 0.0]), np.float32([0.0, 0.0]), True),
        (np.float16([6e-8, 2e-7]), np.float16([1.2e-7, 2e-7]), True),
        (np.float16([1.0, 2.0]), np.float16([1.02, 2.0]), False),
        (np.complex64([1 + 1j, 2]), np.complex64([1 + 1.00001j, 2]), True),
        (np.complex64([1 + 1j, 2]), np.complex64([1 + 1.1j, 2]), False),
        (np.int32([1, 2]), np.int32([1, 3]), False),
        (np.float32(3.0), np.float32(3.0002), True),
    ],
)
def test_what_counts_as_right(got: object, expected: object, right: bool) -> None:
    assert is_right(got, expected) is right


def test_a_tolerance_of_the_problem_counts_for_complex_numbers_too() -> None:
    got, expected = np.complex64([1.0, 2.0]), np.complex64([1.04, 2.0])
    assert not is_right(got, expected, 0.01)
    assert is_right(got, expected, 0.1)


@pytest.mark.slow
@given(
    arrays.arrays(np.float64, st.integers(2, 20), elements=st.floats(1e-3, 1e3)),
    st.floats(1e4, 1e30),
)
def test_one_large_element_never_excuses_the_others(values: np.ndarray, large: float) -> None:
    """At most half of the elements, those below the median, may be off by more than their own share."""
    expected = np.append(values, large)
    got = np.append(np.zeros_like(values), large)
    found = wrong(got, expected, expected, 1e-2)
    assert found is not None
    assert found["elements"] >= len(values) // 2


@given(arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(-1e6, 1e6, width=32)))
def test_two_roundings_are_always_allowed(expected: np.ndarray) -> None:
    assert is_right(np.nextafter(expected, np.float32(np.inf)), expected, 0.0)
    assert (allowed(expected, 0.0) >= np.spacing(np.abs(expected)).astype(np.float64)).all()
