"""The sums of tcgen05.mma (sm_100): D = A B + C for whole matrices, by the rules of mma.sync with the same types."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import Index, MmaMode, float_mode, integer_mode
from gpuemu.isa.instruction_descriptor import A_BYTES, BITS, InstructionDescriptor
from gpuemu.sass.machine.memory.shared_matrices import Matrix
from gpuemu.tensor.mma import mma_registers
from gpuemu.tensor.numbers import Numerics
from gpuemu.tensor.scaled import decode_scales, scaled_product

_ROWS, _COLUMNS = 16, 8
Words = NDArray[np.uint32]


class Factors(NamedTuple):
    """The factors of a product: A [banks, rows, stored k] and B [n, k].

    Equal parts of the columns of B belong to the banks; a single A serves all. `chosen`: for a sparse A, the place
    along K of each of its elements. `scales`: the bytes of the scales of A [rows, parts] and B [n, parts]. `packed`:
    elements are two numbers of 4 bits.
    """

    a: Matrix
    b: Matrix
    chosen: Index | None = None
    scales: tuple[Matrix, Matrix] | None = None
    packed: bool = False


def scaled_addend(c: Words, accumulator: str, shift: int) -> Words:
    """Return C x 2^-shift, rounded to nearest."""
    if accumulator == "f32":
        return np.ldexp(c.view(np.float32), -shift).view(np.uint32)
    halves = np.ldexp(c.astype(np.uint16).view(np.float16), -shift)
    return halves.astype(np.float16).view(np.uint16).astype(np.uint32)


def _mode(said: InstructionDescriptor) -> MmaMode:
    """Return the mma.sync that does the same with 16 rows and 8 columns."""
    k = A_BYTES * 8 // BITS.get(said.types[0], 8) * (2 if said.sparse else 1)
    if said.accumulator == "s32":
        return integer_mode(k, said.types, said.saturates, said.sparse)
    return float_mode(k, said.accumulator, said.types, said.sparse)


def sums(numerics: Numerics, said: InstructionDescriptor, factors: Factors, c: Words) -> Words:
    """Return D [rows, n] as cells of tensor memory, from the cells of C."""
    high, wide = factors.a.shape[1] // _ROWS, len(factors.b) // _COLUMNS
    tiles = c.reshape(high, _ROWS, wide, _COLUMNS).swapaxes(1, 2)
    right = factors.b.reshape(wide, _COLUMNS, -1).swapaxes(1, 2)
    if factors.scales is None:
        mode = _mode(said)
        of_a = _by_tile(mode.a.scatter(_tiled(factors.a)), wide)
        of_b = np.broadcast_to(mode.b.scatter(right)[None], (high, *mode.b.scatter(right).shape))
        rows = None if factors.chosen is None else _by_tile(_tiled(factors.chosen), wide)
        rows = None if rows is None else np.ascontiguousarray(rows.reshape(-1, *rows.shape[-2:]))
        words = mma_registers(numerics, mode, of_a, of_b, mode.c.scatter(tiles), rows)
        d: Any = mode.c.gather(words).astype(np.uint32)
    else:
        d = _scaled(numerics, said, factors, tiles, right)
    result: Words = d.swapaxes(1, 2).reshape(c.shape)
    return result


def _tiled(matrices: NDArray[Any]) -> NDArray[Any]:
    """Return [banks, rows, columns] as [banks, high, 16, columns]."""
    return matrices.reshape(len(matrices), -1, _ROWS, matrices.shape[-1])


def _by_tile(parts: NDArray[Any], wide: int) -> NDArray[Any]:
    """Return [high, wide, ...] from what the banks have, [banks, high, ...]."""
    banks = len(parts)
    if banks == 1:
        return np.broadcast_to(parts[0][:, None], (parts.shape[1], wide, *parts.shape[2:]))
    return parts[np.arange(wide) // (wide // banks)].swapaxes(0, 1)


def _scaled(numerics: Numerics, said: InstructionDescriptor, factors: Factors, tiles: Words, right: Matrix) -> Words:
    """Return D of tiles [high, wide, 16, 8] from B [wide, k, 8], with block scales."""
    assert factors.scales is not None
    left, packed, (high, wide) = factors.a, factors.packed, tiles.shape[:2]
    if packed:
        left, right = _nibbles(left), _nibbles(right.swapaxes(1, 2)).swapaxes(1, 2)
    of_a = _by_tile(_tiled(left), wide)
    rows = None if factors.chosen is None else _by_tile(_tiled(factors.chosen), wide)
    kind = "ue8m0" if said.powers_of_two else "ue4m3"
    scales_a = factors.scales[0].reshape(high, _ROWS, -1).transpose(2, 0, 1)[..., None]
    scales_b = factors.scales[1].reshape(wide, _COLUMNS, -1).transpose(2, 0, 1)[:, :, None]
    d = np.empty(tiles.shape, np.uint32)
    for i in range(high):
        here = np.ascontiguousarray(of_a[i]), right, np.ascontiguousarray(tiles[i])
        scales = (
            decode_scales(kind, np.repeat(scales_a[:, i : i + 1], wide, axis=1)),
            decode_scales(kind, scales_b),
        )
        chosen = None if rows is None else rows[i]
        d[i] = scaled_product(numerics, said.types, *here, scales, packed, chosen)
    return d


def _nibbles(packed: Matrix) -> Matrix:
    """Return two numbers of 4 bits for each byte of the last axis, lower one first, at their position in a byte."""
    both = np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1).astype(np.uint8)
    return (both << np.uint8(2)).reshape(*packed.shape[:-1], -1)
