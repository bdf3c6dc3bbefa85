"""What leaves for the terminal: names show their control characters, and a stream that takes nothing is said."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import UNREAD, gpuemu

from gpuemu.base.errors import Problem
from gpuemu.base.shown import shown
from gpuemu.cli.main import COMMANDS
from gpuemu.cli.terminal import OutputError, Terminal, style, terminals

GPUEMU = [sys.executable, "-m", "gpuemu"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": ""}
CUT_OFF = "error: standard output: cannot write ({}). The output is incomplete.\n"
EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f"
PRINTING = {
    "run": ["v5_swizzle", "--arch", "sm_89"], "why": ["v2_shared_memory"], "check": ["v5_swizzle"],
    "diff": ["v4_ldmatrix", "v5_swizzle"], "banks": ["LDS", "--lanes", "4*lane"],
    "traces": [], "fragment": ["m16n8k16.f32.f16"],
    "search": ["--tile", "32x32:f32", "--access", "copy-in:32"], "engine": ["show"], "arch": ["list"],
    "sweep": ["v5_swizzle", "--no-store", "--jobs", "1"],
}  # fmt: skip
"""Of each command words with which it prints; the others are asked for help."""


def test_control_characters_are_written_out_as_json_writes_them() -> None:
    assert shown("a\x1b[2J\x07\r\x9b\u202e\udcff\x7f") == "a\\u001b[2J\\u0007\\u000d\\u009b\\u202e\\udcff\\u007f"
    assert shown("a\tb\nc\r\nd \u00e9\u6f22") == "a\tb\nc\r\nd \u00e9\u6f22"
    assert json.loads(shown('"\x7f\x1b"')) == "\x7f\x1b"
    assert "\n" not in str(Problem("a\nb", 1, "", "x\x1b", "y"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "how"),
    [
        *((name, "full") for name in sorted(COMMANDS)),
        ("traces", "closed"),
        ("run", "closed"),
    ],
)
def test_a_stream_that_takes_nothing_is_one_line_and_exit_code_2(command: str, how: str, tmp_path: Path) -> None:
    words = [command, *PRINTING[command]] if how == "full" and command in PRINTING else [command, "--help"]
    if how == "closed":
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *GPUEMU, *words], env=ENVIRONMENT, cwd=tmp_path,
                              stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
        status, said = done.returncode, done.stderr
    else:
        ran = gpuemu(*words, cwd=tmp_path, output="/dev/full")
        status, said = ran.status, ran.errors
    assert said.endswith(CUT_OFF.format("no space left on device" if how == "full" else how))
    assert "Traceback" not in said
    assert status == 2


READ_IN_PART = [
    *(([name, *PRINTING.get(name, ["--help"])], 0) for name in COMMANDS),
    (["--help"], 0),
    (["run", "v5_swizzle", "--page", "timeline", "--format", "json"], 0),
    (["run", "v5_swizzle", "--page", "source"], 0),
    (["run", "v2_shared_memory", "--format", "json", "--fail-on", "cycles>0"], 1),
    (["arch", "show", "sm_90"], 0),
    (["arch", "diff", "sm_80", "sm_89"], 0),
    (["layout", "Swizzle<3,3,3>", "--tile", "64x64:f16"], 0),
    (["run", "no_such_trace"], 2),
]
"""Commands that print, each with its exit code."""


@pytest.mark.slow
@pytest.mark.parametrize(("words", "status"), READ_IN_PART, ids=[" ".join(words) for words, _ in READ_IN_PART])
def test_a_reader_that_stops_early_is_no_error_and_changes_no_exit_code(
    words: list[str], status: int, tmp_path: Path
) -> None:
    ran = gpuemu(*words, cwd=tmp_path, output=UNREAD)
    assert ran.status == status
    assert not any(word in ran.errors for word in ("standard output", "Traceback", "BrokenPipe", "Exception ignored"))
    assert status or ran.errors == ""


@pytest.mark.slow
def test_output_of_many_pieces_and_both_streams_in_one_pipe_end_quietly(tmp_path: Path) -> None:
    lines = "run v5_swizzle --page timeline --format json", "traces", "run no_such_trace"
    for line, status in zip(lines, (0, 0, 2), strict=True):
        script = f'{sys.executable} -u -m gpuemu {line} 2>&1 | head -n 1 >/dev/null; echo "${{PIPESTATUS[0]}}"'
        done = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert (done.stdout, done.stderr) == (f"{status}\n", "")


@pytest.mark.slow
def test_a_verdict_does_not_turn_into_a_success_where_nobody_reads_it() -> None:
    words = ["run", "v2_shared_memory", "--fail-on", "cycles>0"]
    with open("/dev/full", "w") as stream:
        done = subprocess.run([*GPUEMU, *words], stdout=stream, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert done.returncode == 2


@pytest.mark.slow
def test_where_standard_error_takes_nothing_the_exit_code_says_it_all() -> None:
    with open("/dev/full", "w") as stream:
        for words, status in ((["run", "no_such_trace"], 2), (["traces"], 0)):
            done = subprocess.run(
                [*GPUEMU, *words], stderr=stream, stdout=subprocess.PIPE, env=ENVIRONMENT, check=False
            )
            assert done.returncode == status


def evil_trace(folder: Path) -> Path:
    path = folder / f"{EVIL}.yaml"
    text = json.dumps(EVIL)
    path.write_text(
        f"gpuemu_trace: 1\nkernel: {text}\narch: sm_89\nabout: {text}\nlaunch: {{static_shared_bytes: 4096}}\ncode: |\n"
        "  LDS R4, [R1]\n  EXIT\nwarps:\n- addresses: {0x0: 4*lane}\n"
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [["run"], ["run", "--page", "source"], ["run", "--format", "json"], ["why"], ["check"], ["run", "--no-such"],
     ["diff", "v5_swizzle"], ["run", "--set", EVIL], ["sweep", "--no-store", "--jobs", "1"], ["run", "--format", "github"]],
    ids=" ".join,
)  # fmt: skip
def test_no_command_sends_the_control_characters_of_a_name(words: list[str], tmp_path: Path) -> None:
    ran = gpuemu(words[0], evil_trace(tmp_path).name, *words[1:], cwd=tmp_path)
    for text in (ran.output, ran.errors):
        assert not {"\x1b", "\x07", "\x7f", "\x9b"} & {*text}
        assert "Traceback" not in text
    assert ran.output or ran.errors


def on_a_terminal(command: list[str], folder: Path, **environment: str) -> bytes:
    """What a command that ends well writes to a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, env={**ENVIRONMENT, **environment}, stdout=other,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(other)
    found = b""
    try:
        while piece := os.read(main, 4096):
            found += piece
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    return found


@pytest.mark.slow
def test_on_a_terminal_styles_are_ours_and_names_bring_none(tmp_path: Path) -> None:
    evil_trace(tmp_path)
    found = on_a_terminal([*GPUEMU, "run", f"{EVIL}.yaml"], tmp_path)
    assert b"\x1b[1m" in found
    assert b"\\u001b[31m" in found
    assert not any(one in found for one in (b"\x1b[31m", b"\x1b]", b"\x07", b"\xc2\x9b", b"\x7f"))


@pytest.mark.slow
def test_at_60_columns_no_line_is_wider_and_a_style_is_one(tmp_path: Path) -> None:
    words = [
        ["arch", "list"], ["arch", "show", "sm_89"], ["arch", "diff", "sm_80", "sm_89"], ["check", "v2_shared_memory"],
        ["diff", "v4_ldmatrix", "v5_swizzle"], ["run", "--help"], ["search", "--help"], ["--help"],
    ]  # fmt: skip
    script = f"""
from gpuemu.cli.main import cli
from gpuemu.cli.terminal import terminals
with terminals():
    for words in {words!r}:
        cli.main(words, standalone_mode=False)
"""
    found = on_a_terminal([sys.executable, "-c", script], tmp_path, COLUMNS="60")
    assert b"\\u001b" not in found
    text = re.sub(r"\x1b\[[0-9;]*m", "", found.decode())
    assert "Use another chip" in text
    assert "Skipped memcheck and initcheck" in text
    assert [line for line in text.splitlines() if len(line) > 60 and " " in line] == []


def test_a_stream_of_few_letters_gets_those_that_it_has() -> None:
    bytes_of = io.BytesIO()
    terminal = Terminal(io.TextIOWrapper(bytes_of, encoding="latin-1"), must_take=True)
    terminal.write("\u2501 \u00e9")
    terminal.flush()
    assert bytes_of.getvalue() == b"? \xe9"


def test_outside_of_the_command_streams_are_as_they_were() -> None:
    before = sys.stdout, sys.stderr
    with terminals() as (output, _):
        assert sys.stdout is output
        assert style("a", bold=True) == "a"
    assert (sys.stdout, sys.stderr) == before
    with pytest.raises(OutputError, match="closed"):
        Terminal(None, must_take=True).write("a")
    assert Terminal(None, must_take=False).write("a") == 1
