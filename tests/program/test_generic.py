"""One op for each memory that an instruction with generic addresses means."""

from __future__ import annotations

from typing import Any

import pytest

import gpuemu
from gpuemu.isa.opcodes import Row
from gpuemu.program.generic import as_shared
from gpuemu.program.lowering import lower
from gpuemu.trace.listing import parse_listing

CONTROL = {"load": "------:R-:W0:-:S02", "store": "------:R0:W-:-:S02"}


def trace(sass: str, controls: bool = True, times: int = 4, **addresses: Any) -> gpuemu.Trace:
    """So many executions of an instruction, then one that waits for the last."""
    built = gpuemu.TraceBuilder("k", arch="sm_90", static_shared_bytes=8192)

    def word(text: str) -> str | None:
        return f"B{text}" if controls else None

    for _ in range(times):
        kind = "store" if sass.startswith("ST") else "load"
        built.emit(sass, control=word(CONTROL[kind]), **addresses)
    built.emit("EXIT", control=word("0-----:R-:W-:-:S05"))
    return built.build()


def run(of: gpuemu.Trace) -> gpuemu.Result:
    return gpuemu.run(of, gpuemu.load_arch("sm_90"))


PAIRS = [
    ("ST.E [R2.64], R4", "STS [R2], R4"),
    ("ST.E.128 desc[UR4][R2.64+0x10], R4", "STS.128 [R2+0x10], R4"),
    ("LD.E R4, [R2.64]", "LDS R4, [R2]"),
    ("LD.E.64 R4, [R2.64]", "LDS.64 R4, [R2]"),
    ("LD.E.U8.STRONG.SYS R4, [R2.64]", "LDS.U8 R4, [R2]"),
    ("ATOM.E.ADD.STRONG.GPU PT, R4, [R2.64], R6", "ATOMS.ADD R4, [R2], R6"),
]


@pytest.mark.parametrize("controls", [True, False])
@pytest.mark.parametrize("lanes", ["16*lane", "128*lane", "0"])
@pytest.mark.parametrize(("generic", "shared"), PAIRS)
def test_it_is_timed_and_counted_as_the_shared_access(generic: str, shared: str, lanes: str, controls: bool) -> None:
    lanes = f"({lanes}) % 8192"
    one = run(trace(generic, controls, lanes=lanes, space="shared"))
    other = run(trace(shared, controls, lanes=lanes))
    if generic.startswith("LD.E.64") and lanes == "(0) % 8192":
        # The halves of the warp go one after another, as of an LDS.64 whose lanes do not agree with their neighbours.
        apart = run(trace(shared, controls, lanes="8*lane"))
        assert one.counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 8
        assert one.counters["sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 4
        assert one.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
        assert one.cycles == apart.cycles > other.cycles
    else:
        assert one.counters == other.counters
        assert one.cycles == other.cycles
    assert sum(row.instructions for row in one.shared_memory.values()) == 4


@pytest.mark.parametrize(("generic", "local"), [("ST.E [R2.64], R4", "STL"), ("LD.E R4, [R2.64]", "LDL")])
def test_local_addresses_are_interleaved_and_each_warp_s_own(generic: str, local: str) -> None:
    arch = gpuemu.load_arch("sm_90")
    program = lower(trace(generic, lanes="16", space="local"), arch)
    assert all(program.ops[number].is_local and number > 4 for number in program.path[:4])
    assert [program.ops[number].index for number in program.path] == [0, 1, 2, 3, 4]
    named = lower(trace(f"{local} {'[R2], R4' if local == 'STL' else 'R4, [R2]'}", lanes="16"), arch)
    lines = [p.accesses.part(p.access[0], p.access[0] + 1).line.tolist() for p in (program, named)]
    assert lines[0] == lines[1] != []
    assert program.accesses.sectors[program.access[0]] == 4


def test_without_a_space_an_address_is_global() -> None:
    result = run(trace("ST.E [R2.64], R4", lanes="4*lane"))
    assert all(row.instructions == 0 for row in result.shared_memory.values())
    assert len(result.program.ops) == 5


def test_executions_that_mean_different_memories_have_ops_of_their_own() -> None:
    each = [{"lanes": "4*lane", "space": space} for space in ("shared", "global", "local", "shared")]
    built = gpuemu.TraceBuilder("k", arch="sm_90", static_shared_bytes=8192)
    with built.repeat(4):
        built.emit("LD.E R4, [R2.64]", each=each)
    built.emit("EXIT")
    program = lower(built.build(), gpuemu.load_arch("sm_90"))
    assert [program.ops[k].row for k in program.path[:4]] == [Row.LOAD, None, None, Row.LOAD]
    assert [program.ops[k].is_local for k in program.path[:4]] == [False, False, True, False]
    assert [program.ops[k].index for k in program.path] == [0, 0, 0, 0, 1]


def test_lanes_in_several_memories_are_served_one_after_another() -> None:
    def stage_cycles(space: Any, active: int = 0xFFFFFFFF) -> int:
        program = lower(
            trace("LD.E R4, [R2.64]", lanes="128*lane", active=active, space=space), gpuemu.load_arch("sm_90")
        )
        return int(program.accesses.data_stage_cycles[program.access[0]])

    both = stage_cycles({"shared": 0x0000FFFF})
    assert both == stage_cycles("shared", 0x0000FFFF) + stage_cycles("global", 0xFFFF0000)
    result = run(trace("LD.E R4, [R2.64]", lanes="128*lane", space={"shared": 0x0000FFFF}))
    assert result.shared_memory[Row.LOAD].wavefronts == 4 * 16
    assert result.shared_memory[Row.LOAD].instructions == 4


def test_the_shared_form_of_an_instruction() -> None:
    (code,) = parse_listing("0000: ATOM.E.CAS.64.STRONG.GPU P0, R4, [R2.64+0x8], R6, R8", "t", None)
    assert str(as_shared(code)) == "ATOMS.CAS.64 P0, R4, [R2+0x8], R6, R8"


@pytest.mark.parametrize("controls", [True, False])
def test_an_atomic_by_generic_addresses_has_a_wavefront_of_shared_memory_wherever_it_goes(controls: bool) -> None:
    generic, plain = (
        run(trace(f"{opcode}.E.ADD.STRONG.GPU PT, R4, [R2.64], R6", controls, lanes="4*lane"))
        for opcode in ("ATOM", "ATOMG")
    )
    name = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
    assert (generic.counters[name], plain.counters[name]) == (4, 0)
    assert generic.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum"] == 0
    assert generic.cycles == plain.cycles


def test_instructions_without_a_lane_are_not_counted() -> None:
    built = gpuemu.TraceBuilder("k", arch="sm_90", block=(64, 1, 1), static_shared_bytes=8192)
    built.emit("@P0 LDS R4, [R2]", control="B------:R-:W0:-:S02", lanes="4*lane", active="warp == 0")
    built.emit("EXIT", control="B0-----:R-:W-:-:S05")
    result = run(built.build())
    assert result.counters["sm__sass_inst_executed_op_shared_ld.sum"] == 1
    assert result.counters["smsp__inst_executed.sum"] == 4
