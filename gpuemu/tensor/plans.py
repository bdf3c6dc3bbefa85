"""What compiled matrix products are told: where the registers are, and what kind of product it is.

A plan is an array of int64, read by the functions of `tensor_compiled`; they take its address alone, because Numba
takes longer to look at an array than a warp's product lasts. `_SLOTS` and what is behind it say what is where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.base.compiled import Compiled
from gpuemu.isa.fragments import LANES, Index
from gpuemu.tensor.numbers import FORMATS, Format, Numerics

COMPILED = Compiled("gpuemu.tensor.compiled", 8192)
"""The products that Numba compiles; NumPy takes about as long for so many as Numba takes to be loaded."""

_SLOTS = (
    "warps", "offsets", "chunks", "each", "sparse", "selector", "threads",  # of all; chunks: registers of B
    "chosen",  # of sparse floats: whether `tensor_kernel_chosen` has them, where the processor does
    "brain", "narrow", "special", "left_narrow", "left_special",  # of floats: how B and A are read
    "exponent", "lowered",  # of products: float32's bias less those of B and A; by how much they are read too small
    "half", "kept", "block", "bits_kept",  # of C and of sums; block: chunks of one
    "left_signed", "right_signed", "saturates",  # of integers
    "both_and",  # of bits
)  # fmt: skip
SLOT = {name: number for number, name in enumerate(_SLOTS)}
A, B, C, D, METADATA = 32, 48, 64, 72, 80
"""The first of the addresses of the registers of A (16), B (16), C (8), D (8), and that of the metadata."""
SLOTS = 81
MOST_CHUNKS = 4
"""Registers of B."""
_MOST_KEPT = 25

Rows = Sequence[npt.NDArray[np.uint32] | None]
"""Registers, each uint32 [32 x warps]; None stands for zeros, and for results that nobody wants."""


class Plan:
    """A product of the CTA's warps; `function` is its name in `tensor_compiled`.

    Eight-row shapes have None for the registers of the lower eight rows, and RZ is None, too. `lanes`: 32 x warps.
    """

    def __init__(
        self,
        function: str,
        lanes: int,
        a: Rows,
        b: Rows,
        c: Rows,
        d: Rows,
        metadata: Any = None,
        **slots: int,
    ):
        self._name = function
        self.function: Callable[[int], int] | None = None
        self._slots = np.zeros(SLOTS, dtype=np.int64)
        self._warps = lanes // LANES
        self._nothing, self._unwanted = np.zeros(lanes, np.uint32), np.zeros(lanes, np.uint32)
        self._kept_alive: list[Any] = []
        for first, rows, other in (
            (A, a, self._nothing),
            (B, b, self._nothing),
            (C, c, self._nothing),
            (D, d, self._unwanted),
        ):
            for k, row in enumerate(rows):
                self._slots[first + k] = self._address(other if row is None else row)
        if metadata is not None:
            self._slots[METADATA] = self._address(metadata)
        for name, value in slots.items():
            self._slots[SLOT[name]] = value
        self._all = np.arange(self._warps, dtype=np.int64) * 4 * LANES
        self._slots[SLOT["warps"]] = self._warps
        self._slots[SLOT["offsets"]] = self._all.ctypes.data
        self.address: int = self._slots.ctypes.data

    def _address(self, row: Any) -> int:
        if row.dtype != np.uint32 or not row.flags.c_contiguous:
            raise ValueError("registers are rows of 32-bit words")
        self._kept_alive.append(row)
        return int(row.ctypes.data)

    def load(self) -> Callable[[int], int] | None:
        """The compiled function of `address`, None as long as there is none; asks for it."""
        module = COMPILED.ask()
        if module is not None:
            self.function = getattr(module, self._name)
        return self.function

    def run(self, warps: Index | None) -> Index | None:
        """Multiply in these warps, None for all; returns those it could not do, None if there are none."""
        assert self.function is not None
        if warps is None:
            left = self.function(self.address)
            return None if not left else numbers(left)
        offsets = warps * (4 * LANES)
        self._slots[SLOT["warps"]], self._slots[SLOT["offsets"]] = len(warps), offsets.ctypes.data
        left = self.function(self.address)
        self._slots[SLOT["warps"]], self._slots[SLOT["offsets"]] = self._warps, self._all.ctypes.data
        return None if not left else warps[numbers(left)]


def numbers(bits: int) -> Index:
    """The numbers of the bits that are set."""
    return np.array([n for n in range(64) if bits >> n & 1], dtype=np.intp)


def float_slots(
    numerics: Numerics, accumulator: str, types: tuple[str, str], k: int, sparse: bool = False
) -> dict[str, int] | None:
    """The slots of a product of floats, `k` rows of B; None if compiled code is not for such sums."""
    bits = FORMATS[types[0]].bits
    chunk = 4 * 32 // bits
    if bits == 8:
        kept, most = numerics.kept_fraction_bits_8_bit, numerics.products_per_block_8_bit
    else:
        kept = numerics.kept_fraction_bits
        most = numerics.products_per_block_tf32 if bits == 32 else numerics.products_per_block_16_bit
    products = min(most, k // 2 if sparse else k)
    rows = 2 * products if sparse else products
    if rows % chunk or k % rows or k // chunk > MOST_CHUNKS or kept > _MOST_KEPT or products << kept + 2 > 1 << 31:
        return None
    half = accumulator == "f16"
    lost = 23 - numerics.result_fraction_bits_8_bit if bits == 8 and not half else 0
    slots = {
        "chunks": k // chunk, "each": 32 // bits, "half": half, "kept": kept, "block": rows // chunk,
        "bits_kept": 0xFFFFFFFF << lost & 0xFFFFFFFF, "chosen": sparse and bits == 16 and rows // chunk % 2 == 0,
    }  # fmt: skip
    forms = FORMATS[types[1]], FORMATS[types[0]]
    slots |= {"brain": types[0] == "bf16", "exponent": 127 - forms[0].bias - forms[1].bias}
    slots["lowered"] = sum(15 - form.bias for form in forms if bits < 16)
    return slots | _reading(forms[0], "") | _reading(forms[1], "left_")


def sparse_slots(k: int, group: int, selector: int, whole_or_8_bits: bool) -> dict[str, int]:
    """Where the metadata is: see `tensor_selected.sparse_rows`. `threads`: 1 where each has the nibbles of two rows."""
    threads = k // group // 4
    if whole_or_8_bits:
        return {"sparse": 1, "selector": selector * threads // 2, "threads": 0}
    return {"sparse": 1, "selector": selector * threads, "threads": 1}


def _reading(form: Format, side: str) -> dict[str, int]:
    """How elements are read, see `tensor_kernel_elements`.

    `narrow`: by how much numbers of 8 bits go down to have float16's exponent, of which they are read as. `special`:
    the upper 16 bits of NaN or infinity, whichever is smaller, behind `narrow`.
    """
    narrow = 5 - form.exponent_bits if form.bits == 8 else 0
    special = (form.nan if form.no_infinity else form.infinity) << 32 - form.bits >> 16 + narrow
    return {f"{side}narrow": narrow, f"{side}special": special}
