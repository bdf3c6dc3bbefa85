"""The progress bar: on a terminal, after two seconds, and nowhere else."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuemu
from gpuemu.cli import progress
from gpuemu.cli.progress import ProgressBar

pty = pytest.importorskip("pty", reason="pseudo-terminals are a Unix matter")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(condition: Callable[[], object]) -> None:
    """Long enough for a busy machine; what never comes fails the assertion that follows."""
    limit = time.monotonic() + 30
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.usefixtures("at_once")
def test_without_a_terminal_nothing_is_written_in_the_first_minute() -> None:
    before, stream = threading.active_count(), io.StringIO()
    with ProgressBar("executing", ctas=3, stream=stream) as bar:
        bar.count_ctas(1, 3)
        time.sleep(0.05)
    assert stream.getvalue() == ""
    assert threading.active_count() == before
    assert progress.LINE_SECONDS == 60


@pytest.mark.parametrize(
    ("watched", "line"),
    [
        (lambda bar: bar.count_ctas(3, 8), r"working: 3/8 CTAs, 0 s"),
        (
            lambda bar: (bar.count_ctas(3, 8), bar.watch(lambda: 1203402)),
            r"working: 3/8 CTAs  1,203,402 warp instructions, 0 s",
        ),
        (lambda bar: bar.count_runs(40, 72), r"working: 40/72 runs, 0 s"),
        (lambda bar: bar.compiles(False), r"compiling the engine, once for all runs: 0 s, 0 s"),
        (lambda bar: None, r"working: 0 s"),
    ],
)
def test_without_a_terminal_a_line_is_written_each_minute(
    watched: Callable[[ProgressBar], object], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.1)
    stream = io.StringIO()
    with ProgressBar("working", stream=stream) as bar:
        watched(bar)
        wait_for(lambda: stream.getvalue().count("\n") >= 2)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2
    assert re.fullmatch(line, lines[0])
    assert "\x1b" not in stream.getvalue()


def test_a_reader_that_is_gone_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        asked = 0

        def write(self, text: str) -> int:
            self.asked += 1
            raise BrokenPipeError

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    stream = Gone()
    with ProgressBar("working", stream=stream):
        wait_for(lambda: stream.asked)
        time.sleep(0.05)
    assert stream.asked == 1


@pytest.mark.usefixtures("at_once")
def test_one_long_cta_shows_the_instructions_so_far() -> None:
    stream, done = Terminal(), 0
    with ProgressBar("executing", stream=stream) as bar:
        bar.watch(lambda: done)
        wait_for(lambda: "executing" in stream.getvalue())
        done = 1_234_567
        wait_for(lambda: "1,234,567" in stream.getvalue())
    assert "1,234,567 warp instructions" in plain(stream.getvalue())
    assert "CTAs" not in stream.getvalue()


@pytest.mark.usefixtures("at_once")
def test_what_counts_nothing_shows_the_time_alone() -> None:
    stream = Terminal()
    with ProgressBar("compiling", stream=stream):
        wait_for(lambda: "0:00:0" in stream.getvalue())
    assert re.search(r"compiling \S+ +0:00:0\d", plain(stream.getvalue()))


@pytest.mark.usefixtures("at_once")
def test_several_ctas_are_counted() -> None:
    stream = Terminal()
    with ProgressBar("executing", ctas=8, stream=stream) as bar:
        bar.watch(lambda: 500)
        bar.count_ctas(3, 8)
        wait_for(lambda: "3/8" in stream.getvalue())
    assert "3/8 CTAs  500 warp instructions" in plain(stream.getvalue())


def test_time_is_left_for_the_ctas_that_execute_and_not_for_the_whole_grid() -> None:
    bar = ProgressBar("executing", ctas=1024, stream=Terminal())
    drawn = bar._bar()
    (task,) = drawn.task_ids
    bar.count_ctas(2, 3)
    bar._update(drawn, task)
    assert (drawn.tasks[0].completed, drawn.tasks[0].total) == (2, 3)


@pytest.mark.usefixtures("at_once")
def test_a_replay_counts_towards_its_end() -> None:
    stream = Terminal()
    with ProgressBar("replaying", instructions=2000, stream=stream) as bar:
        bar.watch(lambda: 1500)
        wait_for(lambda: "1,500" in stream.getvalue())
    assert "1,500 of 2,000 warp instructions" in plain(stream.getvalue())


@pytest.mark.usefixtures("at_once")
def test_a_replay_shows_that_the_engine_is_compiled_first_and_for_how_long() -> None:
    stream = Terminal()
    with ProgressBar("replaying", instructions=2000, stream=stream) as bar:
        for waits, word in ((True, "waiting for another process that"), (False, "compiling the engine, once")):
            bar.observer.compiles(waits)
            wait_for(lambda word=word: re.search(rf"{word}.*\d s", plain(stream.getvalue())))
            assert re.search(rf"{word}.*\d s", plain(stream.getvalue()))
        bar.observer.begins(lambda: 1500)
        wait_for(lambda: "1,500" in stream.getvalue())
    assert "replaying" in plain(stream.getvalue()).split("1,500")[-2].splitlines()[-1]


def test_what_ends_within_two_seconds_draws_nothing() -> None:
    assert progress.AFTER_SECONDS == 2
    stream = Terminal()
    with ProgressBar("executing", stream=stream) as bar:
        bar.watch(lambda: 1)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_the_bar_goes_when_the_computation_fails() -> None:
    before, stream = threading.active_count(), Terminal()

    def fails() -> None:
        with ProgressBar("executing", stream=stream):
            wait_for(lambda: "executing" in stream.getvalue())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert threading.active_count() == before
    assert "\x1b[2K" in stream.getvalue()  # its line is erased


def long_trace(rounds: int) -> gpuemu.TraceBuilder:
    trace = gpuemu.TraceBuilder("long", arch="sm_90", block=(32, 1, 1))
    with trace.repeat(rounds):
        for i in range(10):
            trace.emit(f"IADD3 R{i}, R1, R2, R3", control="B------:R-:W-:-:S04")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return trace


def test_the_engine_tells_what_it_has_issued() -> None:
    counts: list[Callable[[], int]] = []
    gpuemu.run(long_trace(30).build(), gpuemu.load_arch("sm_90"), observer=progress._observer(counts.append))
    assert [count() for count in counts] == [301]


RUN = """
import sys
import rich.progress
from gpuemu.cli import progress
from gpuemu.cli.main import main
progress.AFTER_SECONDS = 0.0
sys.argv[1:] = ["run", *sys.argv[1:], "--arch", "sm_90"]
main()
"""


LONG_KERNEL = """
extern "C" __global__ void long_loop(unsigned *out, unsigned rounds) {
    unsigned x = threadIdx.x;
    #pragma unroll 1
    for (unsigned i = 0; i < rounds; i++) x = x * 1664525u + out[x % 32u];
    out[threadIdx.x] = x;
}
"""


def run_of(arguments: list[str], terminal: bool) -> tuple[bytes, bytes]:
    """Standard output and standard error of a run whose standard error is a terminal, or is not."""
    command = [sys.executable, "-c", RUN, *arguments]
    if not terminal:
        done = subprocess.run(command, capture_output=True, check=True, env=os.environ | {"COLUMNS": "120"})
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, seen
    return out, seen


@pytest.mark.slow
def test_a_terminal_sees_the_bar_and_a_file_sees_none(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    long_trace(60_000).write(path)
    watched, seen = run_of([str(path)], terminal=True)
    assert "replaying" in plain(seen.decode())
    assert "of 600,001 warp instructions" in plain(seen.decode())
    unwatched, errors = run_of([str(path)], terminal=False)
    assert errors == b""
    assert watched == unwatched


@pytest.mark.slow
def test_a_terminal_sees_the_bar_of_one_long_cta(tmp_path: Path) -> None:
    path = tmp_path / "long.cu"
    path.write_text(LONG_KERNEL)
    arguments = [str(path), "--arg", "zeros:u32:32", "--arg", "10000"]
    watched, seen = run_of(arguments, terminal=True)
    assert re.search(r"executing .*[0-9],[0-9]{3} warp instructions", plain(seen.decode()))
    unwatched, errors = run_of(arguments, terminal=False)
    assert errors == b""
    assert watched == unwatched


@pytest.mark.usefixtures("at_once")
def test_runs_are_counted_towards_their_end() -> None:
    stream = Terminal()
    with ProgressBar("simulating causes", runs=1, stream=stream) as bar:
        bar.count_runs(40, 72)
        wait_for(lambda: "40/72" in stream.getvalue())
    assert "40/72 runs" in plain(stream.getvalue())
