"""Helion and Inductor ask gpuemu which configurations are worth a measurement; their real packages call the hooks.

Each test runs a program of its own: a program gets its device before it imports torch.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")]

HELION = """
import json
import gpuemu.triton

with gpuemu.triton.device("sm_90", chip="H100", timed=False) as gpu:
    import helion
    import helion.language as hl
    import torch

    asked = []
    rank = gpuemu.rank
    gpuemu.rank = lambda found, *rest, **words: asked.append(len(found)) or rank(found, *rest, **words)
    configs = [helion.Config(block_sizes=[block], num_warps=warps) for block in (32, 1024) for warps in (1, 4)]
    CHOOSER

    @helion.kernel(autotuner_fn=chooser, static_shapes=True)
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(out.size()):
            out[tile] = x[tile] + y[tile]
        return out

    x, y = (torch.rand(65536, device="cuda") for _ in range(2))
    right = torch.equal(add(x, y), x + y)
    grids = [one.grid[0] for one in gpu.launches if not one.timed_only]
    measured = sum(one.timed_only for one in gpu.launches)
    print(json.dumps({"right": right, "grids": grids, "measured": measured, "asked": asked}))
"""
INDUCTOR = """
import json
import gpuemu.triton

with gpuemu.triton.device("sm_90", chip="H100", timed=False) as gpu:
    import torch
    from torch._inductor import config, select_algorithm

    kept = []
    hook = gpuemu.triton.inductor_choices("H100", top=2, jobs=1)

    def chosen(choices):
        found = hook(choices[:4])
        kept.append([len(choices[:4]), len(found)])
        return found

    select_algorithm.add_preprocessing_fn(chosen)
    config.max_autotune_gemm_backends = "TRITON"
    a, b = (torch.rand(128, 128, device="cuda", dtype=torch.float16) for _ in range(2))
    found = torch.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs")(a, b)
    error = float((found.float() - a.float() @ b.float()).abs().max())
    print(json.dumps({"kept": kept, "measured": sum(one.timed_only for one in gpu.launches), "error": error}))
"""


def run(text: str, folder: Path, *packages: str) -> dict[str, Any]:
    """The last line of a program's output. Skips the test if a package is not installed."""
    for package in ("triton", "torch", *packages):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, and the hook is for programs that import it")
    (folder / "program.py").write_text(text)
    places = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "HELION_CACHE_DIR": str(folder / "helion")}
    command = [sys.executable, str(folder / "program.py")]
    done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_helion_kernel_gets_the_fastest_of_its_configurations_and_nothing_is_measured(tmp_path: Path) -> None:
    chooser = 'chooser = gpuemu.triton.helion_autotuner("H100", configs, jobs=1)'
    found = run(HELION.replace("CHOOSER", chooser), tmp_path, "helion")
    # Tiles of 32 elements would need 2,048 CTAs.
    assert found == {"right": True, "grids": [64], "measured": 0, "asked": [4]}


def test_helion_tries_configurations_of_its_own_without_a_list(tmp_path: Path) -> None:
    chooser = 'chooser = gpuemu.triton.helion_autotuner("H100", candidates=8, jobs=1)'
    found = run(HELION.replace("CHOOSER", chooser), tmp_path, "helion")
    assert (found["right"], len(found["grids"]), found["measured"]) == (True, 1, 0)
    assert 1 < found["asked"][0] <= 8


def test_inductor_measures_only_the_templates_that_are_estimated_to_be_the_fastest(tmp_path: Path) -> None:
    found = run(INDUCTOR, tmp_path)
    assert found["kept"] == [[4, 2]]
    assert found["measured"] >= 2  # Inductor's own benchmark of both
    assert found["error"] < 0.1


def test_wrong_uses_have_messages() -> None:
    pytest.importorskip("triton", reason="the hooks compile with Triton")
    import gpuemu.triton
    from gpuemu.base.errors import GpuemuError

    for hook in (gpuemu.triton.helion_autotuner, gpuemu.triton.inductor_choices):
        with pytest.raises(GpuemuError, match="unknown chip 'H1000'"):
            hook("H1000")
        with pytest.raises(GpuemuError, match="expected at least 1"):
            hook("H100", top=0)
