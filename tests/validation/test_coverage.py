"""How often measured figures lie in the range of --sure, and Accel-Sim's microbenchmarks beside the hardware."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gpuemu
from gpuemu.arch.ranges import Range
from validation import accelsim, coverage, published
from validation.__main__ import main
from validation.published_data import Check, Entry, load

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT.parent / "shared" / "evidence" / "accelsim_hw_cycles" / "ubench_gpc_cycles.csv"
TRANSPOSES = {"transpose_conflicts": "shared_bank_conflicts/1", "transpose_padded": "shared_bank_conflicts/2"}


def row(expected: float, emulated: float, source: str = "SUN", unit: str = "cyc") -> published.Figure:
    """A row of a chain of FFMA on sm_75."""
    check = Check(part="", expected=expected, probe="chain", parameters={"lines": ["FFMA R0, R0, R0, R0"]})
    entry = Entry("latency.x", expected, unit, source, "B", "", (check,), "")
    return published.Figure(name=entry.name, measured=expected, emulated=emulated, note="ok", entry=entry, check=check)


def inside(arch: gpuemu.Architecture, figure: published.Figure, move: bool = False) -> bool:
    """Whether the published figure lies in its range."""
    return coverage.is_inside(coverage.with_range(arch, figure, move))


def test_a_figure_within_the_models_share_is_inside_without_moving_anything():
    sm_75 = gpuemu.load_arch("sm_75")
    assert all(inside(sm_75, row(expected, 100.0)) for expected in (100.0, 105.0, 95.0))
    assert not coverage.is_inside(replace(row(4.4, 4.0), least=3.8, most=4.2))
    assert coverage.is_inside(replace(row(4.0, 3.4), least=3.2, most=3.6))  # a whole number may be off by a half


def test_a_figure_that_is_far_off_moves_the_values_and_may_stay_outside(monkeypatch):
    arch = gpuemu.load_arch("sm_75")
    latency = Range("operations.imad.latency_cycles", 5, 4, 8, "C", "")
    monkeypatch.setattr(coverage, "unsure", lambda _: [((), latency)])
    found = next(published.figures(arch, [entry for entry in load("sm_75") if entry.name == "latency.imad"]))
    assert inside(arch, found)
    near, far = (replace(found, check=replace(found.check, expected=expected)) for expected in (7.9, 90.0))
    assert not inside(arch, near)
    assert 8 < coverage.with_range(arch, near, move=True).most < 8.1
    assert inside(arch, near, move=True)
    assert not inside(arch, far, move=True)


def test_what_nobody_measured_is_no_figure():
    assert coverage.measured(row(4, 4))
    assert not coverage.measured(row(4, 4, source="WP; CUDA"))
    assert not coverage.measured(row(4, 4, unit="KiB"))
    assert coverage.measured(row(4, 4, source="WP; CIC"))


def test_the_page_says_how_many_figures_lie_inside_and_four_fifths_do():
    page = (ROOT / "validation" / "accuracy.md").read_text(encoding="utf-8")
    told = re.findall(r"\| (sm_\d+|all) \| (\d+) of (\d+) \| (\d+)% \|", page)
    assert {name for name, *_ in told} == {*published.ARCHITECTURES, "all"}
    for _, inside, of, share in told:
        assert int(share) == round(100 * int(inside) / int(of)) >= 80


def test_the_page_says_how_many_values_of_an_h200_are_sure():
    arch = gpuemu.load_arch("sm_90")
    of_units = [p.confidence for name, p in arch.provenance.items() if not name.startswith("chips.") and p.confidence]
    sure = sum(confidence in "AB" for confidence in of_units)
    page = (ROOT / "validation" / "accuracy.md").read_text(encoding="utf-8")
    assert f"{sure} of {len(of_units)} values of A and B" in page


def test_the_table_is_accel_sims_where_it_is_at_hand():
    with accelsim.MEASURED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    everywhere = {("H200", name) for name, kernel in accelsim.KERNELS.items() if kernel.everywhere}
    all_of_them = {(c, k) for c in accelsim.ARCHITECTURE for k in accelsim.KERNELS}
    assert {(r["chip"], r["kernel"]) for r in rows} == all_of_them - everywhere
    page = (ROOT / "validation" / "accuracy.md").read_text(encoding="utf-8")
    assert all(f"{int(r['measured']):,}" in page for r in rows)
    source = accelsim.SOURCE.read_text(encoding="utf-8")
    assert all(f"__global__ void {name}(" in source for name in accelsim.KERNELS)
    if TABLE.exists():
        theirs = {r["kernel"]: r for r in csv.DictReader(TABLE.open(encoding="utf-8", newline=""))}
        for r in rows:
            if r["chip"] not in ("A100", "H200"):
                assert not r["accelsim"]  # measured with these kernels, which Accel-Sim did not run
                continue
            known = theirs[TRANSPOSES.get(r["kernel"], r["kernel"])]
            assert float(r["measured"]) == round(float(known[f"{r['chip']}_hw_gpc_cycles"]))
            assert float(r["accelsim"]) == round(float(known[f"{r['chip']}_accelsim"]))


def test_what_a_turn_takes_gives_the_rest_of_a_loop(monkeypatch, capsys):
    """A launch of 2,830 cycles and 1,000, and 64 for each turn; the range is that of the short run, as a share."""

    def run(name: str, arch: gpuemu.Architecture, times: int) -> SimpleNamespace:
        cycles = 1000 + 64 * times
        return SimpleNamespace(
            cycles=cycles,
            on_the_chip=lambda: SimpleNamespace(elapsed=cycles + 2830),
            sure=lambda: SimpleNamespace(lowest=0.9 * cycles, highest=1.2 * cycles),
        )

    monkeypatch.setattr(accelsim, "run", run)
    assert main(["accelsim", "--chip", "H200", "--kernel", "MaxIops_int32", "--sure"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "H200      MaxIops_int32        emulated      69,366 measured      70,225  -1.2%  Accel-Sim  +0.3%"
        "  range 62,429 to 83,239 inside",
        "H200: 1 kernels, mean error 1.2%, of Accel-Sim 0.3%; inside the range 1 of 1",
    ]
