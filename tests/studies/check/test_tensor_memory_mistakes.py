"""Mistakes with tensor memory of sm_100, each beside a right kernel that nobody accuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.memory.tensor_memory import CELLS
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.racecheck.async_proxy import AsyncProxy
from gpuemu.studies.check.racecheck.tensor_products import tensor_place
from gpuemu.studies.check.racecheck.vector_clocks import Strands
from gpuemu.trace.model import Instruction

KERNELS = Path(__file__).parent / "kernels"
K, N = 16, 64
LEAK = "Tensor memory leak"
UNALLOCATED = "Invalid tensor memory access"
ENDLESS = "Barrier error: mbarrier phase that never ends"
RAW, WAR, WAW = (f"Potential {kind} hazard in tensor memory" for kind in ("RAW", "WAR", "WAW"))
EXIT = "Potential hazard in tensor memory: exit before a product's end"
PROXIES = "Potential RAW hazard in __shared__ memory between proxies"
OPERAND = "Potential WAR hazard in __shared__ memory"
MISSED = "Barrier error: mbarrier phase that a wait may miss"
GONE = "Invalid access to distributed shared memory"
BETWEEN = " between CTAs"


@cache
def cubin(source: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", "sm_100", "auto", ("-arch=sm_100a", "-std=c++17"))


def found(kernel: str, ctas: int = 1) -> list[Finding]:
    """What check says of a product of 128 rows for each CTA."""
    rows = 128 * ctas
    numbers = np.random.default_rng(5)
    a, b = (numbers.integers(-8, 9, (count, K)).astype(np.float16) for count in (rows, N))
    d = np.zeros((rows, N), np.float32)
    instruction = np.uint32(1 << 4 | N // 8 << 17 | rows // 16 << 24)
    args = (a.view(np.uint16), b.view(np.uint16), d, instruction)
    source = "tensor_memory" if ctas == 1 else "tensor_memory_pair"
    given = {"grid": (ctas, 1, 1), "block": (128, 1, 1), "args": args, "budget": 500_000, "arch": "sm_100"}
    report = gpuemu.check(cubin(source), kernel, **given)
    if kernel == "right":
        np.testing.assert_array_equal(d, 2 * (a.astype(np.float64) @ b.T.astype(np.float64)))
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


def mnemonics(finding: Finding) -> tuple[str, ...]:
    return tuple(point.instruction.mnemonic for point in finding.points)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["right", "right_twice", "right_stored", "right_elected", "right_copied"])
def test_right_products_are_not_accused(kernel: str) -> None:
    assert found(kernel) == []


@pytest.mark.slow
def test_a_right_product_of_two_ctas_is_not_accused() -> None:
    assert found("right", 2) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "titles"),
    [
        ("leaks", {LEAK}),
        ("read_after_dealloc", {UNALLOCATED}),
        ("no_commit", {ENDLESS}),
        ("other_barrier", {ENDLESS}),
        ("next_phase", {ENDLESS}),
        ("no_wait", {RAW, WAR, WAW, EXIT}),
        ("no_proxy_fence", {PROXIES}),
        ("no_store_wait", {RAW, WAW}),
        ("early_dealloc", {WAR, WAW, EXIT}),
        ("overwrites_a", {OPERAND}),
        ("reads_next", {WAR, MISSED}),
        ("copied_unfenced", {PROXIES}),
        ("copied_unwaited", {RAW}),
    ],
)
def test_a_mistake_is_found(kernel: str, titles: set[str]) -> None:
    assert {f.title for f in found(kernel)} == titles


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "titles"),
    [
        ("peer_exits", {GONE}),
        ("peer_exits_later", {WAR + BETWEEN, WAW + BETWEEN, EXIT}),
        ("nobody_multicasts", {ENDLESS}),
    ],
)
def test_a_mistake_of_a_pair_is_found(kernel: str, titles: set[str]) -> None:
    assert {f.title for f in found(kernel, 2)} == titles


def found_in_forms(kernel: str, m: int) -> list[Finding]:
    """What check says of a sparse, weight-stationary or shifting product."""
    forms = load_cubin(
        KERNELS.parents[2] / "sass" / "kernels" / "tcgen05_forms.cu", "sm_100", "auto", ("-arch=sm_100a",)
    )
    a, b = np.ones((128, K), np.float16), np.ones((N, 2 * K), np.float16)
    given = np.full((128, 8), 0x44444444, np.uint32)
    instruction = np.uint32(1 << 4 | N // 8 << 17 | m // 16 << 24 | ("sparse" in kernel) << 2)
    args = (a.view(np.uint16), b.view(np.uint16), given, np.zeros((128, N), np.float32), instruction, np.uint64(0))
    report = gpuemu.check(forms, kernel, grid=(1, 1, 1), block=(128, 1, 1), args=args, budget=500_000, arch="sm_100")
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "m"), [("sparse", 128), ("stationary", 64), ("shifted", 128)])
def test_right_forms_of_products_are_not_accused(kernel: str, m: int) -> None:
    assert found_in_forms(kernel, m) == []


@pytest.mark.slow
def test_metadata_that_may_not_be_stored_yet_and_shifts_that_may_not_be_done_are_found() -> None:
    stored = found_in_forms("sparse_unstored", 128)
    freed = WAW, ("STTM", "UTCATOMSWS")
    assert {(f.title, mnemonics(f)) for f in stored} == {(RAW, ("STTM", "UTCHMMA")), freed}
    shifted = found_in_forms("shifted_unwaited", 128)
    assert {(f.title, mnemonics(f)) for f in shifted} == {(RAW, ("UTCHMMA", "LDTM")), (RAW, ("UTCSHIFT", "LDTM"))}


@pytest.mark.slow
def test_findings_name_both_sides_and_the_fix() -> None:
    (leak,) = found("leaks")
    assert leak.sentence == "the CTA ends with 64 columns of tensor memory, for which later CTAs of the SM wait"
    early = next(f for f in found("no_wait") if f.title == RAW)
    assert mnemonics(early) == ("UTCHMMA", "LDTM")
    assert early.right.startswith("a wait at the mbarrier of a tcgen05.commit behind the product")
    stored = {mnemonics(f): f.right for f in found("no_store_wait") if f.title == RAW}
    assert stored["STTM", "UTCHMMA"].startswith("tcgen05.wait::st behind the store")
    (other,) = (f for f in found("peer_exits_later", 2) if f.title == EXIT)
    assert other.sentence.endswith("when CTA 1 of the cluster has exited")


def test_places_of_tensor_memory_have_names() -> None:
    assert tensor_place(4 * (2 * 512 + 7), False) == "column 7, lanes 32 to 47 of tensor memory"
    assert tensor_place(4 * CELLS, True) == "column 0, lanes 0 to 15 of tensor memory of CTA 1 of the cluster"


@pytest.mark.parametrize(("beside", "severity"), [("HMMA", Severity.ERROR), ("UTCHMMA", Severity.INFORMATION)])
def test_an_exit_before_a_store_has_read_is_a_note_beside_tcgen05(beside: str, severity: Severity) -> None:
    """CUTLASS's epilogues for sm_100 do so, and are not accused."""
    code = [Instruction(0, "UTMASTG.1D", ("[UR4]", "[UR6]")), Instruction(16, beside, ())]
    findings = Findings()
    proxies = AsyncProxy(code, 1024, Strands(np.ones(32, np.bool_)), findings, lambda i, *_: Point(i), str)
    proxies.per_cluster.reading[7] = code[0], 0, 0, 0
    proxies.end({7})
    (found,) = findings.sorted()
    assert (found.title, found.severity) == (
        "Potential hazard in __shared__ memory: exit before a copy's end",
        severity,
    )
