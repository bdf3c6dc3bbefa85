"""The report of a whole program: rows with their names, times that are not cut, and colors that follow the system."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from views.browser import Browser

from gpuemu.base.table import Table, number, words
from gpuemu.views.report.program import as_program_html, ticks


def page(launches: int) -> str:
    """The report of a program with a copy, some launches of 900 ns, and another copy."""
    runs = [
        {
            "start_ns": 2000 + 1000 * n, "duration_ns": 900, "process": 1, "values": "executed", "kernel": "scale",
            "grid": [4, 1, 1], "block": [256, 1, 1], "stream": 0,
        }
        for n in range(launches)
    ]  # fmt: skip
    copies = [
        {"start_ns": start, "duration_ns": 1500, "process": 1, "kind": kind, "bytes": 4000, "stream": 0}
        for start, kind in ((0, "HtoD"), (2000 + 1000 * launches, "DtoH"))
    ]
    data = {"launches": runs, "copies": copies, "chip": "H200", "arch": "sm_90", "exit_code": 0}
    table = Table([words("Kernel"), number("Launches")], [("scale", launches)])
    tables = dict.fromkeys(("kernels", "copies", "launches"), table)
    return as_program_html(data, "./app", tables, [], ["gpuemu exec --why scale -- ./app"])


@pytest.mark.parametrize("whole", [0.3, 3.0, 999.0, 15_300.0, 2.5e9])
def test_ticks_have_round_times_in_even_steps(whole: float) -> None:
    found = ticks(whole)
    assert 3 <= len(found) <= 10
    places = [tick["x"] for tick in found]
    assert max(places) <= 940
    assert max(b - a for a, b in pairwise([0.0, *places])) - min(b - a for a, b in pairwise([0.0, *places])) < 0.05
    for tick in found:
        assert float(tick["label"].removesuffix(" us").replace(",", "")) * 1000 == pytest.approx(
            tick["x"] * whole / 1000, rel=0.01
        )
    assert ticks(0.0) == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark"), (1920, "light")])
def test_the_timeline_is_whole(tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "program.html"
    file.write_text(page(12), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.dress(width, 900, scheme)
        browser.open(file)
        assert browser.js("document.documentElement.scrollWidth") == width
        assert browser.js("document.documentElement.dataset.theme") == scheme
        names = browser.js("[...document.querySelectorAll('.names div')].map(e => e.textContent)")
        assert names == ["Copies to the device", "Kernels", "Copies from the device"]
        cut = """(() => { const box = document.querySelector('.lanes .scroll').getBoundingClientRect();
            return [...document.querySelectorAll('.times span')].filter(e => e.getBoundingClientRect().right > box.right); })()"""
        assert browser.js(f"{cut}.length") == 0
        assert browser.js("document.querySelectorAll('.times span').length") > 4
        rows = browser.js(
            "[...document.querySelectorAll('.names div')].map(e => e.getBoundingClientRect().top)"
            ".map((top, n) => top - document.querySelectorAll('rect.span')[[0, 1, 13][n]].getBoundingClientRect().top)"
        )
        assert width == 390 or max(map(abs, rows)) < 6, "a name is beside its row"
