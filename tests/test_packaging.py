"""A plain install works from any folder: the wheel carries the architecture files and the traces."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import gpuemu

pytestmark = pytest.mark.slow

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
    assert text.startswith("v5_swizzle on sm_89, RTX 4060 Ti")
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
    planned = output_of(
        installed / "gpuemu", "calibrate", "--arch", "sm_89", "--dry-run", "--only", "mio.*", cwd=tmp_path
    )
    assert "mio.pool_entries" in planned


def test_a_release_is_wheel_sources_and_notes_of_the_version_that_stands_everywhere(tmp_path: Path) -> None:
    tag = f"v{gpuemu.__version__}"
    output_of(sys.executable, ROOT / "tools" / "release.py", tag, tmp_path, cwd=tmp_path)
    names = {file.name for file in tmp_path.iterdir()}
    version = gpuemu.__version__
    assert names == {f"gpuemu_sm-{version}-py3-none-any.whl", f"gpuemu_sm-{version}.tar.gz", "notes.md"}
    with tarfile.open(tmp_path / f"gpuemu_sm-{version}.tar.gz") as sources:
        packed = set(sources.getnames())
    tracked = {f"gpuemu_sm-{version}/{p.relative_to(ROOT)}" for p in (ROOT / "docs").rglob("*") if p.is_file()}
    assert {name for name in tracked if "__pycache__" not in name} <= packed
    notes = (tmp_path / "notes.md").read_text(encoding="utf-8")
    assert "gpuemu why" in notes
    assert "](" not in notes


def test_the_citation_names_this_version_and_nobody_else_s_address() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == gpuemu.__version__
    assert {"cff-version", "message", "title", "authors", "license"} <= citation.keys()
    for name in ("CITATION.cff", "SECURITY.md"):
        assert not re.search(r"https?://|\S@\S", (ROOT / name).read_text(encoding="utf-8")), name


def test_a_tag_that_is_not_the_version_and_notes_without_a_date_are_refused(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "gpuemu").mkdir()
    (tmp_path / "gpuemu" / "__init__.py").write_text('__version__ = "9.9"\n')
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    right = gpuemu.__version__
    assert release.problems(f"v{right}", tmp_path) == [
        f"gpuemu/__init__.py: found 9.9; {right}, as the tag v{right}, is right"
    ]
    text = re.sub(r"\(\d{4}-\d\d-\d\d\)", "(unreleased)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), count=1)
    (tmp_path / "CHANGELOG.md").write_text(text, encoding="utf-8")
    assert release.problems("v9.9", tmp_path) == [
        f"pyproject.toml: found {right}; 9.9, as the tag v9.9, is right",
        f"CHANGELOG.md: found {right}; 9.9, as the tag v9.9, is right",
        "CHANGELOG.md: found no date; the day of the release is right",
    ]
    assert release.problems(f"v{right}") == []
