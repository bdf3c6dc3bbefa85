"""Files of Accel-Sim's tracer are read as the description of their form has it, and damaged ones refused by line."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from refusals import brief

import gpuemu
from gpuemu.base import packed_lines
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.registers import written_and_read
from gpuemu.trace.accel_sim import reading
from gpuemu.trace.accel_sim.form import ACCEL_SIM, BARRIERS, COPIES
from gpuemu.trace.files import load_trace
from gpuemu.trace.model import LOCAL, SHARED, Trace
from gpuemu.views.json_result import as_data
from gpuemu.views.report.page import as_html
from gpuemu.views.source import instructions
from gpuemu.views.text import report

HEADER = """\
-kernel name = scale
-kernel id = 3
-grid dim = (2,1,1)
-block dim = (32,1,1)
-shmem = 4096
-nregs = 24
-binary version = 86
-cuda stream id = 0
-shmem base_addr = 0x00007f5a60000000
-local mem base_addr = 0x00007f5a58000000
-nvbit version = 1.5.5
-accelsim tracer version = 4
-enable lineinfo = 0
"""
FORMAT = "#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [addresses] immediate\n"
EXIT = "0100 ffffffff 0 EXIT 0 0 0"


def file(*instructions: str, header: str = HEADER, warp: str = "warp = 0") -> str:
    lines = [*instructions, EXIT]
    body = [f"insts = {len(lines)}", *lines]
    return "\n".join([f"{header}{FORMAT}#BEGIN_TB", "thread block = 0,0,0", warp, *body, "#END_TB", ""])


def read(text: str, folder: Path, name: str = "k.traceg") -> Trace:
    (folder / name).write_text(text, encoding="utf-8")
    return load_trace(folder / name)


def lanes(trace: Trace, row: int = 0) -> dict[int, int]:
    return {int(lane): int(trace.addresses[row, lane]) for lane in np.flatnonzero(trace.active[row])}


def refused(text: str, folder: Path) -> str:
    with pytest.raises(GpuemuError) as caught:
        read(text, folder)
    (problem,) = brief(caught.value, folder)
    assert problem.startswith("k.traceg")
    return problem


def test_the_header_gives_the_launch(tmp_path: Path) -> None:
    trace = read(file("0010 ffffffff 1 R4 MOV 1 R2 0 0"), tmp_path)
    assert (trace.name, trace.arch) == ("scale", "sm_86")
    assert (trace.launch.grid, trace.launch.block) == ((2, 1, 1), (32, 1, 1))
    assert (trace.launch.registers_per_thread, trace.launch.shared_bytes) == (24, 4096)
    assert [str(i) for i in trace.code] == ["MOV R4, R2", "NOP", "EXIT"]
    assert [i.line for i in trace.code] == [19, None, 20]


@pytest.mark.parametrize("version", [70, 75, 80, 86, 89, 90])
def test_the_binary_version_names_the_architecture(version: int, tmp_path: Path) -> None:
    text = file().replace("binary version = 86", f"binary version = {version}")
    assert read(text, tmp_path).arch == f"sm_{version}"


def test_unknown_keys_are_ignored_and_blank_lines_may_stand_anywhere(tmp_path: Path) -> None:
    text = file("0010 ffffffff 1 R4 LDG.E 1 R2 4 1 0x00007f0000000000 4 0")
    plain = read(text, tmp_path)
    more = text.replace("-nregs", "-opcode table = 2\n-some new = key = of a later version\n-nregs")
    more = more.replace("-binary", "\n-binary").replace("\n#", "\n\n#").replace("\nwarp", "\n \nwarp")
    more = more.replace("\n0010", "\n\n\t\n0010").replace("\n0100", "\n\n0100").replace("insts", "\ninsts") + "\n\n"
    spaced = read(more.replace(" 1 R4 ", "  1   R4\t"), tmp_path)
    assert [str(i) for i in spaced.code] == [str(i) for i in plain.code]
    assert lanes(spaced) == lanes(plain)


def test_keys_that_may_be_missing(tmp_path: Path) -> None:
    needed = ("kernel name", "grid", "block", "shmem =", "nregs", "binary")
    header = "".join(f"{line}\n" for line in HEADER.splitlines() if line[1:].startswith(needed))
    assert read(file("0010 ffffffff 1 R4 LDS 1 R2 4 1 0x40 4 0", header=header), tmp_path).launch.shared_bytes == 4096


@pytest.mark.parametrize(
    ("mask", "addresses", "found"),
    [
        ("00000015", "0 0x100 0x0000000000000120 0x7f0000000000", {0: 0x100, 2: 0x120, 4: 0x7F0000000000}),
        ("0000000e", "1 0x0000000000000100 16", {1: 0x100, 2: 0x110, 3: 0x120}),
        ("0000000e", "1 0x0000000000000100 -16", {1: 0x100, 2: 0xF0, 3: 0xE0}),
        ("00000003", "1 0x100 0", {0: 0x100, 1: 0x100}),
        ("00010015", "2 0x0000000000000100 32 -64 4", {0: 0x100, 2: 0x120, 4: 0xE0, 16: 0xE4}),
        ("80000000", "2 0x100", {31: 0x100}),
        ("00000000", "0", {}),
        # What a writer of base and stride writes where no lane is active means nothing.
        ("00000000", "1 0x0000000000000000 0", {}),
        ("00000000", "2 0x0000000000000000", {}),
    ],
)
def test_each_mode_of_addresses(mask: str, addresses: str, found: dict[int, int], tmp_path: Path) -> None:
    trace = read(file(f"0010 {mask} 1 R4 LDG.E 1 R2 4 {addresses} 0"), tmp_path)
    assert lanes(trace) == found


def test_the_number_behind_the_addresses_is_the_immediate_of_a_depbar(tmp_path: Path) -> None:
    assert str(read(file("0010 ffffffff 0 DEPBAR.LE 0 0 3"), tmp_path).code[0]) == "DEPBAR.LE SB0, 0x3"


def test_source_lines_stand_first_where_the_header_says_so(tmp_path: Path) -> None:
    header = HEADER.replace("lineinfo = 0", "lineinfo = 1")
    text = file("27 0010 ffffffff 1 R4 MOV 1 R2 0 0", "0 0020 ffffffff 1 R4 MOV 1 R2 0 0", header=header)
    trace = read(text.replace(EXIT, f"30 {EXIT}"), tmp_path)
    assert refused(text.replace("27 0010", "x 0010"), tmp_path) == ("k.traceg:19: source line: 'x'")
    assert [i.source for i in trace.code] == [(("(source)", 27),), (), (), (("(source)", 30),)]


def test_several_ctas_and_warps_in_any_order(tmp_path: Path) -> None:
    header = HEADER.replace("(2,1,1)", "(2,3,2)").replace("(32,1,1)", "(10,4,1)")
    body = ""
    for place in ("1,2,1", "0,0,0"):
        body += f"#BEGIN_TB\n\nthread block = {place}\n"
        for warp, mask in ((1, "000000ff"), (0, "ffffffff")):
            body += f"\nwarp = {warp}\ninsts = 2\n0010 {mask} 1 R4 LDS 1 R2 4 1 0x{64 * warp:x} 4 0\n"
            body += f"0100 {mask} 0 EXIT 0 0 0\n"
        body += "#END_TB\n"
    trace = read(header + FORMAT + body, tmp_path)
    assert [(w.cta, w.warp) for w in trace.warps] == [(0, 0), (0, 1), (11, 0), (11, 1)]
    assert [len(lanes(trace, w.rows[0])) for w in trace.warps] == [32, 8, 32, 8]
    assert lanes(trace, trace.warps[1].rows[0])[1] == 68


def test_shared_and_local_addresses_may_be_offsets_or_generic(tmp_path: Path) -> None:
    trace = read(
        file(
            "0010 00000003 1 R4 LDS 1 R2 4 1 0x00007f5a60000040 4 0",
            "0020 00000003 0 STS 2 R2 R4 4 1 0x40 4 0",
            "0030 00000003 1 R4 LDL 1 R2 4 1 0x00007f5a58000010 4 0",
            "0040 00000003 1 R4 LDL 1 R2 4 1 0x10 4 0",
            "0050 00000003 1 R4 LDG.E 1 R2 4 1 0x00007f5a60000040 4 0",
        ),
        tmp_path,
    )
    assert [lanes(trace, row)[1] for row in range(5)] == [0x44, 0x44, 0x14, 0x14, 0x7F5A60000044]
    assert trace.spaces is None


def test_each_lane_of_a_generic_access_says_which_memory_it_means(tmp_path: Path) -> None:
    there = "0x00007f5a60000040 0x00007f5a58000010 0x00007f5a61000000 0x00007f0000000000"
    trace = read(file(f"0010 0000000f 1 R4 LD.E 1 R2 4 0 {there} 0"), tmp_path)
    assert trace.spaces is not None
    assert trace.spaces[0, :4].tolist() == [SHARED, LOCAL, 0, 0]
    assert lanes(trace) == {0: 0x40, 1: 0x10, 2: 0x7F5A61000000, 3: 0x7F0000000000}


@pytest.mark.slow
def test_bytes_that_the_driver_reserves_in_front_are_taken_off(tmp_path: Path) -> None:
    """The kernel's 4,096 bytes begin behind the driver's 1,024; where no access tells, addresses stay as they are."""
    near, far = ("0010 00000003 1 R4 LDS 1 R2 4 1 0x400 4 0", "0020 00000003 0 STS 2 R2 R4 4 1 0x13f8 4 0")
    trace = read(file(near, far), tmp_path)
    assert [lanes(trace, row)[0] for row in (0, 1)] == [0, 0xFF8]
    assert lanes(read(file(near), tmp_path))[0] == 0x400
    below = "0010 00000003 1 R4 LDS 1 R2 4 1 0x10 4 0"
    assert refused(file(below, far), tmp_path) == ("k.traceg:20: code at 0x0020: STS of 4 bytes at 5112 in lane 0")


@pytest.mark.parametrize(
    ("line", "text", "written"),
    [
        ("1 R4 LDS.128 1 R2 16 1 0x0 16", "LDS.128 R4, [R2]", {4, 5, 6, 7}),
        ("1 R4 LDSM.16.M88.4 1 R2 2 1 0x0 16", "LDSM.16.M88.4 R4, [R2]", {4, 5, 6, 7}),
        ("1 R4 LDSM.16.M88.2 1 R2 2 1 0x0 16", "LDSM.16.M88.2 R4, [R2]", {4, 5}),
        ("1 R4 LDG.E.64 1 R2 8 1 0x0 8", "LDG.E.64 R4, [R2.64]", {4, 5}),
        ("1 R4 LDG.E 1 R3 4 1 0x0 4", "LDG.E R4, [R3]", {4}),
        ("1 R255 ATOMS.ADD 2 R2 R5 4 1 0x0 4", "ATOMS.ADD RZ, [R2], R5", set()),
        ("0 STS.64 2 R2 R4 8 1 0x0 8", "STS.64 [R2], R4", set()),
        ("0 STS 1 R4 4 1 0x0 4", "STS [?], R4", set()),
        ("1 R4 LDS 0 4 1 0x0 4", "LDS R4, [?]", {4}),
        ("0 RED.E.ADD.STRONG.GPU 2 R2 R4 4 1 0x0 4", "RED.E.ADD.STRONG.GPU [R2.64], R4", set()),
        ("1 R4 HMMA.16816.F32 3 R8 R12 R255 0", "HMMA.16816.F32 R4, R8, R12, RZ", {4, 5, 6, 7}),
        ("1 R4 HMMA.16816.F16 3 R8 R12 R4 0", "HMMA.16816.F16 R4, R8, R12, R4", {4, 5}),
        ("1 R4 IMAD.WIDE 2 R8 R10 0", "IMAD.WIDE R4, R8, ?, R10", {4, 5}),
        ("1 R4 IMAD.WIDE 2 R8 R9 0", "IMAD.WIDE R4, R8, R9, ?", {4, 5}),
        ("1 R4 IMAD.WIDE.U32 1 R8 0", "IMAD.WIDE.U32 R4, R8, ?, ?", {4, 5}),
        ("0 ISETP.GE.AND 2 R8 R9 0", "ISETP.GE.AND ?, R8, R9", set()),
        ("0 R2UR 1 R8 0", "R2UR ?, R8", set()),
        ("1 R4 S2R 0 0", "S2R R4", {4}),
        ("1 R4 LDC 1 R8 4 1 0x0 0", "LDC R4, c[?][R8]", {4}),
        ("0 SHFL.IDX 3 R4 R8 R9 0", "SHFL.IDX R4, R8, R9", {4}),
        ("1 R4 SHFL.IDX 2 R8 R9 0", "SHFL.IDX R4, R8, R9", {4}),
        ("0 ATOMG.E.ADD.STRONG.GPU 3 R4 R2 R9 4 1 0x0 4", "ATOMG.E.ADD.STRONG.GPU R4, [R2.64], R9", {4}),
        ("0 MATCH.ALL 2 R4 R8 0", "MATCH.ALL R4, R8", {4}),
        ("0 BAR.SYNC.DEFER_BLOCKING 0 0", "BAR.SYNC.DEFER_BLOCKING 0x0", set()),
        ("0 LDGDEPBAR 0 0", "LDGDEPBAR", set()),
        ("1 R24 HGMMA.64x16x16.F32 1 R24 0", "HGMMA.64x16x16.F32 R24, gdesc[?], R24", set(range(24, 32))),
    ],
)
def test_registers_stand_where_the_instruction_has_them(
    line: str, text: str, written: set[int], tmp_path: Path
) -> None:
    instruction = read(file(f"0010 ffffffff {line} 0"), tmp_path).code[0]
    assert str(instruction) == text
    writes, reads = written_and_read(instruction.opcode, instruction.operands, "")
    assert set(writes) == written
    named = {int(word[1:]) for word in line.split(" 0x")[0].split() if word[0] == "R" and word[1:].isdigit()}
    assert named - {255} <= set(writes) | set(reads)


def test_a_copy_is_taken_to_write_without_conflicts_and_that_is_said(tmp_path: Path) -> None:
    lines = ("0010 ffffffff 0 LDGSTS.E.BYPASS.128 2 R5 R2 16 1 0x00007f0000000000 512 0", "0020 ffffffff 0 LDGDEPBAR 0 0 0",
             "0030 ffffffff 0 DEPBAR.LE 0 0 0", "0040 ffffffff 0 BAR.SYNC 0 0 0")  # fmt: skip
    trace = read(file(*lines), tmp_path)
    assert str(trace.code[0]) == "LDGSTS.E.BYPASS.128 [R5], [R2.64]"
    assert lanes(trace) == {lane: 16 * lane for lane in range(32)}
    assert trace.lacks == (ACCEL_SIM, BARRIERS, COPIES)
    result = gpuemu.run(trace, "sm_86")
    assert sum(counts.bank_conflicts for counts in result.shared_memory.values()) == 0
    reported = gpuemu.check(trace)
    assert not reported.findings
    assert "what asynchronous copies write is left out of racecheck" in reported.notes


def test_lanes_that_are_off_are_no_thread_instructions(tmp_path: Path) -> None:
    trace = read(file("0010 0000ffff 1 R4 MOV 1 R2 0 0", "0010 000000ff 1 R4 MOV 1 R2 0 0"), tmp_path)
    assert [i.threads for i in trace.code] == [24, None, None]
    assert gpuemu.run(trace).counters["smsp__thread_inst_executed.sum"] == 24 + 32


def test_every_form_of_the_report_says_what_the_trace_lacks(tmp_path: Path) -> None:
    result = gpuemu.run(read(file("0010 ffffffff 1 R4 LDS 1 R2 4 1 0x0 4 0"), tmp_path))
    said = list(result.notes)
    assert said[0].startswith("no control words in the trace: a register scoreboard times")
    assert said[1:] == [ACCEL_SIM]
    assert as_data(result)["notes"] == said
    assert as_data(result)["dependences"] == "register_scoreboard"
    text = " ".join(line for _, line in report(result))
    html = as_html(result)
    assert all(note in text for note in said)
    assert all(note in html for note in said)
    aside = gpuemu.run(
        "v5_swizzle", gpuemu.load_arch("sm_89").with_overrides({"issue.dependences": "register_scoreboard"})
    )
    assert aside.notes[0].startswith("control words set aside: a register scoreboard times")
    assert gpuemu.run("v5_swizzle", "sm_89").notes == ()


def test_a_branch_without_a_target_goes_on_in_the_source_page(tmp_path: Path) -> None:
    """As the tracer has them, with blanks at the ends of lines; R4 is live over a branch that is not taken."""
    lines = ("0010 ffffffff 1 R4 MOV 0 0 0 ", "0020 00000000 0 BRA 0 0 528 ", "0030 ffffffff 1 R5 FMUL 2 R4 R4 0 0 ")
    result = gpuemu.run(read(file(*lines), tmp_path))
    rows = instructions(result.program, result.log)
    assert [(row.text, row.live_registers) for row in rows[:3]] == [("MOV R4", 1), ("BRA", 1), ("FMUL R5, R4, R4", 2)]


def test_a_load_is_waited_for_by_the_scoreboard(tmp_path: Path) -> None:
    load = "0010 ffffffff 1 R4 LDS.128 1 R2 16 1 0x0 16 0"
    waits = gpuemu.run(read(file(load, "0020 ffffffff 1 R9 MOV 1 R7 0 0"), tmp_path))
    apart = gpuemu.run(read(file(load, "0020 ffffffff 1 R9 MOV 1 R8 0 0"), tmp_path))
    assert waits.stalls["short_scoreboard"] > 10 + apart.stalls["short_scoreboard"]


LDG = "0010 ffffffff 1 R4 LDG.E 1 R2 4"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-kernel name = scale\n", "", ":13: kernel name: nothing"),
        ("name = scale", "name = ", ":1: kernel name: nothing"),
        ("-nregs", "nregs", ":6: 'nregs = 24'"),
        ("-nregs = 24", "-nregs = 24\n-nregs = 24", ":7: nregs: given twice"),
        ("nregs = 24", "nregs = 256", ":6: nregs: '256'"),
        ("nregs = 24", "nregs = \u0663", ":6: nregs: '\u0663'"),
        ("shmem = 4096", "shmem = -1", ":5: shmem: '-1'"),
        ("(2,1,1)", "(2,1)", ":3: grid dim: '(2,1)'"),
        ("(32,1,1)", "(0,1,1)", ":4: block dim: '(0,1,1)'"),
        ("(32,1,1)", "(1024,64,1)", ":4: block dim: '(1024,64,1)'"),
        ("version = 86", "version = 61", ":7: binary version: 61"),
        ("version = 4", "version = 3", ":12: accelsim tracer version: 3"),
        ("0x00007f5a60000000", "here", ":9: shmem base_addr: 'here'"),
        ("lineinfo = 0", "lineinfo = 2", ":13: enable lineinfo: '2'"),
        ("lineinfo = 0", "lineinfo = 1", ":19: PC: 'ffffffff'"),
        ("#BEGIN_TB", "#BEGIN", ":16: 'thread block = 0,0,0'"),
        ("thread block = 0,0,0\n", "", ":16: 'warp = 0'"),
        ("block = 0,0,0", "block = 2,0,0", ":16: thread block: '2,0,0'"),
        ("block = 0,0,0", "block = 0,0", ":16: thread block: '0,0'"),
        ("warp = 0", "warp = 1", ":17: warp: '1'"),
        ("warp = 0", "Warp = 0", ":17: 'Warp = 0'"),
        ("insts = 2", "insts = 0", ":18: insts: '0'"),
        ("insts = 2", "insts = 3", ":21: insts: '#END_TB'"),
        ("insts = 2", "insts = 1", ":20: '0100 ffffffff 0 EXIT 0 0 0'"),
        ("insts = 2", "INSTS", ":18: 'INSTS'"),
        ("#END_TB\n", "", ":20: the end of the file"),
        ("#END_TB\n", "#END_TB", ":21: the last line has no end"),
        ("0010 f", "0014 f", ":19: PC: '0014'"),
        ("0010 f", "PC f", ":19: PC: 'PC'"),
        (" ffffffff 1", " ffff 1", ":19: MASK: 'ffff'"),
        (" 1 R4 L", " 2 R4 R5 L", ":19: ND: 2"),
        (" 1 R4 L", " 1 L", ":19: ND: 'LDG.E'"),
        (" 1 R4 L", " 1 R256 L", ":19: ND: R256"),
        ("LDG.E", "LGD.E", ":19: OPCODE: unknown instruction 'LGD.E'"),
        ("LDG.E", "[R4]", ":19: OPCODE: '[R4]'"),
        ("1 R2 4 1", "6 R2 R2 R2 R2 R2 R2 4 1", ":19: NS: 6"),
        ("1 R2 4 1", "1 R2 four 1", ":19: WIDTH: 'four'"),
        ("4 1 0x40 4 0", "0 0", ":19: WIDTH: 0 for LDG.E"),
        ("4 1 0x40 4 0", "4 3 0x40 4 0", ":19: MODE: 3"),
        ("4 1 0x40 4 0", "4 1 0x40 0x4 0", ":19: MODE 1: '0x4'"),
        ("4 1 0x40 4 0", "4 1 0x40 -4 0", ":19: MODE 1: the address -0x4"),
        ("4 1 0x40 4 0", "4 1 0xfffffffffffffff0 4 0", ":19: MODE 1: the address 0xfffffffffffffff0"),
        ("4 1 0x40 4 0", "4 0 0x40 0", ":19: MODE 0: '0'"),
        ("4 1 0x40 4 0", "4 2 0x40" + 30 * " 4" + " 0", ":19: IMM: the end of the line"),
        ("4 1 0x40 4 0", "4 2 0x40" + 32 * " 4" + " 0", ":19: '0' after IMM"),
        ("4 1 0x40 4 0", "4 1 0x40 4 none", ":19: IMM: 'none'"),
        ("ffffffff 1 R4 LDG.E", "00000005 1 R4 LDG.E", ":19: MODE 1: the mask 00000005"),
        ("ffffffff 1 R4 LDG.E", "00000004 1 R4 LDG.E", ":19: MODE 1: the mask 00000004"),
        ("(32,1,1)", "(16,1,1)", ":19: MASK: ffffffff"),
        ("(32,1,1)", "(64,1,1)", ":21: thread block 0,0,0 lacks warp 1"),
        ("0100 ffffffff 0 EXIT", "0010 ffffffff 0 EXIT", ":20: PC: 0 EXIT 0 0 at 0x0010"),
        ("0100 ffffffff 0 EXIT 0 0 0", "0100 ffffffff 0 DEPBAR.LE 0 0 99", ":20: IMM: 99 for DEPBAR.LE"),
        ("0100 ffffffff", "0100", ":20: MASK: '0'"),
        ("0100 ffffffff 0 EXIT 0 0 0", "0100", ":20: '0100'"),
    ],
)  # fmt: skip
def test_damage_is_refused_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = file(f"{LDG} 1 0x40 4 0")
    assert text.count(old) >= 1
    assert refused(text.replace(old, new), tmp_path).startswith(f"k.traceg{message}")


def test_a_cta_and_a_warp_stand_once(tmp_path: Path) -> None:
    text = file()
    again = text + text[text.index("#BEGIN_TB") :]
    assert refused(again, tmp_path) == "k.traceg:22: thread block: 0,0,0 appears twice"
    twice = text.replace("warp = 0", f"warp = 0\ninsts = 1\n{EXIT}\nwarp = 0")
    assert refused(twice, tmp_path) == "k.traceg:20: warp: warp 0 appears twice"
    assert refused(HEADER, tmp_path) == "k.traceg:13: no CTA"


def test_a_text_that_is_known_is_not_taken_for_another_warp_s_lanes(tmp_path: Path) -> None:
    """The second warp has 8 threads, and lines of the first may not be its."""
    header = HEADER.replace("(32,1,1)", "(40,1,1)")
    text = file("0010 ffffffff 1 R4 MOV 1 R2 0 0", header=header)
    more = "warp = 1\ninsts = 1\n0010 ffffffff 1 R4 MOV 1 R2 0 0\n#END_TB"
    assert refused(text.replace("#END_TB", more), tmp_path).startswith("k.traceg:23: MASK: ffffffff")


def test_numbers_of_rows_ctas_and_warps_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 1)
    lines = (f"{LDG} 1 0x40 4 0", f"{LDG} 1 0x80 4 0")
    assert "more than 1 accesses with different addresses" in refused(file(*lines), tmp_path)
    monkeypatch.setattr(reading, "MAX_WARPS", 0)
    assert "1 CTAs of 1 warps" in refused(file(), tmp_path)


# Packed files


def test_packed_files_of_one_stream_or_several_are_read(tmp_path: Path) -> None:
    text = file(f"{LDG} 1 0x40 4 0").encode()
    one, two = lzma.compress(text[:300]), lzma.compress(text[300:])
    for content in (lzma.compress(text), one + two, one + bytes(8) + two + bytes(4)):
        (tmp_path / "k.traceg.xz").write_bytes(content)
        assert lanes(load_trace(tmp_path / "k.traceg.xz"))[31] == 0x40 + 31 * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-5], "a packed file that is cut off"),
        (lambda content: content[:60] + b"x" + content[61:], "bytes that xz cannot unpack"),
        (lambda content: b"-kernel name = k\n", "bytes that xz cannot unpack"),
        (lambda content: lzma.compress(b"\xff\n"), ":1: bytes that are not text"),
        (lambda content: b"", ": kernel name: nothing"),
        (
            lambda content: lzma.compress(bytes(1 << 20)),
            ":1: a line of more than 8192 characters",
        ),
    ],
)
def test_damaged_packed_files_are_refused(change, message: str, tmp_path: Path) -> None:
    (tmp_path / "k.traceg.xz").write_bytes(change(lzma.compress(file().encode())))
    with pytest.raises(GpuemuError) as caught:
        load_trace(tmp_path / "k.traceg.xz")
    assert message in "\n".join(brief(caught.value))


@pytest.mark.slow
def test_a_file_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_lines, "MOST_BYTES", 1 << 22)
    packer = lzma.LZMACompressor()
    content = b"".join([*(packer.compress(b"\n" * (1 << 20)) for _ in range(64)), packer.flush()])
    assert len(content) < 20_000
    (tmp_path / "k.traceg.xz").write_bytes(content)
    with pytest.raises(GpuemuError, match="more than 4,194,304 bytes of text"):
        load_trace(tmp_path / "k.traceg.xz")


def test_a_dictionary_that_would_take_all_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_lines, "_UNPACKING_MEMORY", 1 << 20)
    (tmp_path / "k.traceg.xz").write_bytes(lzma.compress(file().encode(), preset=9))
    with pytest.raises(GpuemuError, match="bytes that xz cannot unpack"):
        load_trace(tmp_path / "k.traceg.xz")


# Lists


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    text = file()
    (tmp_path / "kernel-1.traceg").write_text(text, encoding="utf-8")
    (tmp_path / "kernel-2.traceg.xz").write_bytes(lzma.compress(text.replace("scale", "add").encode()))
    (tmp_path / "kernel-3.traceg").write_text(text, encoding="utf-8")
    listed = "MemcpyHtoD,0x00007f5a70000000,4096\nkernel-1.traceg\n\nkernel-2.traceg\nkernel-3.traceg\n"
    (tmp_path / "kernelslist.g").write_text(listed, encoding="utf-8")
    return tmp_path / "kernelslist.g"


@pytest.mark.parametrize(
    ("kernel", "name"),
    [("kernel-1", "scale"), ("kernel-3.traceg", "scale"), ("kernel-2.traceg", "add"), ("add", "add")],
)
def test_a_kernel_of_a_list_is_named_by_its_file_or_its_own_name(kernel: str, name: str, kernels: Path) -> None:
    assert load_trace(kernels, kernel=kernel).name == name


def test_a_list_of_one_kernel_needs_no_name_and_one_of_several_says_which_there_are(kernels: Path) -> None:
    for kernel, found in (
        (None, "the list has 3 kernels"),
        ("mul", "no kernels of 3 are called 'mul'"),
        ("scale", "2 kernels of 3 are called 'scale'"),
    ):
        with pytest.raises(GpuemuError) as caught:
            load_trace(kernels, kernel=kernel)
        assert "\n".join(brief(caught.value)) == f"{kernels}: {found}"
    kernels.write_text("kernel-2.traceg\n", encoding="utf-8")
    assert load_trace(kernels).name == "add"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the list has no kernel"),
        ("kernel-9.traceg\n", ":1: there is no file 'kernel-9.traceg' beside the list"),
        ("\nkernel-1\n", ":2: 'kernel-1'"),
        ("MemcpyHtoD,7,x\n", ":1: 'MemcpyHtoD,7,x'"),
    ],
)
def test_damaged_lists_are_refused(text: str, message: str, kernels: Path) -> None:
    kernels.write_text(text, encoding="utf-8")
    with pytest.raises(GpuemuError) as caught:
        load_trace(kernels)
    assert "\n".join(brief(caught.value)).startswith(f"{kernels}{message}")


def test_a_trace_of_one_kernel_has_none_to_choose_and_no_layout(kernels: Path) -> None:
    one = kernels.parent / "kernel-1.traceg"
    with pytest.raises(GpuemuError, match="no kernel to choose, but --kernel is 'add'"):
        load_trace(one, kernel="add")
    with pytest.raises(GpuemuError, match="no kernel to choose, but --kernel is 'add'"):
        load_trace("v5_swizzle", kernel="add")
    with pytest.raises(GpuemuError, match="layout: unknown name 'pitch'"):
        load_trace(one, layout={"pitch": 16})
    with pytest.raises(GpuemuError, match=r"none\.traceg: no such file"):
        load_trace(kernels.parent / "none.traceg")
