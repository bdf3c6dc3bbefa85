"""The report as HTML. Template, style and scripts lie beside this file; the page holds them, and the data as JSON.

Whatever comes from outside (names, sources, notes) is escaped: by the template, by the JSON, and in scripts, which
write text only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.base.extras import INSTALL, missing
from gpuemu.views.diff_text import differing, title_of
from gpuemu.views.grid import not_refilled, rests_on
from gpuemu.views.json_result import as_data, overrides
from gpuemu.views.metrics import metrics
from gpuemu.views.report.answer import SHOWN, Ranking, costs, roofline
from gpuemu.views.report.data import page_data
from gpuemu.views.report.values import values
from gpuemu.views.result import Result
from gpuemu.views.source import Texts, texts_in
from gpuemu.views.sure.estimate import MOST, Sure
from gpuemu.views.verdict import Verdict

FOLDER = Path(__file__).parent
SCRIPTS = ("base.js", "source.js", "banks.js", "tracks.js", "timeline.js")
MOST_WARPS = 256


def as_html(
    result: Result, texts: Texts | None = None, ranking: Ranking = (), verdicts: Sequence[Verdict] = (),
    sure: Sure | None = None, beside: Mapping[str, Any] | Result | None = None,
) -> str:  # fmt: skip
    """The page.

    `texts`: lines of source files, by the names that the code gives them; where one is missing, the trace may have it.
    `ranking`: what each cause costs, as `Answer.records()` of `gpuemu.why` has it, the most costly first; `verdicts`:
    what became of what was asked of the run; `sure`: how sure the cycles are, if it was asked for; `beside`: another
    run, or its data, whose figures stand beside those of this one.
    Raises MissingToolError without jinja2.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing("jinja2", f"Install it with {INSTALL}") from None
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
        not_refilled=not_refilled(result.grid),
        trace=result.trace,
        arch=result.arch,
        changes=overrides(result.arch),
        total=sum(result.stalls.values()),
        reasons=_meanings(),
        values=values(result.program, result.arch),
        has_lines=bool(data["lines"]),
        has_tracks=bool(data["tracks"]),
        has_accesses=bool(data["banks"]["accesses"]),
        most=MOST,
        ranking=ranking,
        ranking_much=[row for row in ranking if abs(int(row["Cycles gained"])) >= 0.01 * result.cycles],
        ranking_little=[row for row in ranking if abs(int(row["Cycles gained"])) < 0.01 * result.cycles],
        verdict=result.verdict,
        verdicts=verdicts,
        costs=costs(result, ranking, data["instructions"]),
        fix=next((row for row in ranking[SHOWN:] if row.get("Code") and int(row["Cycles gained"]) > 0), None),
        instructions=data["instructions"],
        waited=sum(counts.data_stage_wait_cycles for counts in result.shared_memory.values()),
        l1=result.l1,
        sector_bytes=result.arch.global_memory.sector_bytes,
        scheduler=result.scheduler,
        occupancy=result.occupancy,
        roofline=roofline(result),
        warps=result.warps[:MOST_WARPS],
        used=[reason for reason, cycles in result.stalls.items() if cycles],
        beside=_beside(data["result"], as_data(beside) if isinstance(beside, Result) else beside),
        data=_script_safe(data),
        style=(FOLDER / "report.css").read_text(encoding="utf-8"),
        scripts="\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS),
    )


def _beside(this: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What another run is called, and each figure that differs: its name, there, here."""
    if other is None:
        return None
    there, here = metrics(other), metrics(this)
    rows = [(name, there.get(name, 0), here.get(name, 0)) for name in differing(there, here, everything=False)]
    return {"title": title_of(other), "cycles": other["cycles"], "rows": rows}


def _script_safe(data: Any) -> str:
    """JSON that no parser of HTML sees anything in."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _meanings() -> dict[str, str]:
    """What each stall reason means, as the schema of the result says."""
    schema = json.loads((FOLDER.parent / "result.schema.json").read_text(encoding="utf-8"))
    reasons = schema["$defs"]["stalls"]["properties"]
    return {name: reason["description"] for name, reason in reasons.items()}
