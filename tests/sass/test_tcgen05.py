"""Tensor memory of sm_100: allocation, loads and stores by shape, copies, products of every kind, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.isa.registers import written_and_read
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.memory.tensor_memory import TensorMemory, tensor_memory_of
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.tensor.numbers import decode_values
from tests.sass.blackwell import (
    A_AT,
    B_AT,
    BASE,
    RNG,
    cells,
    cta,
    d_of,
    described,
    pair_of_ctas,
    place,
    run,
    small,
    stored,
    written,
)

BAR_AT = 0x800

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


@pytest.mark.parametrize(
    ("modifiers", "expected"),
    [
        ("MAX", lambda x: x.view(np.uint32).max(axis=1)),
        ("MIN.S32", lambda x: x.view(np.int32).min(axis=1).view(np.uint32)),
        ("MIN.F32", lambda x: np.nanmin(x, axis=1).view(np.uint32)),
        ("MAXABS.F32.NAN", lambda x: np.where(np.isnan(x).any(axis=1), 0x7FFFFFFF, abs(x).max(axis=1).view(np.uint32))),
    ],
)
def test_loads_may_find_the_extreme_of_each_lane(modifiers: str, expected: Any) -> None:
    environment = cta()
    memory = cells(environment)
    values = RNG.normal(size=(128, 8)).astype(np.float32)
    values[40, 3] = np.nan
    memory[:, :8] = values.view(np.uint32)
    mask = np.arange(128) // 32 == 1
    files = run(environment, f"LDTM.STAT.x8.{modifiers} R20, R8, tmem[UR4]", {4: 32 << 16}, mask=mask)
    np.testing.assert_array_equal(files.registers[8:16, 32:64], values[32:64].view(np.uint32).T)
    np.testing.assert_array_equal(files.registers[20, 32:64], expected(values[32:64]))
    sass = f"LDTM.STAT.16dp32bit_t16_t31.x4.{modifiers} R20, R8, tmem[UR4+0x2]"
    files = run(environment, sass, {4: 32 << 16}, mask=mask)
    np.testing.assert_array_equal(files.registers[20, 48:64], expected(np.ascontiguousarray(values[32:48, 2:6])))


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
    statistic = written_and_read("LDTM.STAT.x4.MAX.F32", ("R20", "R8", "tmem[UR4]"), "")
    assert statistic == ((20, 8, 9, 10, 11), (404,))
    assert written_and_read("STTM.x4", ("tmem[UR4]", "R8"), "") == ((), (404, 8, 9, 10, 11))
    assert written_and_read("UTCHMMA", ("gdesc[UR6]", "tmem[UR9]"), "")[1] == (406, 407, 409)


@pytest.mark.parametrize(
    ("opcode", "more", "registers"),
    [
        ("UTCOMMA", "tmem[UR12]", (12, 13)),
        ("UTCHMMA", "UR12", (12, 13, 14, 15)),
        ("UTCHMMA.2CTA", "UR12", tuple(range(12, 20))),
        ("UTCIMMA.WS", "UR12", (12, 13)),
    ],
)
def test_scales_and_masks_of_a_product_have_several_registers(
    opcode: str, more: str, registers: tuple[int, ...]
) -> None:
    operands = ("tmem[UR6]", "gdesc[UR8]", "tmem[UR10]", "tmem[UR4]", "idesc[UR5]", more, "UP0")
    read = written_and_read(opcode, operands, "")[1]
    assert read == (406, 408, 409, 410, 404, 405, *(400 + r for r in registers), 700)


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


KINDS = [
    ("UTCHMMA", "f16", "f16", "f32"), ("UTCHMMA", "f16", "f16", "f16"), ("UTCHMMA", "bf16", "f16", "f32"),
    ("UTCHMMA", "tf32", "tf32", "f32"), ("UTCIMMA", "s8", "u8", "s32"), ("UTCQMMA", "e4m3", "e5m2", "f32"),
    ("UTCQMMA", "e2m1", "e3m2", "f32"), ("UTCQMMA", "e2m3", "e4m3", "f32"),
]  # fmt: skip


@pytest.mark.parametrize(("mnemonic", "left", "right", "accumulator"), KINDS)
@pytest.mark.parametrize(("m", "n"), [(64, 8), (128, 8), (128, 48)])
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


@pytest.mark.parametrize("side", [0, 1])
def test_transposed_matrices_may_be_swizzled_in_chunks_of_32_bytes(side: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((64, 8), "tf32"), small((64, 8), "tf32")
    given = [place(shared, A_AT, a), place(shared, B_AT, b)]
    start, leading, stride = (A_AT, B_AT)[side], 0x400, 0x200
    for (line, k), element in np.ndenumerate((a, b)[side]):
        address = start + line % 32 * 4 + line // 32 * leading + k % 4 * 128 + k // 4 * stride
        address ^= (address >> 7 & 3) << 5
        shared[address - BASE : address - BASE + 4] = np.frombuffer(element.tobytes(), np.uint8)
    given[side] = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | 1 << 61
    word = described(64, 64, ("tf32", "tf32")) | 1 << 15 + side
    written(environment)
    sass = "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, {6: given[0], 8: given[1], 10: 0, 4: 0, 5: word}, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(d_of(memory, 64, 64, "f32"), a_values @ b_values.T)


@pytest.mark.parametrize(("descriptor", "told"), [(1 << 52, "an address"), (1 << 61, "in chunks of 32 bytes")])
def test_descriptors_that_are_not_understood_are_refused(descriptor: int, told: str) -> None:
    environment = cta()
    cells(environment)
    written(environment)
    uniform = {6: A_AT >> 4 | descriptor, 8: B_AT >> 4, 10: 0, 4: 0, 5: described(64, 16, ("f16", "f16"))}
    sass = "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    with pytest.raises(UnsupportedError, match=told):
        run(environment, sass, uniform, mask=np.arange(128) == 0)


def test_a_k_of_96_is_refused() -> None:
    environment = cta()
    cells(environment)
    word = described(128, 16, ("e2m1", "e2m1"), "f16", b23=1, b31=1)
    sass = "UTCOMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], tmem[UR12], !UPT"
    with pytest.raises(UnsupportedError, match="a K of 96"):
        run(environment, sass, {5: word}, mask=np.arange(128) == 0)


@pytest.mark.parametrize(("m", "lane", "what"), [(128, 16, "D"), (64, 32, "D"), (64, 16, "A")])
def test_matrices_start_in_lane_0_or_for_64_rows_in_16(m: int, lane: int, what: str) -> None:
    environment = cta()
    shared = environment.memory.shared[1]
    cells(environment)
    written(environment)
    uniform = {7: 100, 8: place(shared, B_AT, small((16, 16), "f16")[0]), 10: 0, 4: 0}
    uniform |= {{"D": 10, "A": 7}[what]: lane << 16 | 100, 5: described(m, 16, ("f16", "f16"))}
    sass = "UTCHMMA tmem[UR7], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    with pytest.raises(ExecutionError, match=f"{what} from lane {lane} of"):
        run(environment, sass, uniform, mask=np.arange(128) == 0)


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


def test_masked_lanes_are_neither_read_nor_written() -> None:
    environment = cta()
    shared = environment.memory.shared[1]
    cells(environment)
    told: list[tuple[str, int]] = []

    class Listener(Observer):
        def tensor(self, site: Site, lane: int, rank: int, cells: Any, access: str) -> None:
            told.extend((access, group) for group in np.unique(cells // 512).tolist())

    environment.observer = Listener()
    a, b = small((128, 16), "f16")[0], small((16, 16), "f16")[0]
    uniform = {6: place(shared, A_AT, a), 8: place(shared, B_AT, b), 10: 0, 4: 0, 5: described(128, 16, ("f16",) * 2)}
    uniform |= {12: 0x0000FFFF, 13: 0xFFFFFFFF, 14: 1, 15: 0xFFFE0000}
    written(environment)
    sass = "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UR12, UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    assert told == [(access, group) for access in ("load", "store") for group in (1, 4, 5, 6, 7)]


SCALED = [
    ("UTCQMMA", "e4m3", "e2m1", 1, True),
    ("UTCOMMA", "e2m1", "e2m1", 2, True),
    ("UTCOMMA.4X", "e2m1", "e2m1", 4, False),
    ("UTCOMMA.BLOCK16", "e2m1", "e2m1", 4, False),
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
        "UTCHMMA.WS gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], R4, UPT",
        "UTCOMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UPT",
        "UTCSHIFT.UP tmem[UR4]",
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


@pytest.mark.slow
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
