"""What a kernel is to do: a Python file of whoever judges, with inputs to draw and a reference.

import numpy as np, gpuemu

grid, block = 32, 128                  # of a .cu or .cubin that does not say its own
def inputs(rng):                       # in the kernel's order; what has no values yet is its output
    return [rng.standard_normal(4096, dtype=np.float32), gpuemu.empty(4096, np.float32), np.int32(4096)]
def reference(x, out, n):              # writes what the kernel is to write
    out[:] = 2 * x
"""

from __future__ import annotations

import copy
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.check.initcheck import Uninitialised

TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}
"""Of the largest magnitude that is expected; whole numbers are exact."""
Value = Any


@dataclass(frozen=True)
class JudgedProblem:
    """`launch` has those of kernel, grid, block and dynamic_shared_bytes that the file says."""

    file: str
    inputs: Callable[[np.random.Generator], Sequence[Value]]
    reference: Callable[..., object]
    tolerance: float | None
    launch: Mapping[str, Any]

    def draw(self, number: int) -> tuple[list[Value], list[Value]]:
        """The arguments of a draw, the same whenever it is asked for, and what they are to be afterwards.

        What has no values yet has bits of chance in it, others in each draw.
        """
        rng = np.random.default_rng(number)
        given = list(self.inputs(rng))
        for argument in given:
            if isinstance(argument, Uninitialised):
                raw = np.asarray(argument).reshape(-1).view(np.uint8)
                raw[:] = rng.integers(0, 256, raw.size, dtype=np.uint8)
        expected = [copy.deepcopy(one) for one in given]
        self.reference(*[np.asarray(one) if isinstance(one, np.ndarray) else one for one in expected])
        return given, expected


def wrong(got: Value, before: Value, expected: Value, tolerance: float | None) -> dict[str, Any] | None:
    """What of an argument is not what it is to be; None if it is right."""
    if not isinstance(got, np.ndarray):
        return None
    got, before, expected = np.asarray(got), np.asarray(before), np.asarray(expected)
    if got.dtype.kind not in "f" or got.dtype.name not in TOLERANCES:
        bad = got != expected
    else:
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        allowed = (TOLERANCES[got.dtype.name] if tolerance is None else tolerance) * float(finite.max(initial=0))
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= allowed
        bad = ~(close | (got == expected) | (np.isnan(got) & np.isnan(expected)))
    if not bad.any():
        return None
    at = tuple(int(n) for n in np.argwhere(bad)[0]) if bad.ndim else ()
    return {
        "elements": int(bad.sum()), "of": int(bad.size), "first": list(at), "found": _shown(got[at]),
        "right": _shown(expected[at]),
        "unchanged": bool(np.array_equal(got.reshape(-1).view(np.uint8), before.reshape(-1).view(np.uint8))),
    }  # fmt: skip


def _shown(value: Any) -> str:
    return f"{value:.6g}" if np.asarray(value).dtype.kind == "f" else str(value)


@lru_cache(maxsize=8)
def _names(file: str, changed: int) -> dict[str, Any]:
    return runpy.run_path(file)


def read_problem(file: str) -> JudgedProblem:
    """Read the file. Raises GpuemuError for one that lacks inputs or the reference."""
    if not Path(file).is_file():
        raise GpuemuError.one(
            file, None, "", "no such file", "a Python file with inputs(rng) and reference(...) is right"
        )
    names = _names(file, Path(file).stat().st_mtime_ns)
    for name in ("inputs", "reference"):
        if not callable(names.get(name)):
            raise GpuemuError.one(file, None, name, "no such function", "inputs(rng) and reference(...) are right")
    launch: dict[str, Any] = {k: names[k] for k in ("kernel", "grid", "block", "dynamic_shared_bytes") if k in names}
    return JudgedProblem(file, names["inputs"], names["reference"], names.get("tolerance"), launch)
