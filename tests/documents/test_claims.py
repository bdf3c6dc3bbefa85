"""The pages on claims and ports say what runs say: written anew they are the same, and verdicts follow the evidence."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpuemu

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


def tool(name: str) -> Any:
    """A module of tools/, which import one another by their bare names."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))
    return importlib.import_module(name)


claim, claims, measured, port_study = (tool(name) for name in ("claim", "claims", "measured", "port_study"))
CHECKS = {c.number: c.check for c in claim.CLAIMS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claims", "port_study"])
def test_writing_the_page_again_changes_nothing(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, f"tools/{name}.py", "--check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"write it anew with: python tools/{name}.py\n{done.stdout}{done.stderr}"


def test_every_claim_has_a_number_of_its_own_and_one_of_four_verdicts() -> None:
    page = (ROOT / "validation" / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-E]\d+) \|.*\| \*\*(.*)\*\* \|$", page, re.MULTILINE)
    assert [number for number, _ in rows] == sorted(CHECKS, key=lambda n: (n[0], int(n[1:])))
    assert len(claim.CLAIMS) == len(CHECKS)
    assert {verdict for _, verdict in rows} <= set(claim.VERDICTS)
    counts = {letter: sum(number[0] == letter for number in CHECKS) for letter in "ABCDE"}
    assert counts == {"A": 12, "B": 4, "C": 7, "D": 24, "E": 13}


@pytest.mark.slow
def test_every_shipped_kernel_is_in_the_page() -> None:
    page = (ROOT / "validation" / "claims.md").read_text(encoding="utf-8")
    for trace in (ROOT / "traces").glob("*.yaml"):
        if gpuemu.load_trace(trace.stem).arch == "sm_89":  # those of Hopper's units run nowhere else
            assert f"| {trace.stem} | " in page


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [((True, True), "holds"), ((True, False), "holds in part"), ((False, False), "refuted"), ((False,), "refuted")],
)
def test_a_verdict_is_made_of_the_parts_of_a_claim(parts: tuple[bool, ...], verdict: str) -> None:
    assert claim.judge(*parts) == verdict


@pytest.mark.parametrize(("found", "same"), [(1.0, True), (1.2, True), (1.21, False), (0.8, True), (0.79, False)])
def test_ratios_are_the_same_within_a_fifth(found: float, same: bool) -> None:
    assert claim.same_ratio(found, 1.0) is same


@pytest.mark.parametrize(
    ("number", "kernel", "value", "verdict"),
    [
        ("A6", "v5_swizzle", {"store_conflicts": 2}, "refuted"),
        ("A4", "v3_padded", {"store_conflicts": 0}, "holds in part"),
        ("A6", "v5_swizzle", {"load_conflicts": 1}, "refuted"),
    ],
)
def test_other_hardware_counts_give_another_verdict(
    number: str, kernel: str, value: dict[str, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CHECKS[number]().verdict
    assert before in ("holds", "holds in part")
    monkeypatch.setitem(
        tool("claims_kernels").HARDWARE, kernel, {**measured.measured()["example_kernels"][kernel], **value}
    )
    assert CHECKS[number]().verdict == verdict


def test_other_cycles_give_another_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    times = tool("claims_times")
    for ratio, verdict in (
        (2.0, "holds"),
        (1.3, "holds in part"),
        (1.0, "cannot be judged on one SM"),
        (0.5, "refuted"),
    ):
        monkeypatch.setattr(times, "faster", lambda slow, fast, ratio=ratio: ratio)
        assert times._ratio("slow", "fast", 2.1)().verdict == verdict


def test_one_word_a_bank_and_wavefront_is_what_the_counts_allow() -> None:
    allowed = [ports for ports in port_study.PORTS_OF_A_BANK if port_study.counts_allow(*ports)]
    assert allowed == [(1, 1)]
    assert port_study.counted("v3_padded", 1, 2) == (12, 12)


def test_times_allow_a_topology_that_is_off_by_no_more_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = measured.measured()["ports"]
    for off, allowed in ((0.9, True), (1.1, False), (-0.9, True), (-1.1, False)):
        ratio = 1 + off * port_study.ALLOWED_MEAN_ERROR
        monkeypatch.setattr(port_study, "second_pass", lambda kernel, _, ratio=ratio: ratio * hardware[kernel])
        assert port_study.times_allow("unified:1") is allowed


@pytest.mark.slow
def test_a_cell_of_the_port_study_is_printed_by_its_command() -> None:
    page = (ROOT / "validation" / "ports.md").read_text(encoding="utf-8")
    row = re.search(r"^\| port_rw_128_w8 \| 33852 \| (\d+) \| \d+ \| (\d+) \|", page, re.MULTILINE)
    assert row is not None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for topology, cell in (("unified:1", row[1]), ("separate:1+1", row[2])):
        command = [sys.executable, "tools/port_study.py", "time", "port_rw_128_w8", topology]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f"{cell}\n"
    # One port for reads and writes is what the times allow.
    unified, separate = (abs(int(cell) / measured.measured()["ports"]["port_rw_128_w8"] - 1) for cell in row.groups())
    assert unified <= port_study.ALLOWED_MEAN_ERROR < separate


def test_a_page_that_is_out_of_date_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    with pytest.raises(SystemExit) as exit_status:
        measured.write_page("ports.md", lambda: "another page\n", None)
    assert exit_status.value.code == 1
    assert "+another page" in capsys.readouterr().out
