"""Run the notebooks of examples/ and keep what their cells show in them: python tools/renew_notebooks.py [--check]."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def shown(cells: list[dict[str, Any]]) -> Iterator[Any]:
    """Run the code cells one after another, and put their outputs in; the value that each ends in."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, start=1):
        *before, last = ast.parse("".join(cell["source"])).body
        assert isinstance(last, ast.Expr), "a cell ends in what it shows"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(before, []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        outputs: list[dict[str, Any]] = []
        if printed.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
        data = {"text/html": _lines(value._repr_html_()), "text/plain": [type(value).__name__]}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
        cell.update(execution_count=number, outputs=outputs)
        yield value


def renewed(path: Path) -> tuple[str, list[Any]]:
    """The text of a notebook with its outputs, and the values of its cells."""
    pages = json.loads(path.read_text(encoding="utf-8"))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            values = [*shown(pages["cells"])]
        finally:
            os.chdir(before)
    return json.dumps(pages, indent=1, ensure_ascii=False) + "\n", values


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    """Write them anew, or say which are old."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something is old")
    check, old = parser.parse_args().check, []
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        text, _ = renewed(path)
        if text != path.read_text(encoding="utf-8"):
            old.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    print(", ".join(old) or "all are as they should be")
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
