"""Products of sparse matrices (PTX: mma.sp), and of floats of 8 bits and less: D, A, B, C [, metadata, selector].

A stores two of each four elements along its rows, which the metadata selects; see `gpuemu.tensor.sparse`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import MmaMode, UintArray, a_fragment, b_fragment, c_fragment, float_mode
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.products import product_step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.scaled import scaled_floats
from gpuemu.tensor.mma import mma_registers
from gpuemu.tensor.sparse import sparse_rows
from gpuemu.tensor.sums import integer_product

Words = NDArray[np.uint32]
_WHOLE = {"S8": (8, True), "U8": (8, False), "S4": (4, True), "U4": (4, False)}
_SHAPES = {
    "F16": {"16832": 32, "16816": 16}, "BF16": {"16832": 32, "16816": 16}, "TF32": {"16816": 16, "1688": 8},
    "8": {"16864": 64, "16832": 32}, "4": {"168128": 128, "16864": 64},
}  # fmt: skip


def _floats(site: Site, mode: MmaMode, group: int, sparse: bool) -> Step:
    """Return the step of an instruction with this mode. `group`, for a sparse A: see `sparse_rows`."""
    numerics, selector = site.environment.arch.tensor_core.numerics, _selector(site)

    def multiply(a: Words, b: Words, c: Words, *metadata: Words) -> Words:
        rows = sparse_rows(metadata[0][:, 0], mode.k, group, selector, mode.a.element_bits == 8) if sparse else None
        return mma_registers(numerics, mode, a, b, c, rows)

    counts = mode.a.registers, mode.b.registers, mode.c.registers
    return product_step(site, counts, multiply, None, (1,) if sparse else ())


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
    return _floats(site, float_mode(k, accumulator, (kind, kind), sparse=True), 2 if kind == "tf32" else 4, True)


_EIGHT_BITS = ("E4M3", "E5M2")
_IN_BYTES = (*_EIGHT_BITS, "E3M2", "E2M3", "E2M1")


@semantics("QMMA")
def qmma(site: Site) -> Step:
    """QMMA.16832|16816.F32|F16.type.type Rd, Ra, Rb, Rc, .SP.16864|16832 with Re and selector, and .SF with scales.

    The types are E4M3 and E5M2. On sm_120, the larger shapes also have E3M2, E2M3 and E2M1.
    """
    site.only("SF", "SP", "16864", "16832", "16816", "F32", "F16", "E8", *_IN_BYTES)
    sparse, types = site.has("SP"), [m.lower() for m in site.modifiers if m in _IN_BYTES]
    if site.has("SF") and len(types) == 2:
        return scaled_floats(site, (types[0], types[1]))
    shapes = {"16864": 64, "16832": 32} if sparse else {"16832": 32, "16816": 16}
    k = next((k for name, k in shapes.items() if site.has(name)), 0)
    if not k or len(types) != 2 or site.has("F32") == site.has("F16") or site.has("E8", "SF"):
        raise site.unsupported("this form of QMMA")
    if k == min(shapes.values()) and not {m.upper() for m in types} <= set(_EIGHT_BITS):
        raise site.unsupported("this form of QMMA")
    mode = float_mode(k, "f32" if site.has("F32") else "f16", (types[0], types[1]), sparse)
    return _floats(site, mode, 4, sparse)


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
    # Numbers of 4 bits are gathered eight at a time as words, and those of 8 bits four at a time.
    each = 32 // bits
    a_map, b_map, c_map = a_fragment(k // 2 // each, 32), b_fragment(k // each, 32), c_fragment(32)

    def multiply(a: Words, b: Words, c: Words, metadata: Words) -> Words:
        left = whole_numbers(a_map.gather(a), bits, a_signed)
        right = whole_numbers(b_map.gather(b).swapaxes(1, 2), bits, b_signed).swapaxes(1, 2)
        rows = sparse_rows(metadata[:, 0], k, group, selector, True)
        return c_map.scatter(integer_product(left, right, c_map.gather(c), saturates, rows))

    return product_step(site, (a_map.registers, b_map.registers, 4), multiply, None, (1,))


def whole_numbers(words: UintArray, bits: int, signed: bool) -> NDArray[np.int64]:
    """Return words along the last axis as integers of `bits` bits, lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    values = (words[..., None].astype(np.uint32) >> shifts & np.uint32((1 << bits) - 1)).astype(np.int64)
    return (values - (values >> (bits - 1) << bits) if signed else values).reshape(*words.shape[:-1], -1)
