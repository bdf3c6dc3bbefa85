"""Written .traceg files have the form of the description, line by line, and are read back as what they were."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import traceg_grammar
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuemu
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Row
from gpuemu.isa.registers import written_and_read
from gpuemu.program.lowering import lower
from gpuemu.trace.accel_sim import writing
from gpuemu.trace.accel_sim.reading import read_traceg
from gpuemu.trace.accel_sim.writing import made_up, traceg_lines, write_traceg
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import GLOBAL, LOCAL, SHARED, Launch, Trace, WarpTrace
from gpuemu.trace.recorded import write_trace

CODE = parse_listing(
    """\
IMAD.WIDE R2, R7, R9, R4
LDS.128 R4, [R1+0x10]
@!P0 STS.64 [R1], R4
LDG.E.64 R8, desc[UR4][R2.64+0x20]
STG.E.U8 [R2.64], R8
LDSM.16.MT88.4 R12, [R2+UR4]
HMMA.16816.F32 R20, R12, R8, RZ
ATOMS.CAS R3, [R1], R4, R5
RED.E.ADD.STRONG.GPU [R2.64], R5
ATOMG.E.ADD.STRONG.GPU PT, R6, [R2.64], R5
LD.E.128 R16, [R2.64]
ST.E [R2.64], R5
LDL R9, [R1]
SHFL.BFLY PT, R4, R3, 0x1, 0x1f
ISETP.GE.AND P0, PT, R2, R3, PT
DFMA R4, R6, R8, R10
F2F.F64.F32 R4, R6
MUFU.RCP R5, R6
FFMA R4, R5.reuse, -R6, RZ
R2UR UR4, R6
BAR.SYNC 0x0
DEPBAR.LE SB0, 0x2
BRA 0x0010
EXIT
""",
    "<test>",
    1,
)


def text_of(trace: Trace) -> str:
    return "\n".join([*traceg_lines(trace, "<test>"), ""])


def read_back(trace: Trace, folder: Path) -> Trace:
    write_traceg(trace, folder / "k.traceg")
    return read_traceg(folder / "k.traceg", "k.traceg")


def steps(trace: Trace) -> list[tuple[object, ...]]:
    """What each warp did, in order: opcode and offset, and of an access what its lanes meant."""
    found: list[tuple[object, ...]] = []
    for warp in trace.warps:
        rows = iter(warp.rows.tolist())
        for index in warp.path.tolist():
            instruction = trace.code[index]
            lanes: object = None
            if instruction.accesses_memory:
                row = next(rows)
                spaces = np.zeros(32, np.uint8) if trace.spaces is None else trace.spaces[row]
                meant = spaces if instruction.takes_generic_addresses else np.zeros(32, np.uint8)
                lanes = [
                    (lane, int(meant[lane]), int(trace.addresses[row, lane]))
                    for lane in np.flatnonzero(trace.active[row]).tolist()
                ]
            found.append((warp.cta, warp.warp, instruction.offset, instruction.opcode, lanes))
    return found


def general(registers: tuple[int, ...]) -> set[int]:
    return {register for register in registers if register < 256}


@pytest.mark.parametrize("instruction", CODE, ids=str)
def test_general_registers_are_read_back_as_wide_as_they_were(instruction, tmp_path: Path) -> None:
    last = replace(CODE[-1], offset=instruction.offset + 16)
    row = np.zeros(int(instruction.accesses_memory), np.int32)
    trace = Trace(
        "k", "sm_86", Launch(static_shared_bytes=4096), (instruction, last),
        (WarpTrace(0, 0, np.arange(2, dtype=np.int32), row),), np.zeros((1, 32), np.int64), np.ones((1, 32), np.bool_),
    )  # fmt: skip
    again = read_back(trace, tmp_path).code[0]
    before = written_and_read(instruction.opcode, instruction.operands, "")
    after = written_and_read(again.opcode, again.operands, again.guard)
    assert [general(part) for part in after] == [general(part) for part in before]


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Traces of several CTAs of which some may be missing, with a partial last warp and lanes of any mask."""
    threads = draw(st.integers(1, 70))
    grid = draw(st.tuples(*[st.integers(1, 3)] * 3))
    launch = Launch(grid, (threads, 1, 1), draw(st.integers(1, 255)), 4096, draw(st.sampled_from((0, 1024))))
    ctas = sorted(draw(st.sets(st.integers(0, launch.ctas - 1), min_size=1, max_size=2)))
    table: list[list[int]] = []
    active: list[list[bool]] = []
    spaces: list[list[int]] = []
    warps = []
    for cta in ctas:
        for warp in range(launch.warps_per_cta):
            path = draw(st.lists(st.integers(0, len(CODE) - 1), min_size=1, max_size=8))
            rows = []
            for index in path:
                instruction = CODE[index]
                if not instruction.accesses_memory:
                    continue
                there = min(32, threads - 32 * warp)
                mask = draw(st.sampled_from((0xFFFFFFFF, 0x0FF0, 0x5, 0, 1))) & ((1 << there) - 1)
                near = instruction.operation.row is not None or instruction.operation.local
                base, stride = draw(st.sampled_from((0, 64, 512))), draw(st.sampled_from((0, 16, 32, -16, 1 << 33)))
                stride = stride % 64 if near else stride
                lanes = [abs(base + stride * lane) for lane in range(32)]
                if draw(st.booleans()):
                    lanes = draw(st.lists(st.integers(0, 192).map(lambda n: 16 * n), min_size=32, max_size=32))
                meant = [GLOBAL] * 32
                if instruction.takes_generic_addresses:
                    meant = draw(st.lists(st.sampled_from((GLOBAL, SHARED, LOCAL)), min_size=32, max_size=32))
                    lanes = [n if space == GLOBAL else n % 2048 for n, space in zip(lanes, meant, strict=True)]
                rows.append(len(table))
                table.append(lanes)
                active.append([bool(mask >> lane & 1) for lane in range(32)])
                spaces.append(meant)
            warps.append(WarpTrace(cta, warp, np.array(path, np.int32), np.array(rows, np.int32)))
    return Trace(
        draw(st.sampled_from(("k", "_Z4copyPf", "void tile<4, 2>(float *)"))), "sm_86", launch, CODE, tuple(warps),
        np.array(table, np.int64).reshape(-1, 32), np.array(active, np.bool_).reshape(-1, 32),
        spaces=np.array(spaces, np.uint8).reshape(-1, 32),
    )  # fmt: skip


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_what_is_written_has_the_form_and_is_read_back(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    counts = traceg_grammar.check(text_of(trace))
    assert (counts["ctas"], counts["warps"]) == (len({w.cta for w in trace.warps}), len(trace.warps))
    assert counts["instructions"] == trace.executed_instructions
    again = read_back(trace, tmp_path_factory.mktemp("traceg"))
    assert steps(again) == steps(trace)
    assert (again.name, again.arch) == (trace.name, trace.arch)
    shared = trace.launch.static_shared_bytes + trace.launch.dynamic_shared_bytes
    assert again.launch == replace(trace.launch, static_shared_bytes=shared, dynamic_shared_bytes=0)
    assert text_of(replace(again, code=trace.code and again.code)) == text_of(
        read_back(again, tmp_path_factory.mktemp("b"))
    )


def shared_wavefronts(trace: Trace, arch: gpuemu.Architecture) -> list[tuple[Row, int, int, int]]:
    """Of each access to shared memory, in the order of issue, its row, offset, wavefronts and ideal wavefronts."""
    program = lower(trace, arch)
    found = []
    for issue, access in zip(program.request_issue.tolist(), program.access.tolist(), strict=True):
        op = program.ops[program.path[issue]]
        if op.row is not None:
            wavefronts, ideal = program.accesses.wavefronts[access], program.accesses.ideal_wavefronts[access]
            found.append((op.row, trace.code[op.index].offset, int(wavefronts), int(ideal)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in resources.names("traces") if "/" not in n or "gemm" in n])
def test_shared_wavefronts_of_the_examples_are_the_same_afterwards(name: str, tmp_path: Path) -> None:
    trace = gpuemu.load_trace(name)
    arch = gpuemu.load_arch(trace.arch)
    text = text_of(trace)
    if trace.arch == "sm_100":  # newer than the description of the form
        text = text.replace("-binary version = 100\n", "-binary version = 90\n", 1)
    traceg_grammar.check(text)
    assert shared_wavefronts(read_back(trace, tmp_path), arch) == shared_wavefronts(trace, arch)


def test_a_run_of_a_written_trace_has_the_tables_of_shared_and_global_memory(tmp_path: Path) -> None:
    for name in ("v2_shared_memory", "v5_swizzle", "toy_ldmatrix_plain", "transpose_padded"):
        trace = gpuemu.load_trace(name)
        before, after = gpuemu.run(trace), gpuemu.run(read_back(trace, tmp_path))
        counts = [(c.instructions, c.wavefronts, c.ideal_wavefronts) for c in before.shared_memory.values()]
        assert [(c.instructions, c.wavefronts, c.ideal_wavefronts) for c in after.shared_memory.values()] == counts
        assert after.global_memory == before.global_memory


def test_the_same_trace_gives_the_same_bytes_plain_and_packed(tmp_path: Path) -> None:
    trace = gpuemu.load_trace("v2_shared_memory")
    written = []
    for name in ("a.traceg", "b.traceg", "a.traceg.xz", "b.traceg.xz"):
        write_traceg(trace, tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert written[2] == written[3]
    assert lzma.decompress(written[2]) == written[0]
    assert written[0].decode() == text_of(trace)
    plain, packed = (read_traceg(tmp_path / name, "a") for name in ("a.traceg", "a.traceg.xz"))
    assert (steps(plain), plain.code) == (steps(packed), packed.code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.traceg", "a.traceg.xz", "b.traceg", "b.traceg.xz"]


def one(listing: str, lanes: list[int], mask: int = 0xFFFFFFFF, spaces: list[int] | None = None, **more: int) -> Trace:
    """A trace of one warp that executes an instruction with these addresses."""
    rows = np.array([lanes], np.int64)
    active = np.array([[bool(mask >> lane & 1) for lane in range(32)]])
    path = (WarpTrace(0, 0, np.arange(1, dtype=np.int32), np.zeros(1, np.int32)),)
    meant = None if spaces is None else np.array([spaces], np.uint8)
    launch = Launch(static_shared_bytes=4096, **more)
    return Trace("k", "sm_86", launch, parse_listing(listing, "t", 1), path, rows, active, spaces=meant)


def instructions(trace: Trace) -> list[str]:
    lines = text_of(trace).splitlines()
    return lines[lines.index("warp = 0") + 2 : -1]


@pytest.mark.parametrize(
    ("lanes", "mask", "form"),
    [
        ([8 * n for n in range(32)], 0xFFFFFFFF, "1 0x0000000000000000 8"),
        ([256 - 8 * n for n in range(32)], 0xFFFFFFFF, "1 0x0000000000000100 -8"),
        ([64] * 32, 0xFFFFFFFF, "1 0x0000000000000040 0"),
        ([8 * n for n in range(32)], 0x00000018, "1 0x0000000000000018 8"),
        ([8 * n for n in range(32)], 0x00000014, "0 0x0000000000000010 0x0000000000000020"),
        ([8 * n * n for n in range(32)], 0x00000007, "0 0x0000000000000000 0x0000000000000008 0x0000000000000020"),
        ([8 * n for n in range(32)], 0x00000002, "0 0x0000000000000008"),
        ([(n << 31) for n in range(32)], 0x00000003, "0 0x0000000000000000 0x0000000080000000"),
        ([8 * n for n in range(32)], 0x00000000, "0"),
    ],
)
def test_addresses_are_a_base_and_a_stride_where_that_is_all(lanes: list[int], mask: int, form: str) -> None:
    assert instructions(one("LDG.E.64 R4, [R2.64]", lanes, mask)) == [f"0000 {mask:08x} 1 R4 LDG.E.64 1 R2 8 {form} 0"]


def test_a_row_of_a_matrix_load_has_16_bytes_and_a_depbar_its_number() -> None:
    assert instructions(one("LDSM.16.M88.4 R4, [R2]", [16 * n for n in range(32)])) == [
        "0000 ffffffff 1 R4 LDSM.16.M88.4 1 R2 16 1 0x0000000000000000 16 0"
    ]
    alone = one("DEPBAR.LE SB0, 0x2", [0] * 32)
    assert instructions(replace(alone, warps=(replace(alone.warps[0], rows=np.zeros(0, np.int32)),))) == [
        "0000 ffffffff 0 DEPBAR.LE 0 0 2"
    ]


def test_generic_addresses_lie_in_windows_that_no_global_address_is_in() -> None:
    spaces = [SHARED] * 16 + [LOCAL] * 8 + [GLOBAL] * 8
    lanes = [4 * n for n in range(24)] + [0x7F00_0000_0000 + 4 * n for n in range(8)]
    text = text_of(one("LD.E R4, [R2.64]", lanes, spaces=spaces))
    assert "-shmem base_addr = 0x00007f0100000000\n-local mem base_addr = 0x00007f0200000000\n" in text
    words = text.splitlines()[-2].split(" 0 ", 1)[1].split()
    assert (words[0], words[16], words[24]) == ("0x00007f0100000000", "0x00007f0200000040", "0x00007f0000000000")


def test_inlined_code_has_the_line_in_the_kernels_own_file() -> None:
    trace = one("LDS R4, [R2]", [0] * 32)
    code = (replace(trace.code[0], source=(("mma.cuh", 3), ("kernel.cu", 40))),)
    assert instructions(replace(trace, code=code))[0].startswith("40 0000 ffffffff 1 R4 LDS ")


def test_where_a_copy_reads_is_made_up_and_that_is_said() -> None:
    trace = one("LDGSTS.E.BYPASS.128 [R5], [R2.64]", [16 * n for n in range(32)])
    assert instructions(trace) == ["0000 ffffffff 0 LDGSTS.E.BYPASS.128 2 R5 R2 16 1 0x00007e0000000000 16 0"]
    assert made_up(trace).startswith("asynchronous copies (LDGSTS) have no shared address in such a file")
    assert made_up(gpuemu.load_trace("v5_swizzle")) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"arch": "mine"},
            "k.traceg: binary version: found code for 'mine'",
        ),
        (
            {"arch": "sm_61"},
            "k.traceg: binary version: found code for 'sm_61'",
        ),
        ({"name": "a\nb"}, "k.traceg: kernel name: found 'a\\nb'"),
    ],
)
def test_what_the_form_cannot_hold_is_refused_and_nothing_is_written(change, message: str, tmp_path: Path) -> None:
    trace = replace(gpuemu.load_trace("v2_shared_memory"), **change)
    with pytest.raises(GpuemuError) as caught:
        write_traceg(trace, tmp_path / "k.traceg")
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_file_too_long_to_be_read_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_BYTES", 1000)
    with pytest.raises(GpuemuError, match="more than 1,000 bytes of text"):
        write_traceg(gpuemu.load_trace("v2_shared_memory"), tmp_path / "k.traceg")
    assert not list(tmp_path.iterdir())


def test_a_trace_without_the_targets_of_its_copies_becomes_no_yaml(tmp_path: Path) -> None:
    trace = read_back(one("LDGSTS.E.128 [R5], [R2.64]", [16 * n for n in range(32)]), tmp_path)
    assert not trace.knows_copies
    with pytest.raises(GpuemuError, match=r"lacks the shared addresses that its asynchronous copies \(LDGSTS\) write"):
        write_trace(trace, tmp_path / "k.yaml")


def test_what_a_trace_lacks_stands_in_the_yaml_made_of_it(tmp_path: Path) -> None:
    trace = read_back(gpuemu.load_trace("v5_swizzle"), tmp_path)
    write_trace(trace, tmp_path / "k.yaml")
    again = gpuemu.load_trace(tmp_path / "k.yaml")
    assert "its barriers have no numbers" in again.about
    assert steps(again) == steps(trace)
    assert gpuemu.run(again).cycles == gpuemu.run(trace).cycles
