"""Traces with a fault each and the same traces without: hazards of control words, races and barriers."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuemu
from gpuemu.studies.check.findings import Severity
from gpuemu.studies.check.report import Report

ROOT = Path(__file__).resolve().parents[3]
HEAD = """\
gpuemu_trace: 1
kernel: {name}
arch: sm_89
launch: {{grid: [1, 1, 1], block: [64, 1, 1], registers_per_thread: 32, static_shared_bytes: 4096}}
code: |
{code}
warps:
{warps}
"""
ALL = "- path: [{path}]\n  addresses: {{{addresses}}}"
# What is wrong, the code with the fault and without, addresses by offset, tool and title.
CONTROL = {
    "load_not_awaited": (
        "[B------:R-:W1:-:S02] LDS R4, [R0]", "[B{}----:R-:W-:-:S04] FADD R5, R4, R4", ("--", "-1"),
        "Register RAW hazard",
    ),
    "load_without_counter": (
        "[B------:R-:W{}:-:S02] LDS R4, [R0]", "[B-1----:R-:W-:-:S04] FADD R5, R4, R4", ("-", "1"),
        "Register RAW hazard",
    ),
    "other_counter": (
        "[B------:R-:W1:-:S02] LDS R4, [R0]", "[B{}---:R-:W-:-:S04] FADD R5, R4, R4", ("--2", "-1-"),
        "Register RAW hazard",
    ),
    "result_overwritten": (
        "[B------:R-:W1:-:S02] LDS R4, [R0]", "[B{}----:R-:W-:-:S04] MOV R4, R8", ("--", "-1"),
        "Register WAW hazard",
    ),
    "address_overwritten": (
        "[B------:R2:W1:-:S02] LDS R4, [R0]", "[B{}---:R-:W-:-:S04] MOV R0, R8", ("---", "--2"),
        "Register WAR hazard",
    ),
    "data_overwritten": (
        "[B------:R2:W-:-:S02] STS [R0], R4", "[B{}---:R-:W-:-:S04] IADD3 R4, R8, R9, RZ", ("---", "--2"),
        "Register WAR hazard",
    ),
    "data_without_counter": (
        "[B------:R{}:W-:-:S02] STS [R0], R4", "[B--2---:R-:W-:-:S04] IADD3 R4, R8, R9, RZ", ("-", "2"),
        "Register WAR hazard",
    ),
    "too_short_stall": (
        "[B------:R-:W-:-:S{}] FADD R4, R8, R9", "[B------:R-:W-:-:S04] FADD R5, R4, R4", ("01", "05"),
        "Register RAW hazard",
    ),
    "predicate_too_early": (
        "[B------:R-:W-:{}] ISETP.GE.AND P0, PT, R8, R9, PT", "[B------:R-:W-:-:S04] @P0 FADD R5, R4, R4",
        ("-:S01", "Y:S13"), "Register RAW hazard",
    ),
    "special_result": (
        "[B------:R-:W3:-:S02] MUFU.RCP R4, R8", "[B{}--:R-:W-:-:S04] FADD R5, R4, R4", ("----", "---3"),
        "Register RAW hazard",
    ),
    "tensor_result": (
        "[B------:R-:W-:{}] HMMA.16816.F32 R12, R4, R8, RZ", "[B------:R-:W-:-:S04] FADD R5, R12, R13",
        ("-:S02", "Y:S15"), "Register RAW hazard",
    ),
}  # fmt: skip
BARRIER = "[B------:R-:W-:-:S05] BAR.SYNC 0x0"
NOTHING = "[B------:R-:W-:-:S05] NOP"
STORE, LOAD = "[B------:R-:W-:-:S01] STS [R0], R6", "[B------:R-:W0:-:S01] LDS R4, [R1]"
END = "[B0-----:R-:W-:-:S05] EXIT"
RACES = {
    "read_after_write": (
        [STORE, "{}", LOAD, END], (NOTHING, BARRIER), {0: "4*lane + 128*warp", 0x20: "4*lane + 128*(1-warp)"},
        "Potential RAW hazard",
    ),
    "write_after_read": (
        [LOAD, "{}", STORE, END], (NOTHING, BARRIER), {0: "4*lane + 128*(1-warp)", 0x20: "4*lane + 128*warp"},
        "hazard in __shared__ memory",
    ),
    "write_after_write": (
        [STORE, "{}", STORE, END], (NOTHING, BARRIER), {0: "4*lane + 128*warp", 0x20: "4*lane + 128*(1-warp)"},
        "Potential WAW hazard",
    ),
    "copy_not_awaited": (
        [
            "[B------:R-:W-:-:S01] LDGSTS.E [R0], [R2.64]", "[B------:R-:W0:-:S01] LDGDEPBAR",
            "{}", BARRIER, "[B------:R-:W0:-:S01] LDS R4, [R1]", END,
        ],
        (NOTHING, "[B------:R-:W-:-:S04] DEPBAR.LE SB0, 0x0"),
        {0: "4*lane + 128*warp", 0x40: "4*lane + 128*(1-warp)"}, "Potential RAW hazard",
    ),
}  # fmt: skip


def check(tmp_path: Path, name: str, code: list[str], addresses: dict[int, str], warps: str = "") -> Report:
    offsets = [f"{16 * k:#06x}" for k in range(len(code))]
    listing = "\n".join(f"  {16 * k:04x}: {line}" for k, line in enumerate(code))
    where = ", ".join(f'{at:#06x}: "{rule}"' for at, rule in addresses.items())
    warps = warps or ALL.format(path=", ".join(offsets), addresses=where)
    file = tmp_path / f"{name}.yaml"
    file.write_text(HEAD.format(name=name, code=listing, warps=warps), encoding="utf-8")
    return gpuemu.check(file)


def test_there_are_fifteen_traces() -> None:
    assert len(CONTROL) + len(RACES) + 1 >= 15


@pytest.mark.parametrize("name", CONTROL)
def test_a_hazard_is_found_and_its_mending_is_right(name: str, tmp_path: Path) -> None:
    first, second, values, title = CONTROL[name]
    wrong, right = (
        [first.format(v), second.format(v), "[B01234-:R-:W-:-:S05] EXIT"] if v in values else [] for v in values
    )
    if name == "tensor_result":
        right.insert(1, "[B------:R-:W-:Y:S15] NOP")
        right.insert(1, "[B------:R-:W-:Y:S15] NOP")
    where = {0: "4*lane + 128*warp"} if "LDS" in first or "STS" in first else {}
    (found,) = {f.title: f for f in check(tmp_path, name, wrong, where).findings}.values()
    assert (found.tool, found.severity, found.title) == ("controlcheck", Severity.ERROR, title)
    assert [p.instruction.offset for p in found.points] == [0, 16]
    assert found.right
    assert check(tmp_path, name, right, where).findings == ()


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found(name: str, tmp_path: Path) -> None:
    code, (wrong, right), addresses, title = RACES[name]
    report = check(tmp_path, name, [line.format(wrong) for line in code], addresses)
    assert [f for f in report.errors if f.tool == "racecheck" and title in f.title], report.findings
    assert all(p.source is not None for f in report.findings for p in f.points)
    assert check(tmp_path, name, [line.format(right) for line in code], addresses).errors == []


def test_a_barrier_that_not_all_warps_reach_is_found(tmp_path: Path) -> None:
    code = ["[B------:R-:W-:-:S05] BAR.SYNC 0x1, 0x40", "[B------:R-:W-:-:S05] BAR.SYNC 0x2, 0x40", END]
    apart = "- {warp: 0, path: [0x0000, 0x0020]}\n- {warp: 1, path: [0x0010, 0x0020]}"
    (found,) = check(tmp_path, "apart", code, {}, apart).findings
    assert (found.tool, found.title) == ("synccheck", "Barrier error: divergent threads in CTA")
    together = "- {path: [0x0000, 0x0020]}"
    assert check(tmp_path, "together", code, {}, together).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "traces").rglob("*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_traces_that_ship_are_clean(path: Path) -> None:
    assert [f for f in gpuemu.check(path).findings if f.severity is not Severity.INFORMATION] == []


@pytest.mark.parametrize(
    ("arch", "reader", "stall", "found"),
    [
        ("sm_90", "HFMA2 R5, R4, R8, R9", 4, False), ("sm_90", "HFMA2 R5, R4, R8, R9", 3, True),
        ("sm_90", "IADD3 R5, R4, R8, R9", 4, True),
        ("sm_89", "HFMA2 R5, R4, R8, R9", 4, False), ("sm_89", "HFMA2 R5, R4, R8, R9", 3, True),
        ("sm_75", "HFMA2 R5, R4, R8, R9", 6, False), ("sm_75", "HFMA2 R5, R4, R8, R9", 5, True),
    ],
)  # fmt: skip
def test_halves_read_halves_a_cycle_sooner_but_not_on_sm_75(
    arch: str, reader: str, stall: int, found: bool, tmp_path: Path
) -> None:
    code = f"  [B------:R-:W-:-:S{stall:02d}] HFMA2 R4, R8, R9, R10\n  [B------:R-:W-:-:S05] {reader}\n"
    code += "  [B------:R-:W-:-:S05] EXIT"
    text = HEAD.format(name="halves", code=code, warps="- path: 0x0000-0x0020").replace("sm_89", arch)
    (tmp_path / "t.yaml").write_text(text)
    report = gpuemu.check(str(tmp_path / "t.yaml"))
    assert [f.title for f in report.findings] == ["Register RAW hazard"] * found
