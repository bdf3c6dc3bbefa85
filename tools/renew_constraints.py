"""Renews the versions that the tests are run with: python tools/renew_constraints.py

Writes constraints.txt, the newest release of every dependency for Python 3.11 and later, by uv in an environment of
its own, and in pyproject.toml the upper bound that belongs to each. `--keep-bounds` stays below the bounds that stand
there. Run the README's test command afterwards: what fails is not supported yet, so lower its bound and keep it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The versions that the tests are run with, on Python 3.11 to 3.13.
# Written by python tools/renew_constraints.py; pyproject.toml says which others are allowed.
"""


def requirements(pyproject: str) -> list[str]:
    """Every requirement in the text of a pyproject.toml, but those of the project itself."""
    tables = tomllib.loads(pyproject)
    project = tables["project"]
    lists = [tables["build-system"]["requires"], project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({r for each in lists for r in each if not r.startswith(project["name"])})


def upper_bound(version: str) -> str:
    """The first release after `version` that may break: the next major, minor of 0.x, or year of calendar versions."""
    major, minor = (int(n) for n in f"{version}.0".split(".")[:2])
    return f"0.{minor + 1}" if major == 0 else str(major + 1)


def pins(constraints: str) -> dict[str, str]:
    """The newest version of each package, of those for several Pythons."""
    newest: dict[str, str] = {}
    for name, version in re.findall(r"^([\w-]+)==([\w.]+)", constraints, re.MULTILINE):
        newest[name] = max(newest.get(name, version), version, key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
    return newest


def bounded(pyproject: str, newest: dict[str, str] | None = None) -> str:
    """The text with the upper bounds that belong to the `newest` versions, or with none."""
    for old in requirements(pyproject):
        least, semicolon, marker = re.sub(r",<[\w.]+", "", old).partition(";")
        name = least.partition(">=")[0].lower()
        bound = "" if newest is None else f",<{upper_bound(newest[name])}"
        new = least + bound + semicolon + marker
        pyproject = pyproject.replace(f'"{old}"', f'"{new}"')
    return pyproject


def resolve(pyproject: str) -> str:
    """What stands in constraints.txt for this pyproject.toml."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "pyproject.toml"), Path(folder, "constraints.txt")
        source.write_text(pyproject, encoding="utf-8")
        venv.create(Path(folder, "venv"), with_pip=True)
        binaries = Path(folder, "venv", "Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        options = ["--universal", "--python-version", "3.11", "--all-extras", "--no-header", "--no-annotate"]
        command = [binaries / "uv", "pip", "compile", "--quiet", *options, "--output-file", target, source]
        subprocess.run(command, check=True)
        return HEADER + target.read_text(encoding="utf-8")


def main() -> None:
    """Write both files."""
    project, constraints = ROOT / "pyproject.toml", ROOT / "constraints.txt"
    text = project.read_text(encoding="utf-8")
    keep = "--keep-bounds" in sys.argv[1:]
    resolved = resolve(text if keep else bounded(text))
    if not keep:
        project.write_text(bounded(text, pins(resolved)), encoding="utf-8", newline="\n")
    constraints.write_text(resolved, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
