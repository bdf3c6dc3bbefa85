"""Matrix products with block scales of sm_120 (PTX: mma with .block_scale).

The operands are D, A, B, C, scales of A, scales of B, selector. QMMA.SF multiplies floats of 8, 6 and 4 bits that
occupy a byte each. They have one scale per row of A and per column of B. OMMA.SF multiplies packed floats of 4 bits,
with two scales or, with `.4X`, four. A sparse product has metadata before the scales of A, in the same register pair.

One or two of every four lanes hold the scales. For A, lane 2 s holds those of row g, and lane 2 s + 1 those of the row
eight below. For B, lane s holds those of column g. The scales start at byte b of the register. The selector contains b
(bits 0 and 1) and s (bit 2) of A, then b (bits 3 and 4) and s (bits 5 and 6) of B.

Source: the sections on block scaling of the PTX manual. Selectors are as nvcc emits them. This was not run on hardware.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import UintArray, a_fragment, b_fragment, c_fragment, float_mode
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.products import product_step
from gpuemu.sass.semantics import semantics
from gpuemu.tensor.numbers import Numbers
from gpuemu.tensor.scaled import decode_scales, scaled_product
from gpuemu.tensor.sparse import sparse_rows

Words = NDArray[np.uint32]
_ROWS, _COLUMNS = np.arange(16), np.arange(8)


def scaled_floats(site: Site, types: tuple[str, str]) -> Step:
    """QMMA.SF.16832.F32.type.type.E8, or .SF.SP.16864."""
    if site.has("F16") or not site.has("E8") or not site.has("16864" if site.has("SP") else "16832"):
        raise site.unsupported("this form of QMMA.SF")
    return _scaled(site, types, "ue8m0", 1, packed=False)


@semantics("OMMA")
def omma(site: Site) -> Step:
    """OMMA.SF.16864.F32.E2M1.E2M1.E8|UE4M3.4X, or .SF.SP.168128."""
    site.only("SF", "SP", "16864", "168128", "F32", "E2M1", "E8", "UE4M3", "4X")
    four = site.has("4X")
    shape = site.has("168128" if site.has("SP") else "16864")
    if not site.has("SF") or not shape or site.has("UE4M3") != four or site.has("E8") == four:
        raise site.unsupported("this form of OMMA")
    return _scaled(site, ("e2m1", "e2m1"), "ue4m3" if four else "ue8m0", 4 if four else 2, packed=True)


def _scaled(site: Site, types: tuple[str, str], scale_type: str, parts: int, packed: bool) -> Step:
    sparse, numerics = site.has("SP"), site.environment.arch.tensor_core.numerics
    k = (128 if sparse else 64) if packed else (64 if sparse else 32)
    columns = k // 2 if sparse else k
    if packed:
        a_map, b_map, c_map = a_fragment(columns // 8, 32), b_fragment(k // 8, 32), c_fragment(32)
    else:
        mode = float_mode(k, "f32", types, sparse)
        a_map, b_map, c_map = mode.a, mode.b, mode.c

    def multiply(a: Words, b: Words, c: Words, first: Words, scales_b: Words, selector: Words) -> Words:
        left, right = a_map.gather(a), b_map.gather(b)
        if packed:
            left, right = _bytes(left), _bytes(right.swapaxes(1, 2)).swapaxes(1, 2)
        rows = sparse_rows(first[:, 0], k, 8 if packed else 4, 0, True) if sparse else None
        scales = _scales(site, scale_type, parts, first[:, -1], scales_b[:, 0], selector[:, 0, 0])
        return c_map.scatter(scaled_product(numerics, types, left, right, c_map.gather(c), scales, packed, rows))

    return product_step(site, (a_map.registers, b_map.registers, 4), multiply, None, behind=(2 if sparse else 1, 1, 1))


def _bytes(words: UintArray) -> UintArray:
    """Return the eight numbers of 4 bits in each word of the last axis, lowest first, at their position in a byte."""
    shifts = np.arange(0, WARP, 4, dtype=np.uint32)
    numbers = words.astype(np.uint32)[..., None] >> shifts & np.uint32(15)
    return (numbers << np.uint32(2)).astype(np.uint8).reshape(*words.shape[:-1], -1)


def _scales(site: Site, kind: str, parts: int, a: Words, b: Words, selector: Words) -> tuple[Numbers, Numbers]:
    """Extract the scales [parts, warps, 16, 1] and [parts, warps, 1, 8] from registers [warps, 32]."""
    first = selector[:, None].astype(np.intp)
    lanes_a = 4 * (_ROWS % 8) + _ROWS // 8 + 2 * (first >> 2 & 1)
    lanes_b = 4 * _COLUMNS + (first >> 5 & 3)
    found = []
    for words, lanes, byte in ((a, lanes_a, first & 3), (b, lanes_b, first >> 3 & 3)):
        wrong = np.flatnonzero(byte % parts)
        if wrong.size:
            number = int(wrong[0])
            said = f"the byte {byte[number, 0]} as the first of {parts} scales in warp {number}"
            raise ExecutionError(site.instruction, number * WARP, said, f"expected a multiple of {parts}")
        shifts = (8 * (byte[..., None] + np.arange(parts))).astype(np.uint32)
        raw = (np.take_along_axis(words, lanes, axis=1)[..., None] >> shifts & np.uint32(0xFF)).astype(np.uint8)
        found.append(raw.transpose(2, 0, 1))
    return decode_scales(kind, found[0][..., None]), decode_scales(kind, found[1][:, :, None])
