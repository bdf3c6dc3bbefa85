"""Lanes that part and meet execute in compiled loops, in the order of the executor: same values, same clock."""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from tests.sass.harness import surroundings

TOOLS = str(Path(__file__).resolve().parent.parent.parent / "tools")
sys.path.insert(0, TOOLS)
import random_programs  # noqa: E402

sys.path.remove(TOOLS)
PROGRAMS, LEFT = 50, "24b5831759f5ed3d"
"""Random programs, and a hash of what they leave, the clock and the count of instructions among it."""


@pytest.mark.slow
def test_random_programs_whose_lanes_part_leave_what_they_always_left() -> None:
    together = hashlib.sha256()
    for seed in range(random_programs.TURNS_FROM, random_programs.TURNS_FROM + PROGRAMS):
        together.update(random_programs.left_by(random_programs.Program(seed), "sm_90", False)[0])
    assert together.hexdigest()[:16] == LEFT


@pytest.mark.slow
@pytest.mark.parametrize("arch", random_programs.ARCHITECTURES)
def test_loops_leave_what_numpy_leaves_where_lanes_part(loops: None, arch: str) -> None:
    """Each program on two architectures."""
    for seed in random_programs.of_architecture(random_programs.TURNS_FROM, 2 * PROGRAMS, arch):
        random_programs.compared(seed, arch)


COUNT = "IADD3 R5, R5, 0x1, RZ\n"
PROGRAMS_BY_LOOPS = {
    "a branch": "BSSY B0, 0x40\n@P0 BRA 0x30\nIADD3 R5, R5, 0x7, RZ\nIADD3 R5, R5, 0x1, RZ\nBSYNC B0\n",
    "a loop that lanes leave early": (
        f"BSSY B0, 0x40\n{COUNT}ISETP.LT.AND P1, PT, R5, R6, PT\n@P1 BRA 0x10\nBSYNC B0\nVOTE.ANY R7, PT, PT\n"
    ),
    "lanes that do not come": f"BSSY B0, 0x30\n@P0 BREAK B0\n@P0 BRA 0x40\nBSYNC B0\n{COUNT}VOTE.ANY R7, PT, PT\n",
    "lanes that exit": f"@P0 EXIT\nBAR.SYNC 0x0\n{COUNT}",
    "a WARPSYNC": "@P0 BRA 0x20\nIADD3 R5, R5, 0x7, RZ\nWARPSYNC 0xffffffff\nVOTE.ANY R7, PT, PT\n",
    "a WARPSYNC of lanes in a register": "VOTE.ANY R8, PT, PT\n@P0 BRA 0x30\nNOP\nWARPSYNC R8\nVOTE.ANY R7, PT, PT\n",
    "a barrier with votes": "BAR.RED.AND.DEFER_BLOCKING 0x0, P0\nB2R.RESULT R7, P2\n",
    "a barrier that some pass": f"@P3 BAR.ARV 0x1, 0x60\n@!P3 BAR.SYNC 0x1, 0x60\n{COUNT}BAR.SYNC 0x2, 0x60\n",
    "a call and a return": "MOV R20, 0x20\n@P0 CALL.REL.NOINC 0x50\nIADD3 R5, R5, 0x2, RZ\nBAR.SYNC 0x0\nEXIT\n"
    f"{COUNT}RET.REL.NODEC R20, 0x0\n",
    "pauses": f"@P0 BRA 0x30\nNANOSLEEP 0x20\nBRA 0x40\n{COUNT}YIELD\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", PROGRAMS_BY_LOOPS)
def test_the_executor_takes_no_step_itself(loops: None, name: str, arch: str) -> None:
    left = []
    for compiled in (False, True):
        files = Lanes(96)
        environment = surroundings(f"{PROGRAMS_BY_LOOPS[name]}EXIT", lanes=96, arch=arch, files=files)
        executor = CtaExecutor(environment)
        executor.compiled = compiled
        cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
        files.predicates[0], files.predicates[3] = files.lane % 3 > 0, files.warp == 1
        files.registers[6] = files.lane % 7
        executor.go_on(cta)
        counts = environment.clock, executor.instructions(), cta.turn
        left.append((files.registers.tobytes(), files.predicates.tobytes(), counts))
    assert left[0] == left[1]
    assert executor._steps_taken == 0


FAULTS = {
    "BAR.SYNC 0x1, 0x80\nEXIT": "a wait forever at barrier 1 with 96 threads arrived",
    "@P3 BAR.SYNC 0x3, 0x60\nEXIT": "a wait forever at barrier 3 with 32 threads arrived",
    "@P0 BRA 0x20\nWARPSYNC.ALL\nBSSY B0, 0x30\nBRA 0x30": "over 5000 warp instructions",
}


@pytest.mark.slow
@pytest.mark.parametrize("sass", FAULTS)
def test_a_kernel_whose_lanes_wait_forever_has_the_same_message(loops: None, sass: str) -> None:
    errors = []
    for compiled in (False, True):
        files = Lanes(96)
        memory = Memory(shared_bytes=0, shared_base=0, local_bytes_per_lane=0, lanes=files)
        environment = surroundings(sass, lanes=96, memory=memory, files=files)
        executor = CtaExecutor(environment)
        executor.compiled = compiled
        cta = executor.begin(0, Recorder(files, environment.code), False, 5000)
        files.predicates[0], files.predicates[3] = files.lane % 3 > 0, files.warp == 1
        with pytest.raises(ExecutionError) as error:
            executor.go_on(cta)
        errors.append((str(error.value), error.value.lane, environment.clock))
    assert errors[0] == errors[1]
    assert FAULTS[sass] in errors[1][0]


@pytest.mark.slow
def test_ctas_that_nobody_records_end_in_the_loops_where_lanes_part(loops: None) -> None:
    """Their counts are the executor's, and a CTA whose lanes wait forever is reported by its own number."""
    sass = (
        "S2R R0, SR_TID.X\nS2R R1, SR_CTAID.X\nIADD3 R0, R0, R1, RZ\nLOP3.LUT R0, R0, 0x7, RZ, 0xc0, !PT\n"
        "BSSY B0, 0x80\nIADD3 R0, R0, -0x1, RZ\nISETP.GT.AND P0, PT, R0, RZ, PT\n@P0 BRA 0x50\nBSYNC B0\n"
        "ISETP.EQ.AND P1, PT, R1, 0x5, PT\n@P1 BAR.SYNC 0x1, 0x80\nEXIT"
    )
    counts = []
    for compiled in (False, True):
        files = Lanes(64)
        environment = surroundings(sass, lanes=64, files=files, grid=(8, 1, 1))
        executor = CtaExecutor(environment)
        executor.compiled = compiled
        recorder = partial(Recorder, files, environment.code)
        found = []
        executor.go_on(executor.begin(0, recorder(), False, 1000))
        numbers = [1, 2, 3, 4, 5, 6]
        ended, begun = executor.begin_ahead(numbers, recorder, 1000)
        found += [one.executed for one in ended]
        for number in numbers[len(ended) :]:
            cta = begun or executor.begin(number, recorder(), False, 1000)
            begun = None
            if number == 5:
                with pytest.raises(ExecutionError, match="a wait forever at barrier 1 with 64 threads arrived"):
                    executor.go_on(cta)
                break
            executor.go_on(cta)
            found.append(cta.executed)
        counts.append((found, executor.instructions(), environment.clock))
        assert len(ended) == (4 if compiled else 0)
    assert counts[0] == counts[1]
    assert np.all(files.registers[1] == 5)
