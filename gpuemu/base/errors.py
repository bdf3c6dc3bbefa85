"""The one error type: every problem names its file, line and field, what was found and what is right.

A line of it reads

    configs/sm_90.yaml:31: shared_memory.banks: found 0; a whole number of at least 1 is right

Readers collect all problems of a file before they raise, so that a user mends them in one go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuemu.base.shown import shown_in_a_line


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    `file` is a path as the user wrote it, or a description such as "--set"; `line` counts from 1, or is
    None where lines mean nothing; `field` is a dotted name, or "" where the whole file is meant.
    """

    file: str
    line: int | None
    field: str
    found: str
    right: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        field = f"{self.field}: " if self.field else ""
        return shown_in_a_line(f"{place}: {field}found {self.found}; {self.right}")


class GpuemuError(ValueError):
    """Input that gpuemu refuses; `problems` lists everything that was wrong, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))

    def __reduce__(self) -> tuple[type[GpuemuError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)  # by itself it would be made anew from its text

    @classmethod
    def one(cls, file: str, line: int | None, field: str, found: str, right: str) -> GpuemuError:
        """An error with a single problem."""
        return cls([Problem(file, line, field, found, right)])
