"""The documents are true: what they show is what the commands print, and their examples run."""

from __future__ import annotations

import lzma
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from forked import gpuemu, gpuemu_each

from gpuemu import load_arch
from gpuemu.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
TRITON_CUBIN = ROOT / "tests/sass/other_compilers/triton/cubins/softmax.sm_90.cubin.xz"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "validation/claims.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

TRANSLATIONS = {"tutorial_zh.md": ["tutorial.md", "tutorial_hopper.md"]}
"""Pages with the commands and outputs of others, in order: one test compares them, and they are not run again."""
EXECUTED = [path for path in DOCUMENTS if path.name not in TRANSLATIONS]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder to stand in for the checkout, so that what examples write does not land in it.

    In it are the files that the documents show: the example trace, and what begins with a comment `# NAME.yaml`,
    `# NAME.csv` or `// NAME.cu` or `.cuh`, and softmax.cubin, which Triton made.
    """
    for name in ("traces", "examples"):
        (tmp_path / name).symlink_to(ROOT / name, target_is_directory=True)
    (trace,) = blocks(ROOT / "docs" / "trace.md", "yaml")
    (tmp_path / "column_sum.yaml").write_text(trace, encoding="utf-8")
    for document in DOCUMENTS:
        for block in blocks(document, "yaml"):
            if name := re.match(r"# (\S+\.yaml)\n", block):
                (tmp_path / name[1]).write_text(block, encoding="utf-8")
        for language, form in (("cuda", r"// (\S+\.cuh?)\n"), ("csv", r"# (\S+\.csv)\n")):
            for block in blocks(document, language):
                if name := re.match(form, block):
                    (tmp_path / name[1]).parent.mkdir(exist_ok=True)
                    (tmp_path / name[1]).write_text(block, encoding="utf-8")
    (tmp_path / "softmax.cubin").write_bytes(lzma.decompress(TRITON_CUBIN.read_bytes()))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("document", EXECUTED, ids=lambda p: p.name)
def test_shown_output_is_what_the_command_prints(document: Path, checkout: Path) -> None:
    shows = [block.replace("\\\n", " ").partition("\n")[::2] for block in blocks(document, "text")]
    commands = [shlex.split(command.removeprefix("$ ")) for command, _ in shows]
    assert all(command[0] == "gpuemu" for command in commands)
    ran_each = gpuemu_each([command[1:] for command in commands], cwd=checkout)
    for (_, shown), ran in zip(shows, ran_each, strict=True):
        printed = ran.output or ran.errors  # a refusal says all on stderr
        part = shown.removesuffix("...\n")
        if part.startswith("...\n"):  # from the middle
            assert part.removeprefix("...") in printed
        else:
            assert printed.startswith(part) if part != shown else printed == shown


@pytest.mark.parametrize(("translated", "originals"), TRANSLATIONS.items())
def test_a_translation_has_the_commands_outputs_and_files_of_its_pages_in_the_same_order(
    translated: str, originals: list[str]
) -> None:
    texts = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in [translated, *originals]}
    pages = [texts.pop(translated), "\n".join(texts.values())]
    fenced, whole = (re.findall(r"^```\w+\n.*?^```$", page, re.MULTILINE | re.DOTALL) for page in pages)
    assert fenced == whole
    steps, all_steps = (re.findall(r"^## (\d+)\. ", page, re.MULTILINE) for page in pages)
    assert steps == all_steps


@pytest.mark.slow
def test_the_report_module_shows_what_is_printed() -> None:
    text = (ROOT / "gpuemu" / "views" / "text.py").read_text(encoding="utf-8")
    sample = text.partition("prints\n\n")[2].partition("\nHow to read it.")[0]
    printed = gpuemu("run", "traces/v2_shared_memory.yaml", "--arch", "sm_89").output
    assert "".join(line.removeprefix("    ") for line in sample.splitlines(keepends=True)) == printed


@pytest.mark.slow
@pytest.mark.parametrize("document", EXECUTED, ids=lambda p: p.name)
def test_shell_examples_run(document: Path, checkout: Path) -> None:
    lines = [line for block in blocks(document, "sh") for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("gpuemu ")]
    for command, ran in zip(commands, gpuemu_each(commands, cwd=checkout), strict=True):
        assert ran.status == 0, (command, ran.errors)


@pytest.mark.slow
@pytest.mark.parametrize("document", EXECUTED, ids=lambda p: p.name)
def test_python_examples_run_and_leave_the_files_of_the_pages_as_they_were(document: Path, checkout: Path) -> None:
    files = {path: path.read_bytes() for path in checkout.glob("*.yaml")}
    for block in blocks(document, "python"):
        # The package may be imported from the checkout or from an installation, the example from anywhere.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        done = subprocess.run(
            [sys.executable, "-c", block],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.slow
def test_the_example_trace_runs_and_a_tighter_pitch_costs_conflicts(tmp_path: Path) -> None:
    (trace,) = blocks(ROOT / "docs" / "trace.md", "yaml")
    (tmp_path / "column_sum.yaml").write_text(trace, encoding="utf-8")
    plain = gpuemu("run", "column_sum.yaml", "--fail-on", "excess_wavefronts>0", cwd=tmp_path)
    assert plain.status == 0, plain.errors
    tighter = gpuemu(
        "run", "column_sum.yaml", "--set", "layout.pitch=128", "--fail-on", "excess_wavefronts>0", cwd=tmp_path
    )
    assert tighter.status == 1, tighter.errors


@pytest.mark.slow
def test_the_page_on_accel_sim_shows_what_is_written(tmp_path: Path) -> None:
    (shown,) = blocks(ROOT / "docs" / "traceg.md", "traceg")
    assert gpuemu("trace", "v5_swizzle", "-o", "v5.traceg", cwd=tmp_path).status == 0
    assert (tmp_path / "v5.traceg").read_text(encoding="utf-8").startswith(shown.removesuffix("...\n"))


def test_the_readme_is_short_and_begins_early_with_a_command() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert lines.index("```sh") + 2 <= 40, "the line of the first command"
    assert next(n for n, line in enumerate(lines, 1) if line.startswith("$ gpuemu")) <= 45, "the first result"
    assert max(map(len, lines)) <= 150


def test_the_readme_has_the_accuracy_of_the_committed_scores() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    renew = runpy.run_path(str(ROOT / "tools/renew_documents.py"))
    assert renew["accuracy"]() in text, "python tools/renew_documents.py README.md writes it"
    stale = text.replace("mean error 1", "mean error 7")
    assert stale != text == renew["with_accuracy"](stale)


def test_the_readme_has_the_two_commands_and_links_that_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("python3 -m venv .venv") == 2
    assert "<!-- the test command -->\n```sh\npython3 -m venv .venv" in text
    for document in DOCUMENTS:
        prose = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
            assert "://" in link or (document.parent / link).exists(), f"{document.name}: {link}"


def test_every_unit_is_in_the_model_and_on_the_api_page_and_named_values_exist() -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    units = {path.stem for path in (ROOT / "gpuemu" / "engine" / "units").glob("*.py")} - {"__init__"}
    section = text[text.index("## The units") : text.index("## Whole launches")]
    assert units - set(re.findall(r"`(\w+)`", section)) == set()
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.\. automodule:: gpuemu\.engine\.units\.(\w+)$", api, re.MULTILINE)) == units
    values = load_arch("sm_90").flat()
    sections = {name.split(".")[0] for name in values}
    for name in re.findall(r"`([a-z_]\w*(?:\.[\w*]+)+)`", text):
        if name.split(".")[0] in sections and not name.endswith(".py"):
            form = re.compile(name.replace(".", r"\.").replace("*", r"\w+") + r"(\..+)?")
            assert any(form.fullmatch(value) for value in values), name


def test_the_page_of_commands_has_the_help_of_every_command() -> None:
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    renew = runpy.run_path(str(ROOT / "tools/renew_documents.py"))
    assert renew["with_commands"](text) == text, "python tools/renew_documents.py docs/commands.md writes it"
    assert text.count("\n### gpuemu ") == len(COMMANDS)


@pytest.mark.slow
def test_the_detailed_results_have_the_example_kernels_of_hopper_as_they_are_emulated() -> None:
    ran = subprocess.run(
        [sys.executable, "tools/hopper/examples.py", "compare"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout in (ROOT / "validation/accuracy.md").read_text(encoding="utf-8")
