"""Help: one order, plain sentences, few examples, and commands that can be pasted."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from gpuemu.cli.help import GROUPS, Explained
from gpuemu.cli.main import COMMANDS, SECTIONS, cli

MOST_LETTERS, MOST_EXAMPLES = 69, 4
VERBS = {
    "Add", "Allow", "Also", "Apply", "Change", "Check", "Choose", "Compare", "Compile", "Create", "Define",
    "Describe", "Draw", "Estimate", "Execute", "Exit", "Find", "Fold", "Give", "Group", "Judge", "Keep",
    "Launch", "List", "Measure", "Name", "Pass", "Rank", "Read", "Record", "Remove", "Reserve", "Run", "Save",
    "Search", "Set", "Show", "Simulate", "Sort", "Start", "Stop", "Store", "Time", "Use", "Vary", "Verify",
    "Write",
}  # fmt: skip
"""First words of sentences that tell the program what to do."""


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = getattr(importlib.import_module(f"gpuemu.cli.{name}"), name)
        yield name, command
        for inner in getattr(command, "commands", {}).values():
            yield f"{name} {inner.name}", inner


ALL = dict(commands())


def shown(name: str, columns: int = 80) -> str:
    return CliRunner().invoke(cli, [*name.split(), "--help"], terminal_width=columns).output


def sentence_is_plain(text: str) -> bool:
    """A sentence, or two, that begins with a verb; a default in brackets may end it."""
    told = re.sub(r" ?\[[^]]*\]\.?", "", text).rstrip(".")
    return told.split()[0] in VERBS and text.endswith((".", "].")) and len(text) <= MOST_LETTERS


@pytest.mark.parametrize("name", ALL)
def test_each_option_has_an_imperative_sentence_of_under_70_characters(name: str) -> None:
    options = [p for p in ALL[name].params if isinstance(p, click.Option)]
    assert [(p.opts, p.help) for p in options if not sentence_is_plain(p.help or "")] == []


def test_the_rule_for_sentences_refuses_fragments_and_long_ones() -> None:
    assert sentence_is_plain("Show all rows.")
    assert not sentence_is_plain("Output.")
    assert not sentence_is_plain("Show all rows")
    assert not sentence_is_plain(f"Show {'very ' * 14}many rows.")


@pytest.mark.parametrize("name", ALL)
def test_each_command_says_what_it_does_in_its_first_line(name: str) -> None:
    help_text = ALL[name].help or ""
    first = help_text.split("\n\n")[0].replace("\n", " ")
    assert first.split()[0].rstrip(",") in VERBS
    assert first.endswith(".")
    assert len(first) <= 100


def test_the_groups_of_gpuemu_have_every_command_once() -> None:
    assert list(SECTIONS) == ["Analyze", "Explore", "Hardware", "Tools"]
    text = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    heads = [line.removesuffix(":") for line in text.splitlines() if re.fullmatch(r"\w+:", line)]
    assert heads == ["Options", *SECTIONS, "Examples"]
    for name, line in COMMANDS.items():
        assert line.split()[0].rstrip(",") in VERBS
        assert len(line) < 70
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE), name


@pytest.mark.parametrize("name", ALL)
def test_options_come_first_and_at_most_four_examples_follow(name: str) -> None:
    command, text = ALL[name], shown(name)
    assert isinstance(command, Explained)
    assert len(command.examples) <= MOST_EXAMPLES
    before, _, after = text.partition("\nExamples:\n")
    assert "\nOptions:\n" in before
    assert after.count("    gpuemu ") + after.count("    ncu ") == len(command.examples)


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ALL)
def test_examples_can_be_pasted_at_every_width_and_tables_have_no_continuation(name: str, columns: int) -> None:
    command, text = ALL[name], shown(name, columns)
    assert isinstance(command, Explained)
    before, _, after = text.partition("\nExamples:\n")
    assert "\\" not in before
    pasted = re.sub(r" \\\n +", " ", after)
    for purpose, example in command.examples.items():
        assert f"    {example}\n" in pasted, purpose
        assert shlex.split(example)[0] in ("gpuemu", "ncu")
    wide = [line for line in text.splitlines() if len(line) > columns and not re.search(r"'.*'|\S{36}", line)]
    assert wide == []


def test_an_option_and_its_value_stay_on_one_line() -> None:
    text = shown("run", 60)
    assert re.search(r"--arg zeros:f32:1024", text)
    assert not re.search(r"--(arg|block|grid|kernel) \\$", text, re.MULTILINE)


def test_every_name_of_a_group_is_a_parameter_of_some_command() -> None:
    known = {p.name for command in ALL.values() for p in command.params}
    assert {name for names in GROUPS.values() for name in names.split()} <= known


@pytest.mark.slow
def test_help_off_a_terminal_has_100_columns_unless_the_environment_says_otherwise() -> None:
    import os

    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def widest(**more: str) -> int:
        words = [sys.executable, "-m", "gpuemu", "run", "--help"]
        done = subprocess.run(words, env={**env, **more}, capture_output=True, text=True, check=True)
        return max(map(len, done.stdout.splitlines()))

    assert 90 < widest() <= 100
    assert 50 < widest(COLUMNS="64") <= 64
