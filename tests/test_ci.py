"""Whether CI's run demands a browser: `.ci/chromium` with a PATH of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BROWSER = "#!/bin/sh\necho Chromium 1\n"


def told(folder: Path, commands: dict[str, str], root: bool = True) -> tuple[str, str]:
    """What the script says where there are only these commands, for root or somebody else."""
    for name in ("env", "bash"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, text in ({"id": f"#!/bin/sh\necho {0 if root else 1000}\n"} | commands).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {"PATH": str(folder), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [str(folder / "bash"), str(ROOT / ".ci" / "chromium")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("name", ["chromium", "chromium-browser"])
def test_a_browser_that_runs_is_demanded(name: str, tmp_path: Path) -> None:
    word, reason = told(tmp_path, {name: BROWSER})
    assert word == "required"
    assert f"{tmp_path / name}; the tests that open the report in it must pass" in reason


def test_a_missing_browser_is_installed_and_demanded(tmp_path: Path) -> None:
    installs = f"#!/bin/sh\n[ $2 = update ] || {shutil.which('mv')} {tmp_path}/later {tmp_path}/chromium\n"
    word, reason = told(tmp_path, {"later": BROWSER, "apt-get": installs})
    assert (word, "apt-get install chromium" in reason) == ("required", True)


def test_where_there_is_none_to_be_had_the_tests_may_skip(tmp_path: Path) -> None:
    word, reason = told(tmp_path, {"apt-get": "#!/bin/sh\nexit 100\n"})
    assert word == ""
    assert "none to be installed" in reason


def test_a_browser_that_does_not_run_is_none_and_only_root_installs_one(tmp_path: Path) -> None:
    word, reason = told(tmp_path, {"chromium": "#!/bin/sh\nexit 1\n", "apt-get": "#!/bin/sh\nexit 0\n"}, root=False)
    assert (word, "apt-get" in reason) == ("", False)
