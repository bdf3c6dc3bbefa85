"""The examples run, say what they say, and are all listed."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SAYS = {
    "costliest_line.py": [
        r"^896 cycles; the lines with most of them:\n  transpose\.cu:8: ",
        r"\nwithout the conflicts of transpose\.cu:12: 208 cycles less\n$",
    ],
    "padding_study.py": [r"\n  128 +4096 +\d+ +992 \*\n  132 +4224 +\d+ +0 \*\n", r"\n  160 +5120 +\d+ +224\n$"],
    "find_swizzle.py": [r"^Swizzle<3,3,3>: 128 wavefronts, plain rows 576\n", r"\nno ldmatrix\.x4 of the tile has a"],
    "what_if_banks.py": [
        r"\ngemm_tile_plain +32 banks +1 ports +\d+  1\.00\n",
        r"\ngemm_tile_swizzled +64 banks +2 ports",
    ],
    "test_transpose.py": [r"^\.\. "],
}


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_a_script_runs_from_any_folder_and_says_what_it_should(name: str, tmp_path: Path) -> None:
    pytest_itself = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if name.startswith("test_") else []
    ran = run([sys.executable, *pytest_itself, str(EXAMPLES / name)], tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for said in SAYS[name]:
        assert re.search(said, ran.stdout), ran.stdout
    if name == "padding_study.py":
        assert (tmp_path / "padding_study.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def renew() -> Any:
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))
    return importlib.import_module("renew_notebooks")


@pytest.mark.parametrize("name", ["swizzle", "triton_tuning"])
def test_a_notebook_has_the_outputs_that_its_cells_show(name: str, renew: Any) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    text, values = renew.renewed(path)
    assert text == path.read_text(encoding="utf-8"), "write it anew with: python tools/renew_notebooks.py"
    pages = json.loads(text)
    assert (pages["nbformat"], pages["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in pages["cells"]}) == len(pages["cells"])
    if name == "swizzle":
        run, source, access, search, swizzled, versions, sweep = values
        assert run.cycles == 720
        assert sorted(source["Source"].str.split(".").str[0].str.split().str[0]) == ["LDSM"] * 2 + ["STS"] * 4
        assert (access.wavefronts, swizzled.wavefronts, search.best.label) == (8, 4, "Swizzle<1,3,3>")
        assert list(versions["conflicts"]) == [12, 12, 12, 0]
        assert sweep.shape == (4, 3)
    else:
        assert pages["cells"][3]["outputs"][0]["text"] == ["True\n"], "NumPy's values"
        assert sorted(values[2]["place"]) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_every_example_is_listed_and_nothing_else() -> None:
    listed = set(re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.M))
    there = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__", ".ipynb_checkpoints"}
    assert listed == there
    assert set(SAYS) == {name for name in there if name.endswith(".py")}
