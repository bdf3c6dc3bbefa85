"""Ask a confined process, and trust nothing that it answers."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuemu.base import resources
from gpuemu.base.shown import shown_in_a_line
from gpuemu.studies.judge import confined

MOST_BYTES = 1 << 28
"""The most bytes of an answer."""
MOST_LETTERS = 2000
"""The most characters of a sentence in it."""
_DISK_BYTES = 1 << 30
_ENVIRONMENT = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "CUDA_HOME", "CUDA_PATH", "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "SYSTEMROOT",
)  # fmt: skip
"""The part of the judge's environment that the process gets, because the environment may hold secrets."""
_HOMES = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "GPUEMU_CACHE", "TRITON_HOME", "TRITON_CACHE_DIR")
_SEGMENTATION = b"Fatal Python error: Segmentation fault"
_PLACE = re.compile(rb'File "(.*)", line (\d{1,9}) in ')


class LimitError(Exception):
    """A limit was reached; the text says which."""


class RefusedError(Exception):
    """A candidate that cannot be judged. The text is a sentence, perhaps the process's own."""


def ask(
    name: str, words: Sequence[Any], file: str, memory_bytes: int, reads: Sequence[str] = ()
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The answer to a request about a `file`, and what the system lacks to confine its code.

    `reads`: further files and folders that the process may read. Raises RefusedError with the process's own sentence,
    and LimitError if it has used up its memory or ends without an answer.
    """
    folder = tempfile.mkdtemp(prefix="gpuemu-")
    try:
        package = resources.PACKAGE
        settings = {
            "folder": folder, "memory_bytes": memory_bytes, "disk_bytes": _DISK_BYTES,
            "reads": [file, str(package), *(str(resources.folder(kind)) for kind in ("configs", "traces")), *reads],
            "lists": [str(package.parent)], "secret": [str(Path(file).resolve().parent), str(Path.home())],
        }  # fmt: skip
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= dict.fromkeys(_HOMES, folder) | {"USER": "nobody", "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(
            [sys.executable, "-P", confined.__file__, json.dumps(settings)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True,
        ) as process:  # fmt: skip
            content, lacks = _exchanged(process, pickle.dumps((name, tuple(words))))
        if process.returncode == confined.LEFT:
            raise RefusedError(
                f"{file}: found that launch(...) leaves processes that still run; it has to wait for them"
            )
    finally:
        remove(folder)
    lacked = set(lacks.decode(errors="replace").split())
    return _read(content, file, memory_bytes), tuple(sorted(lacked & {confined.NAMESPACES, confined.LANDLOCK}))


def _exchanged(process: subprocess.Popen[bytes], request: bytes) -> tuple[bytes, bytes]:
    """The answer of a process, read up to the most that an answer may have, and the messages before it."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with suppress(BrokenPipeError):
        process.stdin.write(request)
        process.stdin.close()
    content = process.stdout.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        process.kill()
    return content, process.stderr.read(4096)


def _read(content: bytes, file: str, memory_bytes: int) -> dict[str, Any]:
    if len(content) > MOST_BYTES:
        raise LimitError(f"its process gave an answer of more than {MOST_BYTES:,} bytes")
    if content.startswith(_SEGMENTATION):
        raise _touched(content, file)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise LimitError("its process ended without an answer")
    if "memory" in found:
        raise LimitError(f"took more than {memory_bytes:,} bytes of memory")
    if "refused" in found:
        raise RefusedError(shown_in_a_line(str(found["refused"]))[:MOST_LETTERS])
    return found


def _touched(content: bytes, file: str) -> RefusedError:
    """Buffers have no contents on the host: their memory is protected."""
    line = next((f":{int(line)}" for name, line in _PLACE.findall(content) if os.fsdecode(name) == file), "")
    what = "found launch(...) reading or writing a buffer on the host"
    right = "The host gets shapes and types; only kernels see the contents"
    return RefusedError(shown_in_a_line(f"{file}{line}: {what}; {right}"))


def remove(folder: str) -> None:
    """Remove a folder, also with subfolders that their owner may not read. Nothing around it changes."""

    def again(function: Any, path: str, _: object) -> None:
        with suppress(OSError):
            if Path(path) != Path(folder):
                os.chmod(Path(path).parent, 0o700)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
            function(path)

    shutil.rmtree(folder, onerror=again)
