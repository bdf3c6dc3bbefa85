"""The form of the units: what they may use, in which order they act, and which values they refuse."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest
from probes import builder, emit, issues, machine, run

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.engine import machine as units
from gpuemu.engine.allocate import allocate
from gpuemu.engine.records import NEVER, objects
from gpuemu.engine.spec import Spec, fill, refusals
from gpuemu.engine.twins import imported
from gpuemu.engine.units import cycle
from gpuemu.engine.units.cycle import advance
from gpuemu.program.lowering import lower


def spec_of(arch: Architecture) -> Spec:
    spec = objects(Spec, 1)[0]
    fill(spec, arch)
    return spec


def test_shipped_architectures_are_not_refused():
    for name in resources.names("configs"):
        assert refusals(spec_of(machine(name))) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mio__address_read_cycles": 9}, "mio.address_read_cycles"),
        ({"global_memory__latency_cycles": 5}, "global_memory.latency_cycles: found 5"),
        ({"global_memory__l1__latency_cycles": 9}, "global_memory.l1.latency_cycles: found 9"),
        ({"global_memory__atomic_latency_cycles": 12}, "global_memory.atomic_latency_cycles: found 12"),
    ],
)
def test_values_whose_effect_would_come_before_its_cause_are_refused_by_name(values, named):
    with pytest.raises(GpuemuError, match=f"sm_90: {named}"):
        gpuemu.run("v5_swizzle", machine("sm_90", **values))


def test_the_values_of_the_engine_are_the_whole_numbers_of_the_architecture_file():
    location = Path(__file__).resolve().parents[2] / "tools" / "write_schemas.py"
    specification = importlib.util.spec_from_file_location("write_schemas", location)
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    assert tool.VALUES.read_text(encoding="utf-8") == tool.values_text(), "write it with: python tools/write_schemas.py"


def test_a_load_store_unit_that_runs_ahead_is_one_whose_sources_are_released_before_they_leave_the_queue():
    assert spec_of(machine("sm_90")).ahead == 0
    assert spec_of(machine("sm_90", mio__queue_latency_cycles=12)).ahead == 4


def test_slower_reads_of_data_never_make_a_kernel_faster():
    """No value is clamped to what the others leave room for."""
    trace = gpuemu.load_trace("v5_swizzle")
    cycles = [gpuemu.run(trace, machine("sm_90", mio__data_read_cycles=late)).cycles for late in range(13)]
    assert cycles == sorted(cycles)
    assert len(set(cycles)) > 10


@pytest.mark.parametrize("op", ["LDS R4, [R0]", "STS [R0], R4"])
def test_sources_are_released_at_the_later_of_their_read_and_the_value(op):
    mio = machine().mio
    read = mio.address_read_cycles
    if op.startswith("STS"):
        read += mio.data_read_cycles + mio.cycles_per_source_register  # the second of its two registers
    for value in (3, 9, 11, 30):
        name = f"mio__{'load' if op.startswith('LDS') else 'store'}_source_release_cycles"
        result = run([f"{op} | R0 S2", "NOP | B0 S1", "EXIT | S5"], machine(**{name: value}))
        assert issues(result)[1] - issues(result)[0] == max(read, value)


class Watched(list):
    """Wishes that only a later phase may have for the cycle that is at work."""

    def __init__(self, wishes):
        super().__init__(wishes)
        self.phase, self.cycle = len(wishes), -1

    def __setitem__(self, phase, cycle):
        if cycle == NEVER:  # this phase acts
            self.phase, self.cycle = phase, self[phase]
        else:
            assert cycle > self.cycle or (cycle == self.cycle and phase >= self.phase)
        super().__setitem__(phase, cycle)


def test_a_phase_lets_only_later_ones_act_in_its_own_cycle():
    trace = builder(8, grid=(5, 1, 1), registers_per_thread=128)
    with trace.repeat(3):
        for line in ("LDS.128 R4, [R0]", "LDG.E R8, [R2.64]", "HMMA.16816.F32 R4, R8, R12, R4", "STS [R0], R4",
                     "LDC R4, c[0x0][0x210]", "MUFU.RCP R0, R4", "BAR.SYNC 0x0", "@P0 BRA 0x0"):  # fmt: skip
            emit(trace, line, "16*lane")
    emit(trace, "EXIT")
    state = allocate(lower(trace.build(), machine()), machine(), compiled=False)
    state.wish = Watched(state.wish)
    assert advance(state, 1 << 20) == NEVER
    assert state.progress[0].issued == len(state.path)


def test_every_module_of_the_units_is_compiled_behind_those_that_it_imports():
    own, modules = Path(cycle.__file__).parent, units.modules()
    assert {Path(importlib.import_module(name).__file__) for name in modules} == {*own.glob("*.py")} - {
        own / "__init__.py"
    }
    for place, name in enumerate(modules):
        used = {*imported(name, units.texts().get(name, ""))} & {*modules}
        assert used <= {*modules[:place]}, name


@pytest.mark.slow
def test_units_keep_to_what_can_be_compiled():
    """No class, closure, comprehension, default, keyword, exception or f-string: a list of what the form leaves out."""
    banned = (
        ast.ClassDef, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Dict, ast.Set, ast.Try,
        ast.Raise, ast.With, ast.Yield, ast.JoinedStr, ast.Global, ast.Nonlocal, ast.Starred,
    )  # fmt: skip
    for name in units.modules():
        tree = ast.parse(Path(importlib.import_module(name).__file__).read_text())
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            inside = [*ast.walk(function)]
            where = f"{name}.{function.name}"
            assert not [node for node in inside if isinstance(node, banned)], where
            assert [node for node in inside if isinstance(node, ast.FunctionDef)] == [function], where
            assert not function.args.defaults + function.args.kwonlyargs, where
            assert not [node for node in inside if isinstance(node, ast.Call) and node.keywords], where
            assert not [node for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, float)], (
                where
            )
