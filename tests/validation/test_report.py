from __future__ import annotations

import re
from pathlib import Path

import pytest

from validation import launches, report
from validation.deviations import Deviation
from validation.score import Score

SCORES = [
    *(Score(f"mix_all_{i:03d}", "mix_all", i % 3 == 0, 1000 * (i + 1), 1030 * (i + 1), True, 0, 0.0) for i in range(9)),
    Score("tile_bad", "tile", True, 1000, 1500, True, 0, 0.0),
    Score("tile_refused", "tile", False, 1000, 0, None, 0, 0.0, "an instruction that <nobody> knows"),
]
WHOLE = {
    state: [launches.LaunchScore(f"mix_all_{i}", "mix_all", 1000 * i, 990 * i, 1100 * i, 1040 * i) for i in (1, 2, 3)]
    for state in launches.STATES
}
GAP = Deviation("D1", "instruction fetch", ("tile_*",), 0.1, "open")


@pytest.mark.slow
def test_the_page_stands_alone_and_names_what_is_wrong(tmp_path: Path) -> None:
    files = report.write_report(tmp_path, SCORES, {"name": "NVIDIA Tiny", "driver": "1"}, "sm_90", [GAP], WHOLE)
    assert all(file.stat().st_size > 0 for file in files)
    page = (tmp_path / report.PAGE_FILE).read_text()
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "D1: instruction fetch" in page
    assert "an instruction that &lt;nobody&gt; knows" in page
    assert "held out: 4 of 4 kernels run" in page
    assert (
        "whole launches: warm, 3 launches, mean error 4.00%, 100% within 5 %; "
        "flushed, 3 launches, mean error 4.00%, 100% within 5 %"
    ) in page
    assert launches.read_scores(tmp_path / report.LAUNCH_SCORES_FILE) == WHOLE


@pytest.mark.slow
def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (
        report.write_report(tmp_path / name, SCORES, {"name": "NVIDIA Tiny"}, "sm_90", [GAP], WHOLE)
        for name in ("a", "b")
    )
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]
