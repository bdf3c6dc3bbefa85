"""Run a program on an emulated GPU, for `gpuemu exec` and for `gpuemu run` of a source with a main function."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import write_whole
from gpuemu.cli.interrupts import left_to_a_script
from gpuemu.cli.pages import columns_of
from gpuemu.cli.terminal import own

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.programs.journal import Journal, LaunchRecord
    from gpuemu.programs.summary import Further
    from gpuemu.sass.launch_config import LaunchConfig

FORMS = ("text", "json", "html")
BAD_INPUT = 2
_AFTER_SECONDS, _EVERY_SECONDS = 2.0, 0.2
_WIPED = "\r\x1b[K"


@dataclass(frozen=True)
class ProgramOptions:
    """The options of `gpuemu exec` that say what to show."""

    form: str = "text"
    output: str | None = None
    seconds: int | None = None
    kernel: str = ""
    launches: int | None = None
    checked: bool = False
    error_exitcode: int | None = None
    asked: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Built:
    """A program that gpuemu has built, with the commands that build and run it."""

    how: str
    command: Sequence[str]


def run_on(arch: Architecture, command: Sequence[str], options: ProgramOptions, built: Built | None = None) -> int:
    """Run a program, show its launches and copies, and return the exit code. Raises GpuemuError."""
    from gpuemu.programs.device import Maker
    from gpuemu.programs.server import run_program
    from gpuemu.programs.settings import Settings
    from gpuemu.programs.summary import Further

    if options.form != "text" and options.output is None:
        wrong = f"there is no room for {options.form}, because standard output is the program's"
        raise GpuemuError.one("--format", None, "", wrong, "Add -o FILE")
    line = ProgressLine()
    settings = Settings(
        arch, options.seconds, options.kernel, options.launches, _check if options.checked else None, line.hear
    )  # fmt: skip
    maker = Maker(settings)
    journal = maker.journal
    how = "" if built is None else built.how
    further = Further(command if built is None else built.command, how, options.checked)
    try:
        with left_to_a_script():
            code, refused = run_program(list(command), maker)
    except GpuemuError:
        line.wipe()
        if journal.launches:
            _show(journal, arch, further, options, BAD_INPUT)
        raise
    line.wipe()
    code = BAD_INPUT if refused else 128 - code if code < 0 else code
    _show(journal, arch, further, options, code)
    for sentence in refused:
        click.echo(f"error: {sentence}", err=True)
    errors = _tell_findings(journal)
    if options.asked is not None:
        _show_why(journal, options.asked)
    if options.folder is not None:
        _save_traces(journal, Path(options.folder))
    return options.error_exitcode if errors and options.error_exitcode is not None else code


def _show(journal: Journal, arch: Architecture, again: Further, options: ProgramOptions, code: int) -> None:
    from gpuemu.programs import summary

    data = journal.data(code, arch.chip, arch.name)
    if options.form == "json":
        text = json.dumps(data, indent=2) + "\n"
    elif options.form == "html":
        from gpuemu.views.report.program import as_program_html

        tables = {
            "kernels": summary.kernel_table(journal), "copies": summary.copy_table(journal),
            "launches": summary.launch_table(journal),
        }  # fmt: skip
        notes = summary.notes_of(journal)
        text = as_program_html(data, shlex.join(again.command), tables, notes, again.lines(journal))
    else:
        text = summary.summary(journal, arch, again, columns_of(120, options.output is not None))
    if options.output is not None:
        write_whole(Path(options.output), text)
    else:
        click.echo(text, err=True, nl=False)


def _check(config: LaunchConfig) -> Sequence[Any]:
    from gpuemu.studies.check.api import check_launch

    return check_launch(config).findings


def _tell_findings(journal: Journal) -> bool:
    """Print each finding once, and return whether one is an error."""
    found = [finding for one in journal.launches for finding in one.findings]
    for sentence in dict.fromkeys(map(_sentence, found)):
        click.echo(sentence, err=True)
    return any(finding.severity.value == "error" for finding in found)


def _sentence(finding: Any) -> str:
    places = [f"{p.source[0]}:{p.source[1]}" for p in finding.points if p.source is not None]
    return f"{finding.tool}: {finding.title}: {finding.sentence}" + f" ({', '.join(places)})" * bool(places)


def _show_why(journal: Journal, name: str) -> None:
    """Print the causes of the longest launch of a kernel."""
    from gpuemu.studies.why import text as views
    from gpuemu.studies.why.api import why

    timed = [one for one in journal.launches if one.timed and one.timing and re.search(re.escape(name), one.kernel)]
    if not timed:
        names = ", ".join(dict.fromkeys(one.kernel for one in journal.launches)) or "none"
        wrong = f"the program launched no kernel '{name}' that gpuemu timed"
        raise GpuemuError.one("--why", None, "", wrong, f"Name one of: {names}")
    slowest = max(timed, key=lambda one: one.nanoseconds or 0.0)
    assert slowest.timing is not None
    assert slowest.timing.result is not None
    result = slowest.timing.result
    click.echo(f"\nlaunch {slowest.number} of {slowest.kernel}:", err=True)
    answer = why(result.trace, result.arch)
    for _, text in views.lines(answer, False, columns_of(views.WIDTH, False)):
        click.echo(text, err=True)


def _save_traces(journal: Journal, folder: Path) -> None:
    """Write a file for each timed launch, such as 0003_scale.yaml.gz."""
    from gpuemu.trace.recorded import write_trace

    folder.mkdir(parents=True, exist_ok=True)
    for one in journal.launches:
        if one.timed and one.timing is not None and one.timing.result is not None:
            write_trace(one.timing.result.trace, folder / f"{one.number:04}_{_file_name(one)}.yaml.gz")


def _file_name(one: LaunchRecord) -> str:
    return re.sub(r"\W+", "_", one.kernel).strip("_")[:60]


class ProgressLine:
    """A line on a terminal: the launch that executes, its progress, and an estimate of the remaining time."""

    def __init__(self) -> None:
        self._stream = own(sys.stderr)
        self._shown = self._stream.isatty()
        self._what, self._since, self._last = "", 0.0, 0.0

    @property
    def hear(self) -> Callable[[str, float | None], None] | None:
        """The listener, or None if standard error is not a terminal."""
        return self._hear if self._shown else None

    def wipe(self) -> None:
        if self._last:
            self._stream.write(_WIPED)
            self._stream.flush()
            self._last = 0.0

    def _hear(self, what: str, part: float | None) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._since = what, now
            self.wipe()
        took = now - self._since
        if took < _AFTER_SECONDS or now - self._last < _EVERY_SECONDS:
            return
        self._last = now
        text = f"gpuemu: {what}"
        if part:
            text += f", {part:.0%}, about {took * (1 - part) / part:,.0f} s left"
        self._stream.write(_WIPED + text)
        self._stream.flush()
