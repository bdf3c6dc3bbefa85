"""A file is read up to a size, and takes memory for the bytes that it has, not for those that it might have."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpuemu.base.reading import read_whole

resource = pytest.importorskip("resource", reason="Windows has no limits of memory")
A_GIBIBYTE = 1 << 30


def _with_little_memory(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may have a gibibyte of addresses in all."""
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (A_GIBIBYTE, A_GIBIBYTE)),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("run", "v5_swizzle", "--arch", "sm_89", "--engine", "simpy"),
        ("arch", "show", "sm_89"),
        ("banks", "LDS", "--addresses", "@FILE"),
    ],
)
def test_a_command_reads_its_files_with_a_gibibyte_of_memory(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "addresses").write_text(", ".join(str(4 * lane) for lane in range(32)), encoding="utf-8")
    words = [word.replace("FILE", str(tmp_path / "addresses")) for word in command]
    done = _with_little_memory("-m", "gpuemu", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe", os.urandom(5_000_001)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    found = read_whole(pipe)
    writer.join()
    assert found == content


def test_a_pipe_without_an_end_is_refused_at_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"yes > '{pipe}'"], stderr=subprocess.DEVNULL) as endless:
        with pytest.raises(OSError, match="more than 3,000,000 bytes"):
            read_whole(pipe, 3_000_000)
        assert endless.wait(20) != 0  # nobody reads any more


@pytest.mark.parametrize(("length", "most"), [(0, 0), (10, 10), (10, 11), (1 << 21, 1 << 21)])
def test_a_file_of_at_most_the_limit_is_read(tmp_path: Path, length: int, most: int) -> None:
    (tmp_path / "file").write_bytes(bytes(length))
    assert read_whole(tmp_path / "file", most) == bytes(length)


@pytest.mark.parametrize("length", [11, 1 << 40])
def test_a_longer_file_is_refused_and_not_read(tmp_path: Path, length: int) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(length)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_whole(tmp_path / "file", 10)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
def test_a_file_that_does_not_tell_its_length_is_read() -> None:
    assert b"VmSize" in read_whole("/proc/self/status")


def test_a_device_is_refused() -> None:
    with pytest.raises(OSError, match="a device"):
        read_whole("/dev/zero")
