"""Renews what README.md, docs and the report's module show of commands: tools/renew_documents.py [PAGE...]

The README's table of accuracy comes from the committed scores. tools/renew_picture.py renews the README's picture.
Read the difference before it is committed: nothing here knows whether a figure is right.
"""

from __future__ import annotations

import lzma
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402

from gpuemu.cli.main import SECTIONS, cli  # noqa: E402
from validation import launches, score  # noqa: E402
from validation.suite import mean_error  # noqa: E402

TRITON_CUBIN = ROOT / "tests/sass/other_compilers/triton/cubins/softmax.sm_90.cubin.xz"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "validation/accuracy.md"]
WIDTH = 100
"""Characters per line of the help."""
REPORT = ROOT / "gpuemu" / "views" / "text.py"


def printed(command: str, folder: Path) -> str:
    """The output of a command in that folder, or its errors if it prints nothing else. Lines may end in a backslash."""
    words = [sys.executable, "-m", "gpuemu", *shlex.split(command.replace("\\\n", " "))[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return ran.stdout or ran.stderr


def files_shown(folder: Path) -> None:
    """Put there the repository's traces and examples, and the files that the documents show.

    A shown file begins with a comment that names it; the example trace has none. Triton made softmax.cubin.
    """
    for name in ("traces", "examples"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:yaml|cuda|csv)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            name = re.match(r"(?:#|//) (\S+\.(?:yaml|cuh?|csv))\n", block)
            if name or document.name == "trace.md":
                file = folder / (name[1] if name else "column_sum.yaml")
                file.parent.mkdir(exist_ok=True)
                file.write_text(block, encoding="utf-8")
    (folder / "softmax.cubin").write_bytes(lzma.decompress(TRITON_CUBIN.read_bytes()))


def excerpt(output: str, shown: str) -> str:
    """The part of an output that a block shows.

    A block that ends with ... keeps its number of lines. One that also begins with ... starts at the line whose first
    two words are those of its first line.
    """
    if not shown.endswith("...\n"):
        return output
    before, lines, first = "", output.splitlines(keepends=True), 0
    if shown.startswith("...\n"):
        before, shown = "...\n", shown.removeprefix("...\n")
        first = [line.split()[:2] for line in lines].index(shown.split("\n")[0].split()[:2])
    return before + "".join(lines[first : first + shown.count("\n") - 1]) + "...\n"


def renewed(text: str, folder: Path) -> str:
    """A document with the output of each command as it is now."""

    def block(match: re.Match[str]) -> str:
        command, shown = match[1], match[2]
        return f"```text\n$ {command}\n{excerpt(printed(command, folder), shown)}```\n"

    shown = r"^```text\n\$ (gpuemu (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```\n"
    return re.sub(shown, block, text, flags=re.MULTILINE | re.DOTALL)


def with_examples(text: str) -> str:
    """A document with the table of Hopper's example kernels as it is now, if it has one."""
    command = [sys.executable, str(ROOT / "tools/hopper/examples.py"), "compare"]
    rows = r"^\| kernel \| warm: emulated.*?\n\n"
    if not re.search(rows, text, re.MULTILINE | re.DOTALL):
        return text
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.sub(rows, lambda _: f"{table}\n", text, flags=re.MULTILINE | re.DOTALL)


def accuracy() -> str:
    """The README's table of accuracy, from the committed scores, counts and pages."""
    report = ROOT / "validation/report/h200"
    held_out = [s for s in score.read_scores(report / "scores.csv") if s.held_out]
    scored = launches.read_scores(report / "launches.csv")
    counted = [ROOT / "tests/data" / name for name in ("h200/patterns.csv", "h100/copies.csv")]
    patterns = sum(len(path.read_text(encoding="utf-8").splitlines()) - 1 for path in counted)
    page = " ".join((ROOT / "validation/accuracy.md").read_text(encoding="utf-8").split())
    ((grids, grid_median, grid_mean),) = re.findall(r"error of (\d+) grids is ([\d.]+)%, the mean ([\d.]+)%", page)
    ((others, mean, median),) = re.findall(r"\| held out \| (\d+) \| (\d+)% \| (\d+)% \|", page)
    counts = " / ".join(str(len(group)) for group in scored.values())
    errors = " / ".join(f"{fmean(abs(s.error) for s in group):.1%}" for group in scored.values())
    rows = [
        ("What is compared", "With", "Result"),
        ("---", "---", "---"),
        ("Shared-memory wavefronts and bank conflicts", f"H200, H100: {patterns:,} access patterns", "all equal"),
        ("Tensor-core results", "H200: sampled operands", "bit-identical"),
        ("Cycles of one SM in steady state", f"H200: {len(held_out)} held-out kernels",
         f"mean error {mean_error(held_out):.1%}"),
        (f"Cycles of short launches, {' / '.join(scored)} caches", f"H200: {counts} held-out launches",
         f"mean error {errors}"),
        ("Cycles of whole grids", f"H100: {grids} held-out grids", f"median error {grid_median}%, mean {grid_mean}%"),
        ("Duration of kernels that other projects published", f"H100: {others} held-out launches",
         f"median error {median}%, mean {mean}%"),
    ]  # fmt: skip
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_accuracy(text: str) -> str:
    """A document with the table of accuracy below its marker, if it has one."""
    return re.sub(
        r"^<!-- accuracy -->\n(?:\|.*\n)*", lambda _: f"<!-- accuracy -->\n{accuracy()}", text, flags=re.MULTILINE
    )


def helps(name: str, command: click.Command, parent: click.Context) -> list[str]:
    """The help of a command and of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
    subcommands = command.commands.items() if isinstance(command, click.Group) else ()
    return [command.get_help(context), *(text for sub, c in subcommands for text in helps(sub, c, context))]


def commands() -> str:
    """Each command with its help, by section."""
    names_of_help = cli.context_settings["help_option_names"]  # as in a terminal, whoever asked for help before
    top = click.Context(
        cli, info_name="gpuemu", terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names_of_help
    )
    text = ""
    for section, names in SECTIONS.items():
        text += f"\n## {section}\n"
        for name, line in names.items():
            command = cli.get_command(top, name)
            assert command is not None
            shown = "\n\n".join(helps(name, command, top))
            text += f"\n### gpuemu {name}\n\n{line}\n\n```\n{shown}\n```\n"
    return text


def with_commands(text: str) -> str:
    """A document with the commands below its marker, to its end, if it has one."""
    head, marker, _ = text.partition("<!-- commands -->\n")
    return head + marker + commands() if marker else text


def main(names: Sequence[str]) -> None:
    """Write the files; with names, those pages alone, and not the report's module."""
    chosen = [ROOT / name for name in names]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files_shown(folder)
        for document in chosen or DOCUMENTS:
            text = document.read_text(encoding="utf-8")
            document.write_text(
                with_commands(with_accuracy(with_examples(renewed(text, folder)))), encoding="utf-8", newline="\n"
            )
    if chosen:
        return
    text = REPORT.read_text(encoding="utf-8")
    head, _, rest = text.partition("prints\n\n")
    sample = printed("gpuemu run traces/v2_shared_memory.yaml --arch sm_89", ROOT)
    lines = "".join(f"    {line}" if line.strip() else line for line in sample.splitlines(keepends=True))
    tail = rest[rest.index("\nHow to read it.") :]
    REPORT.write_text(f"{head}prints\n\n{lines}{tail}", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
