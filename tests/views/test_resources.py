"""Every value of the architecture file has its resource, and where one set free gains, its resource is named."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.probes import builder, emit, machine

import gpuemu
from gpuemu.arch import Architecture, load_arch
from gpuemu.arch.owners import Owner
from gpuemu.arch.schema import Leaf, Section, Table, tree
from gpuemu.chip import launch
from gpuemu.studies.why.api import causes_of
from gpuemu.views import resources
from gpuemu.views.resources import OWNERS, entry_of

_SPEC = importlib.util.spec_from_file_location("limits", Path(__file__).parents[2] / "tools" / "limits.py")
assert _SPEC is not None
assert _SPEC.loader is not None
LIMITS: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["limits"] = LIMITS
_SPEC.loader.exec_module(LIMITS)


def leaves(node: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(node, Leaf):
        if before[0] not in ("name", "description"):
            yield ".".join(before)
    elif isinstance(node, Table):
        yield from leaves(node.entry, (*before, "*"))
    elif isinstance(node, Section):
        for name, inner in node.fields.items():
            yield from leaves(inner, (*before, name))


def test_every_value_of_the_architecture_file_has_its_entry_and_there_are_no_others():
    assert sorted(OWNERS) == sorted(leaves(tree(Architecture)))
    for name in load_arch("sm_90").flat():
        assert entry_of(name) in OWNERS


@pytest.mark.parametrize(
    ("value", "resource", "causes", "free"),
    [
        ("barrier.latency_cycles", "latency of one warp, barrier", ("barrier_unit",), "least"),
        ("barrier.arrival_interval_cycles", "barrier unit", ("barrier_unit",), "least"),
        ("mio.pool_entries", "entries of the load/store unit", ("pools",), "most"),
        ("tensor_core.warpgroup.register_early_cycles", "latency of one warp", ("stall.wait",), "most"),
        ("global_memory.l1.reserved_bytes", "latency of one warp, long_scoreboard", ("l1_capacity",), "least"),
        ("sm.sub_cores", "issue slots", ("issue_slots",), None),
        ("chips.*.l2_kibibytes", "", (), None),
    ],
)
def test_an_owner_is_that_of_the_field_or_else_of_its_section(value, resource, causes, free):
    assert OWNERS[value] == Owner(resource, causes, free)


@pytest.mark.slow
def test_causes_in_the_table_are_causes_of_why():
    known = {cause.name for cause in causes_of(gpuemu.run("transpose_v4", "sm_89"), False)}
    assert {cause for of in OWNERS.values() for cause in of.causes} - known == {"pipe"}  # with the name of each


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "arch"),
    [("written_straight", "sm_86"), ("v2_shared_memory", "sm_89"), ("transpose_plain", "sm_89"),
     ("transpose_v8", "sm_90"), ("transpose_padded", "sm_80"), ("toy_transpose_plain", "sm_75"),
     ("reduction_v4", "sm_90"), ("tiled_padded_static", "sm_89")],
)  # fmt: skip
def test_where_a_single_value_set_free_gains_a_tenth_its_resource_and_its_cause_are_named(kernel, arch):
    pytest.importorskip("numba")
    gpuemu.run("toy_transpose_plain", engine="compiled")  # from then on all runs are
    found = LIMITS.gains(kernel, arch)
    assert found
    assert [str(gain) for gain in found if not gain.is_named] == []


@pytest.mark.slow
def test_a_naive_product_on_geforce_is_limited_by_the_requests_that_the_load_store_unit_takes():
    result = gpuemu.run("written_matmul_plain", "sm_89")
    assert result.bounds[0].resource == "load/store unit"
    requests = len(result.program.access)
    assert result.bounds[0].cycles == 2 * requests
    (row,) = gpuemu.why("written_matmul_plain", "sm_89", only=["load_store_unit"]).rows
    assert row.gained > 0.24 * result.cycles


def test_waiting_in_queues_is_not_what_one_warp_takes_alone():
    """Sixteen warps that load at once from slow shared memory: each alone would take a sixteenth of it."""
    one, many = (_loads(warps) for warps in (1, 16))
    alone, crowded = ({b.resource: b.cycles for b in result.bounds} for result in (one, many))
    assert many.cycles > 5 * alone["latency of one warp"]
    assert crowded["latency of one warp"] < 1.5 * alone["latency of one warp"]


def _loads(warps: int) -> gpuemu.Result:
    trace = builder(warps)
    for counter in "0123":
        emit(trace, f"LDS R4, [R0] | W{counter} S2", "128*lane")
        emit(trace, f"IADD3 R1, R4, R4, RZ | B{counter} S4")
    emit(trace, "EXIT | S5")
    return gpuemu.run(trace.build(), machine())


def test_the_glossary_says_of_each_resource_what_it_is():
    text = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    section = text.partition("## Resources that limit a run")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE))
    names = {owner.resource.partition(", ")[0] for owner in OWNERS.values()} - {"", resources.RESIDENCY}
    assert names <= told
    for name in (launch.DRAM, launch.L2, launch.LATENCY, launch.ATOMICS, launch.DEALING, launch.TOO_FEW, "the tail"):
        assert name in " ".join(section.split())
