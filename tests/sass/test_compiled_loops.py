"""Compiled loops leave what NumPy leaves: bit for bit, with the same errors, and whoever listens hears the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.compiled import loading, source
from gpuemu.sass.compiled.bridge import Bridge, _barriers_named, _rows_used
from gpuemu.sass.compiled.columns import LOCAL_USED
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.sass.machine.scheduling.polls import Polls
from gpuemu.trace.model import Instruction
from tests.sass.harness import surroundings

TOOLS = str(Path(__file__).resolve().parent.parent.parent / "tools")
sys.path.insert(0, TOOLS)
import example_kernels  # noqa: E402
import random_programs  # noqa: E402

sys.path.remove(TOOLS)
PROGRAMS = 100
LEFT = "36b7b35047738966"
"""Of what the programs leave."""
MORE_PROGRAMS, MORE_LEFT = 50, "59c82a6d958f61c7"
"""The same for programs with products, copies and atomics."""
NUMBER_PROGRAMS, NUMBERS_LEFT = 50, "cd5605e264f5cf22"
"""The same for programs with float64, pairs of 16-bit floats and atomics of 64 bits."""


@pytest.mark.slow
def test_random_programs_leave_what_they_always_left() -> None:
    together = hashlib.sha256()
    for seed in range(PROGRAMS):
        together.update(random_programs.left_by(random_programs.Program(seed), "sm_90", False)[0])
    assert together.hexdigest()[:16] == LEFT


@pytest.mark.slow
def test_random_programs_with_products_and_atomics_leave_what_they_always_left() -> None:
    together = hashlib.sha256()
    for seed in range(random_programs.MORE_FROM, random_programs.MORE_FROM + MORE_PROGRAMS):
        together.update(random_programs.left_by(random_programs.Program(seed), "sm_90", False)[0])
    assert together.hexdigest()[:16] == MORE_LEFT


@pytest.mark.slow
def test_random_programs_of_float64_and_halves_leave_what_they_always_left() -> None:
    together = hashlib.sha256()
    for seed in range(random_programs.NUMBERS_FROM, random_programs.NUMBERS_FROM + NUMBER_PROGRAMS):
        together.update(random_programs.left_by(random_programs.Program(seed), "sm_90", False)[0])
    assert together.hexdigest()[:16] == NUMBERS_LEFT


@pytest.mark.slow
def test_functions_of_every_step_are_inlined() -> None:
    text = source.text()
    for name in (*source._IN_EVERY_STEP, "compute", "compute_from_0"):
        assert f", forceinline=True)\ndef {name}(" in text, name


def test_a_new_cta_clears_no_more_registers_than_its_kernel_may_change() -> None:
    """With many threads, clearing takes longer than a CTA that exits at once."""
    lines = ("IMAD R3, R1, R2, R5", "LDG.E.128 R12, [R8.64]", "ULDC.64 UR6, c[0x0][0x118]", "EXIT")
    environment = surroundings("\n".join(lines), lanes=32, arch="sm_90")
    assert _rows_used(environment.code) == (12 + 4, 6 + 2)
    wide = surroundings("LDTM.x64 R12, tmem[UR4]\nEXIT", lanes=32, arch="sm_100")
    assert _rows_used(wide.code) == (12 + 64, 4 + 1)


@pytest.mark.parametrize(("changes", "cleared"), [("CALL.REL.NOINC 0x20", False), ("STL [R1], R2", True)])
def test_a_new_cta_clears_local_memory_only_if_its_kernel_may_change_it(changes: str, cleared: bool) -> None:
    """Each thread of a program has a stack of 1 KiB, and many kernels call a function for rare divisions."""
    files = Lanes(64)
    memory = Memory(shared_bytes=0, shared_base=0, local_bytes_per_lane=1024, lanes=files)
    environment = surroundings(f"{changes}\nEXIT\nEXIT", lanes=64, arch="sm_90", memory=memory, files=files)
    bridge = Bridge(environment, [], Polls(environment))
    assert (bridge._state[LOCAL_USED] >= 64 * 1024) == cleared


@pytest.mark.slow
def test_the_compiler_finishes_after_a_short_run_has_ended(tmp_path: Path) -> None:
    """Otherwise a user whose programs all end sooner would never have loops."""
    made = tmp_path / "made"
    work = f"import pathlib, time; time.sleep(2); pathlib.Path({str(made)!r}).touch()"
    run = f"from gpuemu.sass.compiled import loading as l; l.Loops({work!r}).ask(l.WORTH_COMPILING)"
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", run], check=True, env=os.environ | {"GPUEMU_CACHE": str(tmp_path)})
    while not made.exists() and time.monotonic() < before + 60:
        time.sleep(0.1)
    assert made.exists()


@pytest.mark.slow
@pytest.mark.parametrize("arch", random_programs.ARCHITECTURES)
def test_loops_leave_what_numpy_leaves(loops: None, arch: str) -> None:
    """Each program on two architectures: what its instructions do is the same on all."""
    for start in (0, random_programs.MORE_FROM, random_programs.NUMBERS_FROM):
        for seed in random_programs.of_architecture(start, PROGRAMS, arch):
            random_programs.compared(seed, arch)


BY_LOOPS = (
    "HMMA.16816.F32 R40, R8, R16, R40", "HMMA.16816.F32 R40, R8, RZ, RZ", "HMMA.16816.F32 RZ, R8, R16, RZ",
    "HMMA.16816.F16 R40, R8, R16, R44", "HMMA.16816.F32.BF16 R40, R8, R16, R44", "HMMA.1688.F16 R40, R8, R16, R44",
    "HMMA.1688.F32.TF32 R40, R8, R16, R44", "HMMA.1684.F32.TF32 R40, R8, R16, R44",
    "@P0 HMMA.16816.F32 R40, R8, R16, R40", "LDGSTS.E.BYPASS.128 [R22], [R20.64]",
    "@P1 LDGSTS.E.64 [R22+0x8], [R20.64], P2", "LDGSTS.E [R22], [R20.64], !PT", "MUFU.EX2 R40, R8",
    "MUFU.LG2 R40, -R8", "LDGDEPBAR", "ATOMG.E.ADD.STRONG.GPU P3, RZ, [R20.64], R8",
    "ATOMG.E.CAS.STRONG.GPU PT, RZ, [R20.64], R8, R9", "RED.E.MAX.S32.STRONG.GPU [R24.64], R8",
    "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R24.64], R8", "ATOM.E.EXCH.STRONG.GPU PT, RZ, [R24.64], R8",
    "@P1 RED.E.INC.STRONG.GPU [R24.64], R8", "RED.E.MIN.STRONG.GPU [R24.64], R8",
    "ATOMG.E.ADD.STRONG.GPU PT, R40, [R20.64], R8", "DFMA R40, R8, -R10, |R12|", "HFMA2 R40, R8, R9.H0_H0, -R10",
    "MUFU.RCP64H R40, R8", "I2F.F64 R40, R8", "DSETP.LT.AND P3, P4, R8, R10, P2", "R2P PR, R8, 0x7e",
    "P2R R40, PR, R8, 0x3f", "MUFU.SIN R40, R8", "MUFU.COS R40, |R8|", "MUFU.TANH R40, -R8",
    "FFMA.RZ R40, R8, R9, -R10", "FFMA.RM.FTZ R40, R8, R9, R10", "FFMA.RP.SAT R40, R8, 2, R10", "FADD.RM R40, R8, -R8",
    "FADD.RP R40, R8, R9", "FMUL.RM.FTZ R40, R8, R9", "VIADDMNMX R40, R8, -R9, R10, !PT",
    "VIADDMNMX.U32 R40, R8, R9, 0x70000000, P1", "VIADDMNMX.RELU R40, -R8, R9, R10, PT",
    "VIMNMX.RELU R40, R8, R9, !PT", "VIMNMX3 R40, R8, R9, R10, P1", "VIMNMX3.U32 R40, R8, R9, R10, !PT",
    "REDUX.SUM.S32 UR4, R8", "@P1 REDUX.MAX.S32 UR4, R8", "@P2 REDUX.MIN UR4, R8", "REDUX.XOR UR4, R8",
    "REDUX UR4, R8", "MATCH.ANY R40, R26", "@P1 MATCH.ANY.U64 R40, R26", "MATCH.ALL P3, R40, R24",
    "@P1 MATCH.ALL P3, R40, R26", "LDC R40, c[0x3][R26+0x8]", "@P1 LDC.64 R40, c[0x3][R26]", "LDC.S8 R40, c[0x3][R26]",
    "LDC.U16 R40, c[0x0][R26+0x210]", "@P1 ULDC UR4, c[0x3][UR6+0x4]", "LDCU.64 UR4, c[0x3][UR6]",
)  # fmt: skip
BY_THE_EXECUTOR = (
    "@P1 HMMA.16816.F32 R40, R8, R16, R40", "LDGSTS.E [R22], [R20.64+0x3]", "ATOMS.ADD RZ, [R22], R8",
    "LDC R40, c[0x3][R26+0x3e8]", "LDC R40, c[0x3][R26+0x2]",
)  # fmt: skip
"""Mistakes of a kernel."""


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("sass", [*BY_LOOPS, *BY_THE_EXECUTOR])
def test_loops_do_products_copies_and_functions(loops: None, sass: str, arch: str) -> None:
    """They leave what the executor leaves, which does none of these steps itself."""
    left = []
    for compiled in (False, True):
        files = Lanes(96)
        memory = Memory(shared_bytes=2048, shared_base=0, local_bytes_per_lane=0, lanes=files)
        numbers = np.random.default_rng(7)
        buffer = numbers.integers(0, 256, 4096, np.uint8)
        start = memory.add_buffer("the buffer", buffer)
        banks = {0: np.zeros(1024, np.uint8), 3: np.arange(1000, dtype=np.uint32).view(np.uint8)[:1000] * np.uint8(37)}
        environment = surroundings(
            f"{sass}\nEXIT", lanes=96, arch=arch, memory=memory, files=files, constants=banks
        )  # fmt: skip
        executor = CtaExecutor(environment)
        executor.compiled = compiled
        cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
        halves = numbers.standard_normal((48, 96, 2)).astype(np.float16)
        files.registers[:48] = halves.view(np.uint32)[..., 0]
        files.registers[8, ::7] = 0x7C007C00
        address = np.uint64(start) + 16 * files.thread.astype(np.uint64)
        files.registers[20], files.registers[21] = address.astype(np.uint32), start >> 32
        files.registers[22] = 16 * files.thread
        files.registers[24], files.registers[25] = start & 0xFFFFFFFF, start >> 32  # the same place for all
        files.registers[26], files.registers[27] = 8 * (files.thread % 5), files.thread % 2
        files.predicates[0], files.predicates[1] = files.warp == 1, files.lane % 3 > 0
        files.predicates[2] = files.lane % 2 > 0
        error = ""
        try:
            executor.go_on(cta)
        except ExecutionError as found:
            error = str(found)
        arrays = files.registers, files.predicates, files.uniform_registers, memory.shared[1], memory.written[1], buffer
        left.append(([array.tobytes() for array in arrays], error))
    assert left[0] == left[1]
    assert executor._steps_taken == (sass in BY_THE_EXECUTOR)


POLLING = """
IADD3 R6, R6, 0x1, RZ
IMAD.MOV.U32 R4, RZ, RZ, R20
IMAD.MOV.U32 R5, RZ, RZ, R21
LDG.E.64.STRONG.GPU R4, [R4.64]
ISETP.NE.AND P0, PT, R6, 0x40, PT
@P0 BRA 0x0
EXIT
"""


@pytest.mark.slow
def test_a_load_over_its_own_address_is_done_again_with_the_address(loops: None) -> None:
    """A load that finds the same again goes to the executor, which must not read what was loaded as an address."""
    files = Lanes(32)
    memory = Memory(shared_bytes=0, shared_base=0, local_bytes_per_lane=0, lanes=files)
    start = memory.add_buffer("the buffer", np.full(4096, 7, np.uint8))
    environment = surroundings(POLLING.strip(), lanes=32, arch="sm_90", memory=memory, files=files)
    executor = CtaExecutor(environment)
    cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
    files.registers[20], files.registers[21] = (start & 0xFFFFFFFF) + 16 * files.thread, start >> 32
    executor.go_on(cta)
    assert (files.registers[4:6] == 0x07070707).all()
    assert (files.registers[6] == 0x40).all()


ENDS = {
    "LDG.E R0, [R4.64]\nEXIT": "load at 0x0",
    "LDG.E.64 R0, [R20.64+0x4]\nEXIT": "a multiple of 8",
    "STG.E [R20.64+0x1000], R0\nEXIT": "the end of the buffer",
    "LDS R0, [R22]\nEXIT": "never written",
    "STS [R22], R0\nLDS.64 R2, [R22+0x400]\nEXIT": "of shared memory",
    "STL [R22+0x40], R0\nEXIT": "of local memory",
    "IADD3 R0, R0, 0x1, RZ\nBRA 0x0\nEXIT": "over 5000 warp instructions",
    "IADD3 R0, R0, 0x1, RZ": "no instruction after it",
}


@pytest.mark.slow
@pytest.mark.parametrize("sass", ENDS)
def test_what_a_kernel_must_not_do_has_the_same_message(loops: None, sass: str) -> None:
    """Also behind instructions that the loops have executed."""
    errors = []
    for compiled in (False, True):
        files = Lanes(64)
        memory = Memory(shared_bytes=1024, shared_base=0, local_bytes_per_lane=64, lanes=files)
        start = memory.add_buffer("the buffer", np.zeros(4096, np.uint8))
        environment = surroundings(f"MOV R22, 0x0\n{sass}", lanes=64, memory=memory, files=files)
        executor = CtaExecutor(environment)
        executor.compiled = compiled
        cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
        files.registers[20], files.registers[21] = start & 0xFFFFFFFF, start >> 32
        with pytest.raises(ExecutionError) as error:
            executor.go_on(cta)
        errors.append((str(error.value), executor.instructions_of(cta), environment.clock))
    assert errors[0] == errors[1]
    assert ENDS[sass] in errors[1][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transpose_v4", "matmul_plain", "v5_swizzle", "gemm_tile_swizzled"])
def test_a_launch_leaves_and_records_the_same(loops: None, name: str) -> None:
    """CTAs that nobody records end in the loops; those that are recorded have the same trace."""
    example = next(e for e in example_kernels.EXAMPLES if e.kernel == name)
    found = []
    for compiled in (False, True):
        if compiled:
            loading.LOOPS.force()
        else:
            loading.LOOPS.forget()
        args, *_ = example.arguments()
        trace = gpuemu.trace_kernel(
            example_kernels.SOURCES / example.source, name, 6, example.block, example.dynamic_shared_bytes, args,
            arch="sm_90", ctas=[2],
        )  # fmt: skip
        paths = [warp.path.tolist() for warp in trace.warps]
        arrays = [a.tobytes() for a in args if isinstance(a, np.ndarray)]
        found.append((arrays, paths, trace.addresses.tobytes()))
    assert found[0] == found[1]


@pytest.mark.slow
def test_ctas_that_end_in_the_loops_count(loops: None) -> None:
    """Warp instructions, the clock and the work of each CTA are those of the executor."""
    sass = "S2R R0, SR_CTAID.X\nS2R R2, SR_TID.X\nIMAD.SHL.U32 R2, R2, 0x4, RZ\nSTS [R2], R0\nLDS R1, [R2]\nEXIT"
    counts = []
    for compiled in (False, True):
        files = Lanes(64)
        memory = Memory(shared_bytes=256, shared_base=0, local_bytes_per_lane=0, lanes=files)
        environment = surroundings(sass, lanes=64, memory=memory, files=files, grid=(3, 2, 2))
        executor = CtaExecutor(environment)
        executor.compiled = compiled

        def recorder(files: Lanes = files, code: tuple[Instruction, ...] = environment.code) -> Recorder:
            return Recorder(files, code)

        executor.go_on(executor.begin(0, recorder(), False, 1000))
        ended, begun = executor.begin_ahead([1, 2, 5, 11], recorder, 1000)
        assert begun is None
        if not compiled:
            assert ended == []
            for number in (1, 2, 5, 11):
                executor.go_on(executor.begin(number, recorder(), False, 1000))
        else:
            assert [(one.number, one.executed) for one in ended] == [(n, 12) for n in (1, 2, 5, 11)]
        assert files.registers[1].tolist() == [11 % 3] * 64
        counts.append((executor.instructions(), environment.clock))
    assert counts[0] == counts[1] == (60, 30)


@pytest.mark.parametrize(
    ("shared_bytes", "silent_cta", "far_cta", "ended"), [(256, 99, 99, 7), (256, 5, 99, 4), (512, 99, 6, 5)]
)
def test_shared_memory_that_is_all_written_is_so_for_one_cta(
    loops: None, shared_bytes: int, silent_cta: int, far_cta: int, ended: int
) -> None:
    """The loops see when all is written, and then check no more reads. A CTA that writes nothing, or reads the other half, fails."""
    files = Lanes(64)
    memory = Memory(shared_bytes=shared_bytes, shared_base=0, local_bytes_per_lane=0, lanes=files)
    lines = (
        "S2R R0, SR_CTAID.X", "S2R R2, SR_TID.X", "IMAD.SHL.U32 R3, R2, 0x4, RZ",
        f"ISETP.NE.AND P0, PT, R0, {silent_cta:#x}, PT", "@P0 STS [R3], R0", *["@P0 LDS R4, [R3]"] * 70,
        f"ISETP.EQ.AND P1, PT, R0, {far_cta:#x}, PT", "@P1 IADD3 R3, R3, 0x100, RZ", "LDS R5, [R3]", "EXIT",
    )  # fmt: skip
    environment = surroundings("\n".join(lines), lanes=64, memory=memory, files=files, grid=(8, 1, 1))
    executor = CtaExecutor(environment)

    def recorder() -> Recorder:
        return Recorder(files, environment.code)

    executor.go_on(executor.begin(0, recorder(), False, 5000))
    done, begun = executor.begin_ahead(range(1, 8), recorder, 5000)
    assert len(done) == ended
    if begun is not None:
        with pytest.raises(ExecutionError, match="never written"):
            executor.go_on(begun)


def test_ctas_in_one_call_find_barriers_as_new_ones_do(loops: None) -> None:
    """Lanes part and meet at B5, leave it early, and wait for the other warp, in other ways in each CTA."""
    left = []
    for compiled in (False, True):
        files = Lanes(64)
        memory = Memory(shared_bytes=256, shared_base=0, local_bytes_per_lane=0, lanes=files)
        buffer = np.zeros(12 * 64, np.uint32)
        start = memory.add_buffer("the buffer", buffer)
        lines = (
            "S2R R0, SR_CTAID.X", "S2R R2, SR_TID.X", "IADD3 R4, R2, R0, RZ", "LOP3.LUT R6, R4, 0x3, RZ, 0xc0, !PT",
            "ISETP.NE.AND P0, PT, R6, RZ, PT", "ISETP.EQ.AND P1, PT, R6, 0x1, PT", "BSSY B5, 0xb0", "@P1 BREAK B5",
            "@P0 BRA 0xb0", "IADD3 R5, R5, 0x7, RZ", "@P1 BRA 0xc0", "BSYNC B5", "IMAD.SHL.U32 R3, R2, 0x4, RZ",
            "IADD3 R5, R5, R4, RZ", "STS [R3], R5", "BAR.SYNC 0x0", "LOP3.LUT R7, R3, 0x80, RZ, 0x3c, !PT",
            "LDS R8, [R7]", "BAR.SYNC 0x1", "IMAD R9, R0, 0x40, R2", "IMAD.WIDE.U32 R10, R9, 0x4, RZ",
            f"IADD3 R10, P2, R10, {start & 0xFFFFFFFF:#x}, RZ", f"IADD3.X R11, R11, {start >> 32:#x}, RZ, P2, !PT",
            "STG.E [R10.64], R8", "EXIT",
        )  # fmt: skip
        environment = surroundings("\n".join(lines), lanes=64, memory=memory, files=files, grid=(12, 1, 1))
        executor = CtaExecutor(environment)
        executor.compiled = compiled

        def recorder(files: Lanes = files, code: tuple[Instruction, ...] = environment.code) -> Recorder:
            return Recorder(files, code)

        executor.go_on(executor.begin(0, recorder(), False, 1000))
        executor.go_on(executor.begin(1, recorder(), False, 1000))
        ended, begun = executor.begin_ahead(range(2, 12), recorder, 1000)
        assert len(ended) == 10 * compiled
        assert begun is None
        for number in range(2 + len(ended), 12):
            executor.go_on(executor.begin(number, recorder(), False, 1000))
        left.append((buffer.tobytes(), executor.instructions(), environment.clock))
    assert left[0] == left[1]
    found = np.frombuffer(left[0][0], np.uint32).reshape(12, 2, 32)
    thread = np.arange(64).reshape(2, 32)
    for cta, values in enumerate(found):
        wanted = thread + cta + 7 * ((thread + cta) % 4 == 0)
        assert values.tolist() == wanted[::-1].tolist()


def test_only_barriers_that_the_code_names_are_reset() -> None:
    environment = surroundings("BSSY B5, 0x20\nBSYNC.RELIABLE B5\nBREAK P0, B11\nEXIT", lanes=32, arch="sm_90")
    assert _barriers_named(environment.code) == 1 << 5 | 1 << 11 | 1 << 16 | 1 << 17
