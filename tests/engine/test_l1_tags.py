"""How long accesses to global memory hold the data stage and the way to L2: bank conflicts, tags, lines."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from probes import issues, machine, run

import gpuemu
from gpuemu.program.accesses import fullest, tag_banks

COUNTED = Path(__file__).resolve().parent.parent / "data" / "h200" / "tags.csv"
AWAIT = "NOP | B0 S02"


@pytest.mark.parametrize(
    ("opcode", "lanes", "cycles"),
    [
        ("LDG.E", "4*lane", 1),
        ("LDG.E", "4*lane + 64", 1),  # two lines, whose tags are in different banks
        ("LDG.E", "8*lane", 2),  # two words of each bank
        ("LDG.E", "128*lane", 32),
        ("LDG.E", "132*lane", 8),  # no conflicts, and 32 lines, of which four a cycle find their tags
        ("LDG.E", "136*lane", 9),  # of 32 lines one bank of tags has nine
        ("LDG.E.64", "16*lane", 4),  # two groups of lanes, each with two words of a bank
        ("LDG.E.128", "16*lane", 4),
        ("LDG.E.128", "32*lane", 8),
    ],
)
def test_an_access_holds_the_data_stage_for_its_conflicts_or_for_the_tags_of_its_lines(opcode, lanes, cycles):
    """H200: what 64 of them by 8 warps take longer than 32 by 4, 1.12 cycles each."""
    result = run([f"{opcode} R4, [R0.64]", "EXIT"], lanes=lanes)
    assert (result.log.read_cycles, result.log.write_cycles) == (cycles, 0)


def test_tags_take_the_wavefronts_that_the_profiler_counted():
    """H200: l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld of 755 patterns of LDG of 32, 64 and 128 bits."""
    arch = gpuemu.load_arch("sm_90")
    with open(COUNTED, newline="") as file:
        patterns = list(csv.DictReader(file))
    line = arch.global_memory.l1.line_bytes
    lines = [sorted({int(a) // line for a in p["lane_byte_addresses"].split()}) for p in patterns]
    rows = np.repeat(np.arange(len(lines)), [len(of_one) for of_one in lines])
    found = fullest(rows, tag_banks(np.concatenate(lines), arch.global_memory.l1.tag_bank_masks), len(lines))
    counted = [int(p["tag_wavefronts"]) for p in patterns]
    differ = [p["name"] for p, n, c in zip(patterns, found.tolist(), counted, strict=True) if n != c]
    assert len(patterns) == 755
    assert set(differ) <= {"stride38", "stride132"}  # over 16 KB, where copies of a pattern share lines


def test_each_line_that_is_asked_for_takes_its_time_on_the_way():
    """H200: LDG.CG of a sector of each of 8, 16 and 32 lines by 4 and 8 warps, a cycle a line."""

    def last(lines: int, each: int) -> int:
        code = ["LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", AWAIT, "EXIT | S05"]
        arch = machine(global_memory__l2__line_cycles=each, global_memory__latency_cycles=600)
        return issues(run(code, arch, lanes=f"132*(lane%{lines})"))[1]

    assert [last(8, each) - last(8, 0) for each in (1, 2)] == [8 - 2, 16 - 2]
    assert last(1, 1) - last(1, 0) == 0
