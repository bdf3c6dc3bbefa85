"""Tensor maps: descriptions of arrays for copies (cp.async.bulk.tensor in PTX, UTMALDG and UTMASTG in SASS).

A map is 128 bytes, which the driver's cuTensorMapEncodeTiled fills in for a launch. `TensorMap` does the same in
gpuemu: pass one as a kernel's `const __grid_constant__ CUtensorMap` argument. The meaning of the bytes was derived from
compilers' code for PTX's `tensormap.replace`, which writes each of these fields (nvcc 13.0, sm_90a), and from 64 maps
of an H200's driver that differ in one setting each:

    0x00        address of the first element
    0x08        bit 0 im2col, 4-6 dimensions less one, 7-10 type, 11-12 interleaving, 13-14 swizzle, 15 fill (1: NaN),
                16 tf32 for f32, 17-18 how much the L2 cache fetches
                19-20 the bytes that a swizzle of sm_100 keeps together (0: 16, 1: 32, 2: 32, but 8 flip, 3: 64)
                21 without effect; cuTile sets it in maps without a swizzle; 22 a swizzle of 96 bytes (sm_103)
    0x0c-0x1b   strides of dimensions 1 to 4 in units of 16 bytes, low 32 bits; 0x1c: four more bits of each
    0x20-0x33   elements of each dimension less one
    0x34        bits 0-14 steps in each dimension less one, 3 bits each; bits 24-31 box of dimension 0 less one
    0x38        box of dimensions 1 to 4 less one, a byte each

A map of im2col (cuTensorMapEncodeIm2col) has the channels of a pixel as its box of dimension 0, and instead of the
others:

    0x38        corners of the bounding box, as distances from the first and from the last element: of dimensions 1 to
                3 in the lower half, then in the upper half. Each has 16, 8 or 5 bits with 1, 2 or 3 such dimensions.
    0x3c        pixels less one

These were derived from 132 maps of an H200's driver. Dimension 0 is the contiguous one: the last axis of a NumPy array.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu.base.errors import GpuemuError

BYTES = 128
ALIGNMENTS = (128, 64)
"""Alignments of CUtensorMap in a structure: in CUDA 13's header, and in earlier ones."""
_MOST_DIMENSIONS = 5
_UNIT = 16
_NUMBERED = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "b4x16", "b4x16_p64",
)  # fmt: skip
PACKED = {"b4x16": 8, "b4x16_p64": 16}
"""Types of sm_100 with 16 elements of 4 bits in 8 bytes, and the bytes of these in shared memory, with padding."""
_AT_ONCE = 16
_AS_TF32 = 1 << 16
_WITH_TF32 = {"f32": "tf32", "f32.ftz": "tf32.ftz"}
TYPES = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2, "f32.ftz": 4,
    "tf32": 4, "tf32.ftz": 4, "b4x16": 8, "b4x16_p64": 8,
}  # fmt: skip
"""Element types of cuTensorMapEncodeTiled, and their bytes; 16 elements of 4 bits count as one."""
_CHUNKS = {0: 16, 1: 32, 3: 64}
"""The bytes that a swizzle keeps together, by their number. Source: nvcc's code for tensormap.replace, PTX manual."""
_IM2COL, _FLIPS, _OF_96 = 1, 2, 1 << 22
CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""Bits of a corner of the bounding box, by the number of dimensions that have one."""
_MOST_PIXELS = 1024
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a line within which 16-byte chunks are permuted, by the number of the swizzle."""


class Window(NamedTuple):
    """The pixels of an im2col map: the bounding box in dimensions 1 and up but the last, and how many a copy takes.

    `first`, `last`: the coordinates of its corners.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    pixels: int


@dataclass(frozen=True)
class Layout:
    """The contents of a tensor map: tuples have an entry for each dimension, dimension 0 first.

    `strides` are in bytes; that of dimension 0 is the element's size. `box` counts elements of the array, of which a
    copy takes every `steps`-th. `nan_fill`: elements outside the array are NaN instead of zero. 16
    elements of 4 bits count as one element of 8 bytes, which takes `shared_bytes` of shared memory. A coordinate counts
    `at_once` of them.
    """

    address: int
    type: str
    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleaved: bool
    swizzle_bytes: int
    nan_fill: bool
    chunk_bytes: int = 16
    """The bytes that the swizzle keeps together."""
    window: Window | None = None
    """The pixels of an im2col map, whose box is the channels of a pixel."""
    unknown: str = ""
    """The part of the map that gpuemu does not understand, or nothing."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of an element in shared memory."""
        return PACKED.get(self.type, self.element_bytes)

    @property
    def at_once(self) -> int:
        """How many elements the map counts as one in dimension 0."""
        return _AT_ONCE if self.type in PACKED else 1

    @property
    def copied(self) -> tuple[int, ...]:
        """Number of elements in each dimension that a copy takes; for im2col, of channels and of pixels."""
        if self.window is not None:
            return self.box[0], self.window.pixels
        return tuple(-(-box // step) for box, step in zip(self.box, self.steps, strict=True))


def decode(data: bytes) -> Layout | None:
    """Decode 128 bytes; return None if they are not a tensor map."""
    words = np.frombuffer(data, dtype="<u4").astype(object)
    flags = int(words[2])
    rank, kind = (flags >> 4 & 7) + 1, flags >> 7 & 15
    together = flags >> 19 & 3
    columns = flags & _IM2COL > 0
    if rank > _MOST_DIMENSIONS or kind >= len(_NUMBERED) or (columns and rank < 3):
        return None
    unknown = "a swizzle that flips 8 bytes" * (together == _FLIPS) + "a swizzle of 96 bytes" * (flags & _OF_96 > 0)
    element = _NUMBERED[kind]
    if flags & _AS_TF32:
        element = _WITH_TF32.get(element, element)
    size = TYPES[element]
    strides = [size]
    for k in range(rank - 1):
        strides.append((int(words[3 + k]) | (int(words[7]) >> 4 * k & 15) << 32) * _UNIT)
    at_once = _AT_ONCE if element in PACKED else 1
    boxes = [(int(words[13]) >> 24) // at_once, *(int(words[14]) >> 8 * k & 0xFF for k in range(4))]
    shape = tuple((int(words[8 + k]) + 1) // (1 if k else at_once) for k in range(rank))
    return Layout(
        address=int(words[0]) | int(words[1]) << 32,
        type=element,
        element_bytes=size,
        shape=shape,
        strides=tuple(strides),
        box=(boxes[0] + 1, *[1] * (rank - 1)) if columns else tuple(box + 1 for box in boxes[:rank]),
        steps=tuple((int(words[13]) >> 3 * k & 7) + 1 for k in range(rank)),
        interleaved=bool(flags >> 11 & 3),
        swizzle_bytes=SWIZZLES[flags >> 13 & 3],
        nan_fill=bool(flags >> 15 & 1),
        chunk_bytes=_CHUNKS.get(together, _UNIT),
        window=_window(int(words[14]), int(words[15]), shape) if columns else None,
        unknown=unknown,
    )


def _window(corners: int, pixels: int, shape: tuple[int, ...]) -> Window:
    """Decode the pixels of an im2col map of an array of this shape, dimension 0 first."""
    bits = CORNER_BITS[len(shape) - 2]
    found = []
    for half in (corners & 0xFFFF, corners >> 16):
        fields = [half >> bits * k & (1 << bits) - 1 for k in range(len(shape) - 2)]
        found.append([field - (field >> bits - 1 << bits) for field in fields])
    last = tuple(extent - 1 + corner for extent, corner in zip(shape[1:], found[1], strict=False))
    return Window(tuple(found[0]), last, (pixels & _MOST_PIXELS - 1) + 1)


_NUMPY_TYPES = {
    "uint8": "u8", "int8": "u8", "uint16": "u16", "int16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64",
    "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64", "bool": "u8",
}  # fmt: skip


class TensorMap:
    """A kernel argument: the tensor map of a NumPy array, which is a device buffer that the kernel may read and write.

    The array may be a view with gaps between rows, such as every second row. Its last axis must be contiguous, and the
    strides of the others must be multiples of 16 bytes. `box`: elements that a copy takes along each axis, in the
    array's order of axes. `swizzle`: 0, 32, 64 or 128 bytes. `type`: the element's type by its name in
    cuTensorMapEncodeTiled, see TYPES. The default is the array's own (bf16 is stored in uint16). `fill`: 0 or "nan",
    the value that a copy reads outside the array. `steps`: 2 takes every second element of an axis. `chunk_bytes`: what
    a swizzle keeps together, 16 or (sm_100) 32 or 64. Raises GpuemuError
    for an array that no tensor map can describe. With the types of PACKED, an element of the array has 16 of the map.
    """

    def __init__(
        self,
        array: npt.NDArray[Any],
        box: Sequence[int],
        *,
        swizzle: int = 0,
        type: str | None = None,
        fill: int | str = 0,
        steps: Sequence[int] | None = None,
        chunk_bytes: int = 16,
    ):
        if not isinstance(array, np.ndarray):
            raise _refused("array", repr(array), "a NumPy array")
        self.array = array
        kind = type or _NUMPY_TYPES.get(array.dtype.name, "")
        if TYPES.get(kind) != array.itemsize:
            raise _refused(
                "type", f"{kind or array.dtype} for elements of {array.itemsize} bytes", "a type of that size"
            )
        if not 1 <= array.ndim <= _MOST_DIMENSIONS:
            raise _refused("array", f"{array.ndim} dimensions", f"1 to {_MOST_DIMENSIONS}")
        taken = steps if steps is not None else (1,) * array.ndim
        for name, values, most in (("box", box, 256), ("steps", taken, 8)):
            if np.shape(values) != (array.ndim,) or not all(value in range(1, most + 1) for value in values):
                raise _refused(name, f"{values!r}", f"a number from 1 to {most} for each of {array.ndim} axes")
        if swizzle not in SWIZZLES:
            raise _refused("swizzle", f"{swizzle}", "0, 32, 64 or 128 bytes")
        if chunk_bytes not in _CHUNKS.values() or (chunk_bytes > _UNIT and swizzle != SWIZZLES[-1]):
            raise _refused("chunk_bytes", f"{chunk_bytes}", "16, or 32 or 64 with a swizzle of 128 bytes")
        if fill not in (0, "nan"):
            raise _refused("fill", f"{fill}", "0 or 'nan'")
        line = box[-1] * PACKED.get(kind, array.itemsize)
        if line % _UNIT or (swizzle and line > swizzle):
            raise _refused("box", f"{line} bytes along the last axis", f"a multiple of 16, up to {swizzle or 4096}")
        if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
            right = "an array whose last axis is contiguous"
            raise _refused("array", f"{array.strides[-1]} bytes from one element to the next", right)
        if any(stride % _UNIT or stride <= 0 for stride in array.strides[:-1]):
            right = "multiples of 16 above 0 for all but the last axis"
            raise _refused("array", f"strides of {array.strides} bytes", right)
        self._box, self._steps = tuple(box)[::-1], tuple(taken)[::-1]
        self._at_once = _AT_ONCE if kind in PACKED else 1
        plain = next((name for name, tf32 in _WITH_TF32.items() if tf32 == kind), kind)
        self._flags = (
            (array.ndim - 1) << 4 | _NUMBERED.index(plain) << 7 | SWIZZLES.index(swizzle) << 13
            | (fill == "nan") << 15 | (_AS_TF32 if plain != kind else 0)
            | next(number for number, size in _CHUNKS.items() if size == chunk_bytes) << 19
        )  # fmt: skip
        self._corners = self._pixels = 0

    @classmethod
    def im2col(
        cls, array: npt.NDArray[Any], lower: Sequence[int], upper: Sequence[int], channels: int, pixels: int,
        **more: Any,
    ) -> TensorMap:  # fmt: skip
        """Return a map that a copy reads columns of pixels by, as cuTensorMapEncodeIm2col makes it.

        The array has images, then one to three dimensions of pixels, then channels. `lower`, `upper`: the corners of
        the bounding box in each dimension of pixels, as distances from its first and from its last element. `channels`:
        those of a pixel that a copy takes. `more`: swizzle, type, fill, and steps, as for a tiled map. Raises
        GpuemuError for an array that no such map can describe.
        """
        made = cls(array, (*[1] * (array.ndim - 1), channels), **more)
        bits = CORNER_BITS.get(array.ndim - 2)
        if bits is None:
            raise _refused("array", f"{array.ndim} dimensions", "3 to 5, with images first and channels last")
        if pixels not in range(1, _MOST_PIXELS + 1):
            raise _refused("pixels", f"{pixels}", f"1 to {_MOST_PIXELS}")
        made._pixels, made._flags = pixels, made._flags | _IM2COL
        for start, (name, corners) in zip((0, 16), (("lower", lower), ("upper", upper)), strict=True):
            most = 1 << bits - 1
            if np.shape(corners) != (array.ndim - 2,) or not all(-most <= corner < most for corner in corners):
                right = f"a number from {-most} to {most - 1} for each of {array.ndim - 2} axes of pixels"
                raise _refused(name, f"{corners!r}", right)
            for k, corner in enumerate(tuple(corners)[::-1]):
                made._corners |= (corner & (1 << bits) - 1) << start + bits * k
        return made

    def memory(self) -> npt.NDArray[np.uint8]:
        """Return the bytes from the array's first element to the end of its last, including those between its rows."""
        first = self.array[(slice(0, 1),) * self.array.ndim].reshape(-1).view(np.uint8)
        reach = sum((extent - 1) * stride for extent, stride in zip(self.array.shape, self.array.strides, strict=True))
        return np.lib.stride_tricks.as_strided(first, (reach + self.array.itemsize,), (1,))

    def __deepcopy__(self, memo: dict[int, Any]) -> TensorMap:
        """Copy a view as a view of the same form."""
        other = copy.copy(self)
        kept = self.array
        other.array = np.ndarray(kept.shape, kept.dtype, self.memory().copy(), 0, kept.strides)
        return other

    def encode(self, address: int) -> bytes:
        """Return the 128 bytes for an array at that address."""
        words = np.zeros(BYTES // 4, dtype=np.uint64)
        words[0], words[1], words[2] = address & 0xFFFFFFFF, address >> 32, self._flags
        for k, stride in enumerate(self.array.strides[:-1][::-1]):
            words[3 + k] = stride // _UNIT & 0xFFFFFFFF
            words[7] |= np.uint64((stride // _UNIT >> 32) << 4 * k)
        for k, (extent, box, step) in enumerate(zip(self.array.shape[::-1], self._box, self._steps, strict=True)):
            together = 1 if k else self._at_once
            extent, box = extent * together, box * together
            words[8 + k] = extent - 1
            words[13] |= np.uint64(step - 1 << 3 * k)
            if k:
                words[14] |= np.uint64(box - 1 << 8 * (k - 1))
            else:
                words[13] |= np.uint64(box - 1 << 24)
        if self._pixels:
            words[14], words[15] = self._corners, self._pixels - 1
        return words.astype("<u4").tobytes()


def _refused(field: str, found: str, right: str) -> GpuemuError:
    return GpuemuError.one("tensor map", None, field, found, f"expected {right}")
