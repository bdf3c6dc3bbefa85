"""Taking causes away changes what it says, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gpuemu
from gpuemu.base import resources
from gpuemu.emulate import replay
from gpuemu.engine.records import objects
from gpuemu.engine.spec import Spec, fill, refusals
from gpuemu.isa.opcodes import Kind
from gpuemu.program.lowering import lower
from gpuemu.program.program import accesses_of
from gpuemu.studies.layout.layouts import Padding, Swizzle
from gpuemu.studies.layout.tile import Tile
from gpuemu.studies.why.api import causes_of
from gpuemu.studies.why.edits import Edit, Relaid, at_ideal, relaid, without
from gpuemu.studies.why.runs import Timing
from gpuemu.views.result import Result

ARCH = gpuemu.load_arch("sm_89")
V2 = gpuemu.load_trace("v2_shared_memory")
A_TILE = Relaid(0, Tile(16, 16, "f16"), Swizzle(1, 3, 3), frozenset({18, 22}))
"""Of v2: the STS.128 and the LDSM of A."""


def result(trace: gpuemu.Trace, edit: Edit) -> Result:
    return Timing(trace, ARCH).result(edit)


def columns(found: Result, name: str) -> list[int]:
    accesses: list[int] = getattr(found.program.accesses, name)[found.program.access].tolist()
    return accesses


def strided(
    instructions: int, step: int, per_lane: int, op: str = "LDG.E R{}, [R2.64]", warps: int = 1
) -> gpuemu.Trace:
    trace = gpuemu.TraceBuilder("strided", arch="sm_89", block=(32 * warps, 1, 1))
    for i in range(instructions):
        trace.emit(op.format(8 + i), lanes=f"4096 + {step * i} + {per_lane}*lane")
    trace.emit("EXIT")
    return trace.build()


def test_without_conflicts_every_access_of_the_chosen_instructions_is_ideal_and_others_stay() -> None:
    plain = result(V2, Edit())
    loads = result(V2, Edit(wavefronts=frozenset({22, 23})))
    assert plain.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 8
    assert loads.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
    assert loads.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == 4
    assert loads.cycles == plain.cycles - 16
    assert loads.log.read_cycles == plain.log.read_cycles - 8
    assert result(V2, Edit()).cycles == plain.cycles


def test_a_copy_past_l1_goes_in_the_fewest_pieces_and_a_group_of_lanes_keeps_its_cycle() -> None:
    copy_and_loads = accesses_of(
        3, wavefronts=[16, 8, 4], ideal_wavefronts=[4, 1, 4], data_stage_cycles=[0, 8, 4], sectors=[16, 0, 0],
        copy_pieces=[32, 0, 0],
    )  # fmt: skip
    ideal = at_ideal(copy_and_loads, ARCH)
    assert ideal.wavefronts.tolist() == [4, 1, 4]
    assert ideal.copy_pieces.tolist() == [4, 0, 0]
    assert ideal.data_stage_cycles.tolist() == [0, 1, 4]
    assert at_ideal(copy_and_loads, ARCH, np.array([False, True, False])).wavefronts.tolist() == [16, 1, 4]


def test_a_strided_load_moves_the_sectors_of_as_many_neighbours_in_one_line() -> None:
    trace = strided(1, 0, 128)
    plain, coalesced = result(trace, Edit()), result(trace, Edit(sectors=frozenset({0})))
    assert (plain.log.loaded_sectors, coalesced.log.loaded_sectors) == (32, 4)
    (access,) = np.flatnonzero(coalesced.program.accesses.lines)
    assert coalesced.program.accesses.lines[access] == coalesced.program.accesses.data_stage_cycles[access] == 1
    assert coalesced.cycles <= plain.cycles


def test_coalesced_loads_of_one_block_still_fetch_all_of_it() -> None:
    """Eight loads of 4 bytes at steps of 32 cover 1,024 bytes: the first has them all, alone they take 4 sectors each."""
    trace = strided(8, 4, 32)
    edit = Edit(sectors=frozenset(range(8)))
    plain, coalesced = result(trace, Edit()), result(trace, edit)
    assert columns(plain, "sectors") == [32] * 8
    assert columns(coalesced, "sectors") == [4] * 8
    one = result(strided(1, 0, 32), Edit(sectors=frozenset({0})))
    assert one.log.loaded_sectors == 4
    assert coalesced.log.loaded_sectors <= plain.log.loaded_sectors == 32


def test_executions_of_one_instruction_share_out_the_sectors_that_it_touches() -> None:
    trace = gpuemu.TraceBuilder("column", arch="sm_89", block=(32, 1, 1))
    for i in range(8):
        trace.emit("LDG.E R8, [R2.64]", lanes=f"4096 + {4 * i} + 32*lane")
    built = trace.build()
    code = (built.code[0],)
    looped = replace(built, code=code, warps=(replace(built.warps[0], path=np.zeros(8, dtype=np.int32)),))
    coalesced = result(looped, Edit(sectors=frozenset({0})))
    assert coalesced.log.loaded_sectors == 32
    assert sorted(coalesced.program.accesses.sector.tolist()) == list(range(128, 160))


def test_a_store_that_is_coalesced_leaves_no_line_written_in_part() -> None:
    trace = strided(1, 0, 64, op="STG.E [R2.64], R{}")
    plain, coalesced = result(trace, Edit()), result(trace, Edit(sectors=frozenset({0})))
    assert (plain.log.stored_sectors, coalesced.log.stored_sectors) == (32, 4)
    assert plain.program.accesses.in_part.any()
    assert not coalesced.program.accesses.in_part.any()


def test_with_barriers_open_nobody_waits_at_one() -> None:
    trace = gpuemu.TraceBuilder("uneven", arch="sm_89", block=(64, 1, 1))
    with trace.only(warps="1"), trace.repeat(100):
        trace.emit("IADD3 R1, R1, R2, R3")
    trace.emit("BAR.SYNC 0x0")
    trace.emit("IADD3 R4, R4, R2, R3")
    trace.emit("EXIT")
    plain, without_barriers = result(trace.build(), Edit()), result(trace.build(), Edit(barriers_open=True))
    assert plain.stalls["barrier"] > 100
    assert without_barriers.stalls["barrier"] == 0
    waits = without_barriers.warps[0]
    assert waits.end_cycle - waits.start_cycle < ARCH.launch.first_code_cycles + 10


@pytest.mark.slow
@pytest.mark.parametrize("first_touch", ["l2", "dram"])
def test_code_is_there_at_once_where_a_launch_would_wait_for_it(first_touch: str) -> None:
    trace = gpuemu.TraceBuilder("straight", arch="sm_89", block=(32, 1, 1))
    for _ in range(100 if first_touch == "dram" else 2500):
        trace.emit("NOP", control="B------:R-:W-:-:S01")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    plain = gpuemu.run(trace.build(), ARCH.with_overrides({"global_memory.first_touch": first_touch}))
    (cause,) = (one for one in causes_of(plain, by_line=False) if one.name == "stall.no_instruction")
    assert plain.stalls["no_instruction"] > len(plain.program.path)
    without = gpuemu.run(trace.build(), plain.arch.with_overrides(dict(cause.edit.settings)))
    assert without.stalls["no_instruction"] == 0


@pytest.mark.parametrize("dependences", ["control_words", "register_scoreboard"])
def test_without_stall_counts_no_warp_waits_for_arithmetic(dependences: str) -> None:
    arch = ARCH.with_overrides({"issue.dependences": dependences})
    plain, none = (Timing(V2, arch).result(edit) for edit in (Edit(), Edit(no_stall_counts=True)))
    assert plain.stalls["wait"] > 30
    assert none.stalls["wait"] < 10
    assert none.cycles < plain.cycles


@pytest.mark.slow
def test_all_resident_ctas_launch_at_once_as_far_as_there_are_warps() -> None:
    arch = ARCH.with_overrides({"sm.max_ctas": 1})
    trace = gpuemu.load_trace("tiled_none")
    program = lower(trace, arch)
    assert (program.resident_ctas, program.ctas) == (1, 4)
    whole = without(program, arch, Edit(all_resident=True))
    warps = program.warps // program.ctas
    assert whole.resident_ctas == min(4, arch.sm.max_warps // warps) > 1
    assert program.resident_ctas == 1
    assert replay(trace, arch, whole).cycles < replay(trace, arch, program).cycles


def test_a_tile_in_another_layout_has_the_accesses_that_the_layout_gives() -> None:
    plain, swizzled = result(V2, Edit()), result(V2, Edit(relaid=(A_TILE,)))
    wavefronts = np.array(columns(swizzled, "wavefronts")) - columns(plain, "wavefronts")
    index = swizzled.program.of_ops("index")[swizzled.program.path[swizzled.program.request_issue]]
    assert {int(i): int(w) for i, w in zip(index, wavefronts, strict=True) if w} == {22: -4}
    padded = result(V2, Edit(relaid=(replace(A_TILE, layout=Padding(8, 16)),)))
    of = dict(zip(index.tolist(), columns(padded, "wavefronts"), strict=True))
    assert (of[18], of[22]) == (8, 4)  # rows of 48 bytes: the load has no conflicts left, the store has some
    assert padded.trace.launch.shared_bytes == V2.launch.shared_bytes + 256
    assert swizzled.trace.launch.shared_bytes == V2.launch.shared_bytes


def test_bytes_of_an_element_stay_together_and_inactive_lanes_where_they_were() -> None:
    moved = relaid(V2, (A_TILE,))
    (row,) = {int(warp.rows[4]) for warp in moved.warps}  # the LDSM of A: two loads and two stores come before
    lane = np.arange(32)
    byte = 32 * (lane % 16) + 16 * (lane // 16)
    assert moved.addresses[row].tolist() == (byte ^ (byte >> 3 & 16)).tolist()
    assert np.array_equal(moved.addresses[: len(V2.addresses)], V2.addresses)


def test_two_edits_together_are_both_and_those_of_one_thing_meet() -> None:
    a = Edit(settings=(("mio.queue_entries", 9),), wavefronts=frozenset({1}))
    b = Edit(settings=(("mio.queue_entries", 8), ("mio.pool_entries", 7)), barriers_open=True)
    assert a | b == Edit(
        settings=(("mio.queue_entries", 8), ("mio.pool_entries", 7)), wavefronts=frozenset({1}), barriers_open=True
    )
    assert a.meets(b)
    assert b.meets(Edit(barriers_open=True, no_stall_counts=True))
    assert not b.meets(Edit(no_stall_counts=True))
    assert Edit(wavefronts=frozenset({22})).meets(Edit(relaid=(A_TILE,)))
    assert not Edit(sectors=frozenset({22})).meets(Edit(wavefronts=frozenset({22})))


@pytest.mark.parametrize("name", resources.names("configs"))
def test_no_setting_has_an_effect_before_its_cause(name: str) -> None:
    arch = gpuemu.load_arch(name)
    trace = gpuemu.load_trace("tiled_none" if name == "sm_75" else "v2_shared_memory")
    causes = causes_of(gpuemu.run(trace, arch), False)
    assert len(causes) > 20
    for cause in causes:
        (spec,) = objects(Spec, 1)
        fill(spec, arch.with_overrides(dict(cause.edit.settings)))
        assert refusals(spec) == [], cause.name


def test_ops_that_are_no_barriers_keep_everything_without_barriers() -> None:
    program = lower(V2, ARCH)
    opened = without(program, ARCH, Edit(barriers_open=True))
    changed = [op for op, was in zip(opened.ops, program.ops, strict=True) if op is not was]
    assert [op.kind for op in changed] == [Kind.BARRIER] * 2
