from __future__ import annotations

import re
from pathlib import Path

from validation import report
from validation.deviations import Deviation
from validation.score import Score

SCORES = [
    *(Score(f"mix_all_{i:03d}", "mix_all", i % 3 == 0, 1000 * (i + 1), 1030 * (i + 1), True, 0, 0.0) for i in range(9)),
    Score("tile_bad", "tile", True, 1000, 1500, True, 0, 0.0),
    Score("tile_refused", "tile", False, 1000, 0, None, 0, 0.0, "an instruction that <nobody> knows"),
]
GAP = Deviation("D1", "instruction fetch", ("tile_*",), 0.1, "open")


def test_the_page_stands_alone_and_names_what_is_wrong(tmp_path: Path) -> None:
    files = report.write_report(tmp_path, SCORES, {"name": "NVIDIA Tiny", "driver": "1"}, "sm_90", [GAP])
    assert all(file.stat().st_size > 0 for file in files)
    page = (tmp_path / report.PAGE_FILE).read_text()
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "D1: instruction fetch" in page
    assert "an instruction that &lt;nobody&gt; knows" in page
    assert "held out: 4 of 4 kernels run" in page


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (
        report.write_report(tmp_path / name, SCORES, {"name": "NVIDIA Tiny"}, "sm_90", [GAP]) for name in ("a", "b")
    )
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]
