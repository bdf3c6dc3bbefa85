"""Mistakes that people make in pipelines of TMA and wgmma, each put into the examples: what check says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gpuemu
from gpuemu.studies.check.findings import Finding

ROOT = Path(__file__).resolve().parents[3]


def found(folder: Path, kernel: str, right: str, wrong: str) -> list[Finding]:
    """What check finds in an example in whose source something stands in place of what is right, before anything else."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import example_kernels
    finally:
        sys.path.pop(0)
    (example,) = (e for e in example_kernels.EXAMPLES if e.kernel == kernel)
    texts = {
        name: (ROOT / "traces" / "src" / name).read_text(encoding="utf-8") for name in {"hopper.cu", example.source}
    }
    assert any(right in text for text in texts.values())
    for name, text in texts.items():
        (folder / name).write_text(text.replace(right, wrong, 1), encoding="utf-8")
    arguments, _, _ = example.arguments()
    report = gpuemu.check(
        folder / example.source, kernel, example.grid, example.block, example.dynamic_shared_bytes,
        example_kernels.passed(arguments), tools=("memcheck", "racecheck", "synccheck"), arch="sm_90",
        options=example.options,
    )  # fmt: skip
    return list(report.findings)


@pytest.mark.slow
def test_a_stage_that_is_given_back_while_it_is_multiplied(tmp_path: Path) -> None:
    right = "            if (i && threadIdx.x % 128 == 0) arrive(ring.empty + (i - 1) % STAGES);\n        }\n        wait_all"
    wrong = "            if (threadIdx.x % 128 == 0) arrive(ring.empty + i % STAGES);\n        }\n        wait_all"
    findings = found(tmp_path, "product_warpgroups", right, wrong)
    assert {(f.tool, f.title) for f in findings} == {
        ("racecheck", "Potential WAR hazard in __shared__ memory"),
        ("synccheck", "Barrier error: mbarrier phase that a wait may miss"),  # by the warps that do not give it back
    }
    assert {f.right for f in findings if f.tool == "racecheck"} == {
        "wgmma.wait_group for the matrices' group, and behind it the arrival that the other copy's thread waits for"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "open(ring, 2);\n    if (group < 0)",
            "open(ring, 3);\n    if (group < 0)",
            "lacks 1 of 3 arrivals; 256 threads",
        ),
        (
            'u32 232;");\n        float d[64] = {};\n        for (int i = 0; i < steps; i++) {\n            wait(',
            'u32 240;");\n        float d[64] = {};\n        for (int i = 0; i < steps; i++) {\n            wait(',
            "with them the CTA has 66,560, and it was launched with 64,512, 168 per thread",
        ),
    ],
    ids=["arrivals that never come", "registers that nobody has"],
)
def test_a_product_that_never_ends(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    (finding,) = found(tmp_path, "product_warpgroups", right, wrong)
    assert finding.tool == "synccheck"
    assert said in finding.sentence


@pytest.mark.slow
def test_a_warp_that_has_waited_for_its_warpgroups_products_may_give_their_stage_back(tmp_path: Path) -> None:
    right = "            if (i && threadIdx.x % 128 == 0) arrive(ring.empty + (i - 1) % STAGES);\n        }\n        wait_all"
    assert found(tmp_path, "product_warpgroups", right, right.replace("% 128 == 0", "% 128 == 32")) == []


@pytest.mark.slow
def test_a_stage_that_is_given_back_to_its_own_cta_alone_is_overwritten_by_the_others_multicast(tmp_path: Path) -> None:
    right = "CTAS) arrive_at(ring.empty + (i - 1) % STAGES, threadIdx.x % 128);"
    findings = found(tmp_path, "product_multicast", right, right.replace("threadIdx.x % 128)", "cta)"))
    assert {f.title for f in findings} >= {"Potential WAR hazard in __shared__ memory between CTAs"}
    assert {f.tool for f in findings} == {"racecheck"}
    assert {p.cta for p in findings[0].points} == {0, 1}
    assert "CTA 1 writes what CTA 0 reads, both of the cluster" in findings[0].sentence
    assert "an arrival of CTA 0 at the mbarrier that CTA 1 waits at before it copies again" in findings[0].right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "open(ring, 2 * CTAS);\n    meet();",
            "open(ring, 2 * CTAS);",
            "CTA 1 of its cluster, which may not have begun",
        ),
        ("d, group);\n    }\n    meet();", "d, group);\n    }", "CTA 0 of its cluster, which has exited"),
    ],
    ids=["before it has begun", "when it has exited"],
)
def test_shared_memory_of_a_cta_that_is_not_there(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    findings = found(tmp_path, "product_multicast", right, wrong)
    assert any(
        f.title == "Invalid access to distributed shared memory" and said in f.sentence and "cluster.sync()" in f.right
        for f in findings
    )
