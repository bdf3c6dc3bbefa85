"""What atomics to global memory send where several lanes mean one word, as an H200's profiler counted it."""

from __future__ import annotations

import pytest

import gpuemu

COUNTED = [
    ("lane", 4, 1), ("0", 32, 32), ("lane//2", 4, 2), ("lane//4", 4, 4), ("lane//8", 8, 8), ("lane%2", 16, 16),
    ("lane%4", 8, 8), ("lane%8", 4, 4), ("lane%16", 4, 2), ("(lane+27)//32*lane", 8, 5), ("(lane+30)//32*lane", 5, 2),
    ("lane//16*8", 32, 16), ("32*(lane%4)", 32, 32), ("8*(lane//2)", 32, 8), ("32*(lane//2)", 32, 32),
    ("8*(lane//8)", 32, 8),
]  # fmt: skip
"""Which word each lane means, (lane+27)//32*lane being word 0 of five lanes; sectors that L2 got, and wavefronts."""


@pytest.mark.parametrize("instruction", ["RED.E.ADD [R2.64], R4", "ATOMG.E.ADD PT, R6, [R2.64], R4"])
@pytest.mark.parametrize(("words", "sectors", "rounds"), COUNTED)
def test_lanes_of_one_word_go_out_one_after_another(words: str, sectors: int, rounds: int, instruction: str):
    trace = gpuemu.TraceBuilder("one", arch="sm_90", block=(32, 1, 1))
    trace.emit(instruction, lanes=f"4*({words})")
    trace.emit("EXIT")
    program = gpuemu.run(trace.build(), "sm_90").program
    assert program.accesses.sectors[program.access].tolist() == [sectors]
    assert program.accesses.data_stage_cycles[program.access].tolist() == [rounds]


def test_words_of_eight_bytes_count_as_one():
    trace = gpuemu.TraceBuilder("one", arch="sm_90", block=(32, 1, 1))
    trace.emit("RED.E.ADD.64.STRONG.GPU [R2.64], R4", lanes="8*(lane//2)")
    trace.emit("EXIT")
    assert gpuemu.run(trace.build(), "sm_90").program.accesses.sectors.sum() == 8


def test_a_reduction_whose_lanes_are_all_off_sends_nothing():
    trace = gpuemu.TraceBuilder("one", arch="sm_90", block=(32, 1, 1))
    trace.emit("RED.E.ADD [R2.64], R4", lanes="4*lane", active=0)
    trace.emit("EXIT")
    assert gpuemu.run(trace.build(), "sm_90").program.accesses.sectors.sum() == 0
