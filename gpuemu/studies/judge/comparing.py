"""Compare an argument with the result of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10, "complex64": 1e-4, "complex128": 1e-10}
"""A share of a magnitude, see `allowed`. Integers are exact."""
_ROUNDINGS = 2
"""The tolerance of an element in its last places, however small it is."""


def wrong(
    got: Any, before: Any, expected: Any, tolerance: float | None, absolute: float = 0.0
) -> dict[str, Any] | None:  # fmt: skip
    """The difference between an argument and the expected values; None if there is none."""
    if not isinstance(got, np.ndarray):
        return None
    got, before, expected = np.asarray(got), np.asarray(before), np.asarray(expected)
    bad = got != expected
    if expected.dtype.name in TOLERANCES:
        share = TOLERANCES[expected.dtype.name] if tolerance is None else tolerance
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.abs(got.astype(wide) - expected.astype(wide)) <= np.maximum(allowed(expected, share), absolute)
        bad &= ~(close | (np.isnan(got) & np.isnan(expected)))
    if not bad.any():
        return None
    at = tuple(int(n) for n in np.argwhere(bad)[0]) if bad.ndim else ()
    return {
        "elements": int(bad.sum()), "of": int(bad.size), "first": list(at), "found": _shown(got[at]),
        "right": _shown(expected[at]),
        "unchanged": bool(np.array_equal(got.reshape(-1).view(np.uint8), before.reshape(-1).view(np.uint8))),
    }  # fmt: skip


def allowed(expected: NDArray[Any], share: float) -> NDArray[Any]:
    """The tolerance of each element: a share of its own magnitude, or of the median one if that is larger.

    One large element therefore does not excuse the others, and sums that cancel out may differ as much as their
    neighbors. The tolerance is at least two roundings of the type. Elements of 0 do not count for the median.
    """
    magnitudes = np.abs(expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64))
    finite = np.where(np.isfinite(magnitudes), magnitudes, 0.0)
    nonzero = finite[finite > 0]
    typical = float(np.median(nonzero)) if nonzero.size else 0.0
    last_place = np.spacing(np.abs(expected), where=np.isfinite(magnitudes), out=np.zeros_like(np.abs(expected)))
    found: NDArray[Any] = np.maximum(share * np.maximum(finite, typical), _ROUNDINGS * last_place.astype(np.float64))
    return found


def _shown(value: Any) -> str:
    return f"{value:.6g}" if np.asarray(value).dtype.kind in "fc" else str(value)
