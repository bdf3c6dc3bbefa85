"""Events of asynchronous instructions: as a builder and a file have them, and as a recorder writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuemu import GpuemuError, TraceBuilder, load_trace
from gpuemu.trace import recorded
from gpuemu.trace.events import DEFAULTS, FIELDS
from gpuemu.trace.model import Trace


def pipeline() -> TraceBuilder:
    """A warp that copies into a stage, the others that wait for it."""
    trace = TraceBuilder("pipeline", arch="sm_90", block=(64, 1, 1), static_shared_bytes=4096, layout={"box": 1024})
    with trace.only(warps=0):
        trace.emit("SYNCS.EXCH.64 URZ, [UR4+0x800], UR6", event={"barrier": 2048, "arrivals": 1})
    with trace.repeat(3):
        with trace.only(warps=0):
            trace.emit(
                "SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x800], R2", event={"barrier": 2048, "arrivals": 1, "bytes": "box"}
            )
            trace.emit(
                "UTMALDG.2D [UR8], [UR6]",
                event={
                    "each": [
                        {"barrier": 2048, "bytes": 1024, "shared": 0, "global": 64 * i, "line": 128} for i in (0, 7, 3)
                    ]
                },
            )
        trace.emit("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x800], R3", event={"barrier": 2048, "parity": "i % 2"})
        trace.emit("UTMASTG.2D [UR8], [UR6]", event={"each": [None, {"shared": 64, "bytes": 16}, None]})
    trace.emit("EXIT")
    return trace


def told(trace: Trace) -> list[list[dict[str, int] | None]]:
    assert trace.events is not None
    rows = [dict(zip(FIELDS, row, strict=True)) for row in trace.events.tolist()]
    return [
        [None if n < 0 else {k: v for k, v in rows[n].items() if v != DEFAULTS[k]} for n in w.events]
        for w in trace.warps
    ]


def test_events_are_those_that_expressions_and_lists_say() -> None:
    first, second = told(pipeline().build())
    wait = [{"barrier": 2048, "parity": parity} if parity else {"barrier": 2048, "parity": 0} for parity in (0, 1, 0)]
    store = [None, {"shared": 64, "bytes": 16}, None]
    assert second == [x for pair in zip(wait, store, strict=True) for x in pair]
    assert first[:3] == [
        {"barrier": 2048, "arrivals": 1}, {"barrier": 2048, "arrivals": 1, "bytes": 1024},
        {"barrier": 2048, "bytes": 1024, "shared": 0, "global": 0, "line": 128},
    ]  # fmt: skip
    assert [e["global"] for e in first if e and "global" in e] == [0, 448, 192]


@pytest.mark.parametrize("most_numbers", [recorded.MOST_NUMBERS, 0])
def test_events_outlive_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_numbers: int) -> None:
    trace = pipeline().build()
    monkeypatch.setattr(recorded, "MOST_NUMBERS", most_numbers)
    paths = recorded.write_trace(trace, tmp_path / "t.yaml")
    assert len(paths) == (1 if most_numbers else 2)
    assert told(load_trace(paths[0])) == told(trace)
    pipeline().write(tmp_path / "built.yaml")
    assert told(load_trace(tmp_path / "built.yaml")) == told(trace)


@pytest.mark.parametrize("most_numbers", [recorded.MOST_NUMBERS, 0])
def test_a_trace_from_before_events_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_numbers: int) -> None:
    trace = pipeline().build()
    old = replace(trace, events=None, warps=tuple(replace(w, events=None) for w in trace.warps))
    monkeypatch.setattr(recorded, "MOST_NUMBERS", most_numbers)
    loaded = load_trace(recorded.write_trace(old, tmp_path / "t.yaml")[0])
    assert loaded.events is None
    assert [np.array_equal(a.path, b.path) for a, b in zip(old.warps, loaded.warps, strict=True)] == [True, True]


def test_a_side_file_from_before_sleeps_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = pipeline()
    with trace.repeat(2):
        trace.emit("NANOSLEEP R4", event={"nanoseconds": 500})
    trace.emit("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x800], R3", event={"barrier": 2048, "parity": 1})
    new = trace.build()
    monkeypatch.setattr(recorded, "MOST_NUMBERS", 0)
    described, side = recorded.write_trace(new, tmp_path / "t.yaml")
    assert told(load_trace(described)) == told(new)
    arrays = dict(np.load(side))
    is_sleep = arrays["events"][:, FIELDS.index("nanoseconds")] > 0
    numbers, lengths = arrays["event_numbers"], arrays["event_lengths"]
    kept = ~is_sleep[numbers] | (numbers < 0)
    arrays["event_lengths"] = np.array([part.sum() for part in np.split(kept, np.cumsum(lengths)[:-1])])
    arrays["event_numbers"], arrays["events"] = numbers[kept], arrays["events"][:, : FIELDS.index("nanoseconds")]
    with side.open("wb") as file:
        np.savez(file, **arrays)
    without = [[None if e and "nanoseconds" in e else e for e in mine] for mine in told(new)]
    assert told(load_trace(described)) == without


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"place": 1}, "found the names place"),
        ({"barrier": 1.5}, "found barrier: 1.5"),
        ({"each": [None]}, "found 1 entries under each"),
        ({"barrier": "lane"}, "lane"),
    ],
)
def test_what_is_no_event_is_refused(event: dict[str, object], message: str) -> None:
    trace = pipeline()
    trace._events[0x20] = event
    with pytest.raises(GpuemuError, match=message):
        trace.build()


def test_an_event_of_another_instruction_is_refused() -> None:
    trace = pipeline()
    trace._events[0x50] = {"barrier": 0}
    with pytest.raises(GpuemuError, match="found an event at 0x0050"):
        trace.build()
