"""The units that decide at their own cycle log what the engine that looks ahead logs, column for column.

Where they differ on purpose, `ON_PURPOSE` says why, and `without_lookahead` keeps the compared machines away from it.
`python tests/engine/test_units.py 1000` compares so many kernels and machines at random, and all traces that ship.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from probes import builder, emit, kernels, machine, machines

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base import resources
from gpuemu.engine import Log, Machine, StuckError, execute, units
from gpuemu.engine.allocate import allocate
from gpuemu.engine.cycle import execute as execute_units
from gpuemu.engine.cycle import run
from gpuemu.engine.records import NEVER, objects
from gpuemu.engine.spec import Spec, fill, refusals
from gpuemu.engine.units import UNITS
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program

ON_PURPOSE = (
    "mio.address_read_cycles and mio.data_read_cycles are used as they are; the old engine clamps them to its lookahead",
    "latencies of global memory are, too; the old engine takes 1 for one that is over before the request is there",
    "a sector takes an exact fraction of a cycle; the old engine adds floating-point numbers",
    "a store that leaves L1 in the cycle in which it comes there makes room from the next cycle on, as what is written "
    "cycle by cycle has it; the old engine lets another take its place at once",
)


def without_lookahead(arch: Architecture) -> Architecture:
    """The architecture with values that the old engine takes as they are, and without rates that it rounds."""
    flat, own = Machine.of(arch), arch.flat()
    least = min(
        flat.queue_latency_cycles, flat.load_source_release_cycles, flat.divergence_queue_latency_cycles,
        flat.store_source_release_cycles - flat.cycles_per_source_register,
    )  # fmt: skip
    address = max(1, min(flat.address_read_cycles, least - flat.data_read_cycles))
    data = max(0, min(flat.data_read_cycles, (least - address) // 2))
    values = {"mio.address_read_cycles": address, "mio.data_read_cycles": data}
    before = flat.queue_latency_cycles + 2 * flat.cycles_per_source_register + data + 1
    for name in ("l1.latency_cycles", "l2.latency_cycles", "latency_cycles", "atomic_latency_cycles"):
        values[f"global_memory.{name}"] = max(before, own[f"global_memory.{name}"])
    for name in ("bytes_per_cycle", "store_bytes_per_cycle"):
        values[f"global_memory.{name}"] = 2.0 ** math.floor(math.log2(own[f"global_memory.{name}"]))
    values["global_memory.store_latency_cycles"] = max(1, flat.global_store_latency_cycles)
    return arch.with_overrides(values)


def spec_of(arch: Architecture) -> Spec:
    spec = objects(Spec, 1)[0]
    fill(spec, arch)
    return spec


def differences(program: Program, old: Log, new: Log) -> list[str]:
    """Each column that differs, with the first place where it does."""
    found = []
    for name in old.__slots__:
        theirs, ours = getattr(old, name), getattr(new, name)
        if not isinstance(theirs, np.ndarray):
            found += [f"{name}: {theirs}, units {ours}"] if theirs != ours else []
        elif theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            found.append(f"{name}: {theirs.dtype} {theirs.shape}, units {ours.dtype} {ours.shape}")
        elif not np.array_equal(theirs, ours):
            place = tuple(np.argwhere(theirs != ours)[0].tolist())
            begins = {len(program.path): program.first_issue, len(program.access): program.first_request}
            warp = np.searchsorted(begins.get(len(theirs), np.arange(len(theirs))), place[0], side="right") - 1
            found.append(f"{name}{list(place)} of warp {warp}: {theirs[place]}, units {ours[place]}")
    return found


def compare(trace: gpuemu.Trace, arch: Architecture) -> list[str]:
    program = lower(trace, arch)
    return differences(program, execute(program, Machine.of(arch)), execute_units(program, arch))


at_random = settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip


@at_random
@given(kernels(), machines())
def test_the_units_log_what_the_engine_logs(trace, arch):
    arch = without_lookahead(arch)
    assert refusals(spec_of(arch)) == []
    assert compare(trace, arch) == []


SHORT = [name for name in resources.names("traces") if name.startswith(("v", "xor", "toy", "transpose", "reduction"))]


@pytest.mark.parametrize("name", SHORT)
def test_the_units_log_what_the_engine_logs_of_traces_that_ship(name):
    for arch in ("sm_90", "sm_86"):
        assert compare(gpuemu.load_trace(name), without_lookahead(machine(arch))) == []


def test_shipped_architectures_are_not_refused_and_need_no_other_values_to_compare():
    for name in resources.names("configs"):
        arch = machine(name)
        assert refusals(spec_of(arch)) == []
        kept = without_lookahead(arch).flat()
        rates = ("global_memory.bytes_per_cycle", "global_memory.store_bytes_per_cycle")
        assert [key for key, value in arch.flat().items() if kept[key] != value and key not in rates] == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mio__data_read_cycles": 12}, "mio.data_read_cycles"),
        ({"mio__address_read_cycles": 9}, "mio.address_read_cycles"),
        ({"global_memory__latency_cycles": 5}, "global_memory.latency_cycles = 5"),
        ({"global_memory__l1__latency_cycles": 9}, "global_memory.l1.latency_cycles = 9"),
        ({"global_memory__atomic_latency_cycles": 12}, "global_memory.atomic_latency_cycles = 12"),
        ({"mio__store_source_release_cycles": 3}, "mio.store_source_release_cycles"),
    ],
)
def test_values_whose_effect_would_come_before_its_cause_are_refused_by_name(values, named):
    assert any(named in sentence for sentence in refusals(spec_of(machine(**values))))


def test_a_load_store_unit_that_runs_ahead_is_one_whose_sources_are_released_before_they_leave_the_queue():
    assert spec_of(machine("sm_90")).ahead == 0
    assert spec_of(machine("sm_90", mio__queue_latency_cycles=12)).ahead == 4


def test_slower_reads_of_data_never_make_a_kernel_faster():
    """The engine that looks ahead clamps: 760 cycles with 7, 768 with 5."""
    trace = gpuemu.load_trace("v5_swizzle")
    cycles = []
    for late in range(13):
        # The latency of the queue, and when sources are released, leave room for all of them.
        arch = machine("sm_90", mio__data_read_cycles=late, mio__store_source_release_cycles=24,
                       mio__queue_latency_cycles=16, mio__load_source_release_cycles=17)  # fmt: skip
        if not refusals(spec_of(arch)):
            cycles.append(execute_units(lower(trace, arch), arch).cycles)
    assert len(cycles) > 6
    assert cycles == sorted(cycles)


def test_warps_that_wait_for_ever_are_told_as_the_engine_tells_them():
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, "BAR.SYNC 0x1, 0x40")
    emit(trace, "EXIT")
    program = lower(trace.build(), machine())
    with pytest.raises(StuckError) as old:
        execute(program, Machine.of(machine()))
    with pytest.raises(StuckError) as new:
        execute_units(program, machine())
    assert new.value.warps == old.value.warps


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
    watched = state._replace(wish=Watched(state.wish))
    run(watched)
    assert state.sm[0].issued == len(state.path)


def test_each_unit_imports_only_from_those_named_before_it():
    sources = {name: Path(importlib.import_module(name).__file__).read_text() for name in UNITS}
    own = Path(units.__file__).parent
    assert {Path(importlib.import_module(name).__file__) for name in UNITS} == {*own.glob("*.py")} - {
        own / "__init__.py"
    }
    for place, name in enumerate(UNITS):
        used = {
            f"{units.__name__}.{other}"
            for other in re.findall(r"from gpuemu\.engine\.units\.(\w+) import", sources[name])
        }
        assert used <= set(UNITS[:place]), name


def test_units_keep_to_what_can_be_compiled():
    """No class, closure, comprehension, default, keyword, exception or f-string: a list of what the form leaves out."""
    banned = (
        ast.ClassDef, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Dict, ast.Set, ast.Try,
        ast.Raise, ast.With, ast.Yield, ast.JoinedStr, ast.Global, ast.Nonlocal, ast.Starred,
    )  # fmt: skip
    for name in UNITS:
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


if __name__ == "__main__":
    for shipped in resources.names("traces"):
        for name in ("sm_90", "sm_89", "sm_80"):
            print(shipped, name, compare(gpuemu.load_trace(shipped), without_lookahead(machine(name))) or "equal")

    @settings(max_examples=int(sys.argv[1]), deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(kernels(), machines())
    def many(trace, arch):
        for line in compare(trace, without_lookahead(arch)):
            print(line)

    many()
