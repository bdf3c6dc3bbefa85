"""The report as HTML. Template, style and scripts lie beside this file; the page holds them, and the data as JSON.

Text from outside (names, sources, notes) is escaped by the template and in the JSON. Scripts write text only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuemu.base.extras import INSTALL, missing
from gpuemu.views.definitions import definition
from gpuemu.views.diff_text import differing, title_of
from gpuemu.views.figures import changed_values, figures, headline, launch_sizes
from gpuemu.views.grid import not_refilled
from gpuemu.views.json_result import as_data
from gpuemu.views.metrics import metrics
from gpuemu.views.report.answer import FOLDED_SHARE, SHOWN, Ranking, bounds, causes, fix, stalls, waits
from gpuemu.views.report.data import page_data
from gpuemu.views.report.roofline import roofline
from gpuemu.views.report.values import sources, values
from gpuemu.views.result import Result
from gpuemu.views.source import Texts, texts_in
from gpuemu.views.stalls import stall_reason
from gpuemu.views.sure.estimate import MOST, Sure
from gpuemu.views.verdict import Verdict

FOLDER = Path(__file__).parent
SCRIPTS = ("theme.js", "base.js", "source.js", "banks.js", "tracks.js", "timeline.js")
MOST_WARPS = 256


def as_html(
    result: Result, texts: Texts | None = None, ranking: Ranking = (), verdicts: Sequence[Verdict] = (),
    sure: Sure | None = None, beside: Mapping[str, Any] | Result | None = None,
) -> str:  # fmt: skip
    """The page.

    `texts`: lines of source files by the names in the code; without one, the page takes the text that the trace keeps.
    `ranking`: the causes from `Answer.findings()` of `gpuemu.why`, the most expensive first.
    `verdicts`: the results of --fail-on and --baseline. `sure`: the range of the cycles, if it was asked for.
    `beside`: another run, or its data, to compare with. Raises MissingToolError without jinja2.
    """
    data = page_data(result, {**texts_in(result.trace), **(texts or {})}, sure)
    instructions = data["instructions"]
    found = causes(result, ranking, instructions)
    shown = values(result.program, result.arch)
    page: str = template("page.html.j2").render(
        result=data["result"], trace=result.trace, arch=result.arch,
        headline=headline(result), sizes=launch_sizes(result), changed=changed_values(result),
        figures=[*figures(result)], verdict=result.verdict, verdicts=verdicts,
        ranking=found, fix=fix(found), costs=[one for one in found if one["gained"] > 0][:SHOWN] if found else
        waits(result, instructions), bounds=bounds(result), stalls=stalls(result), folded=FOLDED_SHARE,
        beside=_beside(data["result"], as_data(beside) if isinstance(beside, Result) else beside),
        waited=sum(counts.data_stage_wait_cycles for counts in result.shared_memory.values()),
        l1=result.l1, sector_bytes=result.arch.global_memory.sector_bytes,
        schedulers=_schedulers(result), not_refilled=not_refilled(result.grid), roofline=roofline(result),
        warps=result.warps[:MOST_WARPS], used=[reason for reason, cycles in result.stalls.items() if cycles],
        stall_cycles=sum(result.stalls.values()), title_of=lambda reason: stall_reason(reason).title,
        has_lines=bool(data["lines"]), has_tracks=bool(data["tracks"]), has_accesses=bool(data["banks"]["accesses"]),
        values=shown, sources=sources(shown, result.arch), most=MOST,
        data=_script_safe(data), style=style(), scripts=scripts(SCRIPTS),
    )  # fmt: skip
    return page


@lru_cache
def template(name: str) -> Any:
    """A template beside this file, which escapes all values. Raises MissingToolError without jinja2.

    It is kept, because it takes as long to compile as a report to write.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing("jinja2", f"Install it with {INSTALL}") from None
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.globals["definition"] = definition
    return environment.get_template(name)


def style() -> str:
    """The style that all reports share."""
    return (FOLDER / "report.css").read_text(encoding="utf-8")


def scripts(names: Sequence[str]) -> str:
    """Scripts beside this file, in their order."""
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def _schedulers(result: Result) -> list[tuple[str, str]]:
    """The figures of schedulers and occupancy, under the profiler's names."""
    counts, occupancy = result.scheduler, result.occupancy
    issued = counts.per_cycle(counts.issued)
    return [
        ("Active Warps Per Scheduler", f"{counts.per_cycle(counts.active_warps):.2f}"),
        ("Eligible Warps Per Scheduler", f"{counts.per_cycle(counts.eligible_warps):.2f}"),
        ("Issued Warp Per Scheduler", f"{issued:.2f}"),
        ("No Eligible", f"{1 - issued:.1%}"),
        ("Theoretical Occupancy", f"{occupancy.theoretical:.1%}"),
        ("Achieved Occupancy", f"{occupancy.achieved:.1%}"),
    ]


def _beside(this: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The title and the cycles of another run, and each figure that differs: its name, there, here."""
    if other is None:
        return None
    there, here = metrics(other), metrics(this)
    rows = [(name, there.get(name, 0), here.get(name, 0)) for name in differing(there, here, everything=False)]
    return {"title": title_of(other), "cycles": other["cycles"], "rows": rows}


def _script_safe(data: Any) -> str:
    """JSON without a character that HTML parsers act on."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
