"""Builds what a release consists of: python tools/release.py v0.2.0 dist

The tag must be the version that pyproject.toml, the package and the newest heading of CHANGELOG.md have. The folder
gets the wheel, the sources, and notes.md, that version's release notes. Needs hatchling and editables, no network.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"^## (\S+) \((\d{4}-\d{2}-\d{2}|unreleased)\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Why this cannot be released under that tag."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    (package,) = re.findall(
        r'^__version__ = "(.*)"$', (root / "gpuemu" / "__init__.py").read_text("utf-8"), re.MULTILINE
    )
    noted = HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    heading, date = (noted[1], noted[2]) if noted else ("none", "unreleased")
    found = [
        f"{file}: found {version}; {tag.removeprefix('v')}, as the tag {tag}, is right"
        for file, version in (("pyproject.toml", project), ("gpuemu/__init__.py", package), ("CHANGELOG.md", heading))
        if f"v{version}" != tag
    ]
    return found + ["CHANGELOG.md: found no date; the day of the release is right"] * (date == "unreleased")


def notes(root: Path = ROOT) -> str:
    """The newest release notes, for a page elsewhere: links to files of the repository lead nowhere there and go."""
    noted = HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert noted is not None
    return re.sub(r"\[([^]]+)\]\((?!\w+://)[^)]+\)", r"\1", noted[3].strip()) + "\n"


def main(tag: str, folder: Path) -> int:
    """Build; 1 if something is not so."""
    wrong = problems(tag)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True)
    (folder / "notes.md").write_text(notes(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
