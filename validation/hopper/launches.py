"""The launches that are measured and emulated: each an instance of a template of kernels.cuh, with its data.

The module needs only NumPy, here and beside a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Operand:
    """A type of products: bytes of an element, K of an instruction, PTX's name; what accumulators are."""

    bytes: int
    ptx: str
    sums: str = "float"

    @property
    def k(self) -> int:
        """Elements of 32 bytes."""
        return 32 // self.bytes


OPERANDS = {
    "f16": Operand(2, "f32.f16.f16"),
    "h16": Operand(2, "f16.f16.f16", "u32"),
    "bf16": Operand(2, "f32.bf16.bf16"),
    "tf32": Operand(4, "f32.tf32.tf32"),
    "e4m3": Operand(1, "f32.e4m3.e4m3"),
    "s8": Operand(1, "s32.s8.s8", "int"),
}
"""h16: f16 with sums of f16."""
_DTYPES = {
    "f16": "<f2", "h16": "<f2", "bf16": "<u2", "tf32": "<f4", "e4m3": "u1", "s8": "i1", "f32": "<f4", "u32": "<u4",
    "int": "<i4", "float": "<f4",
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """A buffer of rows: `kind` of its elements; random, or zeros."""

    kind: str
    rows: int
    columns: int
    zeros: bool = False

    def make(self) -> NDArray[Any]:
        """Its numbers, always the same."""
        shape, dtype = (self.rows, self.columns), np.dtype(_DTYPES[self.kind])
        random = np.random.default_rng(self.rows * 7919 + self.columns)
        if self.zeros:
            return np.zeros(shape, dtype)
        if self.kind == "s8":
            return random.integers(-128, 128, shape).astype(dtype)
        if self.kind == "e4m3":  # from 1/32 to 2, of either sign
            return (random.integers(0x10, 0x40, shape) | random.integers(0, 2, shape) << 7).astype(dtype)
        values = random.random(shape, dtype=np.float32) - np.float32(0.5)
        return (values.view(np.uint32) >> 16).astype(dtype) if self.kind == "bf16" else values.astype(dtype)


@dataclass(frozen=True)
class Tiles:
    """A tensor map of an array: rows and bytes of a box."""

    array: Array
    rows: int
    bytes: int
    swizzle: int


@dataclass(frozen=True)
class HopperLaunch:
    """`code`: the instance; `product`: what stands for P; the arguments in its order, the array of results the last."""

    family: str
    name: str
    code: str
    products: tuple[tuple[str, int], ...]
    ctas: int
    threads: int
    shared: int
    args: tuple[Array | Tiles | int, ...]
    cluster: int = 1


def _up(number: int) -> int:
    return -(-number // 1024) * 1024


def _product(kind: str, n: int) -> str:
    return f"P_{kind}_{n}"


def _operands(kind: str, n: int, c: int, swizzle: int, kb: int, steps: int, ctas: int) -> tuple[Tiles, Tiles]:
    each, line = OPERANDS[kind].bytes, swizzle or 16
    a, b = (Array(kind, rows, kb * steps // each) for rows in (64 * c * ctas, n))
    return Tiles(a, 64 * c, line, swizzle), Tiles(b, n, line, swizzle)


def _out(kind: str, n: int, rows: int) -> Array:
    sums = OPERANDS[kind].sums
    return Array(sums if sums != "u32" else "u32", rows, n // 2 if sums == "u32" else n, zeros=True)


def _ring(kind: str, n: int, c: int, swizzle: int, kb: int, stages: int, steps: int, ahead: int = 0, out: int = 0,
          give: int = 0, ctas: int = 1) -> HopperLaunch:  # fmt: skip
    a, b = _operands(kind, n, c, swizzle, kb, steps, ctas)
    result = _out(kind, n, 64 * c * ctas)
    to = Tiles(Array("f32", 64 * c * ctas, n, zeros=True), 64, 128, 128) if out else b
    name = f"ring_{kind}_n{n}_c{c}_sw{swizzle}_k{kb}_s{stages}_t{steps}_a{ahead}_o{out}_g{give}_x{ctas}"
    code = f"ring<{_product(kind, n)}, {c}, {swizzle}, {kb}, {stages}, {ahead}, {out}, {give}>"
    shared = stages * _up((64 * c + n) * kb) + (256 * c * n if out else 0) + 1024
    threads = 128 * c + (128 if give else 32)
    return HopperLaunch("ring", name, code, ((kind, n),), ctas, threads, shared, (a, b, to, result, steps))


def _together(kind: str, n: int, c: int, swizzle: int, kb: int, stages: int, steps: int, reg: int = 0,
              ctas: int = 1) -> HopperLaunch:  # fmt: skip
    a, b = _operands(kind, n, c, swizzle, kb, steps, ctas)
    name = f"together_{kind}_n{n}_c{c}_sw{swizzle}_k{kb}_s{stages}_t{steps}_r{reg}_x{ctas}"
    code = f"together<{_product(kind, n)}, {c}, {swizzle}, {kb}, {stages}, {reg}>"
    shared = stages * _up((64 * c + n) * kb) + 1024
    family = "A from registers" if reg else "together"
    return HopperLaunch(
        family, name, code, ((kind, n),), ctas, 128 * c, shared, (a, b, _out(kind, n, 64 * c * ctas), steps)
    )


def _tiles(kind: str, n: int, c: int, kb: int, stages: int, steps: int, how: int) -> HopperLaunch:
    each = OPERANDS[kind].bytes
    a, b = (Array(kind, rows * steps, kb // each) for rows in (64 * c, n))
    name = f"tiles_{kind}_n{n}_c{c}_k{kb}_s{stages}_t{steps}_{('bulk', 'stores', 'cp')[how]}"
    code = f"tiles<{_product(kind, n)}, {c}, {kb}, {stages}, {how}>"
    shared = stages * _up((64 * c + n) * kb) + 1024
    family = ("bulk copies", "stores", "cp.async")[how]
    return HopperLaunch(family, name, code, ((kind, n),), 1, 128 * c, shared, (a, b, _out(kind, n, 64 * c), steps))


def _boxes(swizzle: int, rows: int, stages: int, how: int, out: int, work: int, count: int, threads: int = 128,
           ctas: int = 1) -> HopperLaunch:  # fmt: skip
    line = swizzle or 128
    array = Array("f32", rows * count * ctas, line // 4)
    to = Array("f32", rows * count * ctas, line // 4, zeros=True)
    name = f"boxes_sw{swizzle}_r{rows}_s{stages}_h{how}_o{out}_w{work}_n{count}_t{threads}_x{ctas}"
    maps = Tiles(array, rows, line, swizzle), Tiles(to, rows, line, swizzle)
    code = f"boxes<{swizzle}, {rows}, {stages}, {how}, {out}, {work}>"
    return HopperLaunch("copies", name, code, (), ctas, threads, stages * rows * line + 1024, (*maps, array, to, count))


def _attention(keys: int, c: int, steps: int, ctas: int = 1) -> HopperLaunch:
    q, k, v = (Array("f16", rows, 64) for rows in (64 * c * ctas, keys * steps, keys * steps))
    maps = Tiles(q, 64 * c, 128, 128), Tiles(k, keys, 128, 128), Tiles(v, keys, 128, 128)
    code = f"attention<{_product('f16', keys)}, {_product('f16v', 64)}, {c}>"
    products, out = (("f16", keys), ("f16v", 64)), Array("f32", 64 * c * ctas, 64, zeros=True)
    shared = c * 8192 + 4 * keys * 128 + 1024
    name = f"attention_k{keys}_c{c}_t{steps}_x{ctas}"
    return HopperLaunch("attention", name, code, products, ctas, 128 * c + 32, shared, (*maps, out, steps))


def _shared_ring(kind: str, n: int, x: int, c: int, kb: int, stages: int, steps: int, each: int) -> HopperLaunch:
    a, b = _operands(kind, n, c, 128, kb, steps, x)
    b = Tiles(b.array, n // x if each else n, 128, 128)
    name = f"cluster_{kind}_n{n}_x{x}_c{c}_k{kb}_s{stages}_t{steps}_{'each' if each else 'first'}"
    code = f"shared_ring<{_product(kind, n)}, {x}, {c}, {kb}, {stages}, {each}>"
    shared = stages * _up((64 * c + n) * kb) + 1024
    args = a, b, _out(kind, n, 64 * c * x), steps
    return HopperLaunch("clusters", name, code, ((kind, n),), x, 128 * c + 32, shared, args, x)


def _sums(x: int, push: int, rows: int) -> HopperLaunch:
    name, args = f"sums_x{x}_p{push}_r{rows}", (Array("f32", rows * x, 256), Array("f32", x, 256, zeros=True), rows)
    return HopperLaunch("clusters", name, f"sums<{x}, {push}>", (), x, 256, 0, args, x)


def launches() -> list[HopperLaunch]:
    """All launches, in the order of the measurements."""
    return [*_all()]


def _all() -> Iterator[HopperLaunch]:
    # kind, columns, warpgroups, swizzle, bytes of K a stage, stages, steps; then see the templates
    given: Any
    for given in (
        ("f16", 8, 1, 128, 128, 4, 16), ("f16", 16, 1, 64, 64, 4, 16), ("f16", 24, 2, 128, 128, 3, 12),
        ("f16", 32, 1, 32, 32, 6, 24), ("f16", 64, 1, 0, 64, 4, 16), ("f16", 64, 1, 128, 128, 2, 16),
        ("f16", 64, 2, 128, 256, 3, 8), ("f16", 96, 1, 128, 128, 4, 16), ("f16", 128, 1, 64, 64, 4, 16),
        ("f16", 128, 2, 128, 128, 4, 16), ("f16", 128, 3, 128, 128, 3, 12), ("f16", 192, 2, 64, 128, 2, 10),
        ("f16", 256, 2, 128, 128, 3, 16, 0, 0, 1), ("f16", 256, 1, 128, 128, 4, 16, 1),
        ("f16", 128, 2, 128, 128, 4, 16, 1, 0, 1), ("f16", 128, 2, 128, 128, 4, 12, 1, 1, 1),
        ("f16", 64, 2, 128, 128, 4, 12, 0, 2), ("f16", 256, 1, 128, 128, 2, 8, 0, 1), ("f16", 128, 1, 0, 32, 4, 20),
        ("f16", 128, 2, 128, 128, 4, 16, 0, 0, 1, 4), ("f16", 64, 1, 128, 128, 4, 4),
        ("f16", 128, 1, 128, 128, 5, 64, 1),
        ("h16", 64, 1, 128, 128, 4, 16), ("h16", 128, 2, 64, 64, 4, 16), ("h16", 256, 2, 128, 128, 3, 12),
        ("bf16", 64, 2, 128, 128, 4, 16, 0, 1), ("bf16", 128, 2, 32, 64, 4, 16), ("bf16", 256, 1, 64, 64, 4, 20, 1),
        ("tf32", 64, 1, 128, 128, 4, 16), ("tf32", 128, 2, 128, 128, 3, 16, 1), ("tf32", 32, 3, 64, 64, 4, 16),
        ("e4m3", 64, 1, 128, 128, 4, 16), ("e4m3", 128, 2, 128, 128, 4, 16, 1),
        ("e4m3", 256, 2, 64, 64, 4, 16, 0, 0, 1),
        ("s8", 64, 1, 128, 128, 4, 16), ("s8", 128, 2, 64, 64, 3, 16), ("s8", 256, 1, 128, 128, 3, 12, 1),
    ):  # fmt: skip
        yield _ring(*given)
    for given in (
        ("f16", 64, 1, 128, 128, 3, 16), ("f16", 128, 2, 128, 128, 3, 16), ("f16", 256, 2, 128, 128, 3, 12),
        ("f16", 32, 1, 64, 64, 4, 24), ("f16", 128, 1, 32, 64, 2, 16), ("f16", 64, 2, 0, 64, 3, 12),
        ("bf16", 128, 3, 128, 128, 3, 12), ("tf32", 64, 2, 128, 128, 2, 16), ("e4m3", 128, 1, 128, 256, 3, 10),
        ("s8", 96, 2, 128, 128, 3, 14), ("f16", 128, 2, 128, 128, 4, 8, 0, 3),
        ("f16", 64, 1, 128, 128, 3, 16, 1), ("f16", 128, 2, 128, 128, 3, 12, 1), ("bf16", 256, 1, 128, 128, 3, 12, 1),
        ("f16", 16, 1, 128, 128, 4, 16, 1), ("f16", 96, 3, 128, 128, 2, 12, 1),
    ):  # fmt: skip
        yield _together(*given)
    for given in (
        ("f16", 64, 1, 128, 3, 16, 0), ("f16", 128, 2, 128, 4, 12, 0), ("e4m3", 128, 2, 128, 2, 12, 0),
        ("f16", 64, 1, 128, 2, 16, 1), ("f16", 128, 2, 128, 2, 12, 1), ("s8", 128, 1, 128, 2, 12, 1),
        ("f16", 64, 1, 128, 3, 16, 2), ("f16", 128, 2, 128, 4, 12, 2), ("tf32", 128, 2, 128, 3, 12, 2),
        ("bf16", 256, 2, 128, 3, 10, 2),
    ):  # fmt: skip
        yield _tiles(*given)
    for given in (
        (128, 64, 4, 0, 0, 0, 32), (128, 256, 2, 0, 0, 0, 12), (64, 64, 4, 0, 0, 1, 24), (32, 128, 3, 0, 0, 1, 16),
        (0, 16, 6, 0, 0, 0, 64), (128, 128, 2, 0, 1, 0, 12), (0, 64, 4, 0, 1, 1, 16), (0, 64, 4, 1, 0, 0, 32),
        (0, 8, 8, 1, 0, 0, 48), (0, 128, 3, 1, 0, 1, 12, 256), (0, 64, 3, 1, 1, 0, 16), (0, 32, 4, 1, 1, 1, 24),
        (128, 32, 4, 0, 0, 1, 16, 256, 3),
    ):  # fmt: skip
        yield _boxes(*given)
    for given in ((64, 1, 8), (128, 1, 6), (64, 2, 8), (128, 2, 6), (128, 2, 4, 2), (64, 3, 8)):
        yield _attention(*given)
    for given in (
        ("f16", 128, 2, 1, 128, 3, 12, 1), ("f16", 128, 2, 2, 128, 4, 12, 0), ("f16", 256, 4, 1, 128, 3, 10, 1),
        ("f16", 64, 2, 1, 128, 4, 16, 0), ("e4m3", 128, 4, 2, 128, 3, 12, 1), ("bf16", 128, 8, 1, 128, 4, 10, 1),
    ):  # fmt: skip
        yield _shared_ring(*given)
    for given in ((2, 0, 16), (4, 0, 8), (8, 0, 16), (2, 1, 16), (4, 1, 8), (8, 1, 16)):
        yield _sums(*given)
