"""The site of the documents, built once for those who look at its pages."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The site as the command of CONTRIBUTING.md builds it, but elsewhere; the processes of a run share it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python (-m sphinx .*) build/site$", text, re.MULTILINE)
    place = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        place = place.parent
    folder, built = place / "site", place / "site-built"
    with FileLock(place / "site.lock"):
        if not built.exists():
            words = [sys.executable, *shlex.split(command), str(folder), "-q", "-d", str(place / "doctrees")]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.stderr == ""
            assert done.returncode == 0, done.stdout
            built.touch()
    return folder
