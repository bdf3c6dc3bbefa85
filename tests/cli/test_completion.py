"""A shell completes names of architectures, traces and values."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpuemu.arch import load_arch
from gpuemu.base import resources


def completed(line: str) -> list[str]:
    words = line.split(" ")
    environment = os.environ | {
        "_GPUEMU_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }  # fmt: skip
    command = [sys.executable, "-m", "gpuemu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gpuemu run v5", ["plain,v5_generic", "plain,v5_swizzle"]),
        ("gpuemu diff v4_generic v5_s", ["plain,v5_swizzle"]),
        ("gpuemu run mine/t", ["file,mine/t"]),
        ("gpuemu run v5_swizzle --arch sm_9", ["plain,sm_90"]),
        ("gpuemu sweep v5_swizzle --arch sm_89 --arch sm_9", ["plain,sm_90"]),
        ("gpuemu arch diff sm_89 sm_9", ["plain,sm_90"]),
        ("gpuemu arch show sm_9", ["plain,sm_90"]),
        ("gpuemu run v5_swizzle --set shared_memory.bank", ["plain,shared_memory.banks=", "plain,shared_memory.bank_width_bytes="]),
        ("gpuemu arch show sm_90 --set shared_memory.banks", ["plain,shared_memory.banks="]),
        ("gpuemu arch dif", ["plain,diff"]),
    ],
)  # fmt: skip
def test_names_are_completed(line: str, found: list[str]) -> None:
    assert completed(line) == found


@pytest.mark.slow
def test_every_name_is_there() -> None:
    assert completed("gpuemu run ") == [f"plain,{name}" for name in resources.names("traces")]
    assert completed("gpuemu run x --arch ") == [f"plain,{name}" for name in resources.names("configs")]
    assert completed("gpuemu sweep x --vary ") == [
        f"plain,{name}=" for name in load_arch("sm_89").flat() if " " not in name
    ]
