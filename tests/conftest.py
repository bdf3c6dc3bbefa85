"""Property tests draw the same examples on every machine, and no busy machine fails one for being slow.

HYPOTHESIS_PROFILE=explore draws new ones each time. Golden files were written by the program itself and read by a person.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).resolve().parent / "golden"

settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure(config: pytest.Config) -> None:
    """Where several processes test, compile the engine before they start: each would do it for itself.

    Where all tests run, its checked build is made beside it. Each in a process of its own, whose gigabytes are then free.
    """
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        from gpuemu.engine import building

        if building.is_possible() and not building.is_ready():
            print("compiling the engine, once")
            builds = [["-c", "from gpuemu.engine import building; building.load()"]]
            if config.args_source is config.ArgsSource.TESTPATHS:
                builds.append([str(Path(__file__).parent / "engine" / "checked.py")])
            running = [subprocess.Popen([sys.executable, *build]) for build in builds]
            assert [process.wait() for process in running] == [0] * len(builds)


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
