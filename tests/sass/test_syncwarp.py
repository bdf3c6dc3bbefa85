"""Lanes that wait at a __syncwarp() in a branch, as `tools/h200/syncwarp.cu` measured on an H200."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin

MEASURED = Path(__file__).resolve().parents[2] / "tools" / "h200" / "syncwarp"
QUICK = (0, 3, 6, 9)
"""Variants whose lanes do not count cycles."""
UNDEFINED = {(6, 2, 1)}
"""Variant, what follows the branch, and lane: it shuffles a value from a lane that has exited."""


def outcomes() -> dict[tuple[int, int], dict[int, int] | None]:
    """By variant and what follows the branch: the values of some lanes, None for a launch that hangs."""
    found: dict[tuple[int, int], dict[int, int] | None] = {}
    for block in re.split(r"^variant ", MEASURED.with_suffix(".txt").read_text(), flags=re.MULTILINE)[1:]:
        name = int(block[0]), int(block[2])
        lanes = {int(lane): int(value) for lane, value in re.findall(r"lane +(\d+): .* value (\d+)", block)}
        found[name] = lanes if "ends" in block else None
    return found


@cache
def cubin() -> Cubin:
    return load_cubin(MEASURED.with_suffix(".cu"), "sm_90", "nvrtc")


@pytest.mark.parametrize("name", [name for name in outcomes() if name[0] in QUICK])
def test_a_warp_goes_on_or_hangs_as_on_an_h200(name: tuple[int, int]) -> None:
    measured, values = outcomes()[name], np.zeros(32, np.int32)
    arguments = [np.zeros(96, np.int64), values, np.zeros(1, np.int32), 0]
    kernel = f"_Z1kILi{name[0]}ELi{name[1]}EEvPxPiPVii"
    if measured is None:
        with pytest.raises(gpuemu.GpuemuError, match="forever"):
            gpuemu.trace_kernel(cubin(), kernel, 1, 32, 0, arguments)
        return
    gpuemu.trace_kernel(cubin(), kernel, 1, 32, 0, arguments)
    known = {lane: value for lane, value in measured.items() if (*name, lane) not in UNDEFINED}
    assert {lane: int(values[lane]) for lane in known} == known
