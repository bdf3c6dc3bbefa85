"""Compiled loops record CTAs as NumPy does: the same paths, addresses and counts of threads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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


def recorded(sass: str, compiled: bool, lanes: int = 96, arch: str = "sm_90") -> tuple[list[Any], CtaExecutor]:
    """All that a recorder has of a CTA, and its executor."""
    files = Lanes(lanes)
    memory = Memory(shared_bytes=2048, shared_base=0, local_bytes_per_lane=64, lanes=files, zero_shared=True)
    start = memory.add_buffer("the buffer", np.arange(8192, dtype=np.uint8))
    environment = surroundings(sass, lanes=lanes, arch=arch, memory=memory, files=files)
    executor = CtaExecutor(environment)
    executor.compiled = compiled
    recorder = Recorder(files, environment.code)
    cta = executor.begin(0, recorder, True, 20_000)
    address = np.uint64(start) + 32 * files.thread.astype(np.uint64)
    files.registers[20], files.registers[21] = address.astype(np.uint32), start >> 32
    files.registers[22], files.registers[26], files.registers[27] = 16 * files.thread, 16 * files.thread, 0x7FFE
    files.predicates[0], files.predicates[1] = files.lane % 3 > 0, files.warp == 1
    error = ""
    try:
        executor.go_on(cta)
    except ExecutionError as fault:
        error = str(fault)
    if error:  # the last access has no addresses
        return [error, recorder.steps.tolist()], executor
    warps, rows = recorder.trace_parts(0, 0, 0)
    found: list[Any] = [
        error,
        recorder.steps.tolist(),
        recorder.threads(len(environment.code) + 8).tolist(),
        recorder.events,
    ]
    found += [(w.path.tolist(), w.rows.tolist()) for w in warps]
    found += [None if column is None else column.tolist() for column in rows]
    return found, executor


ACCESSES = (
    "LDG.E R0, [R20.64]\n@P0 LDG.E.64 R2, [R20.64+0x8]\n@P1 STG.E [R20.64], R0\nSTS [R22], R0\nLDS.64 R2, [R22]\n"
    "@!PT STS [R22], R0\nSTL [RZ], R0\nLDL R1, [RZ]\nLD.E R4, [R26.64]\nST.E [R20.64+0x4], R4\n"
    "ATOMG.E.ADD.STRONG.GPU PT, R5, [R20.64], R0\n@P0 ATOMS.ADD R6, [R22], R0\nRED.E.ADD.STRONG.GPU [R20.64], R0\n"
    "LDGSTS.E.BYPASS.128 [R22], [R20.64]\n@P1 LDGSTS.E [R22+0x4], [R20.64]\nLDSM.16.M88.4 R8, [R22]\n"
)
PARTING = (
    "BSSY B0, 0x60\n@P0 BRA 0x40\nLDG.E R0, [R20.64]\nBRA 0x60\nLDG.E R0, [R20.64+0x4]\nSTS [R22], R0\nBSYNC B0\n"
    "BAR.SYNC 0x0\nLDS R1, [R22]\nYIELD\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("sass", [ACCESSES, PARTING], ids=["accesses", "parting"])
def test_the_record_is_the_same_and_the_executor_takes_no_step(loops: None, sass: str) -> None:
    plain, _ = recorded(f"{sass}EXIT", False)
    looped, executor = recorded(f"{sass}EXIT", True)
    assert plain == looped
    assert plain[0] == ""
    assert executor._steps_taken == 0


@pytest.mark.slow
def test_a_long_record_is_taken_over_in_parts(loops: None) -> None:
    """More steps, accesses and sets of lanes than the loops log at once."""
    sass = (
        "MOV R0, 0x2000\nIADD3 R0, R0, -0x1, RZ\nSTS [R22], R0\nLOP3.LUT R1, R0, 0x3ff, RZ, 0xc0, !PT\n"
        "IMAD R2, R1, 0x4, R20\nMOV R3, R21\nLDG.E R4, [R2.64]\nISETP.GT.AND P0, PT, R0, RZ, PT\n@P0 BRA 0x10\nEXIT"
    )
    plain, _ = recorded(sass, False, 32)
    looped, _ = recorded(sass, True, 32)
    assert "over 20000" in plain[0]
    assert plain == looped


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, random_programs.MORE_FROM, random_programs.TURNS_FROM])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_records_of_random_programs_are_the_same(loops: None, first: int, arch: str) -> None:
    for seed in range(first, first + 30):
        text = random_programs.Program(seed).text
        plain, looped = (recorded(text, compiled, 64, arch)[0] for compiled in (False, True))
        assert plain == looped, f"program {seed} on {arch}:\n{text}"
