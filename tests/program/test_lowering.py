"""From trace and architecture to the program: what is refused, in which words, and what the engine is given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine.probes import builder, emit, machine, run
from refusals import brief

import gpuemu
from gpuemu import GpuemuError, load_trace
from gpuemu.isa.opcodes import Kind
from gpuemu.program.lowering import lower
from gpuemu.program.units import Destination
from gpuemu.trace.listing import parse_control


def refusal(trace: gpuemu.TraceBuilder | gpuemu.Trace, arch: gpuemu.Architecture | None = None) -> list[str]:
    built = trace.build() if isinstance(trace, gpuemu.TraceBuilder) else trace
    with pytest.raises(GpuemuError) as caught:
        lower(built, arch or machine())
    return brief(caught.value)


def empty(warps: int = 1, **launch) -> gpuemu.Trace:
    trace = builder(warps, **{"static_shared_bytes": 0, **launch})
    emit(trace, "EXIT")
    return trace.build()


# --- a CTA too large --------------------------------------------------------------------------------------


def test_too_many_threads():
    assert refusal(empty(33)) == ["<builder>: launch.block: 1056 threads"]


def test_more_warps_than_the_sm_holds():
    arch = machine(sm__max_warps=16, sm__max_threads_per_cta=512)
    assert refusal(empty(17), arch) == [
        "<builder>: launch.block: 544 threads",
        "<builder>: launch.block: 17 warps",
    ]


def test_too_many_registers_for_a_thread():
    assert refusal(empty(registers_per_thread=255), machine(sm__max_registers_per_thread=128)) == [
        "<builder>: launch.registers_per_thread: 255"
    ]


def test_too_many_registers_for_the_sm():
    assert refusal(empty(32, registers_per_thread=65)) == [
        "<builder>: launch.registers_per_thread: 32 warps of 2304 registers"
    ]


def test_too_much_shared_memory_for_a_cta():
    assert refusal(empty(static_shared_bytes=1024, dynamic_shared_bytes=100 * 1024), machine("sm_89")) == [
        "<builder>: launch.dynamic_shared_bytes: 103424 bytes of static and dynamic shared memory"
    ]


def test_more_shared_memory_than_the_sm_has_once_it_is_rounded_up():
    arch = machine(shared_memory__allocation_unit_bytes=65536)
    assert refusal(empty(static_shared_bytes=220 * 1024), arch) == [
        "<builder>: launch.dynamic_shared_bytes: 262144 bytes, including the reserved ones"
    ]


def test_every_limit_that_forbids_a_cta_is_named():
    assert len(refusal(empty(33, registers_per_thread=100, static_shared_bytes=233000))) == 3


def test_the_largest_cta_is_taken():
    assert lower(empty(32, registers_per_thread=64, static_shared_bytes=232448), machine()).resident_ctas == 1


# --- operations and accesses --------------------------------------------------------------------------------


def test_a_tensor_mode_without_timing_is_named_with_its_place():
    trace = builder()
    emit(trace, "NOP")
    emit(trace, "IMMA.16816.S8.S8 R4, R0, R2, R4")
    emit(trace, "EXIT")
    modes = {m: t for m, t in machine().tensor_core.operations.items() if m != "m16n8k16.s32.s8"}
    arch = machine().model_copy(update={"tensor_core": machine().tensor_core.model_copy(update={"operations": modes})})
    assert refusal(trace, arch) == [
        "<builder>: code at 0x0010: sm_90 has no timing for "
        "tensor_core.operations.m16n8k16.s32.s8, which IMMA.16816.S8.S8 needs"
    ]


@pytest.mark.parametrize(
    ("line", "lanes", "found", "width"),
    [
        ("LDS R4, [R0]", "4*lane + 2", "byte address 2 in lane 0 (and 31 more)", 4),
        ("LDS.128 R4, [R0]", "8*lane", "byte address 8 in lane 1 (and 15 more)", 16),
        ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", "8*lane", "byte address 8 in lane 1 (and 15 more)", 16),
    ],
)
def test_a_misaligned_access_names_its_place(line, lanes, found, width):
    trace = builder()
    emit(trace, "NOP")
    emit(trace, line, lanes)
    emit(trace, "EXIT")
    assert refusal(trace) == [f"<builder>: code at 0x0010: {found}"]


def test_a_misaligned_access_names_the_line_of_the_file(tmp_path):
    trace = builder()
    emit(trace, "NOP")
    emit(trace, "LDS.128 R4, [R0]", "16*lane")
    emit(trace, "EXIT")
    file = tmp_path / "odd.yaml"
    trace.write(file)
    text = file.read_text().replace("16*lane", "8*lane")
    file.write_text(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "LDS.128" in row)
    with pytest.raises(GpuemuError) as caught:
        gpuemu.run(load_trace(str(file)), machine())
    assert "\n".join(brief(caught.value)).startswith(f"{file}:{line}: code at 0x0010: ")


def test_a_barrier_in_a_register_is_refused():
    trace = builder()
    emit(trace, "BAR.SYNC R5, 0x40")
    emit(trace, "BAR.SYNC 0x1, R6")
    emit(trace, "EXIT")
    assert refusal(trace) == [
        "<builder>: code at 0x0000: BAR.SYNC R5, 0x40 has its barrier in a register",
        "<builder>: code at 0x0010: BAR.SYNC 0x1, R6 has its thread count in a register",
    ]


def test_a_barrier_that_there_is_not_is_refused():
    """There are 16 for a CTA; the engine has room for no more, and for that of the cluster."""
    trace = builder()
    emit(trace, "BAR.SYNC 0xf")
    emit(trace, "BAR.SYNC 0x10")
    emit(trace, "BAR.SYNC -0x1")
    emit(trace, "EXIT")
    assert refusal(trace) == [
        "<builder>: code at 0x0010: the operands of BAR.SYNC 0x10 cannot be read",
        "<builder>: code at 0x0020: the operands of BAR.SYNC -0x1 cannot be read",
    ]


def test_more_registers_than_any_instruction_sends_are_refused():
    """The engine has room for as many as an exchange of 128 bits sends."""
    trace = builder()
    emit(trace, "SHFL.IDX PT, R0, " + ", ".join(f"R{n}" for n in range(2, 40)))
    emit(trace, "EXIT")
    (found,) = refusal(trace)
    assert "cannot be read" in found


def test_the_barrier_of_a_cluster_is_that_whatever_stands_behind_it():
    trace = builder()
    emit(trace, "UCGABAR_WAIT 0xffffffffff, R4")
    emit(trace, "EXIT")
    assert gpuemu.run(trace.build(), machine()).program.ops[0].barrier_id == 16


def test_memory_instructions_without_addresses_are_refused():
    trace = run_trace(["LDS R4, [R0]", "EXIT"])
    bare = replace(trace, warps=tuple(replace(w, rows=w.rows[:0]) for w in trace.warps))
    assert refusal(bare) == ["<builder>: warp 0 of CTA 0: 0 address rows for 1 memory instructions"]


# --- what comes out -----------------------------------------------------------------------------------------


def run_trace(lines: list[str], lanes: str = "4*lane") -> gpuemu.Trace:
    trace = builder()
    for line in lines:
        emit(trace, line, lanes)
    return trace.build()


def test_an_instruction_is_lowered_once_and_an_access_once_for_each_pattern():
    trace = builder(4)
    with trace.repeat(10):
        emit(trace, "LDS R4, [R0]", "4*lane")
        emit(trace, "LDS R5, [R0]", "128*lane*(i % 2)")
    emit(trace, "EXIT")
    program = lower(trace.build(), machine())
    assert len(program.ops) == 3
    assert len(set(program.access[::2].tolist())) == 1
    assert program.accesses.wavefronts[program.access][1:20:2].tolist() == [1, 32] * 5


def test_a_control_word_is_read_into_its_parts():
    (op, _) = lower(run_trace(["LDS R4, [R0] | B03 R1 W2 S7 Y", "EXIT | S5"]), machine()).ops
    assert (op.wait_mask, op.read_counter, op.write_counter, op.stall_cycles, op.yields) == (0b1001, 1, 2, 7, True)
    assert (op.reads, op.writes) == ((), ())


def test_a_barrier_is_read_by_position():
    ops = lower(run_trace(["BAR.SYNC.DEFER_BLOCKING 0x0", "BAR.ARV 0x3, 0x80", "BAR.SYNC 0x2", "EXIT"]), machine()).ops
    assert [(o.barrier_id, o.barrier_warps, o.arrives_only) for o in ops[:3]] == [
        (0, 0, False),
        (3, 4, True),
        (2, 0, False),
    ]


@pytest.mark.parametrize(
    ("line", "mask", "awaits", "keep", "counter"),
    [("DEPBAR.LE SB0, 0x1", 0, 1, 1, 0), ("DEPBAR.LE SB3, 0x0", 0b1000, 1, 0, -1),
     ("DEPBAR.LE SB0, 0x2, {4,3}", 0b11000, 3, 2, 0), ("DEPBAR {5,1}", 0b100010, 2, 0, -1)],
)  # fmt: skip
def test_a_counting_wait_is_read(line, mask, awaits, keep, counter):
    (op, _) = lower(run_trace([f"{line} | S1", "EXIT | S5"]), machine()).ops
    assert op.kind is Kind.COUNTER_WAIT
    assert (op.wait_mask, op.awaits, op.keep, op.keep_counter) == (mask, awaits, keep, counter)


def test_each_global_access_has_its_lines_and_sectors():
    program = lower(run_trace(["LDG.E.64 R4, [R0.64]", "STG.E.U8 [R0.64], R4", "EXIT"], "8*lane"), machine())
    accesses = program.accesses
    for column, number in ((accesses.wavefronts, 0), (accesses.data_stage_cycles, 2), (accesses.sectors, 8)):
        assert column[program.access].tolist() == [number, number]
    assert accesses.in_part.tolist() == [0, 0, 1, 1]  # a store of single bytes


@pytest.mark.parametrize(
    ("lanes", "asked"),
    [("8*lane", [0xFFFFFFFF] * 8), ("8*(lane%4)", [0xFFFFFFFF]), ("16*(lane%2)", [0xFF00FF]),
     ("28", [0xF0000000, 0xF])],
)  # fmt: skip
def test_which_bytes_of_its_sectors_an_access_means(lanes, asked):
    """One whose address is no multiple of its width may mean bytes of two."""
    accesses = lower(run_trace(["LDG.E.64 R4, [R0.64]", "EXIT"], lanes), machine()).accesses
    assert accesses.asked.tolist() == asked
    assert len(accesses.sector) == len(asked)


def test_the_same_trace_runs_on_every_shipped_architecture():
    for name in ("sm_80", "sm_89", "sm_90"):
        latency = machine(name).shared_memory.latency_cycles
        assert run(["LDS R4, [R0]", "FFMA R5, R4, R4, R4", "EXIT"], machine(name)).cycles == latency + 2


def test_a_pipe_is_the_tensor_cores_if_lowering_says_so_and_not_by_how_its_name_begins():
    arch = machine(operations__integer__pipe="tensor_of_integers")
    trace = builder()
    for line in ("IADD3 R2, R3, R4, R5", "HMMA.16816.F32 R8, R4, R6, R8", "MUFU.RCP R1, R2", "LDC R1, c[0x0][0x160]"):
        emit(trace, f"{line} | S4")
    program = lower(trace.build(), arch)
    assert [program.units[op.pipe] for op in program.ops[:4]] == [
        Destination.ARITHMETIC, Destination.TENSOR, Destination.SPECIAL_FUNCTION, Destination.ADDRESS_DIVERGENCE,
    ]  # fmt: skip
    assert not program.ops[0].turnaround
    assert len(program.ops[1].turnaround) == 1


def cycles_of(bits: int) -> list[int]:
    return [cycle for cycle in range(bits.bit_length()) if bits >> cycle & 1]


@pytest.mark.parametrize(
    ("overrides", "even", "odd"),
    [
        ({}, [1, 2, 4, 5, 6], [1, 2, 4, 5, 6]),
        ({"first_read_cycles": 3}, [3, 4, 6, 7, 8], [3, 4, 6, 7, 8]),
        ({"registers_per_cycle": 4}, [1, 2, 3], [1, 2, 3]),
        ({"registers_per_cycle": 1}, [1, 3, 6, 7, 9], [2, 4, 7, 8, 10]),
    ],
)
def test_when_an_mma_reads_its_fragments_is_in_the_architecture_file(overrides, even, odd):
    arch = machine(**{f"tensor_core__operands__{name}": value for name, value in overrides.items()})
    trace = builder()
    emit(trace, "HMMA.16816.F32 R8, R16, R20, R24 | S4")
    op = lower(trace.build(), arch).ops[0]
    assert [cycles_of(bits) for bits in op.port_reads] == [even, odd]


def test_for_how_long_an_mma_writes_is_in_the_architecture_file():
    arch = machine(tensor_core__operands__result_cycles=5, tensor_core__operands__f16_result_cycles=3)
    trace = builder()
    for kind in ("F32", "F16"):
        emit(trace, f"HMMA.16816.{kind} R8, R16, R20, R24 | S4")
    assert [op.results for op in lower(trace.build(), machine()).ops[:2]] == [2, 1]
    assert [op.results for op in lower(trace.build(), arch).ops[:2]] == [5, 3]


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("HMMA.16816.F32 R0", 4),
        ("HMMA.16816.F32", 4),
        ("IMMA.16816.S8.S8 R0, R4", 4),
        ("HMMA.SP.16832.F32 R0, R4, R8, R0", 5),
    ],
)
def test_a_tensor_instruction_without_its_operands_is_refused(text: str, least: int) -> None:
    trace = builder()
    emit(trace, text)
    emit(trace, "EXIT")
    opcode, _, operands = text.partition(" ")
    found = f"{opcode} with {len(operands.split(',')) if operands else 0} operands"
    assert refusal(trace) == [f"<builder>: code at 0x0000: {found}"]


@pytest.mark.parametrize(
    ("word", "arch", "waits"),
    [
        ("-:S11", "sm_80", 11), ("-:S12", "sm_80", 1), ("-:S15", "sm_80", 1), ("Y:S12", "sm_80", 12),
        ("Y:S00", "sm_80", 54), ("-:S15", "sm_90", 15), ("Y:S01", "sm_80", 2),
    ],
)  # fmt: skip
def test_a_long_stall_count_without_a_yield_counts_as_far_as_the_architecture_says(
    word: str, arch: str, waits: int
) -> None:
    trace = gpuemu.TraceBuilder("stalls", arch=arch, block=(32, 1, 1))
    trace.emit("NOP", control=f"B------:R-:W-:{word}")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    assert lower(trace.build(), gpuemu.load_arch(arch)).ops[0].stall_cycles == waits


# --- control words that no compiler writes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"write_counter": 6}, "[B------:R-:W6:-:S02]"),
        ({"read_counter": 7}, "[B------:R7:W-:-:S02]"),
        ({"write_counter": -2}, "[B------:R-:W-2:-:S02]"),
        ({"wait_mask": 1 << 6}, "[B------:R-:W-:-:S02]"),
        ({"stall_cycles": 16}, "[B------:R-:W-:-:S16]"),
    ],
)
def test_a_control_word_that_names_what_no_warp_has_is_refused_before_an_engine_runs(wrong, shown):
    trace = builder(1)
    emit(trace, "MOV R1, R2")
    emit(trace, "EXIT")
    built = trace.build()
    first, last = built.code
    word = replace(last.control or parse_control("B------:R-:W-:-:S02"), **wrong)
    code = (replace(first, control=word), replace(last, control=parse_control("B------:R-:W-:-:S02")))
    assert refusal(replace(built, code=code)) == [f"<builder>: code at 0x0000: the control word {shown}"]


# --- more registers than the operand collector has room for --------------------------------------------------


@pytest.mark.parametrize("control", ["", "[B------:R-:W-:-:S02] "])
@pytest.mark.parametrize("opcode", ["FFMA", "MOV", "ISETP.GE.AND", "CS2R", "DFMA"])
def test_what_reads_more_registers_than_any_instruction_is_refused(opcode, control):
    operands = ", ".join(f"R{4 * n}" for n in range(11))
    trace = gpuemu.TraceBuilder("k", arch="sm_89")
    trace.emit(f"{control}{opcode} {operands}")
    trace.emit(f"{control}EXIT")
    (sentence,) = refusal(trace, machine("sm_89"))
    assert f"{opcode} reads " in sentence


@pytest.mark.parametrize("text", ["DFMA R0, R4, R8, R12", "IMAD.WIDE R0, R4, R4, R4", "FFMA R0, R4, R4, R4"])
def test_what_reads_as_many_as_instructions_do_runs(text):
    assert run([text, text, text, "EXIT"]).cycles > 0


# --- numbers of instructions that wait -----------------------------------------------------------------------


@pytest.mark.parametrize("control", ["", "B-----5:R-:W-:-:S02"])
@pytest.mark.parametrize(
    "text",
    [
        "BAR.SYNC 0x10", "BAR.SYNC -0x1", "BAR.SYNC 0x1, 0x1000", "BAR.SYNC 0x1, -0x20",
        "BAR.SYNC 0x1, 0xffffffffffffffffffff", "DEPBAR.LE SB0, 0x40", "DEPBAR.LE SB0, -0x1",
        "DEPBAR.LE SB5, 0xffffffffffffffffffff", "DEPBAR {6}", "WARPGROUP.DEPBAR.LE gsb0, 0x40",
        "WARPGROUP.DEPBAR.LE gsb0, -0x1", "NANOSLEEP 0x100000000", "NANOSLEEP -0x1",
    ],
)  # fmt: skip
def test_a_number_that_an_instruction_has_no_room_for_is_refused(text, control):
    trace = gpuemu.TraceBuilder("k", arch="sm_90", block=(128, 1, 1))
    trace.emit(text, control=control or None)
    trace.emit("EXIT", control=control or None)
    (sentence,) = refusal(trace)
    assert sentence == (f"<builder>: code at 0x0000: the operands of {text} cannot be read")


@pytest.mark.parametrize(
    ("text", "control", "mask", "awaits", "keep"),
    [
        ("DEPBAR {5,5,5}", "B------:R-:W-:-:S02", 0b100000, 1, 0),
        ("DEPBAR {5,3}", "B-----5:R-:W-:-:S02", 0b101000, 2, 0),
        ("DEPBAR.LE SB5, 0x0, {4,3}", "B----45:R-:W-:-:S02", 0b111000, 3, 0),
        ("DEPBAR.LE SB5, 0x2, {4,3}", "B----45:R-:W-:-:S02", 0b111000, 4, 2),
        ("DEPBAR.LE SB0, 0x1", "B0-----:R-:W-:-:S02", 0b1, 2, 1),
    ],
)
def test_a_counter_that_is_named_twice_is_waited_for_once(text, control, mask, awaits, keep):
    trace = gpuemu.TraceBuilder("k", arch="sm_90")
    for line in (text, "EXIT"):
        trace.emit(line, control=control)
    op = lower(trace.build(), machine()).ops[0]
    assert (op.wait_mask, op.awaits, op.keep, op.keep_counter) == (mask, awaits, keep, int(text[12]) if keep else -1)
    assert gpuemu.run(trace.build(), machine(), engine="simpy").cycles > 0
