"""A launch of a compiled kernel and what it must leave in its buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Launch:
    """`args` in the kernel's order; `expected`: argument number → what is in it afterwards.

    `tolerance`: how far from it, relative to the largest expected magnitude; 0 is equality.
    """

    args: list[Any]
    expected: dict[int, NDArray[Any]]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    tolerance: float | dict[int, float] = 0.0
    kernel: str | None = None
    shared_bytes: int = 0
    printed: str = ""
    checks: list[Callable[[list[Any]], None]] = field(default_factory=list)

    def check(self) -> None:
        """Raises AssertionError where a buffer is not what it must be."""
        for number, wanted in self.expected.items():
            tolerance = self.tolerance.get(number, 0.0) if isinstance(self.tolerance, dict) else self.tolerance
            found = self.args[number].reshape(wanted.shape)
            if tolerance == 0:
                np.testing.assert_array_equal(found, wanted, err_msg=f"argument {number}")
            else:
                size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
                np.testing.assert_allclose(
                    found.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=tolerance * size,
                    err_msg=f"argument {number}",
                )  # fmt: skip
        for check in self.checks:
            check(self.args)
