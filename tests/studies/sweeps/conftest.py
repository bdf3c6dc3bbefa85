"""Traces that sweeps are tested with, and ways to look at what they are refused for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import brief
from sweep_traces import tile

import gpuemu


@pytest.fixture
def tile_file(tmp_path: Path) -> str:
    path = tmp_path / "tile.yaml"
    tile().write(path)
    return str(path)


@pytest.fixture
def slow_trace(tmp_path: Path) -> str:
    """A trace that takes some hundredths of a second, so that a sweep of it can be caught in the middle."""
    path = tmp_path / "slow.yaml"
    tile(rounds=400).write(path)
    return str(path)


@pytest.fixture
def refused() -> Callable[..., list[str]]:
    def refused(action: Callable[..., object], *arguments: object, **more: object) -> list[str]:
        with pytest.raises(gpuemu.GpuemuError) as caught:
            action(*arguments, **more)
        return brief(caught.value)

    return refused
