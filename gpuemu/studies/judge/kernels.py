"""What is judged: launches of machine code, found in a .cu, a .cubin or a Triton file without running anything of it.

A .cu or .cubin is one launch. A line `// launch: grid=16 block=256 dynamic_shared_bytes=1024` in front says which, else
the problem does. A Triton file defines `launch(...)`, which runs in a process of its own; what it launches is taken
down, and nothing else that it does counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.machine.arguments import Pointer
from gpuemu.sass.tools.disassembly import load_cubin

_LAUNCH = re.compile(r"\s*//\s*launch:((?:\s*\w+=[\d,x]+)+)\s*$", re.MULTILINE)
_WORDS = ("grid", "block", "dynamic_shared_bytes")


@dataclass(frozen=True)
class JudgedLaunch:
    """`args`: ("at", argument, offset), ("scratch", which, bytes, offset) and values; None: those of the problem."""

    cubin: Cubin
    kernel: str | None
    grid: Any
    block: Any
    dynamic_shared_bytes: int
    args: tuple[Any, ...] | None = None
    zero_shared: bool = False


def launches_of(
    kernel: str, arch: Architecture, told: Mapping[str, Any], options: Sequence[str], arguments: Sequence[Any],
    seconds: float,
) -> list[JudgedLaunch]:  # fmt: skip
    """The launches of a file. Raises GpuemuError for what cannot be compiled."""
    if kernel.endswith(".py"):
        from gpuemu.studies.judge.triton_kernels import taken

        return [
            JudgedLaunch(read_cubin(content, Path(kernel).name), name, grid, block, shared, tuple(args), True)
            for content, name, grid, block, shared, args in taken(kernel, arch, arguments, seconds)
        ]
    launch = dict(told)
    if kernel.endswith((".cu", ".ptx")) and Path(kernel).is_file():
        launch |= _written(kernel)
    cubin = load_cubin(kernel, arch.code_name, options=options, kernel=launch.get("kernel"))
    return [
        JudgedLaunch(
            cubin, launch.get("kernel"), launch.get("grid", 1), launch.get("block", 32),
            int(launch.get("dynamic_shared_bytes", 0)),
        )
    ]  # fmt: skip


def _written(kernel: str) -> dict[str, Any]:
    """What the source says of its launch, in its first lines."""
    head = Path(kernel).read_text(encoding="utf-8", errors="replace")[:4096]
    match = _LAUNCH.search(head)
    found: dict[str, Any] = {}
    for word in match[1].split() if match else ():
        name, _, value = word.partition("=")
        sizes = tuple(int(part) for part in re.split("[,x]", value) if part)
        if name not in _WORDS or not sizes or len(sizes) > (1 if name == _WORDS[2] else 3):
            right = "// launch: grid=X[,Y[,Z]] block=X[,Y[,Z]] dynamic_shared_bytes=N is right"
            raise GpuemuError.one(kernel, None, "// launch:", f"'{word}'", right)
        found[name] = sizes if name != _WORDS[2] else sizes[0]
    return found


def bound(launch: JudgedLaunch, given: Sequence[Any], scratch: dict[int, Any]) -> list[Any]:
    """The arguments of a launch, the problem's arrays in them; scratch memory has bits of chance in it."""
    if launch.args is None:
        return list(given)
    found: list[Any] = []
    for one in launch.args:
        if isinstance(one, tuple) and one[:1] == ("at",):
            found.append(Pointer(np.asarray(given[one[1]]).reshape(-1).view(np.uint8), one[2]))
        elif isinstance(one, tuple) and one[:1] == ("scratch",):
            _, which, size, offset = one
            if which not in scratch:
                scratch[which] = np.random.default_rng(which).integers(0, 256, size, dtype=np.uint8)
            found.append(Pointer(scratch[which], offset))
        else:
            found.append(one)
    return found
