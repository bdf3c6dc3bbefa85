"""Counts faults of English in code, messages and pages: `python tools/prose.py` from the repository's root.

`--show` lists each fault with its file and line. `--sample N --seed S` prints sentences to read by eye. The counts are
a lower bound: a text without them may still be bad. `tests/documents/test_prose.py` holds them.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "idioms that are not English": r"\b(anew|hangs? on|held against|in the mean|torn apart|(is|are) told|tells? apart"
    r"|mend(s|ed|ing)?|gives? back|comes? to (a|the) (barrier|data stage)|makes? room)\b",
    "errors that say what would be right": r"\b(is|are) right\b",
    "sentences that begin with Of, What, Who or It": r"^(Of|What|Who|Whose|That of|Those|It|The same)\b",
    "stands, where it should be is": r"\bstands? (in|on|there|beside|with|at|behind)\b",
}
SHORTEST = 12
"""Characters of a literal above which it counts as text."""


class Text(NamedTuple):
    """A docstring, comment, message or line of a page."""

    path: str
    line: int
    text: str


def of_code(path: str, source: str) -> Iterator[Text]:
    """Literals with spaces, and comments."""
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and " " in value and len(value) > SHORTEST:
            yield Text(path, node.lineno, value.strip())
    for number, line in enumerate(source.splitlines(), 1):
        if found := re.search(r"(?:^|\s)# (.*)", line):
            yield Text(path, number, found[1].strip())


def of_page(path: str, content: str) -> Iterator[Text]:
    """Lines outside of code."""
    code = False
    for number, line in enumerate(content.splitlines(), 1):
        if line.startswith("```"):
            code = not code
        elif not code and line.strip() and not line.startswith("    "):
            yield Text(path, number, line.strip())


def texts(root: Path = ROOT) -> Iterator[Text]:
    """All texts of the package, the validation, the documentation and the README, except the Chinese tutorial."""
    for folder in ("gpuemu", "validation"):
        for file in sorted((root / folder).rglob("*.py")):
            yield from of_code(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    for file in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        if not file.stem.endswith("_zh"):
            yield from of_page(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))


def faults(found: Iterator[Text]) -> Iterator[tuple[str, Text]]:
    """Each fault with its kind."""
    for one in found:
        for kind, pattern in KINDS.items():
            for _ in re.findall(pattern, one.text, re.MULTILINE):
                yield kind, one


def sentences(found: Iterator[Text]) -> list[Text]:
    """Sentences of five words or more, without tables, headings and quotations."""
    return [
        Text(one.path, one.line, sentence.strip())
        for one in found
        if not one.text.startswith(("|", "#", ">"))
        for sentence in re.split(r"(?<=[.!?])\s+", one.text.replace("\n", " "))
        if len(sentence.split()) >= 5 and re.match(r"[A-Z`*]", sentence)
    ]


def main() -> None:
    """Print the counts, or a sample."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="list each fault")
    parser.add_argument("--sample", type=int, default=0, help="print this many random sentences")
    parser.add_argument("--seed", type=int, default=0, help="choose other sentences")
    options = parser.parse_args()
    if options.sample:
        every = sentences(texts())
        for one in random.Random(options.seed).sample(every, min(options.sample, len(every))):
            print(f"{one.path}:{one.line}: {one.text}")
        return
    counts = Counter(dict.fromkeys(KINDS, 0))
    for kind, one in faults(texts()):
        counts[kind] += 1
        if options.show:
            print(f"{one.path}:{one.line}: {kind}: {one.text.splitlines()[0]}")
    for kind, count in counts.items():
        print(f"{count:5}  {kind}")


if __name__ == "__main__":
    main()
