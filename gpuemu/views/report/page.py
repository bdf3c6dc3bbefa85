"""The report as HTML. Template, style and scripts lie beside this file; the page holds them, and the data as JSON.

Whatever comes from outside (names, sources, notes) is escaped: by the template, by the JSON, and in scripts, which
write text only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.base.extras import missing
from gpuemu.views.grid import rests_on
from gpuemu.views.json_result import overrides
from gpuemu.views.report.data import page_data
from gpuemu.views.report.values import values
from gpuemu.views.result import Result
from gpuemu.views.source import Texts, texts_in
from gpuemu.views.sure.estimate import MOST, Sure

FOLDER = Path(__file__).parent
SCRIPTS = ("base.js", "source.js", "banks.js", "tracks.js", "timeline.js")
INSTALL = 'pip install "gpuemu-sm[report]"'

Ranking = Sequence[Mapping[str, str | int | float]]


def as_html(result: Result, texts: Texts | None = None, ranking: Ranking = (), sure: Sure | None = None) -> str:
    """The page.

    `texts`: lines of source files, by the names that the code gives them; where one is missing, the trace may have it.
    `ranking`: rows of a table of what costs most, under the names of its columns; its section is there if it has rows.
    `sure`: how sure the cycles are, if it was asked for. Raises MissingToolError without jinja2.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing("jinja2", f"{INSTALL} brings it") from None
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    data = page_data(result, {**texts_in(result.trace), **(texts or {})}, sure)
    page = environment.get_template("page.html.j2")
    return page.render(
        result=data["result"],
        limited_by=result.grid.whole.limited_by if result.grid.whole else "",
        rests_on=rests_on(result.grid),
        trace=result.trace,
        arch=result.arch,
        changes=overrides(result.arch),
        total=sum(result.stalls.values()),
        reasons=_meanings(),
        values=values(result.program, result.arch),
        has_lines=bool(data["lines"]),
        has_tracks=bool(data["tracks"]),
        has_accesses=bool(data["banks"]["accesses"]),
        ranking=list(ranking),
        most=MOST,
        data=_script_safe(data),
        style=(FOLDER / "report.css").read_text(encoding="utf-8"),
        scripts="\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS),
    )


def _script_safe(data: Any) -> str:
    """JSON that no parser of HTML sees anything in."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _meanings() -> dict[str, str]:
    """What each stall reason means, as the schema of the result says."""
    schema = json.loads((FOLDER.parent / "result.schema.json").read_text(encoding="utf-8"))
    reasons = schema["$defs"]["stalls"]["properties"]
    return {name: reason["description"] for name, reason in reasons.items()}
