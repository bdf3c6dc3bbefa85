"""Parts are optimized and translated once, within the program of the outermost function that calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from numba.core.codegen import JITCodeLibrary  # noqa: E402

from gpuemu.base.whole_programs import Part  # noqa: E402


def part(**more: Any) -> Any:
    return numba.njit(
        error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=Part, **more
    )


def program(**more: Any) -> Any:
    """`outermost(numbers, at)`: its parts share one, call Numba's own functions, and one calls another twice."""

    @part(**more)
    def shared(numbers, at):
        return numbers[at]

    @part(**more)
    def least(numbers, at):
        return min(shared(numbers, at), shared(numbers, at - 1))

    @part(**more)
    def both(numbers, at):
        return least(numbers, at) + abs(shared(numbers, at))

    @numba.njit(error_model="numpy", _nrt=False, **more)
    def outermost(numbers, at):
        return 10 * both(numbers, at) + least(numbers, at)

    return outermost


@pytest.mark.slow
def test_a_program_of_parts_computes_what_its_functions_say() -> None:
    assert program()(np.array([4, -7, 3]), 1) == 10 * (-7 + 7) - 7
    assert program()(np.array([4.5, 7.0, 3.0]), 2) == 10 * 6.0 + 3.0


def test_each_part_is_in_one_translation_and_none_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    translated: list[set[str]] = []
    add = JITCodeLibrary._finalize_final_module

    def seen(library: Any) -> None:
        translated.append({one.name for one in library._final_module.functions if not one.is_declaration})
        add(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_final_module", seen)
    program()(np.array([4, 7]), 1)
    ours = [names for names in translated if any("program" in name for name in names)]
    assert len(ours) == 1
    assert not any("shared" in name for name in ours[0]), (
        "it is inlined where it is called, and nobody else can call it"
    )


@pytest.mark.slow
def test_bounds_are_checked_in_a_part() -> None:
    assert program(boundscheck=True)(np.array([4, 7]), 1) == 10 * 11 + 4
    with pytest.raises(IndexError):
        program(boundscheck=True)(np.array([4, 7]), 2)
