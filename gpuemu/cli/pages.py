"""The pages of `gpuemu run` in each output format."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.terminal import style

if TYPE_CHECKING:
    from gpuemu.views.result import Result
    from gpuemu.views.sure.estimate import Sure
    from gpuemu.views.verdict import Verdict

PAGES = {
    "summary": ("text", "json", "html", "perfetto", "junit", "sarif", "github"),
    "source": ("text", "json", "csv"),
    "timeline": ("text", "json", "csv", "perfetto"),
}
"""The formats of each page."""
FORMS = tuple(dict.fromkeys(form for forms in PAGES.values() for form in forms))
OF_VERDICTS = ("junit", "sarif", "github")
"""Formats for CI, which contain the verdicts of `--fail-on` and `--baseline`."""
STYLES: dict[str, dict[str, Any]] = {
    "plain": {}, "strong": {"bold": True}, "faint": {"dim": True}, "bad": {"fg": "red"},
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """A page to show: its format, and how much of it."""

    page: str
    form: str
    by_line: bool = False
    hottest: bool = False
    warps: tuple[str, ...] = ()
    start: int | None = None
    cycles: int | None = None
    to_a_file: bool = False
    sources: tuple[Path, ...] = ()
    everything: bool = False
    again: str = ""

    @property
    def is_rows(self) -> bool:
        """Whether the page has rows only, with no room for notes."""
        return self.form == "csv" or (self.form == "json" and self.page != "summary")

    def __post_init__(self) -> None:
        if self.form in PAGES[self.page]:
            return
        if self.form == "csv":
            right = "Only the source page has this format: --page source --format csv"
        else:
            right = f"expected {', '.join(PAGES[self.page])} for --page {self.page}"
        raise GpuemuError.one("--format", None, "", self.form, right)


def beside(also: Iterable[str], sources: tuple[Path, ...]) -> list[tuple[Path, Wanted]]:
    """The outputs of `--also FORMAT=FILE`. Raises GpuemuError."""
    found = []
    for text in also:
        form, _, file = text.partition("=")
        if form not in PAGES["summary"] or not file:
            right = f"expected FORMAT=FILE, of the formats {', '.join(PAGES['summary'])}"
            raise GpuemuError.one("--also", None, "", f"'{text}'", right)
        found.append((Path(file), Wanted("summary", form, to_a_file=True, sources=sources)))
    return found


def rendered(
    result: Result,
    wanted: Wanted,
    ranking: Sequence[Mapping[str, Any]] = (),
    verdicts: Sequence[Verdict] = (),
    sure: Sure | None = None,
    other: Mapping[str, Any] | None = None,
) -> str:
    """The page as text. `ranking`: the most expensive causes, for the report. `verdicts`: see `--fail-on`. `sure`: the
    uncertainty of the cycles. `other`: the data of a second run to show beside this one in the report.

    Raises GpuemuError for warps that do not exist.
    """
    if wanted.form in OF_VERDICTS:
        return _of_verdicts(result, wanted, verdicts)
    if wanted.form == "perfetto":
        from gpuemu.views.perfetto import as_perfetto

        return as_perfetto(result)
    if wanted.form == "html":
        from gpuemu.views.report.page import as_html

        return as_html(result, source_texts(result, wanted.sources), ranking, verdicts, sure, other)
    if wanted.page == "source":
        return _source(result, wanted)
    if wanted.page == "timeline":
        return _timeline(result, wanted)
    from gpuemu.views.json_result import as_data
    from gpuemu.views.text import WIDTH, report

    if wanted.form == "json":
        return _json(as_data(result, sure))
    lines = report(result, columns_of(WIDTH, wanted.to_a_file), wanted.everything, wanted.again, sure)
    return styled(lines, not wanted.to_a_file)


def _of_verdicts(result: Result, wanted: Wanted, verdicts: Sequence[Verdict]) -> str:
    from gpuemu import __version__
    from gpuemu.trace.lines import paths_of
    from gpuemu.views.json_result import as_data
    from gpuemu.views.metrics import metrics

    paths = paths_of(result.trace, wanted.sources)
    if wanted.form == "sarif":
        from gpuemu.views.sarif import as_sarif

        return as_sarif(result, verdicts, paths, __version__)
    values = metrics(as_data(result))
    if wanted.form == "junit":
        from gpuemu.views.junit import as_junit
        from gpuemu.views.text import report

        text = styled(report(result, everything=True), colour=False)
        return as_junit(result.trace.name, result.arch.name, values, verdicts, text)
    from gpuemu.views.markdown import as_markdown

    return as_markdown(result, values, verdicts, paths)


def source_texts(result: Result, places: Iterable[Path]) -> dict[str, list[str]]:
    """The lines of the source files that the code names, from `places` or else from the trace."""
    from gpuemu.trace.lines import texts_of
    from gpuemu.views.source import lines_of, texts_in

    files = {name: lines_of(text) for name, text in texts_of(result.trace, places).items()}
    return {**texts_in(result.trace), **files}


def _source(result: Result, wanted: Wanted) -> str:
    from gpuemu.views import source_text

    texts = source_texts(result, wanted.sources)
    if wanted.form == "csv":
        return source_text.as_csv(result, wanted.by_line, texts)
    if wanted.form == "json":
        return _json(source_text.records(result, wanted.by_line, texts))
    columns = columns_of(source_text.WIDTH, wanted.to_a_file)
    return styled(source_text.page(result, wanted.hottest, texts, columns), not wanted.to_a_file)


def _timeline(result: Result, wanted: Wanted) -> str:
    from gpuemu.views import timeline_text

    window = timeline_text.Window(wanted.warps, wanted.start, wanted.cycles)
    if wanted.form == "csv":
        return timeline_text.as_csv(result, window)
    if wanted.form == "json":
        return _json(timeline_text.as_records(result, window))
    columns = columns_of(timeline_text.WIDTH, wanted.to_a_file)
    return styled(timeline_text.page(result, window, columns), not wanted.to_a_file)


def columns_of(elsewhere: int, to_a_file: bool = False) -> int:
    """The width of the terminal or of COLUMNS, from 60 to 200; otherwise `elsewhere`, so that equal runs give equal
    bytes.
    """
    asked = os.environ.get("COLUMNS", "")
    if to_a_file or not (sys.stdout.isatty() or (asked.isdecimal() and int(asked))):
        return elsewhere
    return min(200, max(60, shutil.get_terminal_size().columns))


def _json(data: Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def fitted(line: str, columns: int, hang: int = 4) -> list[str]:
    """Wrap a line at `columns`, with later lines `hang` further in. The line stays whole if `columns` is 0."""
    if not columns or len(line) <= columns:
        return [line]
    within = " " * min(columns // 2, len(line) - len(line.lstrip()) + hang)
    return wrap(line, columns, subsequent_indent=within, break_on_hyphens=False, break_long_words=False) or [""]


def styled(lines: Iterable[tuple[str, str]], colour: bool) -> str:
    """Join styled lines into one text: with `colour` for a terminal, wrapped to its width."""
    columns = columns_of(0, not colour)
    fits = ((name, part) for name, line in lines for part in fitted(line, columns))
    return "\n".join(style(line, **STYLES[name]) if colour else line for name, line in fits) + "\n"
