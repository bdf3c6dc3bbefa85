"""Traces of Accel-Sim on the command line: every command that takes a trace takes them, and `gpuemu trace` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.trace.accel_sim.form import ACCEL_SIM


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Result:
        return CliRunner().invoke(cli, list(words))

    assert command("trace", "v2_shared_memory", "-o", "v2.traceg").exit_code == 0
    assert command("trace", "v5_swizzle", "--arch", "sm_89", "-o", "v5.traceg.xz").exit_code == 0
    Path("kernelslist.g").write_text("MemcpyHtoD,0x00007f0000000000,512\nv2.traceg\nv5.traceg\n", encoding="utf-8")
    return command


def failed(result: Result) -> str:
    """What a command refused; it writes nothing."""
    assert result.exit_code == 2 or isinstance(result.exception, (GpuemuError, click.ClickException))
    assert result.stdout == ""
    return result.stderr or str(result.exception)


def test_a_written_trace_runs_by_its_file_or_from_a_list(run) -> None:
    alone = run("run", "v5.traceg.xz", "--fail-on", "excess_wavefronts>0")
    assert alone.exit_code == 0, alone.output
    assert alone.stdout.startswith("v5_swizzle on sm_89, RTX 4060 Ti")
    assert "no control words in the trace: a register" in " ".join(alone.stdout.split())
    by_name = run("run", "kernelslist.g", "--kernel", "v5").stdout
    assert by_name.partition("\nNext ")[0] == alone.stdout.partition("\nNext ")[0]
    assert "gpuemu why kernelslist.g --kernel v5" in by_name
    assert run("run", "kernelslist.g", "--kernel", "v5_swizzle", "--arch", "sm_86").exit_code == 0
    assert run("run", "v2.traceg", "--fail-on", "excess_wavefronts>0").exit_code == 1


@pytest.mark.slow
def test_every_form_and_page_takes_one(run) -> None:
    data = json.loads(run("run", "v2.traceg", "--format", "json").stdout)
    assert data["dependences"] == "register_scoreboard"
    assert data["notes"][1] == ACCEL_SIM
    source = run("run", "v2.traceg", "--page", "source").stdout
    assert "(source):29" in source
    assert "HMMA.16816" in source
    assert run("run", "v2.traceg", "--page", "timeline").exit_code == 0
    assert run("run", "v2.traceg", "--format", "html", "-o", "v2.html").exit_code == 0
    assert ACCEL_SIM in Path("v2.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_studies_take_one(run) -> None:
    causes = run("why", "v2.traceg").stdout
    assert "Repeat one row: --only stall.long_scoreboard" in causes
    assert run("why", "kernelslist.g", "--kernel", "v2").stdout == causes
    repeats = [row["repeat"] for row in json.loads(run("why", "v2.traceg", "--format", "json").stdout)["causes"]]
    assert any(
        " ".join(line).startswith("gpuemu run v2.traceg --set") for line in map(str.split, filter(None, repeats))
    )
    named = run("why", "kernelslist.g", "--kernel", "v2", "--format", "json").stdout
    assert "--kernel v2" in named
    assert "wavefronts" in run("diff", "v2.traceg", "v5.traceg.xz").stdout
    swept = run("sweep", "v2.traceg", "--vary", "shared_memory.banks=16,32", "--no-store", "--jobs", "1")
    assert swept.exit_code == 0, swept.output
    assert swept.stdout.startswith("v2.traceg on sm_89, 1,536 bytes of shared memory per CTA\n")
    checked = run("check", "kernelslist.g", "--kernel", "v2")
    assert checked.exit_code == 0
    assert "controlcheck (the trace has no control words)" in checked.stdout


def test_forms_are_turned_into_each_other(run) -> None:
    plain = Path("v2.traceg").read_bytes()
    assert run("trace", "v2.traceg", "-o", "again.traceg.xz").exit_code == 0
    assert run("trace", "again.traceg.xz", "-o", "again.traceg").exit_code == 0
    assert Path("again.traceg").read_bytes() == plain
    done = run("trace", "kernelslist.g", "--kernel", "v5", "-o", "v5.yaml")
    assert done.stdout == "v5.yaml: v5_swizzle, 54 warp instructions of 1 warp\n"
    assert run("run", "v5.yaml", "--fail-on", "excess_wavefronts>0").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "kernelslist.g"),
            "kernelslist.g: the list has 2 kernels",
        ),
        (("run", "kernelslist.g", "--kernel", "v3"), "kernelslist.g: no kernels of 2 are called 'v3'"),
        (
            ("run", "kernelslist.g", "--kernel", "v2", "--grid", "2"),
            "kernelslist.g: a trace takes no --grid",
        ),
        (("run", "v2.traceg", "--kernel", "v2"), "v2.traceg: a trace takes no --kernel"),
        (
            ("run", "v2.traceg", "--set", "layout.pitch=3"),
            "v2.traceg: layout: unknown name 'pitch'. A trace of",
        ),
        (
            ("run", "v3.traceg"),
            "v3.traceg: no such file",
        ),
        (
            ("run", "bad.traceg"),
            "bad.traceg:1: found 'no header'",
        ),
        (("run", "cut.traceg.xz"), "cut.traceg.xz: found a packed file that is cut off"),
        (("diff", "v2.traceg", "bad.traceg"), "bad.traceg:1: found 'no header'"),
        (
            ("diff", "v2.traceg", "kernelslist.g"),
            "kernelslist.g: the list has 2 kernels",
        ),
        (("sweep", "bad.traceg", "--vary", "shared_memory.banks=16"), "bad.traceg:1: found 'no header'"),
        (
            ("check", "bad.traceg"),
            "bad.traceg:1: found 'no header'",
        ),
        (("check", "v2.traceg", "--block", "64"), "v2.traceg: a trace takes no --block"),
        (("trace", "bad.traceg", "-o", "x.yaml"), "bad.traceg:1: found 'no header'"),
        (
            ("trace", "v2.traceg", "--name", "a=B:1,2,3", "-o", "x.yaml"),
            "--name: a trace does not take it",
        ),
        (
            ("trace", "k.cu", "--name", "a=B:1,2,3", "-o", "x.traceg"),
            "--name: x.traceg cannot hold it",
        ),
        (
            ("trace", "k.cu", "--with-source", "-o", "x.traceg"),
            "--with-source: x.traceg cannot hold it",
        ),
        (
            ("trace", "v5_swizzle", "-o", "x.g"),
            "-o: 'x.g' is the name of a list of kernels",
        ),
        (
            ("trace", "v2_shared_memory", "-o", "no/x.traceg"),
            "no/x.traceg: no such file or directory",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(run, words: tuple[str, ...], message: str) -> None:
    Path("bad.traceg").write_text("no header\n", encoding="utf-8")
    Path("cut.traceg.xz").write_bytes(Path("v5.traceg.xz").read_bytes()[:-8])
    before = sorted(Path().iterdir())
    said = failed(run(*words))
    assert said.startswith(message)
    assert "\n" not in said.strip()
    assert sorted(Path().iterdir()) == before
