"""Reading the profiler's CSV: its three pages, what lies around them, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu import GpuemuError
from gpuemu.studies.compare.profile import Measured, Profile, base_name, read_profile

H200 = Path(__file__).resolve().parents[2] / "data" / "h200" / "ncu_raw.csv"
DETAILS = """\
==PROF== Connected to process 7 (/usr/bin/tile)
checksum, 12
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"
"0","7","tile","127.0.0.1","void tile<32>(float *, int)","1","7","(32, 8, 1)","(4, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","us","2.21","","",""
"0","7","tile","127.0.0.1","void tile<32>(float *, int)","1","7","(32, 8, 1)","(4, 1, 1)","0","9.0","Instruction Statistics","Executed Instructions","inst","3,040","","",""
"0","7","tile","127.0.0.1","void tile<32>(float *, int)","1","7","(32, 8, 1)","(4, 1, 1)","0","9.0","Launch Statistics","Static Shared Memory Per Block","Kbyte/block","4.22","","",""
"0","7","tile","127.0.0.1","void tile<32>(float *, int)","1","7","(32, 8, 1)","(4, 1, 1)","0","9.0","Launch Statistics","","","","LaunchConfiguration","OPT","Fewer blocks
than SMs, which ""wastes"" some."
"1","7","tile","127.0.0.1","other","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","Occupancy","Achieved Occupancy","%","n/a","","",""
"""
SOURCE = """\
"Kernel Name","tile(float *)"
"Address","Source","Warp Stall Sampling (All Samples)","Instructions Executed","L1 Wavefronts Shared","Instructions Executed"
"140737018593024","      LDS R4, [R0] ","3","2","64","9"
"140737018593040","@P0   EXIT ","0","2","-","9"
"Kernel Name","tile(float *)"
"Address","Source","Warp Stall Sampling (All Samples)","Instructions Executed","L1 Wavefronts Shared","Instructions Executed"
"140737018593024","      LDS R4, [R0] ","4","4","128","9"
"""


def read(tmp_path: Path, text: str) -> Profile:
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    return read_profile(str(tmp_path / "p.csv"))


def test_the_raw_page_of_an_h200_has_a_launch_a_row_and_units_in_the_row_above() -> None:
    profile = read_profile(str(H200))
    assert (profile.page, [launch.number for launch in profile.launches]) == ("raw", ["1", "2", "3", "8", "298", "698"])
    first = profile.launches[0]
    assert (first.name, first.grid, first.block) == ("one4", (1, 1, 1), (32, 1, 1))
    assert (first.capability, first.device, first.line) == ("9.0", "NVIDIA H200", 7)
    assert first.figures["gpu__time_duration.sum"] == ("1,952", "ns", 7)
    assert first.figures["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == ("8", "sector", 7)
    assert "Stream" not in first.figures


def test_the_details_page_has_a_metric_a_row_rules_among_them_and_output_of_the_program_before_it(
    tmp_path: Path,
) -> None:
    profile = read(tmp_path, DETAILS)
    assert (profile.page, [(x.number, x.name, x.grid, x.block) for x in profile.launches]) == (
        "details",
        [("0", "tile", (4, 1, 1), (32, 8, 1)), ("1", "other", (1, 1, 1), (1, 1, 1))],
    )
    assert profile.launches[0].figures == {
        "Duration": ("2.21", "us", 4),
        "Executed Instructions": ("3,040", "inst", 5),
        "Static Shared Memory Per Block": ("4.22", "Kbyte/block", 6),
    }
    # A rule's text may go over lines; what comes after it still has its own.
    assert profile.launches[1].figures == {"Achieved Occupancy": ("n/a", "%", 9)}


def test_the_source_page_has_the_instructions_of_each_launch_and_of_two_columns_of_a_name_the_first(
    tmp_path: Path,
) -> None:
    profile = read(tmp_path, SOURCE)
    assert (profile.page, [(x.number, x.name) for x in profile.launches]) == ("source", [("0", "tile"), ("1", "tile")])
    load, leave = profile.launches[0].code
    assert (load.source.strip(), load.line, load.columns["Instructions Executed"]) == ("LDS R4, [R0]", 3, "2")
    assert (leave.source.strip(), leave.columns["L1 Wavefronts Shared"]) == ("@P0   EXIT", "-")
    assert [one.columns["L1 Wavefronts Shared"] for one in profile.launches[1].code] == ["128"]


@pytest.mark.parametrize(
    ("text", "unit", "value", "step"),
    [
        ("3,072", "", 3072, 0), ("0.97", "", 0.97, 0.005), ("49.15", "Kbyte/block", 49150, 5), ("12", "Mcycle", 12e6, 5e5),
        ("1.5", "inst/cycle", 1.5, 0.05), ("3", "Gbyte", 3e9, 5e8), ("-2", "", -2, 0), ("128 (64; 64)", "inst", 128, 0), ("1e+06", "", 1e6, 0),
    ],
)  # fmt: skip
def test_a_number_has_its_thousands_its_unit_and_what_rounding_may_have_cost(
    text: str, unit: str, value: float, step: float
) -> None:
    found = Profile("p.csv", "raw", ()).number(text, unit, 9, "name")
    assert isinstance(found, Measured)
    assert (found.value, found.step, found.line) == (pytest.approx(value), pytest.approx(step), 9)


def test_a_launch_is_found_by_name_and_extents_where_the_page_has_them_or_by_its_id(tmp_path: Path) -> None:
    profile = read_profile(str(H200))
    launch, alike = profile.launch("one4", (1, 1, 1), (32, 1, 1), None)
    assert (launch.number, alike) == ("1", 4)
    launch, alike = profile.launch("ns::one8", [1, 1, 1], [32, 1, 1], None)
    assert (launch.number, alike) == ("298", 1)
    # An ID goes before name and extents.
    launch, alike = profile.launch("other", (7, 1, 1), (32, 1, 1), "698")
    assert (launch.name, alike) == ("one16", 1)
    launch, alike = read(tmp_path, SOURCE).launch("tile", (9, 9, 9), (1, 1, 1), None)
    assert (launch.number, alike) == ("0", 2)


def test_rows_of_a_source_page_before_its_header_and_commas_behind_its_rows_are_passed_over(tmp_path: Path) -> None:
    rows = SOURCE.splitlines()
    text = "\n".join([rows[0] + ",", '"view","sass"', rows[1], *(row + ',""' for row in rows[2:4])])
    (launch,) = read(tmp_path, text + "\n").launches
    assert [one.source.strip() for one in launch.code] == ["LDS R4, [R0]", "@P0   EXIT"]


def test_what_was_not_measured_is_no_number_and_another_text_is_refused() -> None:
    profile = Profile("p.csv", "raw", ())
    assert [profile.number(text, "", 1, "x") for text in ("", " ", "n/a", "-", "nan", "(!) nan")] == [None] * 6
    with pytest.raises(GpuemuError) as error:
        profile.number("1.985,94", "", 8, "sm__cycles_active.avg")
    assert str(error.value).startswith("p.csv:8: sm__cycles_active.avg: found '1.985,94'")


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("tile", "tile"), ("tile(float *, int)", "tile"), ("void tile<float, (int)4>(float *)", "tile"),
        ("void ns::inner::tile<ns::other<int>, (bool)1>(T1 *, ns::pair<int, int>)", "tile"), ("(anonymous namespace)::tile(int)", "tile"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_name_of_a_kernel_goes_without_type_namespace_arguments_and_parameters(kernel: str, name: str) -> None:
    assert base_name(kernel) == name


RAW = (
    '"ID","Kernel Name","Block Size","Grid Size","a__b.sum"\n"","","","","inst"\n"0","k","(32, 1, 1)","(1, 1, 1)","5"\n'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv: no header of the profiler, but nothing"),
        ("a,b\n1,2\n", "p.csv:1: no header of the profiler, but 'a'"),
        ("==ERROR== no kernels\n", "p.csv: no header of the profiler, but nothing"),
        (RAW.replace('"","","","","inst"\n', ""), "p.csv:2: no row of units"),
        (RAW.replace('"(1, 1, 1)",', ""), "p.csv:3: found 4 columns"),
        (RAW.replace("(32, 1, 1)", "32"), "p.csv:3: Block Size: found '32'"),
        ("".join(RAW.splitlines(keepends=True)[:2]), "p.csv:1: there is no launch below the header"),
        (DETAILS.replace('"2.21","","",""', '"2.21"'), "p.csv:4: found 15 columns"),
        (SOURCE.replace('"64","9"', '"64"'), "p.csv:3: found 5 columns"),
        (DETAILS.replace('"Metric Value"', '"Average"'), "p.csv:3: Metric Value: no such column"),
        (SOURCE.replace('"Address"', '"#"'), "p.csv:2: Address: no such column"),
    ],
)  # fmt: skip
def test_what_is_none_of_the_pages_is_refused_by_line_and_column(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(GpuemuError) as error:
        read(tmp_path, text)
    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(message), str(error.value)
