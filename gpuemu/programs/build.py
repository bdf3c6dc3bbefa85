"""Builds the library that replaces CUDA in a program's process, once per version of its source.

The system's C++ compiler builds it, or the compiler of the ziglang wheel. gpuemu's cache keeps the result.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuemu.base import cache
from gpuemu.base.errors import GpuemuError
from gpuemu.base.telling import tell
from gpuemu.programs.protocol import header

SOURCES = Path(__file__).with_name("cuda")
LIBRARY, AUDITOR = "libgpuemu_cuda.so", "libgpuemu_audit.so"
DRIVER = "libcuda.so.1"
_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-pthread")
_BUILD_S = 300


def library_folder() -> Path:
    """The folder with the auditor and the library, which is also there as libcuda.so.1. Raises GpuemuError."""
    sources = sorted(SOURCES.iterdir())
    compiler = _compiler()
    content = b"\0".join(
        [header().encode(), " ".join((*compiler, *_OPTIONS)).encode(), *(s.read_bytes() for s in sources)]
    )
    home = cache.cache_folder() / f"exec-{hashlib.sha256(content).hexdigest()[:16]}"
    with cache.turn(home):
        place, is_made = cache.ready(home)
        if not is_made:
            tell("gpuemu exec builds its CUDA library. This happens once.")
            _build(compiler, place)
            cache.keep(place, home)
    return home if home.is_dir() else place


def _compiler() -> list[str]:
    """The command of a C++ compiler."""
    named = os.environ.get("CXX", "")
    for name in filter(None, (named, "g++", "clang++")):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.28", "-fno-sanitize=undefined"]
    raise GpuemuError.one(
        "gpuemu exec", None, "", "no C++ compiler", "Install g++ or clang, or the wheel: pip install ziglang"
    )


def _build(compiler: Sequence[str], folder: Path) -> None:
    """Compile and link into a folder. Raises GpuemuError with the compiler's first error."""
    refused = (SOURCES / "refused.txt").read_text(encoding="utf-8").split()
    (folder / "protocol.h").write_text(header(), encoding="utf-8")
    (folder / "refused.h").write_text("".join(f"REFUSED({name})\n" for name in refused), encoding="utf-8")
    sources = sorted(SOURCES.glob("*.cpp"))
    objects = {source: folder / f"{source.stem}.o" for source in sources}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        list(workers.map(lambda one: _run(_compile(compiler, folder, one, objects[one])), sources))
    auditor = objects.pop(SOURCES / "audit.cpp")
    library = [*map(str, objects.values()), "-pthread", f"-Wl,-soname,{DRIVER}", "-o", str(folder / LIBRARY)]
    try:  # then the program's own C++ library, which may be older, does not matter
        _run([*compiler, "-shared", "-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", *library])
    except GpuemuError:
        _run([*compiler, "-shared", *library])
    _run([*compiler, "-shared", "-nodefaultlibs", str(auditor), "-lc", "-o", str(folder / AUDITOR)])
    (folder / DRIVER).symlink_to(LIBRARY)
    for one in (*objects.values(), auditor, folder / "protocol.h", folder / "refused.h"):
        one.unlink()


def _compile(compiler: Sequence[str], folder: Path, source: Path, to: Path) -> list[str]:
    """The command for one source. The auditor uses no C++ library, because it runs in a namespace of its own."""
    more = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics") if source.stem == "audit" else ()
    return [*compiler, *_OPTIONS, *more, f"-I{folder}", "-c", str(source), "-o", str(to)]


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_BUILD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(str(error)) from None
    if done.returncode:
        lines = (done.stderr + done.stdout).splitlines()
        raise _failed(next((line for line in lines if "error" in line), "the compiler failed"))


def _failed(why: str) -> GpuemuError:
    return GpuemuError.one("gpuemu exec", None, "the CUDA library", why[-300:], "Use a C++20 compiler")
