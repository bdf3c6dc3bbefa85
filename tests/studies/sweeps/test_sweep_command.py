"""What a person sees of `gpuemu sweep`."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import forked
import polars
import pytest
from forked import Ran

ROOT = Path(__file__).resolve().parents[3]
BANKS = ("--vary", "shared_memory.banks=16,32,64", "--vary", "shared_memory.bank_width_bytes=4,8")


def rows(store: Path) -> int:
    """The points that a store has; 0 while another has it, or where there is none."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(store, timeout=0)) as file:
        try:
            found: int = file.execute("select count(*) from results").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
        return found


Sweep = Callable[..., Ran]
Golden = Callable[..., None]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpuemu", "sweep", *arguments]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """The command, in a folder of its own."""

    def sweep(*arguments: str, **environment: str) -> Ran:
        return forked.gpuemu("sweep", *arguments, cwd=tmp_path, **{**ENVIRONMENT, **environment})

    return sweep


AT_ONCE = """
import sys
from gpuemu.cli import progress
from gpuemu.cli.main import main
progress.AFTER_SECONDS = 0.0
sys.argv[1:] = ["sweep", *sys.argv[1:]]
main()
"""
"""The command with a bar from the start, however short the work."""
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p), "COLUMNS": "120"}


@pytest.mark.slow
def test_a_grid_is_a_table_and_again_the_same_table(sweep: Sweep, tmp_path: Path, golden: Golden) -> None:
    first = sweep("v2_shared_memory", *BANKS, "--arch", "sm_89")
    assert (first.status, first.errors) == (0, "")
    golden("sweep_v2_banks_and_widths.txt", first.output)
    kept = (tmp_path / "gpuemu_sweep.sqlite").read_bytes()
    assert rows(tmp_path / "gpuemu_sweep.sqlite") == 6
    environment = {**os.environ, **ENVIRONMENT, "PYTHONHASHSEED": "7"}
    command_again = command("v2_shared_memory", *BANKS, "--arch", "sm_89")
    again = subprocess.run(command_again, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, first.output)
    assert again.stderr == "6 of 6 points were in gpuemu_sweep.sqlite already\n"
    assert (tmp_path / "gpuemu_sweep.sqlite").read_bytes() == kept


@pytest.mark.slow
def test_a_larger_grid_runs_only_what_is_new(sweep: Sweep, tmp_path: Path) -> None:
    sweep("v2_shared_memory", *BANKS)
    more = sweep("v2_shared_memory", "v5_swizzle", "--vary", "shared_memory.bank_width_bytes=8,16,4", *BANKS[:2])
    assert more.errors == "6 of 18 points were in gpuemu_sweep.sqlite already\n"
    assert rows(tmp_path / "gpuemu_sweep.sqlite") == 18


def test_the_help_teaches(sweep: Sweep, golden: Golden) -> None:
    ran = sweep("--help", COLUMNS="80")
    golden("sweep_help.txt", ran.output)


@pytest.mark.slow
def test_files_are_written_as_their_endings_say(sweep: Sweep, tmp_path: Path) -> None:
    for name in ("o.csv", "o.json", "o.parquet", "o.txt"):
        ran = sweep("v2_shared_memory", *BANKS, "-o", name, "--plot", "p.png")
        assert (ran.status, ran.output) == (0, "")
    found = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert len(found) == 6
    assert polars.read_parquet(tmp_path / "o.parquet").to_dicts() == found
    rows = list(csv.DictReader((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["cycles"] for row in rows] == [str(record["cycles"]) for record in found]
    assert (tmp_path / "o.txt").read_text(encoding="utf-8") == sweep("v2_shared_memory", *BANKS).output
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(sweep("v2_shared_memory", *BANKS, "--format", "json").output) == found


def test_no_store_leaves_nothing_behind(sweep: Sweep, tmp_path: Path) -> None:
    assert sweep("v2_shared_memory", *BANKS, "--no-store").status == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_study_file_and_what_the_command_line_adds(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "banks.yaml").write_text(
        "gpuemu_study: 1\ntraces: v2_shared_memory\narch: sm_80\nset: {mio.queue_entries: 2, mio.pool_entries: 9}\n"
        "vary: {shared_memory.banks: [16, 32]}\n",
        encoding="utf-8",
    )
    plain = sweep("--study", "study/banks.yaml")
    assert plain.output.startswith("v2_shared_memory on sm_80, ")
    changed = sweep(
        "v5_swizzle",
        "--study",
        "study/banks.yaml",
        "--arch",
        "sm_89",
        "--set",
        "mio.queue_entries=4",
        "--format",
        "json",
    )
    expected = sweep(
        "v5_swizzle", "--arch", "sm_89", "--vary", "shared_memory.banks=16,32", "--set", "mio.queue_entries=4",
        "--set", "mio.pool_entries=9", "--format", "json",
    )  # fmt: skip
    assert changed.output == expected.output
    assert "2 of 2 points were in" in expected.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "gpuemu sweep: there is no trace"),
        (
            ("v5_swizzle", "--vary", "shared_memory.banks=16,0"),
            "--vary: shared_memory.banks: found 0",
        ),
        (
            ("v5_swizzle", "--vary", "shared_memory.bank_width_bytes=4,24"),
            "--vary: shared_memory.bank_width_bytes: found 24",
        ),
        (
            ("v5_swizzle", "--set", "banks=3"),
            "--set: banks: unknown name",
        ),
        (
            ("v5_swizzle", "--study", "none.yaml"),
            "none.yaml: no such file",
        ),
        (
            ("v5_swizzle", "--format", "parquet"),
            "--format: parquet cannot be printed",
        ),
        (("v5_swizzle", "--plot", "p.gif"), "p.gif: found the ending '.gif'"),
        (("v5_swizzle", "-o", "none/o.csv"), "none/o.csv: its folder does not exist"),
        (
            ("v5_swizzle", "--jobs", "2", "--cluster", "local:2"),
            "--jobs: --cluster is given as well",
        ),
        (
            ("v5_swizzle", "--cluster", "here"),
            "--cluster: found 'here'",
        ),
    ],
)
def test_bad_input_is_told_and_nothing_is_written(
    arguments: tuple[str, ...], message: str, sweep: Sweep, tmp_path: Path
) -> None:
    ran = sweep(*arguments)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_store_is_left_alone(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n", encoding="utf-8")
    ran = sweep("v5_swizzle", "--store", "mine.txt")
    assert (ran.status, ran.errors.partition(". ")[0]) == (
        2,
        "error: mine.txt: something else than results of a sweep, or a damaged file",
    )
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "mine\n"


def test_points_that_fail_are_shown_with_their_reason_and_exit_with_1(
    sweep: Sweep, tile_file: str, tmp_path: Path
) -> None:
    arguments = (tile_file, "--vary", "layout.pitch=128,130,132")
    ran = sweep(*arguments, "--format", "json")
    assert ran.status == 1
    assert [record["status"] for record in json.loads(ran.output)] == ["ok", "failed", "ok"]
    again = sweep(*arguments)
    assert again.status == 1
    assert "1 of 3 points failed\n  1x " in again.output
    assert "3 of 3 points were in" in again.errors  # what cannot run is not tried over and over


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals on this system")
def test_a_terminal_sees_a_progress_bar_that_is_gone_afterwards(slow_trace: str, tmp_path: Path) -> None:
    master, slave = os.openpty()
    arguments = (slow_trace, "--vary", "shared_memory.latency_cycles=20..49", "--no-store", "--format", "csv")
    running = subprocess.Popen(
        [sys.executable, "-c", AT_ONCE, *arguments], cwd=tmp_path, env={**os.environ, **ENVIRONMENT, "TERM": "xterm"},
        stdout=subprocess.PIPE, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    heard = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        heard += part
    os.close(master)
    output, _ = running.communicate()
    assert running.returncode == 0
    assert output.count(b"\n") == 31
    assert b"\x1b" not in output
    assert b"running points" in heard
    assert b"/30" in heard
    assert heard.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h"))  # the line is wiped


def wait_until_some_are_kept(store: Path, running: subprocess.Popen[Any]) -> None:
    """The sweep has the file to itself; it grows with what is written."""
    empty = 0
    while running.poll() is None:
        size = store.stat().st_size if store.exists() else 0
        empty = empty or size
        if size > empty + 4096:
            return
        time.sleep(0.01)


def _as_in_a_terminal() -> None:
    """A shell without job control lets what runs in its background ignore Ctrl-C, these tests for instance."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize("places", [("--jobs", "1"), ("--jobs", "2"), ("--cluster", "local:2")])
def test_ctrl_c_says_how_to_go_on_and_going_on_loses_nothing(
    places: tuple[str, ...], slow_trace: str, tmp_path: Path, sweep: Sweep
) -> None:
    arguments = (slow_trace, "--vary", "shared_memory.latency_cycles=20..119", *places)
    running = subprocess.Popen(
        command(*arguments), cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_as_in_a_terminal,
    )  # fmt: skip
    store = tmp_path / "gpuemu_sweep.sqlite"
    wait_until_some_are_kept(store, running)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    output, errors = running.communicate()
    assert (running.returncode, output) == (130, "")
    kept = rows(store)
    assert 0 < kept < 100
    assert errors == (
        f"interrupted: {kept} of 100 points are in gpuemu_sweep.sqlite; the same command goes on from there\n"
    )
    done = sweep(*arguments[:3], "--format", "json")
    assert done.errors == f"{kept} of 100 points were in gpuemu_sweep.sqlite already\n"
    assert rows(store) == 100
    found = json.loads(done.output)
    assert [record["shared_memory.latency_cycles"] for record in found] == list(range(20, 120))
    assert {record["status"] for record in found} == {"ok"}


@pytest.mark.slow
def test_a_sweep_that_is_killed_outright_goes_on_as_well(slow_trace: str, tmp_path: Path, sweep: Sweep) -> None:
    arguments = (slow_trace, "--vary", "shared_memory.latency_cycles=20..119", "--jobs", "2")
    running = subprocess.Popen(
        command(*arguments), cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL
    )
    store = tmp_path / "gpuemu_sweep.sqlite"
    wait_until_some_are_kept(store, running)
    running.kill()
    running.wait()
    kept = rows(store)
    assert 0 < kept < 100
    done = sweep(*arguments)
    assert (done.status, done.errors) == (0, f"{kept} of 100 points were in gpuemu_sweep.sqlite already\n")
