"""Atomics that return what they find, and loops that wait for other lanes, in compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from tests.sass.harness import surroundings


def left(sass: str, compiled: bool) -> tuple[list[object], CtaExecutor, bool]:
    """What a CTA leaves, its executor, and whether it has ended."""
    files = Lanes(96)
    memory = Memory(shared_bytes=1024, shared_base=0, local_bytes_per_lane=0, lanes=files, zero_shared=True)
    buffer = np.zeros(1024, np.uint32)
    start = memory.add_buffer("the buffer", buffer)
    environment = surroundings(sass, lanes=96, memory=memory, files=files)
    executor = CtaExecutor(environment)
    executor.compiled = compiled
    cta = executor.begin(0, Recorder(files, environment.code), False, 200_000)
    files.registers[20], files.registers[21] = start & 0xFFFFFFFF, start >> 32
    files.registers[22], files.registers[23] = 4 * (files.thread % 5), files.thread
    files.registers[24], files.registers[25] = files.thread * 0x9E3779B9, files.thread
    files.predicates[0] = files.lane % 3 > 0
    ended = executor.go_on(cta)
    counts = environment.clock, executor.instructions(), cta.executed, cta.turn
    arrays = files.registers, files.predicates, memory.shared[1], buffer
    return [*(array.tobytes() for array in arrays), counts, ended], executor, ended


WITHOUT_THE_EXECUTOR = {
    "tickets": "ATOMG.E.ADD.STRONG.GPU PT, R0, [R20.64], R23\nATOMS.INC R1, [R22], R23\nATOMS.EXCH R2, [R22], R0\n",
    "pairs": (
        "ATOMG.E.ADD.64.STRONG.GPU PT, R0, [R20.64], R24\n@P0 ATOMG.E.MAX.S64.STRONG.GPU PT, R2, [R20.64+0x8], R24\n"
        "ATOMG.E.CAS.64.STRONG.GPU PT, R4, [R20.64], R0, R24\nRED.E.MIN.64.STRONG.GPU [R20.64], R24\n"
        "ATOMG.E.ADD.F64.RN.STRONG.GPU PT, R6, [R20.64+0x10], R24\n"
    ),
    "a sum by compare and exchange": (
        "BSSY B0, 0x70\nLDS R0, [R22]\nIADD3 R1, R0, R23, RZ\nATOMS.CAS R2, [R22], R0, R1\n"
        "ISETP.NE.AND P1, PT, R2, R0, PT\nMOV R0, R2\n@P1 BRA 0x20\nBSYNC B0\n"
    ),
    "a sum by exchanges that tell whether they did": (
        "BSSY B0, 0x60\nLDS R0, [R22]\nIADD3 R1, R0, R23, RZ\nATOMS.CAST.SPIN R1, [R22], R0, R1\n"
        "ISETP.EQ.U32.AND P1, PT, R1, 0x1, PT\n@!P1 BRA 0x10\nBSYNC B0\n"
        "ATOMS.CAST.SPIN P2, [R22+0x40], R23, R0\nATOMS.CAST.SPIN.64 R4, [R26+0x80], R26, R24\n"
    ),
    "a branch of lanes that are apart": (
        "UMOV UR5, 0xffffffff\nBRA.DIV UR5, 0x60\n@P0 BRA 0x40\nBRA.DIV UR5, 0x60\nIADD3 R0, R0, 0x1, RZ\n"
        "EXIT\nIADD3 R0, R0, 0x100, RZ\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_THE_EXECUTOR)
def test_atomics_leave_and_return_the_same(loops: None, name: str) -> None:
    plain, _, _ = left(f"{WITHOUT_THE_EXECUTOR[name]}EXIT", False)
    looped, executor, ended = left(f"{WITHOUT_THE_EXECUTOR[name]}EXIT", True)
    assert plain == looped
    assert ended
    assert executor._steps_taken == 0


LOCK = (
    "ATOMG.E.CAS.STRONG.GPU PT, R0, [R20.64], RZ, R26\nISETP.NE.AND P1, PT, R0, RZ, PT\n@P1 YIELD\n@P1 BRA 0x0\n"
    "LDG.E.STRONG.GPU R1, [R20.64+0x4]\nIADD3 R1, R1, R23, RZ\nSTG.E.STRONG.GPU [R20.64+0x4], R1\n"
    "ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R20.64], RZ\nEXIT"
)
WAITS = {
    "a lock": f"MOV R26, 0x1\n{LOCK.replace('BRA 0x0', 'BRA 0x10')}",
    "a flag of another warp": (
        "ISETP.GT.AND P2, PT, R23, 0x3f, PT\n@P2 BRA 0x60\nLDG.E.STRONG.GPU R0, [R20.64+0x8]\n"
        "ISETP.EQ.AND P1, PT, R0, RZ, PT\n@P1 BRA 0x20\nEXIT\n"
        "MOV R1, 0x40\nIADD3 R1, R1, -0x1, RZ\nISETP.GT.AND P1, PT, R1, RZ, PT\n@P1 BRA 0x70\n"
        "STG.E.STRONG.GPU [R20.64+0x8], R23\nEXIT"
    ),
    "a word that nobody writes": (
        "LDG.E.STRONG.GPU R0, [R20.64+0x8]\nIADD3 R2, R2, 0x1, RZ\nISETP.EQ.AND P1, PT, R0, RZ, PT\n@P1 BRA 0x0\nEXIT"
    ),
    "a counter that nobody else changes": (
        "BSSY B0, 0x60\nATOMG.E.OR.STRONG.GPU PT, R0, [R20.64+0x8], RZ\nISETP.EQ.AND P1, PT, R0, RZ, PT\n"
        "@P0 BRA 0x50\n@P1 BRA 0x10\n@P1 BRA 0x10\nBSYNC B0\nEXIT"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WAITS)
def test_lanes_that_wait_do_so_as_long_as_before(loops: None, name: str) -> None:
    """The same looks are in vain, so that a CTA is set aside at the same step."""
    plain, _, ended = left(WAITS[name], False)
    looped, _, _ = left(WAITS[name], True)
    assert plain == looped
    assert ended == (name in ("a lock", "a flag of another warp"))
