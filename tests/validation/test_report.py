from __future__ import annotations

import re
from pathlib import Path

import pytest

from validation import launches, report
from validation.deviations import Deviation
from validation.suite import Score

SCORES = [
    *(
        Score(name=f"mix_all_{i:03d}", family="mix_all", held_out=i % 3 == 0, measured=1000 * (i + 1),
              emulated=1030 * (i + 1), counters_equal=True)
        for i in range(9)
    ),
    Score(name="tile_bad", family="tile", held_out=True, measured=1000, emulated=1500, counters_equal=True),
    Score(name="tile_refused", family="tile", measured=1000, failure="an instruction that <nobody> knows"),
]  # fmt: skip
WHOLE = {
    state: [
        Score(name=f"mix_all_{i}", family="mix_all", state=state, measured=1000 * i, least=990 * i, most=1100 * i,
              emulated=1040 * i)
        for i in (1, 2, 3)
    ]
    for state in launches.STATES
}  # fmt: skip
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
