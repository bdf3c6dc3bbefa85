"""How sure an answer is: ranges of values, and what they do to the cycles."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import gpuemu
from gpuemu.arch.ranges import SHARES, kind, unsure
from gpuemu.arch.text import to_yaml
from gpuemu.views.sure.estimate import as_data, at_end
from gpuemu.views.sure.glance import about
from gpuemu.views.sure.settling import SETTLED_BY, settled_by
from gpuemu.views.sure.sure_text import lines
from validation.corpus import kernels_for

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
SHIPPED = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
SEQUENCES = Path(__file__).resolve().parents[2] / "validation" / "sequences"


def file_of(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(f"extends: sm_89\nsources: {{LAB: my bench}}\n{text}", encoding="utf-8")
    return str(path)


def range_of(arch: gpuemu.Architecture, name: str) -> tuple[float, float] | None:
    return next(((r.low, r.high) for _, r in unsure(arch) if r.name == name), None)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_value_of_c_and_d_lies_in_its_range_and_none_of_a_or_b_has_one(name: str) -> None:
    arch = gpuemu.load_arch(name)
    found = {r.name: r for _, r in unsure(arch)}
    assert all(r.low <= r.value <= r.high and r.low < r.high for r in found.values())
    assert all(arch.provenance[name].confidence in "CD" for name in found)
    assert "sm.max_warps" not in found
    assert "shared_memory.banks" not in found


def test_a_latency_of_d_may_be_further_off_than_one_of_c() -> None:
    assert all(of["C"] < of["D"] and of["A"] <= of["B"] < of["C"] for of in SHARES.values() if of)
    assert kind(("barrier", "latency_cycles")) == "latency"
    assert kind(("mio", "queue_entries")) == "room"
    assert kind(("shared_memory", "banks")) == kind(("issue", "policy")) == "exact"
    assert (
        kind(("global_memory", "bytes_per_cycle"))
        == kind(("operations", "fp64", "issue_interval_cycles"))
        == "interval"
    )


def test_a_value_taken_over_lies_within_what_known_chips_have() -> None:
    low, high = range_of(gpuemu.load_arch("sm_120"), "global_memory.l2.latency_cycles") or (0, 0)
    assert (low, high) == (211, 275)


@pytest.mark.slow
def test_a_file_says_between_what_its_sources_have_a_value(tmp_path: Path) -> None:
    entry = "{value: 16, status: published, source: LAB, confidence: C, range: [16, 19]}"
    arch = gpuemu.load_arch(file_of(tmp_path, f"operations: {{fp64: {{issue_interval_cycles: {entry}}}}}"))
    assert range_of(arch, "operations.fp64.issue_interval_cycles") == (16, 19)
    assert "range: [16, 19]" in to_yaml(arch)


@pytest.mark.parametrize("given", ["[17, 19]", "[16]", "wide", "[16, high]"])
def test_a_range_that_does_not_hold_the_value_is_refused(tmp_path: Path, given: str) -> None:
    entry = f"{{value: 16, status: published, source: LAB, confidence: C, range: {given}}}"
    with pytest.raises(gpuemu.GpuemuError, match=r"range: found .*two numbers with the value between them"):
        gpuemu.load_arch(file_of(tmp_path, f"operations: {{fp64: {{issue_interval_cycles: {entry}}}}}"))


@pytest.fixture(scope="module")
def result() -> gpuemu.Result:
    return gpuemu.run("v5_swizzle", "sm_89")


@pytest.mark.slow
def test_a_run_says_what_matters_most_and_what_settles_it(result: gpuemu.Result) -> None:
    sure = result.sure()
    assert sure.lowest < sure.low < result.cycles < sure.high < sure.highest
    share = about(result.arch, result.program, result.stalls, result.bounds, result.cycles)
    assert 0.5 < share / sure.share < 2, "the line that takes no run is about right"
    first = sure.effects[0]
    assert first.range.name == "launch.constant_operand_miss_cycles"
    assert first.settled_by == "example_v1_w1"
    assert first.at_low < result.cycles < first.at_high
    changes = [effect.apart(result.cycles) for effect in sure.effects]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] > 0
    assert 0.05 < sure.share < 0.1
    assert as_data(sure)["effects"][0]["range"] == [first.range.low, first.range.high]
    text = [line for _, line in lines(sure, 100)]
    known, own = f"{sure.low} to {sure.high}", f"{sure.lowest} to {sure.highest}"
    assert text[0] == f"{sure.cycles} cycles. Uncertain sm_89 values: {known}. With the model's own 5% error: {own}."
    assert any(line.endswith("measure example_v1_w1") for line in text)


def test_an_end_at_which_the_architecture_contradicts_itself_is_moved_inside(tmp_path: Path) -> None:
    entry = "{value: 25, status: assumed, source: LAB, confidence: D, note: a guess, range: [1, 30]}"
    arch = gpuemu.load_arch(file_of(tmp_path, f"shared_memory: {{latency_cycles: {entry}}}"))
    result = gpuemu.run("v5_swizzle", arch)
    value = next(r for _, r in unsure(arch) if r.name == "shared_memory.latency_cycles")
    least = arch.mio.queue_latency_cycles + 1
    assert at_end(result.again, value, 1, result.cycles) >= result.again({value.name: least})


def test_an_architecture_that_nobody_measured_says_so_in_one_line(result: gpuemu.Result) -> None:
    assert result.sureness == "±5%: about 80% of the sm_89 values are assumptions (--sure)"


def test_a_measured_architecture_says_nothing_where_little_is_unknown() -> None:
    assert gpuemu.run("v5_swizzle", "sm_90").sureness == ""


def test_what_settles_a_value_is_a_kernel_or_sequence_that_there_is() -> None:
    names = {kernel.name for kernel in kernels_for(90)}
    for file in SEQUENCES.glob("*.yaml"):
        names |= {f"{file.stem}/{name}" for name in yaml.safe_load(file.read_text(encoding="utf-8"))}
    assert set(SETTLED_BY.values()) - names == set()
    values = {name for arch in SHIPPED for name in gpuemu.load_arch(arch).provenance}
    assert {settled_by(name) for name in values} - names == {""}
    assert settled_by("tensor_core.operations.m16n8k16.f32.f16.latency_cycles") in names
    assert settled_by("tensor_core.operations.m16n8k16.f32.f16.issue_interval_cycles") in names
