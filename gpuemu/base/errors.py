"""The only error type. Every problem names its file, line and field, and says first what is wrong and then what to do.

`Problem.found` says what is wrong, and `Problem.right` is a separate sentence that says what to do. Periods are added:

    "unknown architecture", "Did you mean 'sm_90'?"    sm_99: unknown architecture. Did you mean 'sm_90'?

A value that a reader refuses needs no sentences. If `right` begins with "expected", `found` is only the value:

    "0", "expected a whole number of at least 1"       k.yaml:31: banks: found 0, expected a whole number of at least 1.

The command line prints "error: " before each problem. Readers collect all problems of a file before they raise, so that
a user can fix them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuemu.base.shown import shown_in_a_line

EXPECTED = "expected "
"""Start of `right` if `found` is a value that a reader refuses."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    `file`: a path as the user wrote it, or a description such as "--set". `line`: counted from 1, or None if the input
    has no lines. `field`: a dotted name, or "" for the whole file.
    """

    file: str
    line: int | None
    field: str
    found: str
    right: str

    @property
    def place(self) -> str:
        """The file, the line and the field, as far as the problem has them."""
        file = self.file if self.line is None else f"{self.file}:{self.line}"
        return shown_in_a_line(f"{file}: {self.field}" if self.field else file)

    def __str__(self) -> str:
        """The place, what is wrong, and what to do, on one line."""
        if self.right.startswith(EXPECTED):
            words = sentence(f"found {self.found}, {self.right}")
        else:
            words = f"{sentence(self.found)} {sentence(self.right)}".strip()
        return f"{self.place}: {shown_in_a_line(words)}"


def sentence(text: str) -> str:
    """Add a period to a text, unless it already ends with a punctuation mark."""
    text = text.strip()
    return text if not text or text[-1] in ".?!" else f"{text}."


class GpuemuError(ValueError):
    """Input that gpuemu refuses; `problems` lists everything that was wrong, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    def __reduce__(self) -> tuple[type[GpuemuError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)  # Exception's own version would pass the text

    @classmethod
    def one(cls, file: str, line: int | None, field: str, found: str, right: str) -> GpuemuError:
        """Return an error with a single problem."""
        return cls([Problem(file, line, field, found, right)])
