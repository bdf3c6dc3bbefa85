"""The products of `gpuemu.tensor.mma` as Numba compiles them: the same bits, many times as fast.

Only imported where Numba is installed (`pip install "gpuemu-sm[fast]"`), and only once a run has shown that it is a
long one: loading Numba takes longer than thousands of products in NumPy. Each function takes the address of a plan
(`plans.Plan`) and writes D of every warp that it can do; it returns a bit for each one that it leaves alone.
What they do is emitted by `kernel_floats` and its like. Numba keeps what it has compiled on disk for as long as
this file and the `_STAMP` are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from gpuemu.tensor import (
    fragments,
    kernel_chosen,
    kernel_elements,
    kernel_floats,
    kernel_integers,
    plans,
    vector_code,
)

_SOURCES = (
    fragments, kernel_chosen, kernel_elements, kernel_floats, kernel_integers,
    plans, vector_code,
)  # fmt: skip
_STAMP = sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in _SOURCES)).hexdigest()


def _function(emit: Callable[[Any, Any], Any]) -> Any:
    """What `emit` emits, as a function of a plan's address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def product(context: Any, plan: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return types.int64(types.int64), generate

    return product


_floats = _function(kernel_floats.emit)
_integers = _function(kernel_integers.emit_integers)
_bits = _function(kernel_integers.emit_bits)
_doubles = _function(kernel_integers.emit_doubles)


def _compiled(stamp: str) -> tuple[Callable[[int], int], ...]:
    """The functions; what Numba knows them by includes the values of what they have from here."""

    @njit("int64(int64)", cache=True)  # type: ignore[untyped-decorator]
    def float_product(plan: int) -> Any:
        stamp  # noqa: B018
        return _floats(plan)

    @njit("int64(int64)", cache=True)  # type: ignore[untyped-decorator]
    def integer_product(plan: int) -> Any:
        stamp  # noqa: B018
        return _integers(plan)

    @njit("int64(int64)", cache=True)  # type: ignore[untyped-decorator]
    def bit_product(plan: int) -> Any:
        stamp  # noqa: B018
        return _bits(plan)

    @njit("int64(int64)", cache=True)  # type: ignore[untyped-decorator]
    def double_product(plan: int) -> Any:
        stamp  # noqa: B018
        return _doubles(plan)

    return float_product, integer_product, bit_product, double_product


float_product, integer_product, bit_product, double_product = _compiled(_STAMP)
