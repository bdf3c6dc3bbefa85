"""Files of Accel-Sim's tracer are read as the description of their form has it, and damaged ones refused by line."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

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
    (problem,) = caught.value.problems
    assert problem.file == str(folder / "k.traceg")
    return str(problem).removeprefix(str(folder) + "/")


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
    assert refused(text.replace("27 0010", "x 0010"), tmp_path) == (
        "k.traceg:19: source line: found 'x'; a line of the source is right, with enable lineinfo"
    )
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


def test_bytes_that_the_driver_reserves_in_front_are_taken_off(tmp_path: Path) -> None:
    """The kernel's 4,096 bytes begin behind the driver's 1,024; where no access tells, addresses stay as they are."""
    near, far = ("0010 00000003 1 R4 LDS 1 R2 4 1 0x400 4 0", "0020 00000003 0 STS 2 R2 R4 4 1 0x13f8 4 0")
    trace = read(file(near, far), tmp_path)
    assert [lanes(trace, row)[0] for row in (0, 1)] == [0, 0xFF8]
    assert lanes(read(file(near), tmp_path))[0] == 0x400
    below = "0010 00000003 1 R4 LDS 1 R2 4 1 0x10 4 0"
    assert refused(file(below, far), tmp_path) == (
        "k.traceg:20: code at 0x0020: found STS of 4 bytes at 5112 in lane 0; the CTA has 4096 bytes of shared memory"
    )


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
        ("-kernel name = scale\n", "", ":13: kernel name: found nothing; a header with -kernel name = ... is right"),
        ("name = scale", "name = ", ":1: kernel name: found nothing; the kernel's name is right"),
        ("-nregs", "nregs", ":6: found 'nregs = 24'; a header of lines such as -kernel name = scale, up to a # line, is right"),
        ("-nregs = 24", "-nregs = 24\n-nregs = 24", ":7: nregs: found it a second time; one is right; line 6 has it already"),
        ("nregs = 24", "nregs = 256", ":6: nregs: found '256'; a whole number up to 255 is right"),
        ("nregs = 24", "nregs = \u0663", ":6: nregs: found '\u0663'; a whole number up to 255 is right"),
        ("shmem = 4096", "shmem = -1", ":5: shmem: found '-1'; a whole number up to 2147483648 is right"),
        ("(2,1,1)", "(2,1)", ":3: grid dim: found '(2,1)'; three sizes of at least 1, such as (2,1,1), and up to 2147483647"),
        ("(32,1,1)", "(0,1,1)", ":4: block dim: found '(0,1,1)'; three sizes of at least 1"),
        ("(32,1,1)", "(1024,64,1)", ":4: block dim: found '(1024,64,1)'; three sizes of at least 1, such as (2,1,1), and up to"),
        ("version = 86", "version = 61", ":7: binary version: found 61; 70 or more, such as 86, is right"),
        ("version = 4", "version = 3", ":12: accelsim tracer version: found 3; 4 or 5 is right"),
        ("0x00007f5a60000000", "here", ":9: shmem base_addr: found 'here'; an address in hexadecimal"),
        ("lineinfo = 0", "lineinfo = 2", ":13: enable lineinfo: found '2'; a whole number up to 1 is right"),
        ("lineinfo = 0", "lineinfo = 1", ":19: PC: found 'ffffffff'; a multiple of 16 in hexadecimal, behind a source line, is right"),
        ("#BEGIN_TB", "#BEGIN", ":16: found 'thread block = 0,0,0'; #BEGIN_TB is right between CTAs"),
        ("thread block = 0,0,0\n", "", ":16: found 'warp = 0'; thread block = 0,0,0 is right here"),
        ("block = 0,0,0", "block = 2,0,0", ":16: thread block: found '2,0,0'; numbers below those of the grid, (2,1,1), are right"),
        ("block = 0,0,0", "block = 0,0", ":16: thread block: found '0,0'; numbers below those of the grid, (2,1,1), are right"),
        ("warp = 0", "warp = 1", ":17: warp: found '1'; the block has warps 0 to 0"),
        ("warp = 0", "Warp = 0", ":17: found 'Warp = 0'; warp = N or #END_TB is right here"),
        ("insts = 2", "insts = 0", ":18: insts: found '0'; how many instructions the warp executed, 1 to 50000000, is right"),
        ("insts = 2", "insts = 3", ":21: insts: found '#END_TB'; 1 more of 3 instructions are right before it"),
        ("insts = 2", "insts = 1", ":20: found '0100 ffffffff 0 EXIT 0 0 0'; warp = N or #END_TB is right here"),
        ("insts = 2", "INSTS", ":18: found 'INSTS'; insts = N is right here"),
        ("#END_TB\n", "", ":20: found the end of the file; warp = N or #END_TB is right here"),
        ("#END_TB\n", "#END_TB", ":21: found a line without an end, the last of the file; a whole file"),
        ("0010 f", "0014 f", ":19: PC: found '0014'; a multiple of 16 in hexadecimal is right"),
        ("0010 f", "PC f", ":19: PC: found 'PC'; a multiple of 16 in hexadecimal is right"),
        (" ffffffff 1", " ffff 1", ":19: MASK: found 'ffff'; 8 hexadecimal digits are right"),
        (" 1 R4 L", " 2 R4 R5 L", ":19: ND: found 2; 0 to 1 registers, their number first, are right"),
        (" 1 R4 L", " 1 L", ":19: ND: found 'LDG.E'; 0 to 1 registers, their number first, are right"),
        (" 1 R4 L", " 1 R256 L", ":19: ND: found R256; R0 to R254, and R255 for RZ, are right"),
        ("LDG.E", "LGD.E", ":19: OPCODE: found the unknown instruction 'LGD.E'; did you mean 'LD'?"),
        ("LDG.E", "[R4]", ":19: OPCODE: found '[R4]'; a SASS mnemonic such as LDS.64 is right"),
        ("1 R2 4 1", "6 R2 R2 R2 R2 R2 R2 4 1", ":19: NS: found 6; 0 to 5 registers, their number first, are right"),
        ("1 R2 4 1", "1 R2 four 1", ":19: WIDTH: found 'four'; bytes of a lane, 0 where no memory is accessed, is right"),
        ("4 1 0x40 4 0", "0 0", ":19: WIDTH: found 0 of LDG.E; its bytes of a lane, and its addresses, are right"),
        ("4 1 0x40 4 0", "4 3 0x40 4 0", ":19: MODE: found 3; 0, 1 or 2 is right"),
        ("4 1 0x40 4 0", "4 1 0x40 0x4 0", ":19: MODE 1: found '0x4'; a base and a stride in decimal are right"),
        ("4 1 0x40 4 0", "4 1 0x40 -4 0", ":19: MODE 1: found the address -0x4; 0x0 to 0x7fffffffffffffff is right"),
        ("4 1 0x40 4 0", "4 1 0xfffffffffffffff0 4 0", ":19: MODE 1: found the address 0xfffffffffffffff0; 0x0 to"),
        ("4 1 0x40 4 0", "4 0 0x40 0", ":19: MODE 0: found '0'; an address such as 0x00007f0000000000 for each lane of the mask"),
        ("4 1 0x40 4 0", "4 2 0x40" + 30 * " 4" + " 0", ":19: IMM: found the end of the line; a whole number is right"),
        ("4 1 0x40 4 0", "4 2 0x40" + 32 * " 4" + " 0", ":19: found '0' behind IMM; the end of the line is right there"),
        ("4 1 0x40 4 0", "4 1 0x40 4 none", ":19: IMM: found 'none'; a whole number is right"),
        ("ffffffff 1 R4 LDG.E", "00000005 1 R4 LDG.E", ":19: MODE 1: found the mask 00000005; two lanes or more, side by side,"),
        ("ffffffff 1 R4 LDG.E", "00000004 1 R4 LDG.E", ":19: MODE 1: found the mask 00000004; two lanes or more, side by side,"),
        ("(32,1,1)", "(16,1,1)", ":19: MASK: found ffffffff; lanes of the warp's 16 threads are right"),
        ("(32,1,1)", "(64,1,1)", ":21: found nothing for warp 1 of thread block 0,0,0; all are right"),
        ("0100 ffffffff 0 EXIT", "0010 ffffffff 0 EXIT", ":20: PC: found 0 EXIT 0 0 at 0x0010; line 19 has 1 R4 LDG.E 1 R2 4"),
        ("0100 ffffffff 0 EXIT 0 0 0", "0100 ffffffff 0 DEPBAR.LE 0 0 99", ":20: IMM: found 99 of DEPBAR.LE; 0 to 63 groups of"),
        ("0100 ffffffff", "0100", ":20: MASK: found '0'; 8 hexadecimal digits are right"),
        ("0100 ffffffff 0 EXIT 0 0 0", "0100", ":20: found '0100'; an instruction such as 0010 ffffffff 1 R4 MOV 1 R2 0 0 is right"),
    ],
)  # fmt: skip
def test_damage_is_refused_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = file(f"{LDG} 1 0x40 4 0")
    assert text.count(old) >= 1
    assert refused(text.replace(old, new), tmp_path).startswith(f"k.traceg{message}")


def test_a_cta_and_a_warp_stand_once(tmp_path: Path) -> None:
    text = file()
    again = text + text[text.index("#BEGIN_TB") :]
    assert refused(again, tmp_path) == "k.traceg:22: thread block: found 0,0,0 a second time; line 16 begins it already"
    twice = text.replace("warp = 0", f"warp = 0\ninsts = 1\n{EXIT}\nwarp = 0")
    assert refused(twice, tmp_path) == "k.traceg:20: warp: found warp 0 a second time; each warp of a CTA stands once"
    assert refused(HEADER, tmp_path) == "k.traceg:13: found no CTA; at least one, from #BEGIN_TB to #END_TB, is right"


def test_a_text_that_is_known_is_not_taken_for_another_warp_s_lanes(tmp_path: Path) -> None:
    """The second warp has 8 threads, and lines of the first may not be its."""
    header = HEADER.replace("(32,1,1)", "(40,1,1)")
    text = file("0010 ffffffff 1 R4 MOV 1 R2 0 0", header=header)
    more = "warp = 1\ninsts = 1\n0010 ffffffff 1 R4 MOV 1 R2 0 0\n#END_TB"
    assert refused(text.replace("#END_TB", more), tmp_path).startswith(
        "k.traceg:23: MASK: found ffffffff; lanes of the warp's 8 threads are right"
    )


def test_numbers_of_rows_ctas_and_warps_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 1)
    lines = (f"{LDG} 1 0x40 4 0", f"{LDG} 1 0x80 4 0")
    assert "found more than 1 accesses with addresses of their own; up to 1 are right" in refused(
        file(*lines), tmp_path
    )
    monkeypatch.setattr(reading, "MAX_WARPS", 0)
    assert "found 1 CTAs of 1 warps; up to 65536 CTAs and 0 warps are right" in refused(file(), tmp_path)


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
        (lambda content: content[:-5], "found a packed file that is cut off; a whole file as xz writes it is right"),
        (lambda content: content[:60] + b"x" + content[61:], "found bytes that xz cannot unpack; a whole file as xz"),
        (lambda content: b"-kernel name = k\n", "found bytes that xz cannot unpack; a whole file as xz writes it is"),
        (lambda content: lzma.compress(b"\xff\n"), ":1: found bytes that are no text; text in UTF-8 is right"),
        (lambda content: b"", ": kernel name: found nothing; a header with -kernel name = ... is right"),
        (
            lambda content: lzma.compress(bytes(1 << 20)),
            ":1: found a line of more than 8192 characters; up to 8192 are right",
        ),
    ],
)
def test_damaged_packed_files_are_refused(change, message: str, tmp_path: Path) -> None:
    (tmp_path / "k.traceg.xz").write_bytes(change(lzma.compress(file().encode())))
    with pytest.raises(GpuemuError) as caught:
        load_trace(tmp_path / "k.traceg.xz")
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_file_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_lines, "MOST_BYTES", 1 << 22)
    packer = lzma.LZMACompressor()
    content = b"".join([*(packer.compress(b"\n" * (1 << 20)) for _ in range(64)), packer.flush()])
    assert len(content) < 20_000
    (tmp_path / "k.traceg.xz").write_bytes(content)
    with pytest.raises(GpuemuError, match="found more than 4,194,304 bytes of text; up to 4,194,304 are right"):
        load_trace(tmp_path / "k.traceg.xz")


def test_a_dictionary_that_would_take_all_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_lines, "_UNPACKING_MEMORY", 1 << 20)
    (tmp_path / "k.traceg.xz").write_bytes(lzma.compress(file().encode(), preset=9))
    with pytest.raises(GpuemuError, match="found bytes that xz cannot unpack"):
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
    there = "kernel-1.traceg (scale), kernel-2.traceg (add), kernel-3.traceg (scale)"
    right = "one of its files is right, itself or as --kernel"
    for kernel, found in (
        (None, f"3 kernels; {right}: {there}"),
        ("mul", f"no 'mul' among 3 kernels; {right}: {there}"),
        ("scale", f"2 'scale' among 3 kernels; {right}: kernel-1.traceg (scale), kernel-3.traceg (scale)"),
    ):
        with pytest.raises(GpuemuError) as caught:
            load_trace(kernels, kernel=kernel)
        assert str(caught.value) == f"{kernels}: found {found}"
    kernels.write_text("kernel-2.traceg\n", encoding="utf-8")
    assert load_trace(kernels).name == "add"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": found no kernel; a list that names a .traceg file is right"),
        ("kernel-9.traceg\n", ":1: found no file 'kernel-9.traceg' beside the list; the files that it names are right"),
        ("\nkernel-1\n", ":2: found 'kernel-1'; kernel-1.traceg, kernel-1.traceg.xz or MemcpyHtoD,0x7f0000000000,4096"),
        ("MemcpyHtoD,7,x\n", ":1: found 'MemcpyHtoD,7,x'; kernel-1.traceg, kernel-1.traceg.xz or MemcpyHtoD,0x7f"),
    ],
)
def test_damaged_lists_are_refused(text: str, message: str, kernels: Path) -> None:
    kernels.write_text(text, encoding="utf-8")
    with pytest.raises(GpuemuError) as caught:
        load_trace(kernels)
    assert str(caught.value).startswith(f"{kernels}{message}")


def test_a_trace_of_one_kernel_has_none_to_choose_and_no_layout(kernels: Path) -> None:
    one = kernels.parent / "kernel-1.traceg"
    with pytest.raises(GpuemuError, match="found a trace, and the kernel 'add' asked for; a list of kernels"):
        load_trace(one, kernel="add")
    with pytest.raises(GpuemuError, match="found a trace, and the kernel 'add' asked for; a list of kernels"):
        load_trace("v5_swizzle", kernel="add")
    with pytest.raises(
        GpuemuError, match="layout: found the unknown name 'pitch'; a trace of Accel-Sim has no numbers"
    ):
        load_trace(one, layout={"pitch": 16})
    with pytest.raises(GpuemuError, match=r"none\.traceg: found no such file"):
        load_trace(kernels.parent / "none.traceg")
