"""A plain install works from any folder: the wheel carries the architecture files and the traces."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh virtual environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    python = binaries / "python"
    output_of(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder
    )  # fmt: skip
    # The dependencies come from the environment that runs the tests; the package itself must not.
    site = output_of(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(site, "dependencies.pth").write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    return binaries


def test_the_wheel_is_called_gpuemu_sm_and_carries_its_data(wheel: Path) -> None:
    assert wheel.name.startswith("gpuemu_sm-")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {f"gpuemu/data/{p.relative_to(ROOT)}" for k in ("configs", "traces") for p in (ROOT / k).rglob("*.yaml")}
    assert len(shipped) >= 13
    assert shipped <= names
    assert {"gpuemu/py.typed", "gpuemu/trace/trace.schema.json", "gpuemu/views/result.schema.json"} <= names
    report = {f"gpuemu/views/report/{p.name}" for p in (ROOT / "gpuemu/views/report").glob("*.*")}
    assert {"page.html.j2", "report.css", "timeline.js"} <= {name.rpartition("/")[2] for name in report}
    assert report <= names


def test_an_installed_gpuemu_runs_a_shipped_trace_by_name_from_any_folder(installed: Path, tmp_path: Path) -> None:
    where = output_of(installed / "python", "-c", "import gpuemu; print(gpuemu.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    text = output_of(installed / "gpuemu", "run", "v5_swizzle", "--arch", "sm_89", cwd=tmp_path)
    assert text.startswith("v5_swizzle on sm_89, code for sm_89\n")
    assert "cycles" in text
    assert list(tmp_path.iterdir()) == []


def test_an_installed_gpuemu_brings_its_fixture_to_pytest(installed: Path, tmp_path: Path) -> None:
    test = "def test_swizzle(gpu_kernel):\n    assert gpu_kernel('v5_swizzle').excess_wavefronts == 0\n"
    (tmp_path / "test_kernel.py").write_text(test, encoding="utf-8")
    said = output_of(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in said
    assert "gpu_kernel" in output_of(installed / "python", "-m", "pytest", "-q", "--fixtures", cwd=tmp_path)


def test_an_installed_gpuemu_lists_its_architectures_and_traces(installed: Path, tmp_path: Path) -> None:
    architectures = output_of(installed / "gpuemu", "arch", "list", cwd=tmp_path)
    assert all(name in architectures for name in ("sm_80", "sm_89", "sm_90"))
    traces = output_of(installed / "gpuemu", "traces", cwd=tmp_path)
    assert "v1_global" in traces
    assert "sm_80/v5_swizzle" in traces
