"""What is installed is what was tried: every dependency has an upper bound, and the test command a pin for each."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LINES = [r for r in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not r.startswith("#")]
spec = importlib.util.spec_from_file_location("renew_constraints", ROOT / "tools" / "renew_constraints.py")
assert spec is not None
assert spec.loader is not None
renew = importlib.util.module_from_spec(spec)
spec.loader.exec_module(renew)

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
REQUIREMENTS = [Requirement(r) for r in renew.requirements(PYPROJECT)]
PYTHONS = ("3.11", "3.12", "3.13")


def pinned(python: str) -> dict[str, Version]:
    """The version of each package that the constraints allow on a version of Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    versions: dict[str, Version] = {}
    for line in LINES:
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(environment):
            assert pin.name not in versions, f"{line}: a second pin for Python {python}"
            (only,) = pin.specifier
            versions[pin.name] = Version(only.version)
    return versions


@pytest.mark.parametrize(
    ("version", "bound"),
    [
        ("2.4.6", "3"),
        ("14", "15"),
        ("0.68.1", "0.69"),
        ("0.9", "0.10"),
        ("2026.8.0", "2027"),
        ("6.0.12.20261113", "7"),
    ],
)
def test_the_bound_is_the_next_major_the_next_minor_of_0_or_the_next_year(version: str, bound: str) -> None:
    assert renew.upper_bound(version) == bound


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_is_bounded_by_what_follows_its_newest_pin(requirement: Requirement) -> None:
    bounds = {s.operator: s.version for s in requirement.specifier}
    newest = max(pinned(python)[canonicalize_name(requirement.name)] for python in PYTHONS)
    assert bounds.keys() == {">=", "<"}
    assert bounds["<"] == renew.upper_bound(str(newest))


@pytest.mark.parametrize("python", PYTHONS)
def test_the_constraints_cover_and_satisfy_every_dependency(python: str) -> None:
    versions = pinned(python)
    for requirement in REQUIREMENTS:
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_the_constraints_cover_what_dependencies_depend_on() -> None:
    versions = pinned(default_environment()["python_version"])
    todo, seen = [r for r in REQUIREMENTS if not r.name.startswith(("cupy", "triton"))], set[str]()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        assert name in versions, f"{name} is not pinned"
        todo += [Requirement(r) for r in importlib.metadata.requires(name) or ()]
    assert len(seen) > 50


def test_a_constraint_is_a_name_a_version_and_a_marker_and_names_no_place() -> None:
    assert len(LINES) > 50
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+(?:(?:post|b)\d+)?(?: ; [^/:@]+)?", line)


def test_renewing_moves_the_bounds_and_nothing_else() -> None:
    newest = renew.pins("\n".join(LINES))
    assert renew.bounded(PYPROJECT, newest) == PYPROJECT
    bare = renew.bounded(PYPROJECT)
    assert "<" not in "".join(renew.requirements(bare))
    assert [Requirement(r).marker for r in renew.requirements(bare)] == [r.marker for r in REQUIREMENTS]
    assert renew.bounded(bare, newest) == PYPROJECT
    moved = renew.bounded(PYPROJECT, {**newest, "numpy": "3.0.1"})
    assert moved == PYPROJECT.replace('"numpy>=1.26,<3"', '"numpy>=1.26,<4"')


LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_python_implementation": "CPython"}
APPLE = {**LINUX, "sys_platform": "darwin", "platform_machine": "arm64"}
WINDOWS = {**LINUX, "sys_platform": "win32", "platform_machine": "AMD64"}
CUDA = {f"nvidia-cuda-{name}" for name in ("nvdisasm", "nvrtc", "runtime", "crt", "cccl")}


@pytest.mark.parametrize(
    ("platform", "left_out"),
    [
        (LINUX, set()),
        ({**LINUX, "platform_machine": "aarch64"}, set()),
        ({**LINUX, "platform_machine": "ppc64le"}, CUDA | {"numba"}),
        ({**LINUX, "platform_python_implementation": "PyPy"}, {"numba"}),
        (APPLE, CUDA),
        ({**APPLE, "platform_machine": "x86_64"}, CUDA | {"numba"}),
        (WINDOWS, set()),
        ({**WINDOWS, "platform_machine": "ARM64"}, set()),
        ({**WINDOWS, "platform_machine": "x86"}, CUDA | {"numba"}),
    ],
)
def test_a_plain_install_leaves_out_what_has_no_wheel(platform: dict[str, str], left_out: set[str]) -> None:
    core = [Requirement(r) for r in tomllib.loads(PYPROJECT)["project"]["dependencies"]]
    brought = {r.name for r in core if r.marker is None or r.marker.evaluate(platform)}
    assert {r.name for r in core} - brought == left_out
    assert {"jinja2", "pyelftools"} <= brought


def test_extras_that_a_plain_install_replaces_are_empty_names() -> None:
    extras = tomllib.loads(PYPROJECT)["project"]["optional-dependencies"]
    empty = {"sass", "fast", "report", "validation"}
    assert {name for name, brought in extras.items() if not brought} == empty
    assert extras.keys() - empty == {"gpu", "triton", "sweep", "cluster", "pytest", "docs", "test"}


def test_the_command_for_musl_installs_every_dependency_that_has_no_marker() -> None:
    """Neither NVIDIA nor Numba has wheels for musl, and no marker says musl."""
    text = (ROOT / "docs/systems.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"^pip install --no-deps \. && pip install (.*)$", text, re.MULTILINE)
    core = [Requirement(r) for r in tomllib.loads(PYPROJECT)["project"]["dependencies"]]
    assert names.split() == [r.name for r in core if r.marker is None]


def test_nothing_tells_to_install_from_an_index() -> None:
    """No index has gpuemu-sm."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = [ROOT / name for name in listed] or [
        p for f in ("docs", "gpuemu", "examples") for p in (ROOT / f).rglob("*")
    ]
    promised = re.compile(rb"pip3? (?:install|download) (?:-\S+ )*[\\\"']*gpuemu")
    found = [f for f in files if f.suffix in (".md", ".py", ".ipynb", ".yml") and promised.search(f.read_bytes())]
    assert found == []


def test_the_test_command_uses_the_constraints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"<!-- the test command -->\n```sh\n(.*?)\n", text)
    assert command.endswith(' install --quiet -c constraints.txt ".[test]"')
