"""torch on an emulated GPU, for the kernels of libraries."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    """torch under an emulated H100 that only executes."""
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, and the kernels need it")
    import gpuemu.triton

    with gpuemu.triton.device("sm_90", timed=False):
        import torch

        torch.manual_seed(0)
        yield torch
