"""How a problem reads: its place, what is wrong, what to do."""

from __future__ import annotations

import pickle

import pytest

from gpuemu.base.errors import GpuemuError, Problem, sentence


@pytest.mark.parametrize(
    ("found", "right", "words"),
    [
        ("0", "expected a whole number of at least 1", "found 0, expected a whole number of at least 1."),
        ("5 kernels", "Choose one: --kernel a, b, ...", "5 kernels. Choose one: --kernel a, b, ..."),
        ("unknown architecture", "Did you mean 'sm_90'?", "unknown architecture. Did you mean 'sm_90'?"),
        ("the file is cut off.", "Copy it again.", "the file is cut off. Copy it again."),
        ("no such file", "", "no such file."),
        ("a\nb\x1b", "Split\tit", "a\\u000ab\\u001b. Split\\u0009it."),
    ],
)  # fmt: skip
def test_a_problem_is_one_line_of_sentences(found, right, words):
    assert str(Problem("k.yaml", 3, "sm.banks", found, right)) == f"k.yaml:3: sm.banks: {words}"


def test_a_place_has_what_there_is_of_file_line_and_field():
    places = [Problem(*place, "", "") for place in (("a", None, ""), ("a", 1, ""), ("a", None, "b"), ("a", 1, "b"))]
    assert [problem.place for problem in places] == ["a", "a:1", "a: b", "a:1: b"]


def test_an_error_has_a_line_for_each_problem_and_survives_pickling():
    error = GpuemuError([Problem("a", 1, "", "b", "C"), Problem("d", 2, "", "e", "expected f")])
    assert str(error) == "a:1: b. C.\nd:2: found e, expected f."
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_a_sentence_gets_one_mark_at_its_end():
    assert [sentence(text) for text in ("", "a", "a.", "a?", "a ")] == ["", "a.", "a.", "a?", "a."]
