"""Property tests draw the same examples on every machine, and no busy machine fails one for being slow.

HYPOTHESIS_PROFILE=explore draws new ones each time. Golden files were written by the program itself and read by a person.
`lanes.py` has the fast lane and compiles the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gpuemu.sass.compiled import loading

pytest_plugins = ["lanes", "pytester"]
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers
GOLDEN = Path(__file__).resolve().parent / "golden"

settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def check_golden(name: str, text: str, folder: Path = GOLDEN) -> None:
    """Compare with a golden file. With GPUEMU_UPDATE_GOLDEN=1 it is written anew, and the test fails: nothing was compared."""
    path = folder / name
    if os.environ.get("GPUEMU_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{name} is written anew: read it, and run the test without GPUEMU_UPDATE_GOLDEN")
    assert text == path.read_text(encoding="utf-8")


@pytest.fixture
def golden() -> Callable[..., None]:
    """See check_golden."""
    return check_golden


@pytest.fixture
def loops() -> Iterator[None]:
    """Compiled loops from the first instruction on."""
    pytest.importorskip("numba")
    loading.LOOPS.force()
    yield
    loading.LOOPS.forget()
