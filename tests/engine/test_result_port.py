"""Results that come back from shared memory give way to what an mma or the special-function unit writes.

All cycles are an H200's (sm_90), as in test_sender.
"""

from __future__ import annotations

import pytest
from probes import machine
from test_sender import done


@pytest.mark.parametrize(
    ("mma", "op", "nops", "cycles"),
    [
        ("F32", "LDS", 4, [24, 25, 26, 24]),
        ("F32", "SHFL", 5, [25, 26, 27, 25]),
        ("F32", "LDS.64", 6, [27, 28, 29, 29, 27]),
        ("F32", "LDS.128", 10, [33, 34, 35, 35, 35, 35, 33]),
        ("F32", "LDSM.2", 5, [26, 27, 27, 28, 26]),
        ("F32", "LDSM.4", 9, [30, 31, 31, 32, 30]),
        ("F32 k8", "LDS", 6, [24, 25, 26, 24]),
        ("F16", "LDS", 5, [24, 25, 24]),
        ("F16", "LDSM.4", 11, [30, 31, 30]),
        ("F16 k8", "LDS.128", 13, [33, 34, 34, 34, 34, 33]),
        ("S32", "LDS", 6, [24, 25, 26, 24]),
    ],
)
def test_a_result_waits_for_those_of_an_mma(mma, op, nops, cycles):
    """The operation, so many NOPs and more, the mma: when the operation is done."""
    assert [done(op, nops + n, mma, awaited=0) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(
    ("op", "nops", "cycles"),
    [
        ("LDS", 4, [24, 25, 24]), ("SHFL", 5, [25, 26, 25]), ("LDS.128", 10, [33, 34, 34]),
        ("LDSM.4", 9, [30, 30, 31, 30]),
    ],
)  # fmt: skip
def test_a_result_waits_for_that_of_a_special_function(op, nops, cycles):
    assert [done(op, nops + n, "MUFU", awaited=0) for n in range(len(cycles))] == cycles


def test_when_an_mma_writes_is_a_value():
    arch = machine(tensor_core__operands__float_write_cycles=9)
    assert [done("LDS", 4 + n, "F32", awaited=0, arch=arch) for n in range(4)] == [24, 24, 25, 26]
    arch = machine(tensor_core__operands__s32_write_cycles=9)
    assert [done("LDS", 5 + n, "S32", awaited=0, arch=arch) for n in range(4)] == [24, 25, 26, 24]
