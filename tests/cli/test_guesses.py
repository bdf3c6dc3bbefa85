"""Instructions that no rule times are named, with their count, by every output that shows a time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.cli.pages import PAGES
from gpuemu.isa import opcodes

ROOT = Path(__file__).resolve().parents[2]
NAMED = "QSPC (2)"
NOTE = f"no rule times {NAMED}: their cycles are guesses, and so are the waits for them"
WITHOUT = "QSPC"
"""Of these no rule says how long they take."""
WITH = (
    "IMAD.WIDE LDG.E.128 LDGSTS.E.128 HMMA.16816.F32 LDSM.16.M88.4 S2R BAR.SYNC MUFU.EX2 DEPBAR.LE SHFL.IDX STS CS2R "
    "UTMAPF.L2.2D UBLKPF.L2 CCTL.IVALL USETMAXREG.DEALLOC.CTAPOOL UTMALDG.2D UTMASTG.3D UTMAREDG.1D.ADD UTMACMDFLUSH UTMACCTL.IV UBLKCP.S.G UBLKRED.G.S.ADD SYNCS.EXCH.64 "
    "SYNCS.ARRIVE.TRANS64.A1T0 SYNCS.PHASECHK.TRANS64 HGMMA.64x64x16.F32 IGMMA.64x8x32.S8.S8 FENCE.VIEW.ASYNC "
    "QGMMA.64x8x32.F32.E4M3.E4M3 ERRBAR CGAERRBAR UCGABAR_ARV UCGABAR_WAIT WARPGROUP.ARRIVE WARPGROUP.DEPBAR.LE MEMBAR.SC.GPU"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace k.yaml with three such instructions, and one plain.yaml without."""
    text = (ROOT / "traces" / "v2_shared_memory.yaml").read_text()
    (tmp_path / "plain.yaml").write_text(text)
    for offset, opcode in (("00b0", "QSPC.E.S P0, RZ, [R2]"), ("00c0", "ERRBAR"), ("01b0", "QSPC.E.S P0, RZ, [R2]")):
        text = re.sub(rf"(  {offset}: \[[^\]]*\]) .*", rf"\1 {opcode}", text)
    (tmp_path / "k.yaml").write_text(text)
    return tmp_path


def said(folder: Path, *words: str) -> tuple[str, str]:
    """What a command writes on stdout and stderr, lines put together."""
    ran = CliRunner().invoke(cli, [str(folder / w) if w.endswith((".yaml", ".csv")) else w for w in words])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return " ".join(ran.stdout.split()), ran.stderr


def test_which_instructions_no_rule_times() -> None:
    assert [o for o in WITHOUT.split() if not opcodes.is_guessed(o)] == []
    assert [o for o in WITH.split() if opcodes.is_guessed(o)] == []


@pytest.mark.parametrize(("page", "form"), [(page, form) for page, forms in PAGES.items() for form in forms])
def test_every_page_of_a_run_has_the_note(page: str, form: str, folder: Path) -> None:
    """In Markdown the bracket is escaped; rows alone have it beside them."""
    out, err = said(folder, "run", "k.yaml", "--page", page, "--format", form)
    rows = form == "csv" or (form == "json" and page != "summary")
    assert (f"note: {NOTE}\n" == err) if rows else (NOTE in out), out[:2000]
    out, err = said(folder, "run", "plain.yaml", "--page", page, "--format", form)
    assert "no rule times" not in out + err


def test_data_have_it_among_their_notes(folder: Path) -> None:
    ran = CliRunner().invoke(cli, ["run", str(folder / "k.yaml"), "--format", "json"])
    assert json.loads(ran.stdout)["notes"] == [NOTE]
    why = CliRunner().invoke(cli, ["why", str(folder / "k.yaml"), "--only", "conflicts", "--format", "json"])
    assert NOTE in json.loads(why.stdout)["notes"]


@pytest.mark.slow
def test_studies_have_it(folder: Path) -> None:
    assert NOTE in said(folder, "why", "k.yaml", "--only", "conflicts")[0]
    assert said(folder, "why", "k.yaml", "--only", "conflicts", "--format", "csv")[1].endswith(f"note: {NOTE}\n")
    vary = ("--vary", "shared_memory.banks=16,32", "--no-store", "--jobs", "1")
    out, _ = said(folder, "sweep", "k.yaml", "plain.yaml", *vary)
    assert out.count("no rule times QSPC of ") == 1
    rows = json.loads(said(folder, "sweep", "k.yaml", "plain.yaml", *vary, "--format", "json")[0])
    assert [row["guessed"] for row in rows] == ["QSPC"] * 2 + [""] * 2
    assert "guessed" not in said(folder, "sweep", "plain.yaml", *vary, "--format", "csv")[0]


def test_a_difference_says_of_which_run_it_is(folder: Path) -> None:
    assert f"B: {NOTE}" in said(folder, "diff", "plain.yaml", "k.yaml")[0]
    assert f" {NOTE} " in said(folder, "diff", "k.yaml", "k.yaml")[0]
    assert f"A: {NOTE}" in said(folder, "diff", "k.yaml", "plain.yaml", "--format", "github")[0]
    both = json.loads(said(folder, "diff", "plain.yaml", "k.yaml", "--format", "json")[0])
    assert both["notes"] == [f"B: {NOTE}"]


def test_a_comparison_has_it(folder: Path) -> None:
    (folder / "p.csv").write_text(
        '"ID","Kernel Name","Grid Size","Block Size","smsp__inst_executed.sum"\n"","","","","inst"\n'
        '"0","v2_shared_memory","(1, 1, 1)","(32, 1, 1)","37"\n'
    )
    assert NOTE in said(folder, "compare", "k.yaml", "p.csv")[0]
    assert NOTE in json.loads(said(folder, "compare", "k.yaml", "p.csv", "--format", "json")[0])["notes"]
    assert said(folder, "compare", "k.yaml", "p.csv", "--format", "csv")[1].endswith(f"note: {NOTE}\n")


def test_notebooks_have_it(folder: Path) -> None:
    result = gpuemu.run(folder / "k.yaml")
    assert result.notes == (NOTE,)
    assert NOTE in repr(result)
    assert NOTE in result._repr_html_()
    assert NOTE in repr(gpuemu.why(folder / "k.yaml", only=["conflicts"]))


@pytest.mark.slow
def test_pytest_has_it_in_its_summary(folder: Path) -> None:
    (folder / "test_k.py").write_text("def test_k(gpu_kernel):\n    assert gpu_kernel('k.yaml').cycles\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_k.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"GuessedTimeWarning: v2_shared_memory: {NOTE}" in ran.stdout
