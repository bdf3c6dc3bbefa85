"""`gpuemu compare`: what an H200's profiler counted beside the emulation, as a person sees it."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
import sys
from pathlib import Path

import forked
import numpy as np
import pytest

import gpuemu
from gpuemu.studies.compare.api import compare
from gpuemu.studies.compare.figures import emulated
from gpuemu.studies.compare.profile import Profile, read_profile

ROOT = Path(__file__).resolve().parents[3]
H200 = ROOT / "tests" / "data" / "h200" / "ncu_raw.csv"
COUNTERS = ROOT / "tools" / "h200" / "examples" / "counters.csv"
spec = importlib.util.spec_from_file_location("example_kernels_to_compare", ROOT / "tools" / "example_kernels.py")
assert spec is not None
assert spec.loader is not None
example_kernels = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = example_kernels
spec.loader.exec_module(example_kernels)
EXAMPLES = example_kernels.EXAMPLES
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
ONE = """\
extern "C" __global__ void one4(unsigned *out, const char *in, const unsigned *offsets, int row)
{
    out[threadIdx.x] = *(const unsigned *)(in + offsets[row * 32 + (threadIdx.x & 31u)]);
}
"""
"""As the kernel of the file: a load of each lane's offset, and one from there."""
OFFSETS = {"1": 4, "2": 8, "3": 12, "8": 32}
"""Bytes from lane to lane in the launches of the file."""


def command(*arguments: str, cwd: Path) -> forked.Ran:
    return forked.gpuemu("compare", *arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ncu.csv").write_text(H200.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "one.cu").write_text(ONE, encoding="utf-8")
    for launch, stride in OFFSETS.items():
        np.save(tmp_path / f"stride_{launch}.npy", (stride * np.arange(32)).astype(np.uint32))
    return tmp_path


def one(launch: str) -> tuple[str, ...]:
    arguments = ("--arg", "zeros:u32:64", "--arg", "zeros:u8:4096", "--arg", f"file:stride_{launch}.npy", "--arg", "0")
    return ("one.cu", "ncu.csv", "--arch", "sm_90", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("launch", OFFSETS)
def test_counts_and_occupancy_of_a_launch_on_an_h200_are_those_that_are_emulated(launch: str, folder: Path) -> None:
    # All but the registers, of which the kernel in the file was given more by its compiler.
    tolerated = ("--tolerance", "0", "--tolerance", "launch__registers_per_thread=50%")
    ran = command(*one(launch), "--launch", launch, *tolerated, "--format", "json", cwd=folder)
    assert (ran.status, ran.errors) == (0, "")
    found = json.loads(ran.output)
    assert (found["kernel"], found["arch"], found["device"]) == ("one4", "sm_90", "NVIDIA H200")
    figures = {row["name"]: row for row in found["figures"]}
    assert figures[SECTORS]["measured"] == figures[SECTORS]["emulated"] == 4 + 32 * OFFSETS[launch] // 32
    # An average is over the SMs of the chip, and as exact as its two digits.
    assert figures[SECTORS.replace(".sum", ".avg")]["relative"] == 0
    assert figures["launch__occupancy_limit_blocks"]["emulated"] == 32
    assert "gpu__time_duration.sum" in found["not_emulated"]


@pytest.mark.slow
def test_figures_are_ranked_and_one_beyond_its_tolerance_gives_1_and_a_sentence_with_its_line(folder: Path) -> None:
    ran = command(*one("1"), "--launch", "8", "--tolerance", f"{SECTORS}=5%", cwd=folder)
    assert ran.status == 1
    title, _, head, first, second, *_, last = ran.output.splitlines()
    assert title == "one4 on sm_90, compared with launch 8 of ncu.csv (raw page, NVIDIA H200)"
    assert head.split() == ["Figure", "Measured", "Emulated", "Difference"]
    assert first.split() == [SECTORS, "36", "8", "-77.8%", "beyond", "--tolerance"]
    assert second.split()[0] == SECTORS.replace(".sum", ".avg")
    assert re.match(r"1\d figures are equal, \d+ figures of the file are not modeled", last)
    beyond = "beyond the tolerance of 5%"
    assert ran.errors == f"ncu.csv:10: {SECTORS}: measured 36, emulated 8 (-77.8%), {beyond}\n"
    assert command(*one("1"), "--launch", "8", cwd=folder).status == 0
    loose = ("--tolerance", "0", "--tolerance", "l1tex__*=28", "--tolerance", "launch__*=4")
    assert command(*one("1"), "--launch", "8", *loose, cwd=folder).status == 0


@pytest.mark.slow
def test_without_a_launch_the_first_of_name_and_extents_is_taken_and_all_shows_what_is_equal(folder: Path) -> None:
    ran = command(*one("1"), "--all", cwd=folder)
    lines = ran.output.splitlines()
    assert lines[0].endswith("compared with launch 1 of ncu.csv (raw page, NVIDIA H200)")
    assert lines[1] == "4 launches there are alike, of which this is the first; --launch takes another one"
    assert [SECTORS, "8", "8", "same"] in [line.split() for line in lines]
    assert "gpu__time_duration.sum" in lines[lines.index("Not modeled") :]
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
def test_grid_block_and_dynamic_shared_memory_are_those_of_the_file_where_nothing_else_is_given(folder: Path) -> None:
    text = (folder / "ncu.csv").read_text()
    (folder / "ncu.csv").write_text(text.replace('"(32, 1, 1)"', '"(64, 1, 1)"').replace('"(1, 1, 1)"', '"(2, 1, 1)"'))
    for words in (one("1"), (*one("1"), "--kernel", "one4"), (*one("1"), "--launch", "1"), (*one("1"), "--grid", "2")):
        ran = command(*words, "--format", "json", cwd=folder)
        assert ran.status == 0, ran.errors
        grid = "" if "--grid" in words else "--grid 2,1,1 "
        assert ran.errors == f"{grid}--block 64,1,1, as launch 1 of ncu.csv had\n"
        figures = {row["name"]: row for row in json.loads(ran.output)["figures"]}
        assert figures["launch__thread_count"]["emulated"] == 128
    assert command(*one("1"), "--grid", "1", "--block", "32", cwd=folder).status == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0,760", None), ("1234,567", None), ("1,23", None), ("1.234,5", None), (",5", None), ("12,34,567", None),
        ("760", 760), ("1,760", 1760), ("12,345,678.5", 12345678.5), ("0.76", 0.76), ("-1,000", -1000),
    ],
)  # fmt: skip
def test_a_comma_that_is_not_between_thousands_is_refused_with_its_line(text: str, value: float | None) -> None:
    profile = Profile("p.csv", "raw", ())
    if value is not None:
        number = profile.number(text, "", 7, "x")
        assert number is not None
        assert number.value == value
        return
    with pytest.raises(gpuemu.GpuemuError) as caught:
        profile.number(text, "", 7, "x")
    assert str(caught.value).startswith(f"p.csv:7: x: found '{text}'")


@pytest.mark.slow
def test_csv_has_a_row_a_figure_and_goes_to_a_file(folder: Path) -> None:
    assert command(*one("1"), "--format", "csv", "-o", "out.csv", cwd=folder).output == ""
    rows = list(csv.DictReader((folder / "out.csv").open(encoding="utf-8")))
    assert list(rows[0]) == ["name", "place", "measured", "emulated", "relative", "beyond"]
    assert next(row for row in rows if row["name"] == SECTORS)["emulated"] == "8"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("v5_swizzle", "ncu.csv"), "ncu.csv:7: Kernel Name: the file has no launch of v5_swizzle"),
        ((*one("1"), "--block", "64"), "ncu.csv:7: Grid Size: one4 launched with grid (1, 1, 1) and block (32, 1, 1)"),
        ((*one("1"), "--launch", "9"), "--launch: found '9'"),
        ((*one("1"), "--tolerance", "much"), "--tolerance: found 'much'"),
        ((*one("1"), "--tolerance", "=5%"), "--tolerance: found '=5%'"),
        ((*one("1"), "--tolerance", "lts__*=0"), "--tolerance: 'lts__*'"),
        (("v5_swizzle", "one.cu"), "one.cu:1: no header of the profiler, but "),
        (("v5_swizzle", "none.csv"), "none.csv: no such file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    ran = command(*arguments, cwd=folder)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}"), ran.errors


def as_raw_page(kernel: str, grid: str, block: str) -> str:
    """What an H200 counted of an example kernel, in the form of the profiler's raw page."""
    (row,) = [row for row in csv.DictReader(COUNTERS.open(encoding="utf-8")) if row["kernel"] == kernel]
    names = [name for name in row if name != "kernel"]
    head = ["ID", "Kernel Name", "Block Size", "Grid Size", "CC", *names]
    cells = ["0", f"{kernel}(float *, float *)", block, grid, "9.0", *(row[name] for name in names)]
    lines = [head, [""] * len(head), cells]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["v2_shared_memory", "v5_swizzle", "transpose_plain", "reduction_v4"])
def test_counters_of_an_h200_are_those_of_the_emulated_machine_code(kernel: str, tmp_path: Path) -> None:
    (example,) = (one for one in EXAMPLES if one.kernel == kernel)
    (tmp_path / "p.csv").write_text(as_raw_page(kernel, str(example.grid), str(example.block)), encoding="utf-8")
    given, _, _ = example.arguments()
    source = ROOT / "traces" / "src" / example.source
    launch = (kernel, example.grid, example.block, example.dynamic_shared_bytes, given)
    trace = gpuemu.trace_kernel(source, *launch, arch="sm_90", ctas=range(math.prod(example.grid)))
    found = compare(gpuemu.run(trace, "sm_90"), read_profile(str(tmp_path / "p.csv")))
    counts = [d for d in found.differences if d.name.startswith(("l1tex__", "sm__sass"))]
    assert len(counts) >= 10
    assert [d.name for d in counts if d.gap] == []
    (cycles,) = (d for d in found.differences if d.name == "smsp__cycles_active.max")
    assert abs(cycles.relative) < 0.25


@pytest.mark.parametrize(
    ("kernel", "page", "figures", "off"),
    [
        ("v2_shared_memory", "details", 20, 0.05), ("v2_shared_memory", "source", 408, 0),
        ("v5_swizzle", "details", 20, 0.06), ("v5_swizzle", "source", 520, 0),
    ],
)  # fmt: skip
def test_pages_that_a_profiler_printed_are_the_trace_of_the_code_that_it_ran(
    kernel: str, page: str, figures: int, off: float
) -> None:
    """Made by `tools/h200/examples.py pages`: whole kernels, warm. Counts are the same, times nearly so."""
    result = gpuemu.run(H200.parent / f"{kernel}.yaml", "sm_90")
    found = compare(result, read_profile(str(H200.parent / f"ncu_{page}.csv")))
    assert len(found.differences) == figures
    assert max(abs(d.relative) for d in found.differences) <= off


def grid_trace(ctas: int) -> str:
    return (
        f"gpuemu_trace: 1\nkernel: column\narch: sm_90\nlaunch: {{grid: [{ctas}, 1, 1], static_shared_bytes: 4096}}\n"
        "code: |\n  LDS R4, [R0]\n  @P0 LDG.E R5, [R2.64]\n  EXIT\nwarps:\n"
        "- {cta: 0, addresses: {0x0000: 128*lane, 0x0010: 4*lane}}\n"
    )


def test_counts_stand_for_the_grid_and_units_and_rounding_of_the_details_page_are_taken_in(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(grid_trace(264), encoding="utf-8")
    result = gpuemu.run(tmp_path / "t.yaml", "sm_90")
    ours = emulated(result)
    assert ours["smsp__inst_executed.sum"] == 3 * 264
    assert ours["launch__grid_size"] == 264
    head = (
        '"ID","Kernel Name","Block Size","Grid Size","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    )
    told = {
        "Executed Instructions": ("inst", "792"), "Static Shared Memory Per Block": ("Kbyte/block", "4.10"), "# SMs": ("SM", "66"),
        "Registers Per Thread": ("register/thread", "1,000"), "Duration": ("us", "2.3"), "Achieved Occupancy": ("%", "n/a"),
    }  # fmt: skip
    rows = "".join(
        f'"0","column","(32, 1, 1)","(264, 1, 1)","8.9","S","{name}","{unit}","{value}"\n'
        for name, (unit, value) in told.items()
    )
    (tmp_path / "p.csv").write_text(head + rows, encoding="utf-8")
    found = compare(result, read_profile(str(tmp_path / "p.csv")))
    assert [(d.name, d.gap == 0) for d in found.differences] == [
        ("Registers Per Thread", False),
        ("Executed Instructions", True),
        ("Static Shared Memory Per Block", True),
    ]
    assert found.alone == ("# SMs", "Duration")
    assert found.notes == (
        "profiled on compute capability 8.9, emulated on 9.0",
        "profiled on 66 SMs, emulated as one of 132; --chip takes another product",
        "counts of 1 emulated CTAs stand for the 264 of the grid",
    )


def test_the_source_page_is_compared_by_instruction_and_other_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(grid_trace(2), encoding="utf-8")
    page = (
        '"Kernel Name","column(float *)"\n"Address","Source","Instructions Executed","L1 Wavefronts Shared","Live Registers"\n'
        '"100","      LDS R4, [R0] ","2","60","5"\n"116","@P0   LDG.E R5, [R2.64] ","2","-","5"\n"132","      EXIT ","2","-","5"\n'
        '"148","      BRA 0x94 ","0","-","5"\n'
    )
    (tmp_path / "p.csv").write_text(page, encoding="utf-8")
    ran = command("t.yaml", "p.csv", "--tolerance", "L1 Wavefronts Shared=2", cwd=tmp_path)
    assert ran.status == 1
    assert "0x0000 LDS L1 Wavefronts Shared 60 64 +6.7% beyond --tolerance" in [
        " ".join(line.split()) for line in ran.output.splitlines()
    ]
    assert "3 figures are equal, 1 figure of the file is not modeled" in ran.output
    beyond = "beyond the tolerance of 2"
    assert ran.errors == f"p.csv:3: L1 Wavefronts Shared at 0x0000 LDS: measured 60, emulated 64 (+6.7%), {beyond}\n"
    (tmp_path / "p.csv").write_text(page.replace("LDG.E ", "LDG.E.128 "), encoding="utf-8")
    ran = command("t.yaml", "p.csv", cwd=tmp_path)
    assert (ran.status, ran.errors) == (
        2,
        "error: p.csv:4: Source: found '@P0   LDG.E.128 R5, [R2.64]', expected LDG.E at 0x0010. Emulate the cubin that was profiled.\n",
    )
    (tmp_path / "p.csv").write_text("".join(page.splitlines(keepends=True)[:4]), encoding="utf-8")
    ran = command("t.yaml", "p.csv", cwd=tmp_path)
    assert ran.errors.startswith("error: p.csv:1: Source: found 2 instructions")
