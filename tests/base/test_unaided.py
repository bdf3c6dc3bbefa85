"""Where there is no Numba and it would have saved more than ten seconds, one line on stderr says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gpuemu.arch import load_arch
from gpuemu.base import unaided
from gpuemu.cli.main import cli
from gpuemu.engine import building
from gpuemu.tensor import mma


class Clock:
    """Each look at it is so many seconds after the one before."""

    def __init__(self, seconds: float):
        self.seconds, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


@pytest.fixture(autouse=True)
def _nothing_before() -> Iterator[None]:
    unaided.advice()
    yield
    unaided.advice()


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (unaided, building):
        monkeypatch.setattr(module, "has_numba", lambda: False)
    monkeypatch.setattr(building, "_loaded", {})  # by a test before


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(unaided.time, "perf_counter", Clock(seconds))


COMMANDS = [
    ("run", "v2_shared_memory"),
    ("why", "v2_shared_memory", "--jobs", "1"),
    ("sweep", "v2_shared_memory", "--vary", "shared_memory.banks=16,32", "--no-store", "--jobs", "1"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
def test_a_replay_that_takes_long_says_so_once(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = CliRunner().invoke(cli, words)
    assert "Numba" not in quick.stderr
    slow(monkeypatch, 20.0)
    ran = CliRunner().invoke(cli, words)
    assert ran.stderr.count("pip install numba") == 1
    assert ran.stdout == quick.stdout


@pytest.mark.usefixtures("without")
def test_what_is_measured_inside_another_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, 12.0)
    with unaided.unaided(), unaided.unaided():
        pass
    assert unaided.advice() == ("with Numba, once it has compiled, this takes about 11 s less: pip install numba")
    assert unaided.advice() == ""
    slow(monkeypatch, 11.0)
    with unaided.unaided():
        pass
    assert unaided.advice() == ""


def test_with_numba_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unaided, "has_numba", lambda: True)
    slow(monkeypatch, 60.0)
    with unaided.unaided():
        pass
    assert unaided.advice() == ""


@pytest.mark.usefixtures("without")
def test_products_that_numba_would_have_made_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `check` executes: a kernel full of tensor instructions."""
    slow(monkeypatch, 15.0)
    monkeypatch.setattr(mma, "COMPILED", mma.Compiled("numba_that_is_not_there", 1))
    a, b, c = (np.zeros((n, 32), np.uint32) for n in (4, 2, 4))
    mma.mma(load_arch("sm_89"), "m16n8k16.f32.f16", a, b, c)
    assert "about 14 s less" in unaided.advice()


@pytest.mark.usefixtures("without")
def test_check_says_it_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(unaided, "_seconds", 100.0)
    ran = CliRunner().invoke(cli, ["check", "v2_shared_memory", "-o", str(tmp_path / "found.txt")])
    assert "about 90 s less" in ran.stderr
