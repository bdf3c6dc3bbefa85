"""Where the cycles of a warp went: the reasons add up, and each is what it says."""

from __future__ import annotations

import json
from importlib import resources
from itertools import product
from pathlib import Path

import pytest
from engine.probes import builder, completions, emit, issues, kernels, machine, machines, run
from hypothesis import HealthCheck, assume, given, settings

import gpuemu
from gpuemu.base.table import Table, words
from gpuemu.engine.allocate import allocate
from gpuemu.engine.state import State
from gpuemu.engine.units.cycle import act
from gpuemu.engine.units.ports import goes_on_at
from gpuemu.program.stall_reasons import NAMES
from gpuemu.program.units import Destination
from gpuemu.views.stalls import CONTENTION, STALLS, reasons, stall_reason

NEXT = "FFMA R1, R0, R0, R0"
MOST_CYCLES = 100_000
"""Of a run that is watched cycle by cycle."""


class Watched:
    """A run that notes at every cycle what accepted nothing when the sub-cores looked: pipes, and sub-cores."""

    def __init__(self, result: gpuemu.Result):
        self.closed: set[tuple[int, int, int]] = set()
        self.held: set[tuple[int, int]] = set()
        self.throttle = [
            "mio_throttle" if unit in (Destination.LOAD_STORE, Destination.BARRIER) else "math_pipe_throttle"
            for unit in result.program.units
        ]
        state = allocate(result.program, result.arch, compiled=False)
        first = state.phase[0].sub_core
        for now in range(result.cycles):
            for phase in range(len(state.wish)):
                if first <= phase < first + len(state.cores):
                    self._look(state, phase - first, now, len(result.program.pipes))
                if state.wish[phase] == now:
                    act(state, phase, now)

    def _look(self, state: State, c: int, now: int, pipes: int) -> None:
        core = state.cores[c]
        if now < core.next_slot or goes_on_at(state.ports[c], now) > now:
            self.held.add((c, now))
        for number, pipe in enumerate(state.pipes[core.pipes_at : core.pipes_at + pipes]):
            if pipe.free_at > now:
                self.closed.add((c, number, now))


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(kernels(), machines())
def test_the_reasons_add_up_to_the_life_of_every_warp_and_none_is_negative(trace, arch):
    result = gpuemu.run(trace, arch)
    assume(result.cycles < MOST_CYCLES)
    program, log = result.program, result.log
    watched = Watched(result)
    for number, warp in enumerate(result.warps):
        assert list(warp.stalls) == reasons()
        assert sum(warp.stalls.values()) == warp.end_cycle - warp.start_cycle
        assert warp.stalls["selected"] == warp.instructions
        place = program.issues_of(number)
        waited = [dict(zip(NAMES, row, strict=True)) for row in log.waited[place].tolist()]
        before = warp.start_cycle - 1
        for op, cycle, stalls in zip(program.path[place], log.issue[place].tolist(), waited, strict=True):
            assert min(stalls.values()) >= 0
            drained = stalls.pop("drain")
            assert sum(stalls.values()) == cycle - before - 1
            assert contention(watched, warp.sub_core, program.ops[op].pipe, cycle, stalls)
            before = cycle
            assert drained == (warp.end_cycle - cycle - 1 if op == program.path[place][-1] else 0)


def contention(watched: Watched, sub_core: int, pipe: int, issued: int, reasons: dict[str, int]) -> bool:
    """Whether in so many cycles before an issue others were in its way as the reasons say.

    A warp asks for a constant or a line of code as soon as it could go: what was in its way then, and what was when
    that had come, lie apart. Stall counts that stand while the sub-core does count as dispatch stalls, too, and come before
    them.
    """
    cycles = sum(reasons[name] for name in CONTENTION)
    constant, code = reasons["imc_miss"], reasons["no_instruction"]
    places = [range(cycles + 1) if missing else (cycles,) for missing in (constant, code)]
    for for_code, before, behind in product({0, code}, *places):
        found = dict.fromkeys(CONTENTION, 0)
        for number in range(cycles + 1):
            if found["dispatch_stall"] <= reasons["dispatch_stall"] and all(
                found[name] == reasons[name] for name in CONTENTION if name != "dispatch_stall"
            ):
                return True
            cycle = issued - 1 - number - (constant if number >= before else 0) - (for_code if number >= behind else 0)
            if (sub_core, cycle) in watched.held:
                found["dispatch_stall"] += 1
            elif (sub_core, pipe, cycle) in watched.closed:
                found[watched.throttle[pipe]] += 1
            else:
                found["not_selected"] += 1
    return False


def stalls(result: gpuemu.Result, warp: int = 0) -> dict[str, int]:
    """The reasons that are not 0."""
    return {name: cycles for name, cycles in result.warps[warp].stalls.items() if cycles}


def test_a_stall_count_is_wait():
    assert stalls(run([f"{NEXT} | S6", "EXIT | S5"])) == {"selected": 2, "wait": 5}


def test_a_fixed_latency_is_wait_also_for_the_scoreboard():
    assert stalls(run([NEXT, "FFMA R2, R1, R1, R1", "EXIT"])) == {"selected": 3, "wait": 3}


@pytest.mark.parametrize("line", ["LDS R4, [R0]", "SHFL.IDX R4, R0, R1, 0x1f", "MUFU.RCP R4, R0"])
@pytest.mark.parametrize("controlled", [True, False])
def test_shared_memory_shuffles_and_special_units_are_short_scoreboard(line, controlled):
    first, second, last = " | W0 S2", " | B0 S1", " | S1"
    if not controlled:
        first = second = last = ""
    found = stalls(run([line + first, f"FFMA R5, R4, R4, R4{second}", f"EXIT{last}"]))
    lone = {"LDS R4, [R0]": 23, "SHFL.IDX R4, R0, R1, 0x1f": 26, "MUFU.RCP R4, R0": 17}[line]
    assert found.pop("wait", 0) == (1 if controlled else 0)
    assert found == {"selected": 3, "short_scoreboard": lone - (2 if controlled else 1)}


@pytest.mark.parametrize("controlled", [True, False])
def test_global_memory_is_long_scoreboard(controlled):
    lines = ["LDG.E R4, [R0.64] | W0 S2", "FFMA R5, R4, R4, R4 | B0 S1", "EXIT | S1"]
    if not controlled:
        lines = [line.split(" |")[0] for line in lines]
    found = stalls(run(lines, lanes="0"))
    assert found.pop("wait", 0) == (1 if controlled else 0)
    assert found == {"selected": 3, "long_scoreboard": 553 if controlled else 554}


def test_waiting_for_groups_of_copies_is_long_scoreboard():
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R4.64] | S1", "LDGDEPBAR | W0 S1"] * 2
    found = stalls(run([*lines, "DEPBAR.LE SB0, 0x1 | S1", "EXIT | S1"], lanes="16*lane"))
    assert found["long_scoreboard"] > 250
    assert set(found) == {"selected", "long_scoreboard", "drain"}  # for the second group


def test_waiting_for_other_warps_is_barrier():
    trace = builder(2)
    with trace.only(warps=1):
        emit(trace, f"{NEXT} | S10")
    emit(trace, "BAR.SYNC 0x0 | S3")
    emit(trace, "EXIT | S1")
    result = gpuemu.run(trace.build(), machine())
    assert stalls(result, 0) == {"selected": 2, "wait": 2, "barrier": 24 - 3}
    assert stalls(result, 1) == {"selected": 3, "wait": 9 + 2, "barrier": 14 - 3}


def test_a_taken_branch_is_branch_resolving():
    trace = builder()
    with trace.repeat(2):
        emit(trace, "@P0 BRA 0x0 | S5")
    emit(trace, "EXIT | S1")
    assert stalls(gpuemu.run(trace.build(), machine())) == {"selected": 3, "wait": 8, "branch_resolving": 5}


def test_a_full_queue_is_mio_throttle():
    result = run(["LDS R4, [R0] | S1"] * 14 + ["EXIT | S1"])
    drain = max(completions(result)) - issues(result)[-1] - 1
    # The thirteenth in cycle 13, the next in cycle 15.
    assert stalls(result) == {"selected": 15, "mio_throttle": 1 + 1, "drain": drain}


def test_a_pipe_that_is_taken_is_math_pipe_throttle():
    lines = ["HMMA.16816.F32 R4, R0, R2, R4 | S1", "HMMA.16816.F32 R8, R0, R2, R8 | S1", "EXIT | S1"]
    assert stalls(run(lines)) == {"selected": 3, "math_pipe_throttle": 5}


def test_what_a_pipe_loses_between_two_modes_is_math_pipe_throttle():
    lines = ["HMMA.16816.F32 R4, R0, R2, R4 | S1", "HMMA.16816.F16 R8, R0, R2, R8 | S1", "EXIT | S1"]
    assert stalls(run(lines)) == {"selected": 3, "math_pipe_throttle": 5 + 1}


def test_a_full_queue_of_the_special_function_unit_is_math_pipe_throttle():
    found = stalls(run(["MUFU.RCP R1, R0 | S1"] * 4 + ["EXIT | S1"]))
    assert found == {"selected": 5, "math_pipe_throttle": 13 - 2 + 8 - 1}


def test_a_port_of_the_register_file_that_is_taken_is_dispatch_stall():
    """Three registers of one bank keep its port for three cycles: the next that needs it is late, and all behind it."""
    lines = ["FFMA R1, R2, R4, R6 | S1", "FFMA R3, R2, R4, R6 | S1", "FFMA R7, R5, R5, RZ | S1", "EXIT | S1"]
    assert stalls(run(lines)) == {"selected": 4, "dispatch_stall": 2}


def test_another_warps_turn_is_not_selected():
    result = run([f"{NEXT} | S1"] * 3 + ["EXIT | S1"], warps=5)
    assert stalls(result, 4) == {"selected": 4}
    assert stalls(result, 0)["not_selected"] == 4


def test_the_sum_over_warps_is_the_results():
    result = run(["LDS R4, [R0] | W0 S2", "FFMA R5, R4, R4, R4 | B0 S1", "EXIT | S1"], warps=6)
    for reason, cycles in result.stalls.items():
        assert cycles == sum(w.stalls[reason] for w in result.warps)


def test_a_stall_reason_has_the_same_words_in_code_in_the_schema_and_in_the_documents() -> None:
    assert list(STALLS) == reasons()
    schema = json.loads((resources.files("gpuemu.views") / "result.schema.json").read_text(encoding="utf-8"))
    described = {name: one["description"] for name, one in schema["$defs"]["stalls"]["properties"].items()}
    assert described == {name: f"the warp {one.sentence}" for name, one in STALLS.items()}
    columns = [words("Reason", code=True), words("Nsight Compute"), words("The warp")]
    table = Table(columns, [(name, one.title, one.sentence) for name, one in STALLS.items()]).markdown()
    assert table in (Path(__file__).resolve().parents[2] / "docs" / "result.md").read_text(encoding="utf-8")


def test_a_reason_of_a_unit_from_outside_has_words_too() -> None:
    one = stall_reason("coprocessor_full")
    assert (one.title, one.sentence, one.column) == (
        "Coprocessor Full", "waits for coprocessor full", "stall_coprocessor_full"
    )  # fmt: skip
