"""The report of a score: pictures, tables and the worst kernels, as one page that needs no other file."""

from __future__ import annotations

import argparse
import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gpuemu
from validation import deviations, launches, pictures, records, score, suite
from validation.deviations import Deviation, reasons
from validation.score import headline, table
from validation.suite import Score, mean_error

SCORES_FILE, PAGE_FILE = "scores.csv", "report.html"
HEADLINE_FILE, FAMILIES_FILE, HISTOGRAM_FILE = "held_out.png", "families.png", "errors.png"
LAUNCH_SCORES_FILE, LAUNCHES_FILE = "launches.csv", "launches.png"
_WORST = 25

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em; color: #222; }
h1, h2 { font-weight: 600; line-height: 1.2; } h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
img { max-width: 100%; } pre { font-size: 12.5px; overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; }
td, th { padding: 3px 12px 3px 0; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } td, th { border-color: #444; } img { background: #fff; }
}
"""


Launches = Mapping[str, Sequence[Score]]
"""Whole launches of held-out kernels, by the state of the caches."""


def write_report(
    folder: Path, scores: Sequence[Score], device: dict[str, Any], arch: str, known: Sequence[Deviation],
    whole: Launches,
) -> list[Path]:  # fmt: skip
    """Write scores, pictures and page into `folder`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    gpu = str(device.get("name", "GPU"))
    suite.write(folder / SCORES_FILE, scores, score.COLUMNS)
    judged = [s for s in scores if s.held_out and not s.failure]
    title = f"{gpu}, {len(judged)} held-out kernels, mean error {mean_error(judged):.2%}"
    pictures.headline_scatter(scores, folder / HEADLINE_FILE, title)
    pictures.family_scatters(scores, folder / FAMILIES_FILE)
    pictures.histogram(scores, folder / HISTOGRAM_FILE)
    suite.write(folder / LAUNCH_SCORES_FILE, [s for group in whole.values() for s in group], launches.COLUMNS)
    pictures.launch_scatters(whole, folder / LAUNCHES_FILE)
    (folder / PAGE_FILE).write_text(_page(folder, scores, device, arch, known, whole), encoding="utf-8")
    names = (SCORES_FILE, LAUNCH_SCORES_FILE, HEADLINE_FILE, LAUNCHES_FILE, FAMILIES_FILE, HISTOGRAM_FILE, PAGE_FILE)
    return [folder / name for name in names]


def _page(
    folder: Path, scores: Sequence[Score], device: dict[str, Any], arch: str, known: Sequence[Deviation],
    whole: Launches,
) -> str:  # fmt: skip
    facts = ", ".join(f"{key} {value}" for key, value in sorted(device.items()) if key in
                      ("driver", "compiler", "cuda_runtime", "sm_clock_mhz", "multiprocessors"))  # fmt: skip

    def image(name: str, text: str) -> str:
        data = base64.b64encode((folder / name).read_bytes()).decode()
        return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}">'

    lines = table(scores, 0)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>gpuemu against {html.escape(str(device.get("name", "GPU")))}</title><style>{_STYLE}</style></head><body>
<h1>gpuemu against {html.escape(str(device.get("name", "GPU")))}</h1>
<p>{html.escape(launches.headline(whole))}. In steady state {html.escape(headline(scores))}.</p>
<p>Architecture file: {html.escape(arch)}. Measured with {html.escape(facts)}.</p>
<p>The machine code that ran on the GPU was replayed. Whole launches are measured from the launch to the last store
(sm__cycles_active.max), behind one that left its data in L2, or with all caches flushed; in steady state cycles are
counted from the clock reads around the second of two passes. Kernels that are held out were never seen by the fit.</p>
<h2>Whole launches of held-out kernels, emulated against measured</h2>
{image(LAUNCHES_FILE, "scatters of whole launches")}
<h2>Held-out kernels in steady state</h2>{image(HEADLINE_FILE, "scatter of the held-out kernels")}
<h2>Errors</h2>{image(HISTOGRAM_FILE, "histogram of the errors")}
<h2>By family</h2>{image(FAMILIES_FILE, "a scatter for each family")}
<pre>{html.escape(chr(10).join(lines))}</pre>
<h2>The worst kernels</h2>
{_worst(scores, known)}
{_failed(scores)}
</body></html>
"""


def _worst(scores: Sequence[Score], known: Sequence[Deviation]) -> str:
    rows = []
    for s in sorted((s for s in scores if not s.failure), key=lambda s: -abs(s.error))[:_WORST]:
        why = "; ".join(f"{d.id}: {d.what}" for d in reasons(s.name, list(known))) or "not known"
        held = "held out" if s.held_out else "seen"
        cells = (s.name, s.family, held, f"{s.measured:,}", f"{s.emulated:,}", f"{s.error:+.1%}", why)
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("kernel", "family", "", "measured", "emulated", "error", "reason"))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _failed(scores: Sequence[Score]) -> str:
    failed = [s for s in scores if s.failure]
    if not failed:
        return ""
    rows = "".join(f"<tr><td>{html.escape(s.name)}</td><td>{html.escape(s.failure)}</td></tr>" for s in failed)
    return f"<h2>Kernels that the emulator refused</h2><table>{rows}</table>"


def main(options: argparse.Namespace) -> None:
    """Score all kernels and the held-out launches, or read the scores, and write the report."""
    folder = records.data_folder(options.gpu)
    device = records.read_device(folder / records.DEVICE_FILE)
    arch = gpuemu.load_arch(options.arch or device["arch"])
    with suite.progress_bar() as progress:
        if options.scores:
            found = score.read_scores(options.scores)
        else:
            found = score.score(folder, arch, jobs=options.jobs, progress=progress)
        whole = {
            state: launches.score(folder, arch, state, "held-out", "", 0, options.jobs, progress)
            for state in launches.STATES
        }
    output = options.output or Path(__file__).resolve().parent / "report" / folder.name
    for path in write_report(output, found, device, arch.name, deviations.read_page(), whole):
        print(path)
    print(launches.headline(whole))
    print(headline(found))
