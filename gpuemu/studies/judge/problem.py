"""The task of a kernel: a Python file of the judging side, with inputs to draw and a reference.

import numpy as np, gpuemu

grid, block = 32, 128                  # for a .cu or .cubin that does not set its own
def inputs(rng):                       # in the kernel's order; memory without values is its output
    return [rng.standard_normal(4096, dtype=np.float32), gpuemu.empty(4096, np.float32), np.int32(4096)]
def reference(x, out, n):              # writes the expected output
    out[:] = 2 * x
"""

from __future__ import annotations

import copy
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.check.initcheck import Uninitialised

Value = Any


class ProblemError(GpuemuError):
    """The problem is wrong in itself, whatever the candidate."""


@dataclass(frozen=True)
class Draw:
    """The arguments of a draw, which launches change; their values before; and their expected values afterwards."""

    given: list[Value]
    before: list[Value]
    expected: list[Value]


@dataclass(frozen=True)
class JudgedProblem:
    """`launch` has those of kernel, grid, block and dynamic_shared_bytes that the file sets."""

    file: str
    inputs: Callable[[np.random.Generator], Sequence[Value]]
    reference: Callable[..., object]
    tolerance: float | None
    absolute_tolerance: float
    launch: Mapping[str, Any]

    def arguments(self, seed: int, number: int) -> list[Value]:
        """The arguments of a draw, equal in every call. Raises GpuemuError.

        Memory without values has random bits, other ones in each draw.
        """
        rng = chance(seed, number)
        with self._its_own("inputs"):
            given = list(self.inputs(rng))
        for argument in given:
            if isinstance(argument, Uninitialised):
                raw = np.asarray(argument).reshape(-1).view(np.uint8)
                raw[:] = rng.integers(0, 256, raw.size, dtype=np.uint8)
        return [np.ascontiguousarray(one) if _is_scattered(one) else one for one in given]

    def draw(self, seed: int, number: int) -> Draw:
        """A draw with the results of the reference. Raises GpuemuError."""
        given = self.arguments(seed, number)
        before, expected = copy.deepcopy(given), copy.deepcopy(given)
        with self._its_own("reference"):
            self.reference(*[np.asarray(one) if isinstance(one, np.ndarray) else one for one in expected])
        return Draw(given, before, expected)

    @contextmanager
    def _its_own(self, function: str) -> Iterator[None]:
        """Turn an exception within into an error of the problem."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise ProblemError.one(self.file, None, function, found, "Fix the problem file") from None


def chance(*seeds: int) -> np.random.Generator:
    """Random numbers that depend on all the seeds, so that nobody knows them without all of them."""
    return np.random.default_rng(seeds)


def _is_scattered(value: Value) -> bool:
    """Whether an array has gaps, or axes in an order that is neither C's nor Fortran's."""
    return isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous)


@lru_cache(maxsize=8)
def _names(file: str, changed: int) -> dict[str, Any]:
    return runpy.run_path(file)


def read_problem(file: str) -> JudgedProblem:
    """Read the file. Raises GpuemuError if it lacks inputs or the reference."""
    if not Path(file).is_file():
        raise GpuemuError.one(file, None, "", "no such file", "Give a Python file with inputs(rng) and reference(...)")
    try:
        names = _names(file, Path(file).stat().st_mtime_ns)
    except (GpuemuError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        found = f"{type(error).__name__}: {error}"
        raise GpuemuError.one(file, None, "", found, "Fix the problem file") from None
    for name in ("inputs", "reference"):
        if not callable(names.get(name)):
            raise GpuemuError.one(file, None, name, "no such function", "Define inputs(rng) and reference(...)")
    launch: dict[str, Any] = {k: names[k] for k in ("kernel", "grid", "block", "dynamic_shared_bytes") if k in names}
    return JudgedProblem(
        file,
        names["inputs"],
        names["reference"],
        names.get("tolerance"),
        float(names.get("absolute_tolerance", 0.0)),
        launch,
    )
