"""What a reader refuses: tests compare the place and what is wrong; the whole text is in one golden file per reader.

    assert brief(caught.value) == ["t.yaml:6: layout.pitch: 16.5"]

The golden file of a test file has every text that its tests have seen. After a change of wording, run the whole test
file with GPUEMU_UPDATE_GOLDEN=1 and -n 0, and read the difference.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from gpuemu.base.errors import GpuemuError

_TEMPORARY = re.compile(r"\S*pytest-of-\S+?/pytest-\d+/(?:popen-gw\d+/)?[^/\s]+/")
_FOLDER = Path(__file__).resolve().parent / "golden" / "refusals"
_seen: dict[Path, set[str]] = {}
"""The texts of each golden file that is being written."""


def brief(error: GpuemuError, folder: object = "") -> list[str]:
    """For each problem its place and what is wrong; `folder`, such as tmp_path, is left out of it."""
    module = Path(os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]).stem
    _check(_FOLDER / f"{module}.txt", [_TEMPORARY.sub("", str(problem)) for problem in error.problems])
    return [_without(f"{problem.place}: {problem.found}", folder) for problem in error.problems]


def _without(text: str, folder: object) -> str:
    return text.replace(f"{folder}/", "") if folder else text


def _check(path: Path, texts: list[str]) -> None:
    if os.environ.get("GPUEMU_UPDATE_GOLDEN"):
        seen = _seen.setdefault(path, set())
        seen.update(texts)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in sorted(seen)), encoding="utf-8")
        return
    for text in texts:
        assert text in _golden(path), f"not in {path.name}: {text}"


@lru_cache
def _golden(path: Path) -> frozenset[str]:
    return frozenset(path.read_text(encoding="utf-8").splitlines())
