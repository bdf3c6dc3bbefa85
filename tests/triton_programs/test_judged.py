"""Triton files that nobody trusts: what they launch counts, and nothing that they do on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuemu
from gpuemu.studies.judge.sandbox import end_sandboxes

PROBLEM = """
import numpy as np
import gpuemu

def inputs(rng):
    return [rng.standard_normal(500, dtype=np.float32), gpuemu.empty(500, np.float32), 500]

def reference(x, out, n):
    out[:] = 2 * x
"""
KERNEL = """
import numpy as np
import triton, triton.language as tl

@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor * tl.load(x + i, mask=i < n), mask=i < n)

def launch(x, out, n):
    BODY
"""


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_sandboxes()


@pytest.mark.parametrize(
    ("body", "verdict", "reason"),
    [
        ("scale[(triton.cdiv(n, 128),)](x, out, n, 2.0, BLOCK=128)", "right", ""),
        (
            "t = np.empty_like(x); scale[(1,)](x, t, n, 4.0, BLOCK=512); scale[(1,)](t, out, n, 0.5, BLOCK=512)",
            "right",
            "",
        ),
        ("scale[(2,)](x, out, n, 2.0, BLOCK=128)", "wrong", "argument 1 has 244 wrong elements of 500"),
        ("out[:] = 2 * x", "refused", "0 launches"),
        ("out[:] = 2 * x; scale[(1,)](x, out, 1, 2.0, BLOCK=128)", "wrong", "argument 1 has 499 wrong elements"),
        ("x *= 2; scale[(1,)](x, out, n, 1.0, BLOCK=512)", "wrong", "argument 1 has 500 wrong elements"),
        ("t = 2 * x; scale[(1,)](t, out, n, 1.0, BLOCK=512)", "wrong", "argument 1 has 500 wrong elements"),
        ("raise SystemExit(0)", "refused", "SystemExit"),
        ("import os; os._exit(0)", "limit", "its process ended"),
        ("while True: pass", "limit", "took more than"),
        ("1 / 0", "refused", "ZeroDivisionError"),
    ],
)
def test_only_launches_count(tmp_path: Path, body: str, verdict: str, reason: str) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL.replace("BODY", body))
    seconds = 8.0 if "while" in body else 120.0
    found = gpuemu.judge(tmp_path / "kernel.py", tmp_path / "problem.py", "sm_89", seconds=seconds, draws=1)
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]
