"""Warpgroup matrix instructions: every layout in shared memory, every type, operands in registers, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuemu
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Launch, Trace, WarpTrace
from tests.sass.harness import execute, surroundings

BASE = 0x400
A_AT, B_AT, BYTES = 0x2400, 0x8400, 0x10000
"""Shared addresses of A and B, which the swizzle of 128 bytes wants at multiples of 1,024."""
LANE = np.arange(128)
SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}


class Group:
    """A warpgroup with A (64 x k) and B (k x n) in shared memory; bits of the elements as unsigned numbers."""

    def __init__(self, a: NDArray[Any], b: NDArray[Any], swizzle: int, majors: str = "KK"):
        self.a, self.b = a, b
        self.memory = Memory(shared_bytes=BYTES, shared_base=BASE, local_bytes_per_lane=0, lanes=Lanes(128))
        self.memory.shared[1][:] = 0xEE
        self.uniform: dict[int, int] = {}
        for register, start, lines, major in ((8, A_AT, a, majors[0]), (10, B_AT, b.T, majors[1])):
            descriptor = self.place(start, lines, swizzle, major)
            self.uniform |= {register: descriptor & 0xFFFFFFFF, register + 1: descriptor >> 32}

    def place(self, start: int, lines: NDArray[Any], swizzle: int, major: str) -> int:
        """Write the elements [line, k] as wgmma's layouts say; the descriptor.

        Matrices of 8 by 16 bytes lie in rows of `swizzle` bytes; without a swizzle they follow each other.
        """
        size = lines.dtype.itemsize
        per, across = 16 // size, max(1, swizzle // 16)
        far, near = 0x800, 0x80
        if major == "K":
            leading, stride = (near, 2 * near) if not swizzle else (16, 8 * swizzle)
        else:
            leading, stride = (far, near) if not swizzle else (far * 2, 8 * swizzle)
        for (line, k), element in np.ndenumerate(lines):
            if major == "K":
                row, group, core, within = line % 8, line // 8, k // per, k % per
                at = group * stride + row * 16 * across + (core * (leading if not swizzle else 16)) + within * size
            else:
                row, core = k % 8, line // 8
                if swizzle:
                    at = core // across * leading + core % across * 16 + row * swizzle + k // 8 * stride
                else:
                    at = core * stride + row * 16 + k // 8 * leading
                at += line % 8 * size
            address = start + at
            if swizzle:
                address ^= (address >> 7) % across << 4
            at = address - BASE
            self.memory.shared[1][at : at + size] = np.frombuffer(element.tobytes(), np.uint8)
            self.memory.written[1][at : at + size] = 0xFF
        return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | SWIZZLES[swizzle] << 62

    def run(self, sass: str, registers: dict[int, Any] | None = None, mask: Any = None, **more: Any) -> Lanes:
        environment = surroundings(sass, lanes=128, memory=self.memory)
        return execute(sass, registers or {}, {}, self.uniform, mask, environment=environment, **more)


def result(files: Lanes, columns: int, first: int = 24) -> NDArray[np.uint32]:
    """D [64, columns] of 32-bit elements, from the fragment that PTX draws."""
    d = np.zeros((64, columns), np.uint32)
    for lane in range(128):
        for r in range(columns // 2):
            row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (r // 2 % 2)
            d[row, 8 * (r // 4) + 2 * (lane % 4) + r % 2] = files.registers[first + r, lane]
    return d


def numbers(rows: int, columns: int, kind: Any, seed: int) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(-8, 9, (rows, columns)).astype(kind)


@pytest.mark.parametrize("majors", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_every_layout_gives_the_product(swizzle: int, majors: str) -> None:
    a, b = numbers(64, 16, np.float16, 1), numbers(16, 24, np.float16, 2)
    flags = "".join(f".tnsp{x}" for x, major in zip("AB", majors, strict=True) if major == "M")
    files = Group(a, b, swizzle, majors).run(f"HGMMA.64x24x16.F32 R24, gdesc[UR8]{flags}, RZ, !UPT")
    assert result(files, 24).view(np.float32).tolist() == (a.astype(float) @ b.astype(float)).tolist()


def test_a_matrix_may_begin_within_the_swizzled_rows() -> None:
    a, b = numbers(64, 64, np.float16, 3), numbers(64, 8, np.float16, 4)
    group = Group(a, b, 128)
    sass = "HGMMA.64x8x16.F32 R24, gdesc[UR8], RZ, !UPT\n"
    files = group.run(sass)
    first = result(files, 8).view(np.float32)
    for register in (8, 10):
        group.uniform[register] += 2  # 32 bytes, 16 elements of K
    registers = {24 + r: files.registers[24 + r].copy() for r in range(4)}
    files = group.run(sass.replace("RZ, !UPT", "R24, gsb0"), registers)
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert first.tolist() == (a[:, :16] @ b[:16]).tolist()
    assert result(files, 8).view(np.float32).tolist() == (a[:, :32] @ b[:32]).tolist()


def test_c_counts_where_the_predicate_is_true_and_operands_may_be_negative() -> None:
    a, b = numbers(64, 16, np.float16, 5), numbers(16, 8, np.float16, 6)
    product = a.astype(float) @ b.astype(float)
    c = {24 + r: np.full(128, np.float32(r)).view(np.uint32) for r in range(4)}
    for predicate, added in ((True, True), (False, False)):
        sass = "HGMMA.64x8x16.F32 R24, gdesc[UR8].negA, R24, UP0, gsb0"
        files = Group(a, b, 32).run(sass, c, uniform_predicates={0: predicate})
        extra = np.tile([0, 1], 4) + 2.0 * (np.arange(64) % 16 >= 8)[:, None] if added else 0
        assert result(files, 8).view(np.float32).tolist() == (extra - product).tolist()
    files = Group(a, b, 32).run("HGMMA.64x8x16.F32 R24, gdesc[UR8].negB, RZ, !UPT")
    assert result(files, 8).view(np.float32).tolist() == (-product).tolist()


def test_other_types_of_elements_and_accumulators() -> None:
    a, b = numbers(64, 16, np.float32, 7), numbers(16, 16, np.float32, 8)
    product = a.astype(float) @ b.astype(float)
    short = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    files = Group(*short, 32).run("HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT")
    assert result(files, 16).view(np.float32).tolist() == product.tolist()
    files = Group(a[:, :8], b[:8], 32).run("HGMMA.64x16x8.F32.TF32 R24, gdesc[UR8], RZ, !UPT")
    assert result(files, 16).view(np.float32).tolist() == (a[:, :8].astype(float) @ b[:8].astype(float)).tolist()
    halves = a.astype(np.float16), b.astype(np.float16)
    files = Group(*halves, 64).run("HGMMA.64x16x16.F16 R24, gdesc[UR8], RZ, !UPT")
    pairs = files.registers[24:28].T.copy().view(np.float16).reshape(4, 32, 2, 2, 2)  # warp, lane, block, row, pair
    found = pairs.reshape(4, 8, 4, 2, 2, 2).transpose(0, 4, 1, 3, 2, 5).reshape(64, 16)
    assert found.tolist() == product.tolist()


def test_bytes_are_multiplied_exactly_and_may_stop_at_the_ends() -> None:
    rng = np.random.default_rng(9)
    a = rng.integers(-128, 128, (64, 32)).astype(np.int8)
    b = rng.integers(0, 256, (32, 8)).astype(np.uint8)
    c = {24 + r: np.full(128, np.int32(2**31 - 1)).view(np.uint32) for r in range(4)}
    wide = a.astype(np.int64) @ b.astype(np.int64) + 2**31 - 1
    files = Group(a, b, 32).run("IGMMA.64x8x32.S8.U8.SAT R24, gdesc[UR8], R24", c)
    assert result(files, 8).view(np.int32).tolist() == np.minimum(wide, 2**31 - 1).tolist()
    files = Group(a, b, 32).run("IGMMA.64x8x32.S8.U8 R24, gdesc[UR8], R24", c)
    assert result(files, 8).tolist() == (wide & 0xFFFFFFFF).tolist()


def test_a_may_come_from_registers() -> None:
    a, b = numbers(64, 16, np.float16, 10), numbers(16, 8, np.float16, 11)
    registers = {}
    for r in range(4):
        row = 16 * (LANE // 32) + LANE % 32 // 4 + 8 * (r % 2)
        column = 2 * (LANE % 4) + 8 * (r // 2)
        pairs = np.stack([a[row, column], a[row, column + 1]], axis=1)
        registers[40 + r] = np.ascontiguousarray(pairs).view(np.uint32)[:, 0]
    group = Group(np.zeros_like(a), b, 32, "KM")
    files = group.run("HGMMA.64x8x16.F32 R24, R40, gdesc[UR8].tnspB, RZ, !UPT, gsb0", registers)
    assert result(files, 8).view(np.float32).tolist() == (a.astype(float) @ b.astype(float)).tolist()


def test_the_four_warps_may_come_one_by_one() -> None:
    a, b = numbers(64, 16, np.float16, 12), numbers(16, 8, np.float16, 13)
    files = Group(a, b, 32).run("HGMMA.64x8x16.F32 R24, gdesc[UR8], RZ, !UPT", mask=LANE // 32 == 2)
    wanted = (a.astype(float) @ b.astype(float)) * (np.arange(64) // 16 == 2)[:, None]
    assert result(files, 8).view(np.float32).tolist() == wanted.tolist()


def test_what_lies_outside_or_was_never_written_is_refused() -> None:
    group = Group(numbers(64, 16, np.float16, 14), numbers(16, 8, np.float16, 15), 32)
    sass = "HGMMA.64x8x16.F32 R24, gdesc[UR8], RZ, !UPT"
    group.uniform[10] += 1
    with pytest.raises(ExecutionError, match="an element at byte 33024 of shared memory, which was never written"):
        group.run(sass)
    group.uniform[10] = 0x20 | 16 << 16
    with pytest.raises(ExecutionError, match=r"reaches to byte -512 of shared memory"):
        group.run(sass)
    group.uniform[11] |= 1 << 17
    with pytest.raises(UnsupportedError, match="base offset"):
        group.run(sass)


@pytest.mark.parametrize(
    "sass",
    [
        "HGMMA.64x12x16.F32 R24, gdesc[UR8], RZ, !UPT",
        "HGMMA.64x8x8.F32 R24, gdesc[UR8], RZ, !UPT",
        "HGMMA.64x8x8.F32.TF32 R24, gdesc[UR8].tnspB, RZ, !UPT",
        "HGMMA.64x8x16.F32 R24, R20, RZ, !UPT",
        "HGMMA.64x8x16.F32.E4M3 R24, gdesc[UR8], RZ, !UPT",
        "HGMMA.64x256x16.F32 R140, gdesc[UR8], R140",
        "IGMMA.64x8x32.S8.S4 R24, gdesc[UR8], RZ, !UPT",
        "WARPGROUP.WAIT",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        Group(numbers(64, 16, np.float16, 16), numbers(16, 8, np.float16, 17), 32).run(sass)


def left_by(sass: str, swizzle: int, majors: str, compiled: bool, change: Any) -> tuple[list[bytes], str, int]:
    """What a listing leaves in registers and memory, its error, and the steps of NumPy."""
    rng = np.random.default_rng(18)
    kind = np.float32 if "TF32" in sass else np.float16
    group = Group(*(rng.standard_normal(shape).astype(kind) for shape in ((64, 16), (16, 24))), swizzle, majors)
    environment = surroundings(f"{sass}\nEXIT", lanes=128, memory=group.memory)
    files, executor, memory = environment.lanes, CtaExecutor(environment), group.memory
    executor.compiled = compiled
    content, written = memory.shared[1].copy(), memory.written[1].copy()
    cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
    memory.shared[1][:], memory.written[1][:] = content, written
    files.registers[24:48] = rng.standard_normal((24, 128, 2)).astype(np.float16).view(np.uint32)[..., 0]
    for number, value in group.uniform.items():
        files.uniform_registers[number] = value
    files.predicates[0], files.uniform_predicates[0] = LANE // 32 == 2, LANE // 32 == 1
    change(group, files)
    error = ""
    try:
        executor.go_on(cta)
    except (ExecutionError, UnsupportedError) as found:
        error = str(found)
    arrays = files.registers, files.predicates, memory.shared[1], memory.written[1]
    return [array.tobytes() for array in arrays], error, executor._steps_taken


LAYOUTS = [
    (f"HGMMA.64x24x16.F32 R24, gdesc[UR8]{flags}, R24", swizzle, majors)
    for swizzle in (0, 32, 64, 128)
    for majors, flags in (("KK", ""), ("KM", ".tnspB"), ("MK", ".tnspA"), ("MM", ".tnspA.tnspB"))
]
FORMS = [
    "HGMMA.64x24x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT", "HGMMA.64x24x16.F16 R24, gdesc[UR8], R24",
    "HGMMA.64x24x8.F32.TF32 R24, gdesc[UR8], R24", "HGMMA.64x24x8.F32.TF32 R24, gdesc[UR8].negA.negB, R24",
    "HGMMA.64x8x16.F32 R24, gdesc[UR8].negA, R28, UP0, gsb0", "HGMMA.64x16x16.F32 R24, gdesc[UR8].negB, R24, !UP0",
    "HGMMA.64x16x16.F32 R24, R40, gdesc[UR8].tnspB, R24", "@P0 HGMMA.64x24x16.F32 R24, gdesc[UR8], R24",
    "HGMMA.64x24x16.F32 R24, gdesc[UR8], RZ, gsb0", "HGMMA.64x16x16.F32 R24, R44, gdesc[UR8].tnspB, RZ",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sass", "swizzle", "majors"),
    [*LAYOUTS, *((sass, 64, "KM" if "tnspB" in sass else "KK") for sass in FORMS)],
)
@pytest.mark.parametrize("end", [0x0000, 0x7C00])
def test_loops_multiply_matrices_in_shared_memory(loops: None, sass: str, swizzle: int, majors: str, end: int) -> None:
    """They leave what NumPy leaves, which does none of these steps itself; also with an infinity."""

    def change(group: Group, _: Lanes) -> None:
        if end:
            group.memory.shared[2][(A_AT - BASE) // 2 + 1] = end

    plain, compiled = (left_by(sass, swizzle, majors, way, change) for way in (False, True))
    assert plain[:2] == compiled[:2]
    assert compiled[1:] == ("", 0)


def unwritten(group: Group, _: Lanes) -> None:
    group.memory.written[1][B_AT - BASE + 2 : B_AT - BASE + 4] = 0


def outside(_: Group, files: Lanes) -> None:
    files.uniform_registers[8] = 0x20 | 16 << 16


def base_offset(_: Group, files: Lanes) -> None:
    files.uniform_registers[11] |= 1 << 17


def several(_: Group, files: Lanes) -> None:
    """The last warp takes A as its B."""
    files.uniform_registers[10:12, 96:] = files.uniform_registers[8:10, 96:]


def torn(_: Group, files: Lanes) -> None:
    files.predicates[0] = LANE % 32 > 3


@pytest.mark.slow
@pytest.mark.parametrize("change", [unwritten, outside, base_offset, several, torn])
def test_loops_leave_to_numpy_what_they_do_not_know(loops: None, change: Any) -> None:
    sass = f"{'@P0 ' * (change is torn)}HGMMA.64x8x16.F32 R24, gdesc[UR8], R24"
    plain, compiled = (left_by(sass, 128, "KK", way, change) for way in (False, True))
    assert plain[:2] == compiled[:2]
    assert compiled[2] == 1
    assert (compiled[1] == "") == (change is several)


@pytest.mark.slow
@pytest.mark.parametrize("operands", ["R24, R26, gdesc[UR8].tnspB, RZ", "R24, gdesc[UR8].tnspB, R26"])
def test_loops_leave_registers_that_overlap_to_numpy(loops: None, operands: str) -> None:
    """D is written block by block, and must not change what a later block reads."""
    plain, compiled = (
        left_by(f"HGMMA.64x16x16.F32 {operands}", 64, "KM", way, lambda *_: None) for way in (False, True)
    )
    assert plain[:2] == compiled[:2]
    assert compiled[1:] == ("", 1)


def cycles(sass: str) -> int:
    code = parse_listing(sass + "\nEXIT", "test", None)
    path = np.arange(len(code), dtype=np.int32)
    warps = tuple(WarpTrace(0, w, path, np.zeros(0, np.int32)) for w in range(4))
    trace = Trace(
        "t", "sm_90", Launch((1, 1, 1), (128, 1, 1)), code, warps, np.zeros((0, 32), np.int64), np.zeros((0, 32), bool)
    )
    return gpuemu.run(trace, gpuemu.load_arch("sm_90")).cycles


def test_more_columns_take_longer_and_a_wait_lasts_until_the_tensor_core_is_done() -> None:
    word = "[B------:R-:W-:-:S01] "
    begin = word + "WARPGROUP.ARRIVE\n"
    wait = "\n" + word + "WARPGROUP.DEPBAR.LE gsb0, 0x0"
    narrow, wide = (begin + word + f"HGMMA.64x{n}x16.F32 R24, gdesc[UR8], R24, gsb0" for n in (8, 256))
    assert cycles(wide + wait) - cycles(narrow + wait) == 31 * 4
    assert cycles(wide + wait) > cycles(wide) + 100
    assert cycles(wide + wait.replace("0x0", "0x1")) == cycles(wide + wait.replace("DEPBAR.LE gsb0, 0x0", "ARRIVE"))
