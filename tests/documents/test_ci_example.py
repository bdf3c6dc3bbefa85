"""The example project for CI does what its workflow says, step by step, and fails where the kernel gets worse."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ci"


def steps(project: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load((project / ".github" / "workflows" / "gpu-kernels.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    return job["steps"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy, with a `gpuemu` and a `python` on the PATH that are those of this checkout."""
    shutil.copytree(EXAMPLE, tmp_path / "ci")
    (tmp_path / "bin").mkdir()
    for name, command in (("gpuemu", f"{sys.executable} -m gpuemu"), ("python", sys.executable)):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path / "ci"


def run(command: str, project: Path) -> subprocess.CompletedProcess[str]:
    # The plugin by its module: this checkout need not be installed.
    environment = {
        **os.environ, "PATH": f"{project.parent / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "CI": "true", "GITHUB_STEP_SUMMARY": str(project / "summary.md"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p gpuemu.cli.pytest_plugin -p no:cacheprovider",
    }  # fmt: skip
    # As the host's shell runs a step.
    command_line = ["bash", "-e", "-c", command]
    return subprocess.run(command_line, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_each_step_passes_and_leaves_what_the_next_ones_take(project: Path) -> None:
    commands = [step["run"] for step in steps(project) if "run" in step]
    install, *others = commands
    assert install == 'pip install "./gpuemu[pytest]"'
    for command in others:
        ran = run(command, project)
        assert ran.returncode == 0, command + ran.stdout + ran.stderr
    assert (project / "summary.md").read_text(encoding="utf-8").startswith("### transpose on sm\\_90: all 8 hold\n")
    assert {path.name for path in project.glob("*.sarif")} == {"tile.sarif", "check.sarif"}
    reports = {path.name: ElementTree.parse(path).getroot() for path in project.glob("*.xml")}
    assert set(reports) == {"tests.xml", "tile.xml"}
    assert reports["tile.xml"].get("failures") == "0"


@pytest.mark.slow
def test_a_kernel_that_got_worse_fails_with_the_same_workflow(project: Path) -> None:
    source = project / "kernels" / "tile.cu"
    source.write_text(
        source.read_text(encoding="utf-8").replace("#define PITCH 33", "#define PITCH 32"), encoding="utf-8"
    )
    _, tests, baseline, checks = [step["run"] for step in steps(project) if "run" in step]
    assert run(tests, project).returncode == 1
    ran = run(baseline, project)
    assert ran.returncode == 1
    assert "baselines/tile.yaml:12: excess_wavefronts is " in ran.stderr
    assert "bank-conflict" in (project / "summary.md").read_text(encoding="utf-8")
    assert "kernels/tile.cu" in (project / "tile.sarif").read_text(encoding="utf-8")
    assert run(checks, project).returncode == 0
