"""Whatever an architecture file may say, both drivers log the same bytes or refuse alike, and all views tell of it."""

from __future__ import annotations

import csv
import io
import json
import sys

import numpy as np
import pytest
from engine.any_values import architectures
from engine.probes import kernels, logs
from hypothesis import HealthCheck, Phase, event, given, settings

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.pages import Wanted, rendered
from gpuemu.engine import building
from gpuemu.engine.allocate import allocate
from gpuemu.engine.records import NEVER
from gpuemu.program.lowering import lower

MOST_STEPS = 100_000
"""Cycles in which something acts; what takes more would have SimPy take minutes."""

always = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def outcome(trace: gpuemu.Trace, arch: Architecture, engine: str) -> gpuemu.Result | str:
    try:
        return gpuemu.run(trace, arch, engine=engine)
    except GpuemuError as error:
        return str(error)


def is_short(trace: gpuemu.Trace, arch: Architecture) -> bool:
    try:
        state = allocate(lower(trace, arch), arch, compiled=True)
    except GpuemuError:
        return True
    return building.load()(state, MOST_STEPS) == NEVER


def check(trace: gpuemu.Trace, arch: Architecture) -> None:
    if not is_short(trace, arch):
        event("too long")
        return
    compiled, plain = (outcome(trace, arch, engine) for engine in ("compiled", "simpy"))
    if isinstance(plain, str):
        event("refused")
        assert compiled == plain
        assert "fault of gpuemu" not in plain
        return
    assert not isinstance(compiled, str)
    assert logs(compiled) == logs(plain)
    views_agree(compiled)


def views_agree(result: gpuemu.Result) -> None:
    """All of them tell of the same cycles, issues and limits."""
    pages = {
        (page, form): rendered(result, Wanted(page, form, warps=("all",), to_a_file=True, everything=True))
        for page, form in (
            ("summary", "text"), ("summary", "json"), ("summary", "html"), ("summary", "perfetto"), ("source", "csv"),
            ("timeline", "csv"),
        )
    }  # fmt: skip
    data, issued = json.loads(pages["summary", "json"]), len(result.program.path)
    assert data["cycles"] == result.cycles
    tightest = data["bounds"][0]["resource"]
    text = " ".join(pages["summary", "text"].split())
    assert f"SM Active Cycles {result.cycles:,}" in text
    assert f"Lower bound per resource Cycles % of cycles {tightest}" in text
    assert f"{result.limit}." in text
    assert f">{result.cycles:,}" in pages["summary", "html"] or str(result.cycles) in pages["summary", "html"]
    assert sum(int(row["Instructions Executed"]) for row in _rows(pages["source", "csv"])) == issued
    assert len(_rows(pages["timeline", "csv"])) == issued
    assert json.loads(pages["summary", "perfetto"])["traceEvents"]
    answer = gpuemu.why(result.trace, result.arch, jobs=1)
    assert answer.cycles == result.cycles
    assert all(np.isfinite(row.gained) for row in answer.rows)


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
@always
@given(kernels(), architectures())
def test_both_drivers_and_all_views_agree_on_any_architecture(trace, arch):
    pytest.importorskip("numba")
    check(trace, arch)


if __name__ == "__main__":

    @settings(max_examples=int(sys.argv[1]), deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(kernels(), architectures())
    def many(trace, arch):
        check(trace, arch)

    many()
