"""Clock values that the corpus's kernels save after a second execution: the replay's cycles, all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gpuemu
from validation import records, saved_clocks
from validation.__main__ import main
from validation.saved_clocks import SavedClocks, all_saved

FOLDER = records.data_folder("h200")


@pytest.mark.slow
def test_every_latency_microbenchmark_saves_the_cycles_of_its_replay() -> None:
    found = list(all_saved(FOLDER, saved_clocks.LATENCIES, gpuemu.load_arch("sm_90")))
    assert len(found) == 176
    assert [one.name for one in found if one.saved != one.replayed] == []
    assert [one.name for one in found if one.counted == one.replayed] == []
    assert {one.family for one in found} == {"latency", "memory_latency", "global", "tensor"}
    assert all(warp[-1] > 100 for one in found for warp in one.saved)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "warps"), [("queue_lds32_w4", 4), ("resident_lds128_w2_x2", 4), ("bar_lds_w2", 2)])
def test_several_warps_and_ctas_save_the_cycles_of_their_replay(name: str, warps: int) -> None:
    """Of one SM; the kernels of the queue read the clock 18 and more times a pass."""
    (found, *_) = all_saved(FOLDER, name, gpuemu.load_arch("sm_90"))
    assert found.saved == found.replayed
    assert len(found.saved) == warps


def test_the_command_counts_by_family_and_names_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = SavedClocks("lat_a", "latency", ((0, 9),), ((0, 9),), ((0, 2),))
    bad = replace(good, name="lat_b", saved=((0, 8),))
    monkeypatch.setattr(saved_clocks, "all_saved", lambda *_: iter([good]))
    assert main(["saved_clocks"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" 1 of     1 equal; 0 without the second execution")
    monkeypatch.setattr(saved_clocks, "all_saved", lambda *_: iter([good, bad]))
    assert main(["saved_clocks"]) == 1
    assert capsys.readouterr().out.startswith("lat_b: saved ((0, 8),), replayed ((0, 9),)\nlatency ")
