"""Matrix products of sparse matrices (PTX: mma.sp), and of 8-bit floats on sm_89: D, A, B, C [, metadata, selector].

Of each four elements along a row of A, two are there; the metadata says which. `gpuemu.tensor.selected` has both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import Fragment, UintArray, a_fragment, b_fragment, c_fragment
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.products import compiled_step
from gpuemu.sass.machine.warps import complete_warps, fragment
from gpuemu.sass.semantics import semantics
from gpuemu.tensor.plans import float_slots, sparse_slots
from gpuemu.tensor.selected import eight_bit_product, float_product, integer_product, sparse_rows

Words = NDArray[np.uint32]
Product = Callable[[UintArray, UintArray, UintArray, Words], UintArray]
"""Matrices of A, B, C and the registers with the metadata [warps, 32] to D."""
_WHOLE = {"S8": (8, True), "U8": (8, False), "S4": (4, True), "U4": (4, False)}
_SHAPES = {
    "F16": {"16832": 32, "16816": 16}, "BF16": {"16832": 32, "16816": 16}, "TF32": {"16816": 16, "1688": 8},
    "8": {"16864": 64, "16832": 32}, "4": {"168128": 128, "16864": 64},
}  # fmt: skip


def _step(
    site: Site, fragments: tuple[Fragment, Fragment, Fragment], product: Product, sparse: bool,
    function: str, slots: dict[str, int] | None,
) -> Step:  # fmt: skip
    """An instruction whose operands are such fragments, the metadata behind them where it is `sparse`.

    `function` and `slots` are those of the compiled product.
    """
    if len(site.operands) != (6 if sparse else 4):
        raise site.unsupported("this form of matrix instruction")
    a_map, b_map, c_map = fragments
    a, b, c = (fragment(site, k, of.registers) for k, of in ((1, a_map), (2, b_map), (3, c_map)))
    d = None if site.operands[0].core == "RZ" else fragment(site, 0, c_map.registers)
    metadata = fragment(site, 4, 1)[:, 0] if sparse else np.zeros((site.lanes.warps, 32), np.uint32)

    def step(mask: Mask) -> None:
        warps = complete_warps(site, mask)
        here = slice(None) if warps is None else warps
        left, right, addend = (of.gather(words[here]) for of, words in ((a_map, a), (b_map, b), (c_map, c)))
        result = c_map.scatter(product(left, right, addend, metadata[here]))
        if d is not None:
            d[here] = result

    return compiled_step(site, step, function, (a_map.registers, b_map.registers, c_map.registers), slots)


def _selector(site: Site) -> int:
    return int(site.operands[5].core, 0) if len(site.operands) == 6 else 0


def sparse_floats(site: Site) -> Step:
    """HMMA.SP.16832|16816|1688.F32|F16[.BF16|.TF32] Rd, Ra, Rb, Rc, Re, selector."""
    site.only("SP", "16832", "16816", "1688", "F32", "F16", "BF16", "TF32")
    kind = next((m.lower() for m in site.modifiers if m in ("BF16", "TF32")), "f16")
    accumulator = "f32" if site.has("F32") else "f16"
    k = next((k for name, k in _SHAPES[kind.upper()].items() if site.has(name)), 0)
    if not k or (accumulator == "f16" and kind != "f16"):
        raise site.unsupported("this form of HMMA.SP")
    bits, group, selector = (32, 2, _selector(site)) if kind == "tf32" else (16, 4, _selector(site))
    numerics = site.environment.arch.tensor_core.numerics
    most = numerics.products_per_block_tf32 if kind == "tf32" else numerics.products_per_block_16_bit

    def product(a: UintArray, b: UintArray, c: UintArray, metadata: Words) -> UintArray:
        rows = sparse_rows(metadata, k, group, selector, False)
        block = min(most, k // 2)
        return float_product(numerics.kept_fraction_bits, block, accumulator, (kind, kind), a, b, c, rows)

    maps = a_fragment(k // 2, bits), b_fragment(k, bits), c_fragment(16 if accumulator == "f16" else 32)
    slots = float_slots(numerics, accumulator, (kind, kind), k, sparse=True)
    slots = None if slots is None else slots | sparse_slots(k, group, selector, False)
    return _step(site, maps, product, True, "float_product", slots)


_EIGHT_BITS = ("E4M3", "E5M2")


@semantics("QMMA")
def qmma(site: Site) -> Step:
    """QMMA.16832|16816.F32|F16.E4M3|E5M2.E4M3|E5M2 Rd, Ra, Rb, Rc; .SP.16864|16832 with Re and selector."""
    site.only("SP", "16864", "16832", "16816", "F32", "F16", *_EIGHT_BITS)
    sparse, types = site.has("SP"), [m.lower() for m in site.modifiers if m in _EIGHT_BITS]
    shapes = {"16864": 64, "16832": 32} if sparse else {"16832": 32, "16816": 16}
    k = next((k for name, k in shapes.items() if site.has(name)), 0)
    if not k or len(types) != 2 or site.has("F32") == site.has("F16"):
        raise site.unsupported("this form of QMMA")
    accumulator, selector = "f32" if site.has("F32") else "f16", _selector(site)
    numerics, pair = site.environment.arch.tensor_core.numerics, (types[0], types[1])

    def product(a: UintArray, b: UintArray, c: UintArray, metadata: Words) -> UintArray:
        rows = sparse_rows(metadata, k, 4, selector, True) if sparse else None
        return eight_bit_product(numerics, accumulator, pair, a, b, c, rows)

    maps = a_fragment(k // 2 if sparse else k, 8), b_fragment(k, 8), c_fragment(32 if accumulator == "f32" else 16)
    slots = float_slots(numerics, accumulator, pair, k, sparse)
    if slots is not None and sparse:
        slots |= sparse_slots(k, 4, selector, True)
    return _step(site, maps, product, sparse, "float_product", slots)


def sparse_integers(site: Site) -> Step:
    """IMMA.SP.16832|16864|168128.S8|U8|S4|U4.S8|U8|S4|U4[.SAT] Rd, Ra.ROW, Rb.COL, Rc, Re, selector."""
    site.only("SP", "16832", "16864", "168128", *_WHOLE, "SAT")
    types = [_WHOLE[m] for m in site.modifiers if m in _WHOLE]
    if len(types) != 2 or types[0][0] != types[1][0]:
        raise site.unsupported("this form of IMMA.SP")
    (bits, a_signed), (_, b_signed) = types
    k = next((k for name, k in _SHAPES[str(bits)].items() if site.has(name)), 0)
    if not k:
        raise site.unsupported("this form of IMMA.SP")
    group, selector, saturates = 32 // bits if bits == 4 else 4, _selector(site), site.has("SAT")
    # Numbers of 4 bits are gathered eight at a time, those of 8 bits four, as words.
    each = 32 // bits
    maps = a_fragment(k // 2 // each, 32), b_fragment(k // each, 32), c_fragment(32)

    def product(a: UintArray, b: UintArray, c: UintArray, metadata: Words) -> UintArray:
        left = _whole(a, bits, a_signed)
        right = np.ascontiguousarray(
            _whole(np.ascontiguousarray(b.transpose(0, 2, 1)), bits, b_signed).transpose(0, 2, 1)
        )
        total = integer_product(left, right, sparse_rows(metadata, k, group, selector, True))
        total = total + c.astype(np.uint32).view(np.int32)
        if saturates:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return (total & 0xFFFFFFFF).astype(np.uint32)

    slots = {"chunks": k // each // 4, "each": each, "left_signed": a_signed, "right_signed": b_signed}
    slots |= {"saturates": saturates} | sparse_slots(k, group, selector, True)
    return _step(site, maps, product, True, "integer_product", slots)


def _whole(words: UintArray, bits: int, signed: bool) -> NDArray[np.int64]:
    """Words along the last axis as whole numbers, the lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    values = (words[..., None].astype(np.uint32) >> shifts & np.uint32((1 << bits) - 1)).astype(np.int64)
    return (values - (values >> (bits - 1) << bits) if signed else values).reshape(*words.shape[:-1], -1)
