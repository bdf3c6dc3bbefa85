"""Matrix products: the mode that gives an instruction's duration, and the registers of its fragments.

The number of registers of a fragment is its bits divided by the bits of a register in 32 lanes. A of m16n8k16 with
16-bit elements has four.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuemu.isa.table import Opcode

_SHAPES = {
    "HMMA": {"16816": "m16n8k16", "1688": "m16n8k8", "1684": "m16n8k4"},
    "QMMA": {"16832": "m16n8k32", "16816": "m16n8k16"},
    "OMMA": {"16864": "m16n8k64"},
    "IMMA": {"16832": "m16n8k32", "16816": "m16n8k16", "8816": "m8n8k16", "8832": "m8n8k32", "16864": "m16n8k64"},
    "BMMA": {"168256": "m16n8k256", "168128": "m16n8k128", "88128": "m8n8k128"},
    "DMMA": {
        "16x8x16": "m16n8k16", "16x8x8": "m16n8k8", "16x8x4": "m16n8k4", "8x8x4": "m8n8k4", "884": "m8n8k4",
    },
}  # fmt: skip
_SPARSE_SHAPES = {
    ("HMMA", False): {"16832": "m16n8k16", "16816": "m16n8k8"},
    ("HMMA", True): {"16816": "m16n8k8", "1688": "m16n8k4"},
    ("IMMA", False): {"168128": "m16n8k64", "16864": "m16n8k32", "16832": "m16n8k16"},
    ("QMMA", False): {"16864": "m16n8k32", "16832": "m16n8k16"},
    ("OMMA", False): {"168128": "m16n8k64"},
}
"""The dense product with as many multiplications as a sparse one, which is assumed to take the same time. A of the
sparse product has as many elements, and B has twice as many.
"""
_TYPES = {"BMMA": "s32.b1", "DMMA": "f64.f64", "IGMMA": "s32.s8", "QGMMA": "s32.s8", "OMMA": "f32.mxf4"}
"""Types that the modifiers do not give. Warpgroup products of 8-bit floats take the time of integers with as many bits.
The 4-bit numbers of a QMMA occupy bytes and take the time of 6-bit numbers.
"""
_WARPGROUP_SHAPE = re.compile(r"64x(\d+)x(\d+)\Z")
NO_PRODUCT = ("RZ", "gdesc[URZ]", "RZ")
"""Operands of an HGMMA that only ends a group of products."""
_NUMBERS = re.compile(r"\d+")
_BITS = 32 * 32
"""Bits of a register in all lanes."""


def warpgroup_shape(opcode: Opcode) -> tuple[int, int] | None:
    """Return N and K of a warpgroup instruction's shape 64xNxK, or None without such a shape."""
    found = next((match for m in opcode.modifiers if (match := _WARPGROUP_SHAPE.match(m))), None)
    return (int(found[1]), int(found[2])) if found else None


def mode(opcode: Opcode) -> str:
    """Return the mode that gives a product's duration: m16n8k16.f32.f16. Raises ValueError with the expected shapes."""
    name = opcode.mnemonic
    sparse = _SPARSE_SHAPES.get((name, opcode.has("TF32")), {})
    shapes = sparse if opcode.has("SP") else _SHAPES[name]
    shape = next((shapes[m] for m in opcode.modifiers if m in shapes), None)
    if shape is None:
        known = f"expected one of the shapes {', '.join(shapes)} for {name}"
        raise ValueError(known if shapes else f"expected a dense {name}")
    return f"{shape}.{types(opcode)}"


def types(opcode: Opcode) -> str:
    """Return the types of the accumulator and the inputs, as in the mode's name: f32.bf16. Raises ValueError."""
    if opcode.mnemonic == "IMMA":
        inputs = "s8" if opcode.has("S8", "U8") else "s4" if opcode.has("S4", "U4") else None
        if inputs is None:
            raise ValueError("expected one of the inputs S8, U8, S4, U4 for IMMA")
        return f"s32.{inputs}"
    accumulator = "f32" if opcode.has("F32") else "f16"
    inputs = "bf16" if opcode.has("BF16") else "tf32" if opcode.has("TF32") else "f16"
    if opcode.mnemonic == "QMMA":
        inputs = ("mx" if opcode.has("SF") else "") + ("f6" if opcode.has("E3M2", "E2M3", "E2M1") else "f8")
    return _TYPES.get(opcode.mnemonic, f"{accumulator}.{inputs}")


@lru_cache(maxsize=4096)
def fragment_registers(opcode: Opcode) -> dict[str, int]:
    """Return the registers per lane of the fragments A, B and C (and D), or nothing for an unknown shape."""
    shape = warpgroup_shape(opcode)
    if shape is not None:
        return {"A": 4, "C": shape[0] // (4 if opcode.has("F16") else 2)}
    try:
        m, n, k, accumulator, inputs = map(int, _NUMBERS.findall(mode(opcode)))
    except ValueError:
        return {}
    inputs = 8 if opcode.mnemonic == "QMMA" else inputs
    sparse = 2 if opcode.has("SP") else 1
    bits = {"A": m * k * inputs, "B": sparse * k * n * inputs, "C": m * n * accumulator}
    return {name: count // _BITS for name, count in bits.items()}
