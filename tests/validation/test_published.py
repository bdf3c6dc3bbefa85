"""The published table: it passes but for its declared gaps, can fail, is complete, and its page is what it prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpuemu
from validation import published
from validation.__main__ import main
from validation.published import Figure, figures, judge
from validation.published_data import ARCHITECTURES, FOLDER, REASONS, load, part_of, sources

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "facts" / "arch_numbers.yaml"

GAPS: dict[str, set[str]] = {"sm_80": {"tensor.m16n8k8_f16_f32.fma_clk_sm [meas_4w]"}}
"""Rows that need a mechanism the engine lacks. When one closes, its test fails: take it out here and in the data."""


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Figure]]:
    """Every row of every architecture."""
    return {name: list(figures(gpuemu.load_arch(name), load(name))) for name in ARCHITECTURES}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_row_passes_but_the_declared_gaps(name, tables):
    assert [r.name for r in tables[name] if r.note == "FAIL"] == []
    assert {r.name for r in tables[name] if r.note == "gap"} == GAPS.get(name, set())


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_row_that_passes_declares_no_gap(name, tables):
    assert [r.name for r in tables[name] if r.check.gap and r.note == "ok"] == []


@pytest.mark.slow
def test_there_is_a_table_for_every_architecture_file_with_enough_rows(tables):
    """Except for those that were never compared with a chip, which `validation.blackwell` holds against tables."""
    files = {path.stem for path in (ROOT / "configs").glob("*.yaml")}
    compared = {name for name in files if not gpuemu.load_arch(name).untested}
    assert set(ARCHITECTURES) == compared
    assert {name: len(table) for name, table in tables.items()} == {
        "sm_75": 48, "sm_80": 194, "sm_86": 130, "sm_89": 137, "sm_90": 60, "sm_120": 52,
    }  # fmt: skip


@pytest.mark.slow
def test_the_pages_are_what_the_command_writes(tables):
    found = published.pages([(name, load(name), table) for name, table in tables.items()])
    assert set(found) == {"published.md", *(f"published/{name}.md" for name in ARCHITECTURES)}
    for name, text in found.items():
        assert (ROOT / "validation" / name).read_text(encoding="utf-8") == text


# --- the verdict ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "emulated", "rule", "difference", "passes"),
    [
        (23, 24, "cycles", 1, True),
        (23, 24.01, "cycles", 1.01, False),
        (23, 21.9, "cycles", -1.1, False),
        (100, 103, "cycles", 3, True),
        (100, 103.1, "cycles", 3.1, False),
        (2, 2.06, "rate", 0.06, True),
        (2, 2.07, "rate", 0.07, False),
        (2, 1, "rate", -1, False),
        (32, 32, "exact", 0, True),
        (32, 32.5, "exact", 0.5, False),
        (10, 8, "at_most", -2, True),
        (10, 10.5, "at_most", 0.5, False),
        ((10, 13), 12, "cycles", 0, True),
        ((10, 13), 14, "cycles", 1, True),
        ((10, 13), 15, "cycles", 2, False),
        ((10, 13), 8.5, "cycles", -1.5, False),
        ((16, 19), 15.4, "rate", -0.6, False),
    ],
)
def test_a_figure_passes_within_its_rule_and_not_beyond(expected, emulated, rule, difference, passes):
    nearest, ok = judge(expected, emulated, rule)
    assert (round(emulated - nearest, 6), ok) == (difference, passes)


MUTATIONS = [
    ("sm_80", {"shared_memory.latency_cycles": 25}, "latency.lds32"),
    ("sm_80", {"shared_memory.cycles_per_wavefront_per_warp": 3}, "latency.lds_extra_wavefront [8 ways]"),
    ("sm_80", {"shared_memory.load_merge_distances": []}, "latency.lds128 [merged]"),
    ("sm_80", {"shared_memory.matrix_rows_per_phase": 4}, "latency.ldsm_x4"),
    ("sm_80", {"shared_memory.banks": 64}, "structure.smem_banks"),
    ("sm_80", {"shared_memory.bank_width_bytes": 8}, "structure.smem_bank_width"),
    ("sm_80", {"shared_memory.ports.unified": 2}, "structure.smem_data_stage"),
    ("sm_80", {"mio.request_interval_cycles": 2}, "structure.smem_request_rate"),
    ("sm_80", {"mio.shuffle_latency_cycles": 28}, "latency.shfl"),
    ("sm_80", {"mio.store_source_release_cycles": 15}, "latency.sts_war"),
    ("sm_80", {"barrier.latency_cycles": 22}, "latency.bar_sync"),
    ("sm_80", {"global_memory.latency_cycles": 500}, "latency.ldg_dram"),
    ("sm_80", {"chips.A100.l2_read_bytes_per_cycle": 3600}, "structure.l2_bw"),
    ("sm_80", {"operations.ffma.latency_cycles": 6}, "latency.ffma"),
    ("sm_80", {"operations.imad.issue_interval_cycles": 1}, "issue.imad"),
    ("sm_80", {"issue.taken_branch_cycles": 90}, "tensor.m16n8k16_f16_f32.fma_clk_sm [meas_4w]"),
    ("sm_80", {"tensor_core.operations.m16n8k8.f32.tf32.latency_cycles": 27}, "tensor.m16n8k8_tf32.latency"),
    ("sm_80", {"tensor_core.operations.m16n8k16.f32.f16.issue_interval_cycles": 16}, "tensor.f32_acc_rate [f32 over f16]"),
    ("sm_80", {"sm.max_ctas": 24}, "structure.max_ctas"),
    ("sm_80", {"sm.registers": 32768}, "structure.regs_per_sm"),
    ("sm_80", {"shared_memory.reserved_bytes_per_cta": 512}, "structure.smem_reserved_per_block"),
    ("sm_86", {"mio.queue_entries": 6}, "issue.mem_queue"),
    ("sm_86", {"mio.queue_latency_cycles": 13}, "issue.mem_issue_cycle_instr_6 [1_sub.0]"),
    ("sm_86", {"mio.minimum_dispatch_interval_cycles": 2}, "issue.mem_addr_calc"),
    ("sm_86", {"issue.policy": "oldest_first"}, "issue.scheduler [1 for so]"),
    ("sm_75", {"shared_memory.latency_cycles": 23}, "latency.lds32"),
    ("sm_90", {"mio.pool_entries": 30}, "structure.lsu_sm_pool"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "overrides", "row"), MUTATIONS)
def test_a_wrong_value_in_the_architecture_file_fails_a_row(name, overrides, row):
    arch = gpuemu.load_arch(name).with_overrides(overrides)
    entries = [entry for entry in load(name) if entry.name == row.partition(" [")[0]]
    assert row in {r.name for r in figures(arch, entries) if r.note == "FAIL"}


@pytest.mark.slow
def test_the_command_exits_with_1_when_a_row_fails_and_0_when_none_does(monkeypatch, capsys):
    assert main(["published", "--arch", "sm_75"]) == 0
    printed = capsys.readouterr().out
    assert "48 ok, 0 fail, 0 gaps), 15 not modelled" in printed
    assert "FAIL" not in printed
    wrong = gpuemu.load_arch("sm_75").with_overrides({"mio.shuffle_latency_cycles": 30})
    monkeypatch.setattr(published.gpuemu, "load_arch", lambda name: wrong)
    assert main(["published", "--arch", "sm_75"]) == 1
    assert "FAIL latency.shfl" in " ".join(capsys.readouterr().out.split())
    failed = [figure for figure in figures(wrong, load("sm_75")) if figure.note == "FAIL"]
    monkeypatch.setattr(published, "figures", lambda arch, entries: [replace(one, note="gap") for one in failed])
    assert main(["published", "--arch", "sm_75"]) == 0, "a declared gap is no failure"


# --- the data ---------------------------------------------------------------------------------------------------


def leaves(entries: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, entry in entries.items():
        if "value" in entry:
            yield path + name, entry
        else:
            yield from leaves(entry, f"{path}{name}.")


@pytest.mark.skipif(not SHARED.exists(), reason="the collection of published figures does not lie beside the checkout")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_data_has_every_published_figure_as_it_was_collected(name):
    collected = yaml.safe_load(SHARED.read_text(encoding="utf-8"))["arch"].get(name, {})
    facts = {f"{group}.{key}": e for group, entries in collected.items() for key, e in leaves(entries)}
    ours = {entry.name: entry for entry in load(name)}
    later = ("notes.", "sequence.", "mma.")  # read of other collections
    assert set(facts) == {key for key in ours if not key.startswith(later)}
    for key, fact in facts.items():
        entry = ours[key]
        assert (entry.unit, entry.grade) == (fact["unit"], fact["confidence"]), key
        assert entry.taken_over == ("sm_86" if "sm_86 value taken over" in fact.get("note", "") else ""), key
        if not isinstance(fact["value"], str):  # what is said in words is said in other words
            assert entry.value == fact["value"], key


def test_498_published_entries_are_there_and_each_is_compared_or_has_a_reason():
    entries = [e for name in ARCHITECTURES for e in load(name) if not e.name.startswith("notes.")]
    assert len(entries) == 498
    assert sum(e.modelled for e in entries) == 420
    assert all(e.not_modelled in REASONS for e in entries if not e.modelled)
    assert all(any(c.expected is not None for c in e.checks) for e in entries if e.modelled)


@pytest.mark.slow
def test_every_part_of_a_value_is_compared_or_has_a_reason():
    def parts(value: Any, path: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from parts(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list) and not (len(value) == 2 and not path):
            for i, inner in enumerate(value):
                yield from parts(inner, f"{path}.{i}" if path else str(i))
        else:
            yield path

    for name in ARCHITECTURES:
        document = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        for key, body in document["entries"].items():
            value = body["published"]["value"]
            # A ratio of two parts stands for both.
            if isinstance(value, dict) and all("of" in check for check in body.get("checks", [{}])):
                assert {str(c["of"]) for c in body["checks"]} == set(parts(value)), (name, key)
            for check in body.get("checks", []):
                assert part_of(value, check.get("of")) is not None, (name, key)


@pytest.mark.slow
def test_every_source_is_explained():
    known = sources([gpuemu.load_arch(name) for name in ARCHITECTURES])
    used = {key for name in ARCHITECTURES for e in load(name) for key in e.source.split("; ")}
    assert used - set(known) == set()


def test_where_another_source_is_taken_the_row_says_why():
    checks = [c for name in ARCHITECTURES for e in load(name) for c in e.checks if c.taken_from]
    assert len(checks) == 8
    assert all(c.why for c in checks)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("{probe: chane}", "published.yaml:5: entries.latency.ffma.checks[0]: found 'chane'"),
        ("{probe: chain, width: 3}", "published.yaml:5: entries.latency.ffma.checks[0]: found width"),
        ("{probe: chain, rule: about}", "found 'about'"),
        ("{of: merged, probe: chain}", "found of merged"),
        ("{not_modelled: dull}", "found 'dull'"),
    ],
)
def test_a_wrong_check_is_refused_with_its_line(check, message, tmp_path):
    (tmp_path / "published.yaml").write_text(
        "entries:\n  latency.ffma:\n    published: {value: 4, unit: cyc, source: WP, grade: A}\n    checks:\n"
        f"    - {check}\n"
    )
    with pytest.raises(gpuemu.GpuemuError) as refused:
        load("published", tmp_path)
    assert message in str(refused.value)
    assert ":5: entries.latency.ffma.checks" in str(refused.value)


def test_an_entry_without_checks_and_reason_is_refused(tmp_path):
    (tmp_path / "published.yaml").write_text(
        "entries:\n  latency.ffma:\n    published: {value: 4, unit: cyc, source: WP, grade: A}\n"
    )
    with pytest.raises(gpuemu.GpuemuError, match="found both or neither"):
        load("published", tmp_path)


# --- the recorded loops, and the walls --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_recorded_loop_is_what_its_source_compiles_to_and_takes_as_long():
    from validation.published_kernels import RECORDED, record
    from validation.published_probes import TRACES

    names = {f"{arch}_{mode}_{n}x{warps}" for arch, loops in RECORDED.items() for mode, n, warps in loops}
    assert {path.stem for path in TRACES.glob("*.yaml")} == names
    arch = gpuemu.load_arch("sm_80")
    kept = gpuemu.load_trace(str(TRACES / "sm_80_m16n8k8_f16_f16_1x1.yaml"))
    anew = record("sm_80", "m16n8k8_f16_f16", 1, 1)
    for trace in (kept, anew):
        result = gpuemu.run(trace, arch)
        assert result.counters["sm__inst_executed_pipe_tensor_op_hmma.sum"] == 1024
        first, last = result.warps[0].clock_reads
        assert (last - first) / 1024 == pytest.approx(17.47, rel=0.03)


@pytest.mark.slow
def test_the_package_never_imports_the_validation_suite():
    for path in (ROOT / "gpuemu").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [n for n in names if n.split(".")[0] == "validation"], path


@pytest.mark.parametrize("path", sorted((ROOT / "validation").glob("published*.py")), ids=lambda p: p.name)
def test_a_module_of_the_table_stays_below_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
