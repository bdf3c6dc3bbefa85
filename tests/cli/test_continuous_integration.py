"""What CI gets of `gpuemu run`, `diff` and `check`: baselines, exit codes, JUnit, SARIF and Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import forked
import pytest
from sarif_form import place, results_of

from gpuemu.sass.tools.disassembly import load_cubin

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "traces" / "src"
COLUMN = (
    "gpuemu_trace: 1\nkernel: column\narch: sm_89\nlaunch: {static_shared_bytes: 4224}\nlayout: {pitch: 128}\n"
    "code: |\n  LDS R4, [R0]\n  LDG.E R5, [R2.64]\n  EXIT\nwarps:\n- addresses:\n    0x0000: pitch*lane\n    0x0010: 64*lane\n"
)
"""A trace without source lines: 32 ways in one bank, and a sector for each lane."""


def gpuemu(*arguments: str, cwd: Path = ROOT, ci: str = "") -> forked.Ran:
    return forked.gpuemu(*arguments, cwd=cwd, CI=ci)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "column.yaml").write_text(COLUMN, encoding="utf-8")
    return tmp_path


# Baselines


def test_a_baseline_is_written_where_there_is_none_and_the_same_run_holds(folder: Path) -> None:
    first = gpuemu("run", "column.yaml", "--baseline", "b.yaml", "--allow", "cycles=2%", cwd=folder)
    assert (first.status, first.errors) == (0, "b.yaml is written: 7 figures\n")
    text = (folder / "b.yaml").read_text(encoding="utf-8")
    assert re.search(r"\n  cycles: \{value: \d+, allowed: 2%\}\n", text)
    assert "\n  excess_wavefronts: {value: 31, allowed: 0}\n" in text
    assert 'kernel: "column"\narch: "sm_89"\noverrides: {}\nlayout: {"pitch": 128}\n' in text
    again = gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder)
    assert (again.status, again.errors, again.output) == (0, "", first.output)
    assert (folder / "b.yaml").read_text(encoding="utf-8") == text


def test_in_ci_a_baseline_that_is_not_there_is_refused(folder: Path) -> None:
    ran = gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder, ci="true")
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith("error: b.yaml: no such file")
    assert not (folder / "b.yaml").exists()
    assert gpuemu("run", "column.yaml", "--baseline", "c.yaml", cwd=folder, ci="false").status == 0
    assert gpuemu("run", "column.yaml", "--baseline", "b.yaml", "--renew-baseline", cwd=folder, ci="true").status == 0


def edited(folder: Path, *changes: tuple[str, str]) -> None:
    gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder)
    text = (folder / "b.yaml").read_text(encoding="utf-8")
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text)
        assert count == 1, pattern
    (folder / "b.yaml").write_text(text, encoding="utf-8")


def test_a_figure_fails_beyond_what_is_allowed_and_an_improvement_does_not(folder: Path) -> None:
    edited(
        folder,
        (r"excess_wavefronts: \{value: 31, allowed: 0\}", "excess_wavefronts: {value: 25, allowed: 20%}"),
        (r"  wavefronts: \{value: 32, allowed: 0\}", "  wavefronts: {value: 40, allowed: 0}"),
        (r"excess_sectors: \{value: 28, allowed: 0\}", "excess_sectors: {value: 20, allowed: 8}"),
        (r"resident_ctas: \{value: \d+", "resident_ctas: {value: 1000"),
    )
    ran = gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder)
    assert ran.status == 1
    fewer, conflicts = ran.errors.splitlines()
    assert re.fullmatch(r"b\.yaml:10: resident_ctas is \d+, \d+ fewer than 1,000; expected at least 1,000", fewer)
    assert conflicts == "b.yaml:12: excess_wavefronts is 31, 6 more than 25; expected at most 30"
    more = ("--allow", "excess_wavefronts=6", "--allow", "resident_ctas=100%")
    assert gpuemu("run", "column.yaml", "--baseline", "b.yaml", *more, cwd=folder).status == 0


def test_renewing_takes_the_values_and_keeps_what_is_allowed_and_which_figures(folder: Path) -> None:
    edited(
        folder,
        (r"excess_wavefronts: \{value: 31, allowed: 0\}", "excess_wavefronts: {value: 3, allowed: 20%}"),
        (r"  wavefronts: .*\n", ""),
    )
    words = ("run", "column.yaml", "--baseline", "b.yaml", "--renew-baseline", "--allow", "stall.long_scoreboard=5%")
    assert gpuemu(*words, cwd=folder).errors == "b.yaml is written: 7 figures\n"
    text = (folder / "b.yaml").read_text(encoding="utf-8")
    assert "  excess_wavefronts: {value: 31, allowed: 20%}\n" in text
    assert "  wavefronts:" not in text
    assert re.search(r"\n  stall\.long_scoreboard: \{value: \d+, allowed: 5%\}\n$", text)
    assert gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder).status == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((r"gpuemu_baseline: 1", "gpuemu_baseline: 7"), "b.yaml:2: gpuemu_baseline: found 7"),
        ((r'kernel: "column"', "kernel: row"), "b.yaml:3: kernel: found row"),
        ((r"overrides: \{\}", "overrides: {shared_memory.banks: 64}"), 'b.yaml:5: overrides: found {"shared_memory.banks": 64}'),
        ((r"arch: .*\n", ""), "b.yaml:2: arch: found nothing"),
        ((r"  cycles: \{value: \d+", "  cycles: {value: fast"), "b.yaml:8: figures.cycles.value: found the text 'fast'"),
        ((r"(cycles: \{value: \d+, allowed: )0", r"\1few"), "b.yaml:8: figures.cycles.allowed: found the text 'few'"),
        ((r"  cycles: .*\n", "  cycles: 12\n"), "b.yaml:8: figures.cycles: found 12"),
        ((r"  cycles:", "  cycle:"), "b.yaml:8: figures: unknown name 'cycle'. Did you mean 'cycles'?\n"),
        ((r"layout: ", "colour: red\nlayout: "), "b.yaml:6: colour: unknown name"),
    ],
)  # fmt: skip
def test_a_baseline_that_cannot_be_used_is_refused_by_line_and_field(
    change: tuple[str, str], message: str, folder: Path
) -> None:
    edited(folder, change)
    ran = gpuemu("run", "column.yaml", "--baseline", "b.yaml", cwd=folder)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}"), ran.errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--allow", "cycles=2%"), "--allow: there is no --baseline"),
        (("--renew-baseline",), "--renew-baseline: there is no --baseline"),
        (("--baseline", "b.yaml", "--allow", "cycles"), "--allow: found 'cycles'"),
        (
            ("--baseline", "b.yaml", "--allow", "cycle=2"),
            "--allow: unknown name 'cycle'. Did you mean 'cycles'?\n",
        ),
        (
            ("--also", "junit"),
            "--also: found 'junit'",
        ),
        (
            ("--page", "source", "--format", "sarif"),
            "--format: found sarif",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], message: str, folder: Path) -> None:
    ran = gpuemu("run", "column.yaml", *options, cwd=folder)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}"), ran.errors
    assert sorted(path.name for path in folder.iterdir()) == ["column.yaml"]


# Forms


def test_junit_has_a_case_for_each_condition_and_figure_and_counts_them(folder: Path) -> None:
    edited(folder, (r"  wavefronts: \{value: 32", "  wavefronts: {value: 31"))
    words = ("--fail-on", "excess_wavefronts>0", "--fail-on", "cycles<1", "--baseline", "b.yaml", "--format", "junit")
    ran = gpuemu("run", "column.yaml", *words, cwd=folder)
    root = ElementTree.fromstring(ran.output.encode())
    (suite,) = root
    assert (root.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "column on sm_89")
    cases, failures = suite.findall("testcase"), suite.findall("testcase/failure")
    for element in (root, suite):
        counts = [element.get(name) for name in ("tests", "failures", "errors", "skipped")]
        assert counts == [str(len(cases)), str(len(failures)), "0", "0"]
    assert (len(cases), len(failures)) == (9, 2)
    assert [case.get("name") for case in cases if case.find("failure") is not None] == [
        "--fail-on excess_wavefronts>0",
        "b.yaml: wavefronts",
    ]
    assert [failure.get("message") for failure in failures] == ran.errors.splitlines()
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert (properties["wavefronts"], properties["excess_sectors"]) == ("32", "28")
    assert (suite.findtext("system-out") or "").startswith("column on sm_89")
    assert ran.status == 1


def test_junit_of_a_run_of_which_nothing_is_asked_has_one_case_and_no_character_that_xml_forbids(folder: Path) -> None:
    text = COLUMN.replace("kernel: column\n", "kernel: column\nabout: \"a\\x01b <&> \\uFFFF\"\n")  # fmt: skip
    (folder / "column.yaml").write_text(text, encoding="utf-8")
    ran = gpuemu("run", "column.yaml", "--format", "junit", cwd=folder)
    assert ran.status == 0, ran.errors
    (suite,) = ElementTree.fromstring(ran.output.encode())
    assert [case.get("name") for case in suite.findall("testcase")] == ["runs"]
    assert "a?b <&> ?" in (suite.findtext("system-out") or "")


def test_sarif_has_the_conflicts_of_each_source_line_and_the_lines_that_they_were_inlined_from() -> None:
    words = ("run", "v2_shared_memory", "--format", "sarif", "--fail-on", "excess_wavefronts>0")
    ran = gpuemu(*words, "--sources", str(SOURCES))
    assert ran.status == 1
    failed, *found = results_of(ran.output)
    assert (failed["ruleId"], failed["level"]) == ("figure", "error")
    assert failed["message"]["text"] == ran.errors.strip()
    assert {(one["ruleId"], one["level"]) for one in found} == {("bank-conflict", "warning")}
    places = [place(one["locations"][0]) for one in found]
    # The file at hand is named by its path from here; mma.hpp, where wmma's own code stands, is not at hand.
    assert all(re.fullmatch(r"traces/src/v2_shared_memory\.cu:\d+", one) for one in places)
    assert len(set(places)) == len(places) == 3
    assert place(found[0]["relatedLocations"][0]).startswith("mma.hpp:")
    excess = [int(one["message"]["text"].split()[0]) for one in found]
    assert (sum(excess), excess) == (12, sorted(excess, reverse=True))
    own = [place(one["locations"][0]) for one in results_of(gpuemu(*words).output)]
    assert own[1:] == [one.removeprefix("traces/src/") for one in places]


def test_sarif_names_instructions_of_code_without_lines_by_offset_and_line_of_the_trace(folder: Path) -> None:
    conflict, sectors = results_of(gpuemu("run", "column.yaml", "--format", "sarif", cwd=folder).output)
    assert conflict["message"]["text"] == "31 of 32 wavefronts are bank conflicts, 32.0-way: LDS R4, [R0] at 0x0000"
    assert sectors["message"]["text"] == "28 of 32 sectors are more than the lanes need: LDG.E R5, [R2.64] at 0x0010"
    assert sectors["ruleId"] == "uncoalesced-access"
    for one, offset, line in ((conflict, 0x0, 7), (sectors, 0x10, 8)):
        (location,) = one["locations"]
        assert place(location) == f"column.yaml+{offset:#x}"
        assert location["physicalLocation"]["region"] == {"startLine": line}
        assert location["physicalLocation"]["address"]["fullyQualifiedName"] == f"column+{offset:#06x}"
        assert location["logicalLocations"] == [{"name": "column", "kind": "function"}]
        assert "relatedLocations" not in one


@pytest.mark.slow
def test_sarif_of_machine_code_names_the_source_as_it_was_given_and_a_cubin_without_lines_itself(
    tmp_path: Path,
) -> None:
    source = tmp_path / "my kernels" / "tile.cu"
    source.parent.mkdir()
    source.write_text(
        'extern "C" __global__ void column(float *out) {\n'
        "    __shared__ float tile[1024];\n"
        "    tile[32 * threadIdx.x] = threadIdx.x;\n"
        "    __syncthreads();\n"
        "    out[threadIdx.x] = tile[32 * (31 - threadIdx.x)];\n"
        "}\n",
        encoding="utf-8",
    )
    by_source = gpuemu("run", "my kernels/tile.cu", "--format", "sarif", cwd=tmp_path)
    places = [place(one["locations"][0]) for one in results_of(by_source.output)]
    assert places == ["my%20kernels/tile.cu:3", "my%20kernels/tile.cu:5"]
    absolute = gpuemu("run", str(source), "--format", "sarif", cwd=tmp_path)
    assert [place(one["locations"][0]) for one in results_of(absolute.output)] == places
    elsewhere = gpuemu("run", str(source), "--format", "sarif", cwd=source.parent.parent.parent)
    assert place(results_of(elsewhere.output)[0]["locations"][0]).endswith("my%20kernels/tile.cu:3")
    with_lines = load_cubin(str(source), "sm_89").content
    (tmp_path / "tile.cubin").write_bytes(with_lines.replace(b".debug_line", b".debug_none"))
    store, load = results_of(gpuemu("run", "tile.cubin", "--format", "sarif", cwd=tmp_path).output)
    for one in (store, load):
        (location,) = one["locations"]
        assert re.fullmatch(r"tile\.cubin\+0x[0-9a-f]+0", place(location))
        assert "region" not in location["physicalLocation"]
        assert f"at {location['physicalLocation']['address']['relativeAddress']:#06x}" in one["message"]["text"]


@pytest.mark.slow
def test_sarif_puts_a_conflict_into_the_header_where_it_stands_and_names_the_line_that_called_it(
    tmp_path: Path,
) -> None:
    files = {
        "k/tile.cu": '#include "near.cuh"\n#include <deep.cuh>\nextern "C" __global__ void tile(float *out) {\n'
        "    __shared__ float tile[1024];\n    fill(tile, threadIdx.x);\n    __syncthreads();\n"
        "    out[threadIdx.x] = column(tile, threadIdx.x);\n}\n",
        "k/near.cuh": "__device__ inline void fill(float *tile, int lane) {\n    tile[32 * lane] = lane;\n}\n",
        "inc/deep.cuh": "__device__ inline float column(const float *tile, int lane) {\n"
        "    return tile[32 * (31 - lane)];\n}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = results_of(gpuemu("run", "k/tile.cu", "-I", "inc", "--format", "sarif", cwd=tmp_path).output)
    lines = [(place(one["locations"][0]), [place(line) for line in one["relatedLocations"]]) for one in found]
    assert lines == [("inc/deep.cuh:2", ["k/tile.cu:7"]), ("k/near.cuh:2", ["k/tile.cu:5"])]


@pytest.mark.slow
def test_check_writes_its_findings_as_sarif_with_both_lines_of_a_race(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```cuda\n(// broken\.cu\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "broken.cu").write_text(code, encoding="utf-8")
    words = ("check", "src/broken.cu", "--kernel", "reverse", "--block", "128", "--arg", "zeros:f32:128")
    for more in ((), ("-D", "UNUSED")):  # a source that is compiled first is known by its name alone
        ran = gpuemu(*words, *more, "--format", "sarif", cwd=tmp_path)
        (race,) = results_of(ran.output)
        assert (ran.status, race["ruleId"], race["level"]) == (1, "racecheck", "error")
        assert place(race["locations"][0]) == "src/broken.cu:6"
        assert [place(one) for one in race["relatedLocations"]] == ["src/broken.cu:7"]
        assert race["message"]["text"].startswith("Potential RAW hazard in __shared__ memory: ")


def test_the_summary_for_github_has_the_verdicts_the_tables_and_the_lines(folder: Path) -> None:
    words = ("--fail-on", "excess_wavefronts>0", "--fail-on", "excess_sectors>=100")
    ran = gpuemu("run", "column.yaml", *words, "--format", "github", cwd=folder)
    assert ran.status == 1
    lines = ran.output.splitlines()
    assert lines[0] == "### column on sm\\_89: 1 of 2 failed"
    assert "| ❌ | --fail-on excess\\_wavefronts>0 | 31 | at most 0 |" in lines
    assert "| ✅ | --fail-on excess\\_sectors>=100 | 28 | less than 100 |" in lines
    assert "| Shared Load | 1 | 32 | 1 | 31 |" in lines
    assert any(line.startswith("| `column.yaml at 0x0000` | bank-conflict | 31 of 32 wavefronts") for line in lines)
    for table in re.findall(r"(?:^\|.*\n)+", ran.output, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


@pytest.mark.slow
def test_forms_beside_the_text_come_from_the_same_run_and_are_the_same(folder: Path) -> None:
    also = [word for form in ("junit", "sarif", "github", "json") for word in ("--also", f"{form}={form}.out")]
    ran = gpuemu("run", "column.yaml", "--fail-on", "cycles>0", *also, cwd=folder)
    assert ran.status == 1
    assert ran.output == gpuemu("run", "column.yaml", cwd=folder).output
    for form in ("junit", "sarif", "github", "json"):
        alone = gpuemu("run", "column.yaml", "--fail-on", "cycles>0", "--format", form, cwd=folder)
        assert (folder / f"{form}.out").read_text(encoding="utf-8") == alone.output


@pytest.mark.slow
def test_diff_fails_where_b_is_worse_than_a_by_more_than_is_allowed() -> None:
    words = ("diff", "v5_swizzle", "v2_shared_memory")
    worse = gpuemu(*words, "--allow", "excess_wavefronts=8", "--allow", "warp_instructions=0")
    assert worse.status == 1
    assert worse.errors == "A: excess_wavefronts is 12, 12 more than 0; expected at most 8\n"
    assert worse.output == gpuemu(*words).output
    assert gpuemu(*words, "--allow", "excess_wavefronts=12").status == 0
    unknown = gpuemu(*words, "--allow", "conflicts=1")
    assert unknown.status == 2
    assert unknown.errors.startswith("error: --allow: unknown name 'conflicts'. ")


def test_diff_as_a_summary_for_github_shows_what_differs() -> None:
    ran = gpuemu("diff", "v5_swizzle", "v2_shared_memory", "--allow", "excess_wavefronts=0", "--format", "github")
    lines = ran.output.splitlines()
    assert lines[0] == "### v5\\_swizzle on sm\\_89 → v2\\_shared\\_memory on sm\\_89: 1 of 1 failed"
    assert "| `excess_wavefronts` | 0 | 12 | +12 |  |" in lines
    assert "| `wavefronts` | 24 | 36 | +12 | 1.500 |" in lines
    assert not any(line.startswith("| `ideal_wavefronts`") for line in lines)
