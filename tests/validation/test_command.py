"""`python -m validation` as a program among others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    program = "import sys, validation.score, validation.__main__ as m; validation.score.main = lambda options: sys.stdout.write('x' * 10**6); m.main(['score'])"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        ran.stdout.close()
        _, errors = ran.communicate()
    assert (ran.returncode, errors) == (0, b"")
