"""CTAs of sm_100 with shared and tensor memory, matrices in them, and their values: for the tests of tcgen05."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory, views
from gpuemu.sass.machine.memory.tensor_memory import tensor_memory_of
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.scheduling.cluster_state import Cluster
from gpuemu.tensor.numbers import decode_values
from tests.sass.harness import execute, surroundings

BASE, BYTES = 0x400, 0x10000
A_AT, B_AT = 0x2400, 0x8400
RNG = np.random.default_rng(7)
SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6}
CODES = {
    "f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1,
}  # fmt: skip


def cta(threads: int = 128) -> Environment:
    memory = Memory(shared_bytes=BYTES, shared_base=BASE, local_bytes_per_lane=0, lanes=Lanes(threads))
    return surroundings("NOP", lanes=threads, memory=memory, arch="sm_100", constants={})


def run(environment: Environment, sass: str, uniform: dict[int, int] | None = None, **more: Any) -> Lanes:
    """Execute instructions in a CTA; `uniform` has 64-bit values as pairs where they do not fit."""
    words = {}
    for number, value in (uniform or {}).items():
        words[number] = value & 0xFFFFFFFF
        if value >> 32:
            words[number + 1] = value >> 32
    code = surroundings(sass, lanes=environment.lanes.count, files=environment.lanes, memory=environment.memory)
    environment.code = code.code
    return execute(sass, uniform=words, environment=environment, **more)


def cells(environment: Environment, rank: int | None = None) -> NDArray[np.uint32]:
    memory = tensor_memory_of(Site(surroundings("NOP").code[0], environment), rank)
    memory.taken = 0xFFFF
    return memory.cells


def place(shared: NDArray[np.uint8], start: int, lines: NDArray[Any], swizzle: int = 0, major: str = "K") -> int:
    """Write elements [line, k] as the manual draws the canonical layouts; return the matrix descriptor."""
    size = lines.dtype.itemsize
    per, across = 16 // size, max(1, swizzle // 16)
    leading, stride = (0x1000, 0x80) if not swizzle else (16, 8 * swizzle)
    if major == "M":
        leading, stride = (0x800, 0x80) if not swizzle else (0x800, 8 * swizzle)
    for (line, k), element in np.ndenumerate(lines):
        if major == "K":
            row, group, core = line % 8, line // 8, k // per
            at = group * stride + row * 16 * across + core * (leading if not swizzle else 16) + k % per * size
        else:
            row, core = k % 8, line // per
            at = core * stride + row * 16 + k // 8 * leading
            if swizzle:
                at = core // across * leading + core % across * 16 + row * swizzle + k // 8 * stride
            at += line % per * size
        address = start + at
        if swizzle:
            address ^= (address >> 7) % across << 4
        shared[address - BASE : address - BASE + size] = np.frombuffer(element.tobytes(), np.uint8)
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | SWIZZLES[swizzle] << 61


def described(m: int, n: int, types: tuple[str, str], accumulator: str = "f32", **flags: int) -> int:
    """The instruction descriptor; flags: position of a bit or field as b13=1."""
    word = {"f16": 0, "f32": 1, "s32": 2}[accumulator] << 4 | CODES[types[0]] << 7 | CODES[types[1]] << 10
    word |= n // 8 << 17 | m // 16 << 24
    for name, value in flags.items():
        word |= value << int(name[1:])
    return word


def written(environment: Environment) -> None:
    environment.memory.written[1][:] = 0xFF


def small(shape: tuple[int, int], kind: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Small numbers: their elements in shared memory, and their values."""
    if kind in ("s8", "u8"):
        values = RNG.integers(-128 if kind == "s8" else 0, 128, shape)
        return values.astype(np.int8).view(np.uint8), values.astype(np.float64)
    if kind in ("f16", "bf16", "tf32"):
        values = RNG.integers(-8, 9, shape).astype(np.float32)
        words = values.view(np.uint32)
        raw = {"f16": values.astype(np.float16).view(np.uint16), "bf16": (words >> 16).astype(np.uint16), "tf32": words}
        return raw[kind], values.astype(np.float64)
    bits = {"e2m1": 4, "e3m2": 6, "e2m3": 6}.get(kind, 8)
    raw = RNG.integers(0, 1 << bits, shape).astype(np.uint8)
    if kind in ("e4m3", "e5m2"):
        raw = RNG.choice(np.array([0, 0x38, 0xB8, 0x3C, 0x40, 0xC0], np.uint8), shape)
    return raw, decode_values(kind, raw << np.uint8(2) if bits == 4 else raw).astype(np.float64)


def stored(raw: NDArray[Any], kind: str) -> NDArray[Any]:
    """Elements as shared memory has them: numbers of 6 and 4 bits without gaps, in the first bytes of each 16."""
    bits = {"e2m1": 4, "e3m2": 6, "e2m3": 6}.get(kind, 8)
    if bits == 8:
        return raw
    packed = np.zeros(raw.shape, np.uint8)
    for row in range(len(raw)):
        for unit in range(raw.shape[1] // 16):
            number = sum(int(x) << bits * k for k, x in enumerate(raw[row, 16 * unit : 16 * unit + 16]))
            packed[row, 16 * unit : 16 * unit + 16] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
    return packed


def d_of(memory: NDArray[np.uint32], m: int, n: int, accumulator: str, at: int = 0) -> NDArray[np.float64]:
    rows = np.arange(m) if m == 128 else np.arange(m) % 16 + np.arange(m) // 16 * 32
    found = memory[rows, at : at + n]
    if accumulator == "f32":
        return found.copy().view(np.float32).astype(np.float64)
    if accumulator == "s32":
        return found.copy().view(np.int32).astype(np.float64)
    return found.astype(np.uint16).view(np.float16).astype(np.float64)


def pair_of_ctas() -> Environment:
    """CTA 0 of a cluster of two, beside which CTA 1 waits."""
    environment = cta()
    memory = environment.memory
    memory.cluster = Cluster((0, 1), np.ones(128, np.bool_))
    memory.cluster.begun |= {0, 1}
    memory.cluster.shared[1] = views(np.zeros(BYTES, np.uint8)), views(np.full(BYTES, 0xFF, np.uint8))
    written(environment)
    return environment
