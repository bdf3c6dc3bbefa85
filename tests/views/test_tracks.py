"""Copies, mbarriers and warpgroups as tracks beside the warps: terminal, Perfetto, report."""

from __future__ import annotations

import json

import pytest

import gpuemu
from gpuemu.views import timeline_text
from gpuemu.views.perfetto import as_perfetto
from gpuemu.views.report.data import page_data
from gpuemu.views.tracks import Span, Track, drawn, tracks


@pytest.fixture(scope="module")
def result() -> gpuemu.Result:
    return gpuemu.run("product_warpgroups", "sm_90")


def test_a_ring_has_a_track_a_stage_and_a_warpgroup_one(result: gpuemu.Result) -> None:
    found = {track.name: track for track in tracks(result)}
    assert [*found] == [*(f"{name} {k}" for name in ("full", "empty") for k in range(4)), "wgmma 4-7", "wgmma 8-11"]
    for k in range(4):
        copies = [s for s in found[f"full {k}"].spans if s.kind == "copy"]
        ends = [s.start for s in found[f"full {k}"].spans if s.kind == "over"]
        assert [s.text for s in copies] == ["16,384 bytes"] * 4
        assert ends == [s.stop for s in copies[1::2]]  # a phase ends with the second of its boxes
    assert sum(s.text == "4 products" for s in found["wgmma 4-7"].spans) == 8


def test_a_track_is_drawn_with_the_rarest_on_top() -> None:
    spans = (Span(0, 10, "copy", ""), Span(4, 8, "wait", ""), Span(9, 10, "over", ""), Span(90, 95, "copy", ""))
    assert drawn(Track("full 0", 0, spans), 0, 20, 1) == "CCCCwwwwC|"
    assert drawn(Track("full 0", 0, spans), 2, 20, 4) == "w|"


def test_the_page_in_the_terminal_has_them_in_its_window(result: gpuemu.Result) -> None:
    lines = [text for _, text in timeline_text.page(result, timeline_text.Window(("4",), 1300, 900))]
    (head,) = (n for n, text in enumerate(lines) if text.startswith("copies, mbarriers and warpgroups; cycles 1300"))
    assert [text.split("  ")[0] for text in lines[head + 2 : head + 6]] == ["full 0", "full 1", "full 2", "full 3"]
    assert all(len(text) <= timeline_text.WIDTH for text in lines)
    plain = timeline_text.page(gpuemu.run("v5_swizzle", "sm_89"), timeline_text.Window())
    assert not any("mbarriers" in text for _, text in plain)


@pytest.mark.slow
def test_perfetto_has_them_as_a_process_of_the_cta(result: gpuemu.Result) -> None:
    events = json.loads(as_perfetto(result))["traceEvents"]
    (process,) = {e["pid"] for e in events if e.get("args", {}).get("name") == "beside the warps of CTA 0"}
    named = {e["tid"]: e["args"]["name"] for e in events if e["pid"] == process and e["name"] == "thread_name"}
    assert {"full 0, copy", "full 0, over", "empty 1, wait", "wgmma 8-11, product"} <= set(named.values())
    until: dict[int, int] = {}
    for event in events:
        if event["ph"] == "X" and event["pid"] == process:
            assert event["ts"] >= until.get(event["tid"], 0)  # no slice covers another
            until[event["tid"]] = event["ts"] + event["dur"]


def test_the_report_s_data_has_them(result: gpuemu.Result) -> None:
    told = page_data(result, {})["tracks"]
    assert [track["name"] for track in told] == [track.name for track in tracks(result)]
    assert told[0]["spans"][0][2] == "copy"
