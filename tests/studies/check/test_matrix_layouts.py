"""check tells where a descriptor of wgmma and the tensor map that filled the tile disagree, and nowhere else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.isa.matrix_descriptor import Descriptor, places, swizzled
from gpuemu.studies.check.findings import Findings, Point, Severity
from gpuemu.studies.check.matrix_layouts import MatrixLayouts
from gpuemu.trace.listing import parse_listing

TOOLS = Path(__file__).resolve().parents[3] / "tools"
CODE = parse_listing("0000: UTMALDG.2D [UR8], [UR6]\n0010: HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0\n", "k", 1)
BASE, ROWS = 2048, 64


def told(box: int, line: int, said: Descriptor, across: bool = False, first: int = BASE) -> list[tuple[Severity, str]]:
    """What is found where a box of ROWS lines with a swizzle is read by a descriptor from byte `first` on."""
    findings = Findings()
    looker = MatrixLayouts(CODE, 1 << 16, findings, lambda i, thread, cta, does="": Point(i, thread, cta, None, does))
    looker.box(CODE[0], 0, swizzled(BASE + np.arange(ROWS * line), box), line, box)
    form = said.leading, said.stride, said.swizzle, 16, 16, 2, across
    looker.operand(CODE[1], 0, swizzled(first + places(*form), said.swizzle), 2, said, across)
    return [(f.severity, f.sentence) for f in findings.sorted()]


def descriptor(swizzle: int, stride: int, leading: int = 16) -> Descriptor:
    return Descriptor(0, leading, stride, swizzle, 0)


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("across", [False, True])
def test_the_same_swizzle_of_both_is_right_wherever_the_matrix_begins(width: int, across: bool) -> None:
    for first in (BASE, BASE + 8 * width, BASE + (0 if across else width - 32)):
        assert told(width, width, descriptor(width, 8 * width, 4096), across, first) == []


def test_boxes_of_core_matrices_without_a_swizzle_are_right() -> None:
    assert told(0, 16, descriptor(0, 128, 512)) == []


@pytest.mark.parametrize(("box", "reads"), [(128, 64), (128, 32), (64, 128), (32, 128), (128, 0), (64, 0)])
def test_another_swizzle_is_an_error(box: int, reads: int) -> None:
    ((severity, sentence),) = told(box, box, descriptor(reads, 8 * (reads or 16), 128))
    assert severity is Severity.ERROR
    assert f"put lines of {box} bytes there in a swizzle of {box} bytes, and the descriptor reads them" in sentence


def test_a_map_without_a_swizzle_is_a_warning_for_the_array_may_be_kept_so() -> None:
    ((severity, sentence),) = told(0, 128, descriptor(128, 1024))
    assert severity is Severity.WARNING
    assert sentence.endswith("in them get mixed, unless the array itself is kept in that order")


def test_a_stride_that_reads_rows_twice_or_begins_within_them_is_an_error() -> None:
    ((severity, sentence),) = told(128, 128, descriptor(128, 512))
    assert (severity, sentence.endswith("stride offset of 512 bytes, some of its rows are read twice")) == (
        Severity.ERROR, True,
    )  # fmt: skip
    ((_, sentence),) = told(128, 128, descriptor(128, 960))
    assert sentence.endswith("stride offset of 960 bytes, rows begin in the middle of others")
    assert told(128, 128, descriptor(128, 0)) == []  # the same rows for all, on purpose
    assert told(128, 128, descriptor(128, 2048)) == []  # every second eight


def test_what_threads_have_written_over_is_nobody_s_business() -> None:
    findings = Findings()
    looker = MatrixLayouts(CODE, 1 << 16, findings, lambda i, thread, cta, does="": Point(i, thread, cta, None, does))
    looker.box(CODE[0], 0, np.arange(64 * 128), 128, 0)
    looker.written(np.arange(64))
    said = descriptor(128, 1024)
    looker.operand(CODE[1], 0, swizzled(places(16, 1024, 128, 16, 16, 2), 128), 2, said, False)
    assert findings.sorted() == []


def module(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(f"{name}_to_spoil", TOOLS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    found = sys.modules[f"{name}_to_spoil"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    return found


@pytest.mark.slow
def test_a_kernel_with_maps_that_lack_the_swizzle_is_found_with_its_lines() -> None:
    examples = module("example_kernels")
    example = next(e for e in examples.EXAMPLES if e.kernel == "attention")
    given, output, expected = example.arguments()
    arguments = examples.passed([examples.Boxed(x.array, x.box, 0) if hasattr(x, "box") else x for x in given])
    report = gpuemu.check(
        examples.SOURCES / example.source, "attention", 1, 128, example.dynamic_shared_bytes, arguments,
        options=example.options, arch="sm_90", tools=["memcheck"],
    )  # fmt: skip
    assert not np.allclose(arguments[output], expected, atol=example.tolerance)
    assert {f.title for f in report.findings} == {"Matrix descriptor and tensor map disagree"}
    text = (examples.SOURCES / example.source).read_text().splitlines()
    for finding in report.findings:
        asked = finding.points[0].source
        assert asked is not None
        assert "cp.async.bulk.tensor" in text[asked[1] - 2]
