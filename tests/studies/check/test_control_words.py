"""Control words: what hardware was seen to do with them is found, and what compilers make is let alone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import written_and_read
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.studies.check.control_steps import slack
from gpuemu.studies.check.launch_notice import Notice
from gpuemu.studies.check.synccheck import Sync
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Trace

KERNELS = Path(__file__).resolve().parent / "kernels" / "control_words.cu"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100")
ARRIVAL = "[B------:R0:W-:-:S01] SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR17], R64"
HEAD = """\
gpuemu_trace: 1
kernel: words
arch: {arch}
launch: {{grid: [1, 1, 1], block: [32, 1, 1], registers_per_thread: 40, static_shared_bytes: 4096}}
"""


def trace(tmp_path: Path, code: list[str], path: list[int] | None = None, arch: str = "sm_80", more: str = "") -> Path:
    """A trace of instructions one behind the other, or in the order of `path`; accesses are to the first bytes."""
    code = [*code, "[B012345:R-:W-:-:S05] EXIT"]
    order = path or list(range(len(code)))
    listing = "\n".join(f"  {16 * k:04x}: {line}" for k, line in enumerate(code))
    touched = [16 * k for k in order if re.search(r"\b(LD|ST|ATOM)(?!GDEP)", code[k])]
    addresses = ", ".join(f"{at:#06x}: 4*lane" for at in dict.fromkeys(touched))
    steps = ", ".join(f"{16 * k:#06x}" for k in order)
    file = tmp_path / "words.yaml"
    warps = f"- path: [{steps}]\n  addresses: {{{addresses}}}\n"
    file.write_text(HEAD.format(arch=arch) + more + f"code: |\n{listing}\nwarps:\n{warps}", encoding="utf-8")
    return file


def told(file: Path | Trace) -> list[tuple[str, str]]:
    report = gpuemu.check(file, tools=["controlcheck"])
    return [(finding.title, finding.right) for finding in report.findings]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("cycles", [1, 2, 3, 4, 5])
def test_a_load_that_depbar_waits_for_may_be_read_four_cycles_behind_it(cycles: int, arch: str, tmp_path: Path) -> None:
    code = [
        "[B------:R-:W3:-:S04] LDG.E R8, [R2.64]", f"[B------:R-:W-:-:S{cycles:02d}] DEPBAR.LE SB3, 0x0",
        "[B------:R-:W-:-:S06] IADD3 R9, R8, 0x7, RZ",
    ]  # fmt: skip
    wanted = f"{4 - cycles} cycles more in the stall counts between, such as S04 at 0x0010"
    assert told(trace(tmp_path, code, arch=arch)) == [("Register RAW hazard", wanted)] * (cycles < 4)


@pytest.mark.parametrize("cycles", [3, 4])
def test_what_was_copied_may_be_read_four_cycles_behind_depbar(cycles: int, tmp_path: Path) -> None:
    code = [
        "[B------:R-:W-:-:S04] LDGSTS.E [R4], [R2.64]", "[B------:R-:W0:-:S02] LDGDEPBAR",
        f"[B------:R-:W-:-:S{cycles:02d}] DEPBAR.LE SB0, 0x0", "[B------:R-:W1:-:S02] LDS R8, [R4]",
    ]  # fmt: skip
    assert len(told(trace(tmp_path, code))) == (cycles < 4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("word", "found"), [("-:S01", True), ("Y:S01", False), ("-:S02", False), ("-:S04", False)])
def test_a_wait_in_the_cycle_behind_does_not_see_the_counter(word: str, found: bool, arch: str, tmp_path: Path) -> None:
    load, store = f"[B------:R-:W4:{word}] LDG.E R8, [R2.64]", f"[B------:R4:W-:{word}] STG.E [R2.64], R8"
    reads = "[B----4-:R-:W-:-:S06] FADD R9, R8, R8"
    writes = "[B----4-:R-:W-:-:S06] MOV R8, R10"
    between = "[B------:R-:W-:-:S01] NOP"
    expected = [("Register RAW hazard", "a stall count of 2, S02, at 0x0000")] * found
    assert told(trace(tmp_path, [load, reads], arch=arch)) == expected
    assert [title for title, _ in told(trace(tmp_path, [store, writes], arch=arch))] == ["Register WAR hazard"] * found
    assert told(trace(tmp_path, [load, between, reads], arch=arch)) == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("-:S11", False), ("-:S12", True), ("-:S13", True), ("-:S15", True), ("Y:S11", False), ("Y:S12", False),
        ("Y:S15", False),
    ],
)  # fmt: skip
def test_a_stall_count_of_twelve_and_more_wants_the_yield_bit(
    word: str, found: bool, arch: str, tmp_path: Path
) -> None:
    code = [f"[B------:R-:W-:{word}] FADD R8, R9, R10", "[B------:R-:W-:-:S06] FFMA R11, R8, R8, R8"]
    report = gpuemu.check(trace(tmp_path, code, arch=arch), tools=["controlcheck"])
    assert [f.title for f in report.findings] == ["Register RAW hazard"] * found
    if found:
        assert f"S{word[-2:]} without Y lets 2 pass" in report.findings[0].sentence
        assert "Y:S04 at 0x0000" in report.findings[0].right
    far = [code[0], *["[B------:R-:W-:-:S01] NOP"] * 3, code[1]]
    assert told(trace(tmp_path, far, arch=arch)) == []


LOAD, SUM = "[B------:R-:W1:-:S02] {}LDS R8, [R4]", "[B------:R-:W-:-:S05] {}IADD3 R8, R9, R10, RZ"
TEST = "[B------:R-:W-:Y:S13] ISETP.GE.AND P1, PT, R9, R10, PT"


@pytest.mark.parametrize(
    ("first", "second", "between", "found"),
    [
        ("@P1 ", "@!P1 ", [], False), ("@!P1 ", "@P1 ", [], False), ("@P1 ", "@P1 ", [], True), ("@P1 ", "", [], True),
        ("", "@!P1 ", [], True), ("@P1 ", "@!P2 ", [], True), ("@P1 ", "@!P1 ", [TEST], True),
    ],
)  # fmt: skip
def test_lanes_of_the_opposite_guard_are_others(
    first: str, second: str, between: list[str], found: bool, tmp_path: Path
) -> None:
    written = [LOAD.format(first), *between, SUM.format(second)]
    assert [title for title, _ in told(trace(tmp_path, written))] == ["Register WAW hazard"] * found
    reads = [LOAD.format(first), *between, f"[B------:R-:W-:-:S05] {second}FADD R9, R8, R8"]
    assert [title for title, _ in told(trace(tmp_path, reads))] == ["Register RAW hazard"] * found


@pytest.mark.parametrize(("partly", "found"), [("threads: {0x0010: 16, 0x0030: 16}\n", False), ("", True)])
def test_a_trace_accuses_no_lanes_that_it_does_not_know(partly: str, found: bool, tmp_path: Path) -> None:
    """Two sides of a branch, the one's lanes behind the other's: only threads say that they are not the same."""
    code = [
        "[B------:R-:W-:-:S05] BSSY B0, 0x0050", "[B------:R-:W1:-:S02] LDS R8, [R4]",
        "[B------:R-:W-:-:S05] BRA 0x0040", "[B------:R-:W-:-:S05] IADD3 R8, R9, R10, RZ",
        "[B------:R-:W-:-:S05] BSYNC B0",
    ]  # fmt: skip
    file = trace(tmp_path, code, [0, 1, 2, 4, 3, 4, 5], more=partly)
    assert len(told(file)) == found


@pytest.mark.parametrize(
    "reader",
    ["[B------:R0:W-:-:S01] SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR17], R64", "[B------:R-:W-:-:S05] WARPSYNC R64"],
)
@pytest.mark.parametrize(("cycles", "found"), [(5, True), (6, False)])
def test_an_arrival_and_warpsync_read_their_register_two_cycles_late(
    cycles: int, found: bool, reader: str, tmp_path: Path
) -> None:
    code = [
        f"[B------:R-:W-:-:S{cycles:02}] HFMA2.MMA R64, -RZ, RZ, 0, 3.814697265625e-06",
        reader,
    ]
    said = told(trace(tmp_path, code, arch="sm_90"))
    assert said == (
        [("Register RAW hazard", "3 cycles more in the stall counts between, such as S08 at 0x0000")] if found else []
    )


def test_moves_of_matrices_come_in_the_order_of_loads(tmp_path: Path) -> None:
    code = [
        "[B------:R-:W-:-:S04] LDSM.16.M88.4 R8, [R4]", "[B------:R-:W-:-:S04] MOVM.16.MT88 R16, R20",
        "[B------:R-:W2:-:S02] MOVM.16.MT88 R17, R21", "[B--2---:R-:W-:-:S05] IADD3 R18, R16, R8, R17",
    ]  # fmt: skip
    assert told(trace(tmp_path, code)) == []
    assert len(told(trace(tmp_path, [*code[:3], code[3].replace("B--2", "B---")]))) == 3
    assert len(told(trace(tmp_path, [code[1], code[2], code[0], code[3]]))) == 1  # the load comes behind
    behind = "[B------:R-:W0:-:S04] MOVM.16.MT88 R4, R20"
    assert told(trace(tmp_path, [code[0].replace("W-", "W1"), behind])) == []
    assert len(told(trace(tmp_path, [code[0].replace("W-", "W1"), "[B------:R-:W-:-:S04] MOV R4, R20"]))) == 1


# -- what compilers make ------------------------------------------------------------------------------------------


@cache
def compiled(arch: str) -> Cubin:
    return read_cubin(compile_cuda(str(KERNELS), arch, "nvrtc", ("--std=c++17",)), str(KERNELS))


def arguments(name: str) -> list[Any]:
    values = np.random.default_rng(3).integers(0, 1 << 16, 4096, dtype=np.uint32)
    return [values, np.zeros(4096, np.uint32)] + [5] * (name != "transposed")


NAMES = re.findall(r"__global__ void (\w+)\(", KERNELS.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_ordinary_kernels_are_clean_and_so_are_their_traces(name: str, arch: str) -> None:
    launch: dict[str, Any] = {"kernel": name, "block": 64, "args": arguments(name)}
    report = gpuemu.check(compiled(arch), **(launch | {"block": (64, 1, 1)}), tools=["controlcheck"])
    assert report.findings == ()
    recorded = gpuemu.trace_kernel(compiled(arch), **launch)
    assert told(recorded) == []


def edited(recorded: Trace, change: Any) -> list[Trace]:
    """The trace with the control word of one executed instruction changed, for each that `change` changes."""
    found = []
    executed = np.unique(np.concatenate([warp.path for warp in recorded.warps]))
    for k in executed.tolist():
        word = change(recorded.code[k].control)
        if word is not None:
            one = replace(recorded.code[k], control=word)
            found.append(replace(recorded, code=(*recorded.code[:k], one, *recorded.code[k + 1 :])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["chosen", "product", "transposed"])
def test_waits_taken_out_of_compiled_code_are_found(name: str, arch: str) -> None:
    """But for one at most: what it waits for another wait has seen to."""
    recorded = gpuemu.trace_kernel(compiled(arch), name, block=64, args=arguments(name))
    traces = edited(recorded, lambda word: replace(word, wait_mask=0) if word.wait_mask else None)
    assert len(traces) > 3
    assert sum(not told(one) for one in traces) <= 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_stall_counts_cut_before_a_reader_are_found(arch: str) -> None:
    """Where an instruction waits 4 cycles or more for its own result, which the next one reads."""
    recorded = gpuemu.trace_kernel(compiled(arch), "transposed", block=64, args=arguments("transposed"))
    traces = edited(recorded, lambda word: replace(word, stall_cycles=1) if word.stall_cycles > 3 else None)
    needed = [one for one in traces if _feeds_the_next(recorded, one)]
    assert len(needed) > 4
    assert all(told(one) for one in needed)


def _feeds_the_next(recorded: Trace, changed: Trace) -> bool:
    k = next(k for k, (a, b) in enumerate(zip(recorded.code, changed.code, strict=True)) if a is not b)
    one, behind = recorded.code[k], recorded.code[min(k + 1, len(recorded.code) - 1)]
    written = {r for r in written_and_read(one.opcode, one.operands, "")[0] if r < 400}
    fixed = one.operation.kind is Kind.FIXED and one.control is not None and one.control.write_counter is None
    return fixed and bool(written & set(written_and_read(behind.opcode, behind.operands, behind.guard)[1]))


# -- random kernels -----------------------------------------------------------------------------------------------


@cache
def random_kernels() -> ModuleType:
    file = Path(__file__).resolve().parent / "random_kernels.py"
    specification = importlib.util.spec_from_file_location("random_kernels", file)
    assert specification is not None
    assert specification.loader is not None
    found = sys.modules["random_kernels"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    return found


RANDOM = int(os.environ.get("GPUEMU_RANDOM_KERNELS", "4"))
"""Random kernels for each architecture; 400 were clean when this was written."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="random kernels need nvcc")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_random_kernels_are_clean(arch: str, tmp_path: Path) -> None:
    accused, refused = random_kernels().accused(arch, range(RANDOM), tmp_path)
    assert accused == []
    assert len(refused) <= 1 + RANDOM // 20, refused  # HFMA2.F32 and FMUL.D2, one kernel in 70 on sm_75


# -- gpuemu run ---------------------------------------------------------------------------------------------------


def test_run_says_nothing_of_control_words_and_check_does(tmp_path: Path) -> None:
    hasty = trace(tmp_path, ["[B------:R-:W1:-:S02] LDS R8, [R4]", "[B------:R-:W-:-:S05] FADD R9, R8, R8"])
    ran = CliRunner().invoke(cli, ["run", str(hasty)])
    assert (ran.exit_code, ran.stderr) == (0, "")
    for tools in ([], ["--tool", "controlcheck"]):
        checked = CliRunner().invoke(cli, ["check", str(hasty), *tools])
        assert checked.exit_code == 1
        assert "Register RAW hazard" in checked.stdout


@pytest.mark.slow
def test_a_trace_of_an_architecture_that_nobody_knows_runs_and_check_says_so(tmp_path: Path) -> None:
    file = trace(
        tmp_path, ["[B------:R-:W1:-:S02] LDS R8, [R4]", "[B------:R-:W-:-:S05] FADD R9, R8, R8"], arch="sm_87"
    )
    ran = CliRunner().invoke(cli, ["run", str(file), "--arch", "sm_86"])
    assert (ran.exit_code, ran.stderr) == (0, "")
    report = gpuemu.check(file)
    assert report.findings == ()
    assert "controlcheck does not know the latencies of sm_87" in report.notes


@pytest.mark.slow
def test_a_notice_that_fails_does_not_stop_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Sync, "opens", fails)
    notice, args = Notice(), arguments("sides")
    quiet = gpuemu.trace_kernel(compiled("sm_89"), "sides", block=64, args=arguments("sides"))
    seen = gpuemu.trace_kernel(compiled("sm_89"), "sides", block=64, args=args, observer=notice)
    assert seen.executed_instructions == quiet.executed_instructions
    assert notice.sentence() == ""


def test_a_sum_of_pairs_may_be_read_after_four_cycles_by_floats_alone() -> None:
    """So nvcc 13 and Triton do it for sm_100."""
    arch = gpuemu.load_arch("sm_100")
    text = "0000: FADD2 R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO\n0010: FADD R8, R2, R3\n0020: LOP3.LUT R8, R2, R3, RZ, 0x3c, !PT"
    packed, added, other = parse_listing(text, "code", 1)
    assert slack(added, packed, arch) == 1
    assert slack(other, packed, arch) == 0
