"""Tensor memory of sm_100: allocation, loads and stores by shape, copies, products of every kind, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuemu
from gpuemu.isa.registers import written_and_read
from gpuemu.sass.machine.cluster_state import Cluster
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory import Memory, views
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.machine.tensor_memory import TensorMemory, tensor_memory_of
from gpuemu.tensor.numbers import decode_values
from tests.sass.harness import execute, surroundings

BASE, BYTES = 0x400, 0x10000
A_AT, B_AT, BAR_AT = 0x2400, 0x8400, 0x800
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


# ---- allocation ---------------------------------------------------------------------------------------------


def test_columns_are_taken_in_aligned_rows_and_given_back() -> None:
    environment = cta(32)
    found = [
        int(run(environment, "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR5", {5: n}).uniform_registers[4, 0])
        for n in (1, 4, 2, 8)
    ]
    assert found == [0, 4, 2, 8]
    memory = tensor_memory_of(Site(environment.code[0], environment))
    assert memory.taken == 0b1111_1111_1111_1101
    files = run(environment, "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR5", {5: 4}, uniform_predicates={0: True})
    assert not files.uniform_predicates[0].any()
    run(environment, "UTCATOMSWS.AND URZ, UR5", {5: 0xFF00})
    assert memory.taken == 0xFF00


def test_a_number_of_columns_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(ExecutionError, match="96 columns"):
        run(cta(32), "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR5", {5: 3})


def test_columns_that_nobody_allocated_cannot_be_used() -> None:
    environment = cta()
    run(environment, "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR5", {5: 1}, mask=np.arange(128) < 32)
    with pytest.raises(ExecutionError, match="columns 28 to 35"):
        run(environment, "LDTM.x8 R8, tmem[UR4+0x1c]", {4: 0}, mask=np.arange(128) < 32)


# ---- registers ----------------------------------------------------------------------------------------------


def fragment(shape: str, times: int) -> list[list[tuple[int, int]]]:
    """The lane and column of each register and thread, as the manual's figures have them."""
    found = []
    for r in range(times * {"16dp128bit": 2, "16dp256bit": 4}.get(shape, 1)):
        row = []
        for t in range(32):
            if shape == "32dp32bit":
                row.append((t, r))
            elif shape == "16dp64bit":
                row.append((t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2))
            elif shape == "16dp128bit":
                row.append((t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4))
            else:
                row.append((t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2))
        found.append(row)
    return found


@pytest.mark.parametrize("shape", ["32dp32bit", "16dp64bit", "16dp128bit", "16dp256bit"])
def test_loads_and_stores_follow_the_shapes(shape: str) -> None:
    environment = cta()
    memory = cells(environment)
    memory[:] = RNG.integers(0, 1 << 32, memory.shape, dtype=np.uint32)
    modifier, upper = ("" if shape == "32dp32bit" else f".{shape}"), (0 if shape == "32dp32bit" else 16)
    for warp in range(4):
        lane, mask = 32 * warp + upper, np.arange(128) // 32 == warp
        files = run(environment, f"LDTM{modifier}.x4 R8, tmem[UR4+0x3]", {4: lane << 16 | 5}, mask=mask)
        places = fragment(shape, 4)
        for r, row in enumerate(places):
            expected = [memory[lane + at, 8 + column] for at, column in row]
            assert files.registers[8 + r, 32 * warp : 32 * warp + 32].tolist() == expected
        before, files.registers[8 : 8 + len(places)] = memory.copy(), files.registers[8 : 8 + len(places)] ^ 1
        run(environment, f"STTM{modifier}.x4 tmem[UR4+0x3], R8", {4: lane << 16 | 5}, mask=mask)
        changed = memory != before
        assert np.argwhere(changed).tolist() == sorted({(lane + a, 8 + c) for row in places for a, c in row}) or (
            {tuple(x) for x in np.argwhere(changed)} == {(lane + a, 8 + c) for row in places for a, c in row}
        )


def test_halves_are_packed_and_expanded() -> None:
    environment = cta()
    memory = cells(environment)
    memory[:, :8] = np.arange(8) + 0x7770000
    mask = np.arange(128) < 32
    files = run(environment, "LDTM.x2.PACK16BIT R8, tmem[UR4]", {4: 0}, mask=mask)
    assert [int(files.registers[8 + r, 3]) for r in range(2)] == [0x10000, 0x30002]
    run(environment, "STTM.x2.EXPAND16BIT tmem[UR4], R8", {4: 4}, mask=mask)
    assert memory[5, 4:8].tolist() == [0, 1, 2, 3]


def test_the_halves_of_a_warp_may_have_columns_of_their_own() -> None:
    environment = cta()
    memory = cells(environment)
    memory[:] = np.arange(128)[:, None] * 1000 + np.arange(512)
    sass = "LDTM.16dp32bit_t0_t15.x2 R8, tmem[UR4]\nLDTM.16dp32bit_t16_t31.x2 R8, tmem[UR4+0x10]"
    files = run(environment, sass, {4: 0}, mask=np.arange(128) < 32)
    for t in range(32):
        assert files.registers[8:10, t].tolist() == [t % 16 * 1000 + 16 * (t // 16) + r for r in range(2)]


@pytest.mark.parametrize(("lane", "told"), [(32, "lanes 32 to 63"), (3, "lanes 3 to 34")])
def test_a_warp_has_its_own_lanes_only(lane: int, told: str) -> None:
    environment = cta()
    cells(environment)
    with pytest.raises(ExecutionError, match=told):
        run(environment, "LDTM R8, tmem[UR4]", {4: lane << 16}, mask=np.arange(128) < 32)


def test_lanes_count_modulo_128() -> None:
    environment = cta()
    memory = cells(environment)
    memory[:, 3] = np.arange(128)
    mask = np.arange(128) // 32 == 1
    files = run(environment, "LDTM R8, tmem[UR4]", {4: (128 + 32) << 16 | 3}, mask=mask)
    assert files.registers[8, 32:64].tolist() == list(range(32, 64))


def test_a_base_offset_means_nothing_without_a_swizzle() -> None:
    environment = cta()
    memory = cells(environment)
    lines = RNG.integers(0, 256, (32, 16), dtype=np.uint8)
    descriptor = place(environment.memory.shared[1], A_AT, lines) | 4 << 49
    written(environment)
    run(environment, "UTCCP.T.S.4x32dp128bit tmem[UR4], gdesc[UR6]", {4: 0, 6: descriptor}, mask=np.arange(128) == 0)
    assert memory[:32, :4].tolist() == lines.view(np.uint32).tolist()


def test_registers_of_a_load_and_a_store_are_known() -> None:
    assert written_and_read("LDTM.16dp256bit.x2", ("R8", "tmem[UR4+0x8]"), "") == (tuple(range(8, 16)), (404,))
    assert written_and_read("STTM.x4", ("tmem[UR4]", "R8"), "") == ((), (404, 8, 9, 10, 11))
    assert written_and_read("UTCHMMA", ("gdesc[UR6]", "tmem[UR9]"), "")[1] == (406, 407, 409)


# ---- copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "rows", "words", "groups"),
    [
        ("", 128, 8, [[0], [1], [2], [3]]),
        (".128dp128bit", 128, 4, [[0], [1], [2], [3]]),
        (".2x64dp128bit_lw02_lw13", 64, 4, [[0, 2], [1, 3]]),
        (".2x64dp128bit_lw01_lw23", 64, 4, [[0, 1], [2, 3]]),
        (".4x32dp128bit", 32, 4, [[0, 1, 2, 3]]),
        (".4dp256bit", 4, 8, [[0]]),
    ],
)
def test_copies_put_rows_into_lanes(shape: str, rows: int, words: int, groups: list[list[int]]) -> None:
    environment = cta()
    memory = cells(environment)
    lines = RNG.integers(1, 1 << 32, (rows, words), dtype=np.uint32)
    descriptor = place(environment.memory.shared[1], A_AT, lines)
    written(environment)
    run(environment, f"UTCCP.T.S{shape} tmem[UR4+0x2], gdesc[UR6]", {4: 6, 6: descriptor}, mask=np.arange(128) == 0)
    for number, group in enumerate(groups):
        part = lines[32 * number : 32 * number + 32]
        for which in group:
            np.testing.assert_array_equal(memory[32 * which : 32 * which + len(part), 8 : 8 + words], part)
    assert np.count_nonzero(memory) == rows * words * len(groups[0])


# ---- products -----------------------------------------------------------------------------------------------


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


KINDS = [
    ("UTCHMMA", "f16", "f16", "f32"), ("UTCHMMA", "f16", "f16", "f16"), ("UTCHMMA", "bf16", "f16", "f32"),
    ("UTCHMMA", "tf32", "tf32", "f32"), ("UTCIMMA", "s8", "u8", "s32"), ("UTCQMMA", "e4m3", "e5m2", "f32"),
    ("UTCQMMA", "e2m1", "e3m2", "f32"), ("UTCQMMA", "e2m3", "e4m3", "f32"),
]  # fmt: skip


@pytest.mark.parametrize(("mnemonic", "left", "right", "accumulator"), KINDS)
@pytest.mark.parametrize(("m", "n"), [(64, 8), (128, 48)])
def test_every_kind_gives_the_product(mnemonic: str, left: str, right: str, accumulator: str, m: int, n: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    k = {"tf32": 8, "f16": 16, "bf16": 16}.get(left, 32)
    (a, a_values), (b, b_values) = small((m, k), left), small((n, k), right)
    uniform = {
        6: place(shared, A_AT, stored(a, left)), 8: place(shared, B_AT, stored(b, right)), 10: 32, 4: 0,
        5: described(m, n, (left, right), accumulator),
    }  # fmt: skip
    written(environment)
    sass = f"{mnemonic} gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UP0"
    for times, adds in ((1, False), (2, True)):
        run(environment, sass, uniform, mask=np.arange(128) == 5, uniform_predicates={0: adds})
        np.testing.assert_array_equal(d_of(memory, m, n, accumulator, 32), times * (a_values @ b_values.T))
    assert np.count_nonzero(memory) <= m * n


@pytest.mark.parametrize("majors", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_every_layout_of_shared_memory_gives_the_product(swizzle: int, majors: str) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((64, 16), "f16"), small((16, 16), "bf16")
    flags = {f"b{15 + side}": int(major == "M") for side, major in enumerate(majors)}
    uniform = {
        6: place(shared, A_AT, a, swizzle, majors[0]), 8: place(shared, B_AT, b, swizzle, majors[1]), 10: 0, 4: 0,
        5: described(64, 16, ("f16", "bf16"), **flags),
    }  # fmt: skip
    written(environment)
    sass = "UTCHMMA gdesc[UR6].A_KEEP, gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(d_of(memory, 64, 16, "f32"), a_values @ b_values.T)


def test_a_may_be_in_tensor_memory_and_operands_negative() -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((128, 16), "f16"), small((16, 16), "f16")
    memory[:, 100:108] = np.ascontiguousarray(a).view(np.uint32)
    uniform = {7: 100, 8: place(shared, B_AT, b, 128), 10: 0, 4: 0, 5: described(128, 16, ("f16", "f16"), b13=1)}
    written(environment)
    sass = "UTCHMMA tmem[UR7], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(d_of(memory, 128, 16, "f32"), -a_values @ b_values.T)


def test_masked_lanes_keep_their_d_and_an_addend_may_be_scaled() -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((128, 16), "f16"), small((16, 16), "f16")
    memory[:, :16] = np.float32(8).view(np.uint32)
    uniform = {6: place(shared, A_AT, a), 8: place(shared, B_AT, b), 10: 0, 4: 0, 5: described(128, 16, ("f16",) * 2)}
    written(environment)
    sass = "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UR12, UPT, 0x2"
    uniform |= {12: 1, 13: 0x80000000, 14: 0, 15: 6}
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    expected = a_values @ b_values.T + 2
    expected[[0, 63, 97, 98]] = 8
    np.testing.assert_array_equal(d_of(memory, 128, 16, "f32"), expected)


SCALED = [
    ("UTCQMMA", "e4m3", "e2m1", 1, True),
    ("UTCOMMA", "e2m1", "e2m1", 2, True),
    ("UTCOMMA.4X", "e2m1", "e2m1", 4, False),
]


@pytest.mark.parametrize(("opcode", "left", "right", "parts", "powers"), SCALED)
def test_block_scales_multiply_their_parts_of_k(opcode: str, left: str, right: str, parts: int, powers: bool) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    m, n, k = 128, 48, 32 if opcode == "UTCQMMA" else 64
    (a, a_values), (b, b_values) = small((m, k), left), small((n, k), right)
    raw, values = [], []
    for count in (m, n):
        scale = RNG.integers(126, 130, (count, 4)) if powers else RNG.choice([0x30, 0x38, 0x40, 0x44], (count, 4))
        values.append(np.ldexp(1.0, scale - 127) if powers else decode_values("e4m3", scale.astype(np.uint8)))
        raw.append(scale.astype(np.uint8))
    ids = {1: (3, 2), 2: (2, 0), 4: (0, 0)}[parts]
    for at, scale in ((100, raw[0]), (110, raw[1])):
        for row, word in enumerate(np.ascontiguousarray(scale).view(np.uint32)[:, 0]):
            memory[row % 32, at + row // 32] = word
    if k == 64:
        a, b = (x[:, ::2] | x[:, 1::2] << np.uint8(4) for x in (a, b))
    else:
        a, b = stored(a, left), stored(b, right)
    word = described(m, n, (left, right), "f16", b23=int(powers), b29=ids[0]) | ids[1] << 4
    uniform = {6: place(shared, A_AT, a), 8: place(shared, B_AT, b), 10: 0, 4: 0, 5: word, 12: 100, 13: 110}
    written(environment)
    sass = f"{opcode} gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], tmem[UR12], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    of_a = values[0][:, ids[0] : ids[0] + parts].repeat(k // parts, axis=1)
    of_b = values[1][:, ids[1] : ids[1] + parts].repeat(k // parts, axis=1)
    np.testing.assert_array_equal(d_of(memory, m, n, "f32"), (a_values * of_a) @ (b_values * of_b).T)


def pair_of_ctas() -> Environment:
    """CTA 0 of a cluster of two, beside which CTA 1 waits."""
    environment = cta()
    memory = environment.memory
    memory.cluster = Cluster((0, 1), np.ones(128, np.bool_))
    memory.cluster.begun |= {0, 1}
    memory.cluster.shared[1] = views(np.zeros(BYTES, np.uint8)), views(np.full(BYTES, 0xFF, np.uint8))
    written(environment)
    return environment


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_of_ctas_halves_the_rows_of_a_and_the_columns_of_b(m: int) -> None:
    environment, n = pair_of_ctas(), 32
    (a, a_values), (b, b_values) = small((m, 16), "f16"), small((n, 16), "f16")
    assert environment.memory.cluster is not None
    parts = environment.memory.shared[1], environment.memory.cluster.shared[1][0][1]
    for rank, shared in enumerate(parts):
        half, columns = slice(rank * m // 2, (rank + 1) * m // 2), slice(rank * n // 2, (rank + 1) * n // 2)
        uniform = {6: place(shared, A_AT, a[half], 64), 8: place(shared, B_AT, b[columns], 64)}
        cells(environment, rank)
    uniform |= {10: 0, 4: 0, 5: described(m, n, ("f16", "f16"))}
    sass = "UTCHMMA.2CTA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    expected = a_values @ b_values.T
    for rank in range(2):
        found = cells(environment, rank)[:, :n].copy().view(np.float32)
        rows = expected[rank * m // 2 : (rank + 1) * m // 2]
        if m == 128:
            found = np.concatenate([found[:64, : n // 2], found[64:, : n // 2]], axis=1)
        np.testing.assert_array_equal(found, rows)


def test_a_commit_arrives_at_the_mbarriers_of_a_mask() -> None:
    environment = pair_of_ctas()
    assert environment.memory.cluster is not None
    words = environment.memory.shared[8], environment.memory.cluster.shared[1][0][8]
    at = (BAR_AT - BASE) // 8
    for each in words:
        each[at] = (1 << 64) - (1 << 43) | ((1 << 20) - 1) << 1 & ((1 << 21) - 1)
    before = [int(each[at]) >> 63 for each in words]
    run(environment, "UTCBAR.MULTICAST [UR4], URZ, UR6", {4: BAR_AT, 6: 3}, mask=np.arange(128) == 0)
    assert [int(each[at]) >> 63 for each in words] == [1 - x for x in before]


@pytest.mark.parametrize(
    "sass",
    [
        "UTCHMMA.WS gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UPT",
        "UTCHMMA.ASHIFT tmem[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UPT",
        "UTCOMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UPT",
        "UTCSHIFT.DOWN tmem[UR4]",
        "UTCATOMSWS.OR URZ, UR4",
    ],
)
def test_forms_that_are_not_known_are_refused(sass: str) -> None:
    environment = cta()
    cells(environment)
    with pytest.raises(UnsupportedError):
        run(environment, sass, {5: described(128, 16, ("f16", "f16"))}, mask=np.arange(128) == 0)


def test_a_shape_that_does_not_exist_is_a_fault() -> None:
    environment = cta()
    cells(environment)
    sass = "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UPT"
    with pytest.raises(ExecutionError, match="instruction descriptor"):
        run(environment, sass, {5: described(256, 16, ("f16", "f16"))}, mask=np.arange(128) == 0)


# ---- a whole kernel -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "ctas"), [("tcgen05.cu", 1), ("tcgen05_pair.cu", 2)])
def test_a_kernel_of_nvcc_multiplies(source: str, ctas: int) -> None:
    rows = 128 * ctas
    a = RNG.integers(-8, 9, (rows, 16)).astype(np.float16)
    b = RNG.integers(-8, 9, (64, 16)).astype(np.float16)
    d = np.zeros((rows, 64), np.float32)
    path = Path(__file__).parent / "kernels" / source
    instruction = np.uint32(described(rows, 64, ("f16", "f16")))
    given: dict[str, Any] = {"args": [a.view(np.uint16), b.view(np.uint16), d, instruction]}
    shape, options = ((ctas, 1, 1), (128, 1, 1)), ["-arch=sm_100a"]
    trace = gpuemu.trace_kernel(str(path), "product", *shape, arch="sm_100", options=options, **given)
    np.testing.assert_array_equal(d, 2 * (a.astype(np.float64) @ b.T.astype(np.float64)))
    assert gpuemu.run(trace).cycles > 0


def test_tensor_memory_begins_empty() -> None:
    assert not TensorMemory().cells.any()
