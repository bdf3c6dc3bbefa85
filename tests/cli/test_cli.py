"""What a person sees of `gpuemu run`, `diff`, `traces` and of the command as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import forked
import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_SCHEMA = ROOT / "gpuemu" / "views" / "result.schema.json"


Run = Callable[..., forked.Ran]
Golden = Callable[..., None]


@pytest.fixture
def gpuemu() -> Run:
    return forked.gpuemu


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_v2_on_sm_89.txt", ("run", "traces/v2_shared_memory.yaml", "--arch", "sm_89")),
        ("run_v5_on_sm_89.txt", ("run", "traces/v5_swizzle.yaml", "--arch", "sm_89")),
        ("run_v5_on_sm_80.txt", ("run", "v5_swizzle", "--arch", "sm_80")),
        ("run_v2_with_64_banks.txt", ("run", "v2_shared_memory", "--set", "shared_memory.banks=64")),
        ("run_v3_as_json.json", ("run", "v3_padded", "--format", "json")),
        ("diff_v4_v5.txt", ("diff", "v4_ldmatrix", "v5_swizzle", "--arch", "sm_89")),
        pytest.param("why_v2.txt", ("why", "v2_shared_memory"), marks=pytest.mark.slow),
        ("traces.txt", ("traces",)),
        ("help.txt", ("--help",)),
        ("run_help.txt", ("run", "--help")),
        ("rank_help.txt", ("rank", "--help")),
        ("judge_help.txt", ("judge", "--help")),
        ("calibrate_help.txt", ("calibrate", "--help")),
        ("triton_help.txt", ("triton", "--help")),
    ],
)
def test_output_is_as_in_the_golden_file(name: str, arguments: tuple[str, ...], gpuemu: Run, golden: Golden) -> None:
    ran = gpuemu(*arguments, **({"COLUMNS": "80"} if "--help" in arguments else {}))
    assert (ran.status, ran.errors) == (0, "")
    golden(name, ran.output)


@pytest.mark.slow
def test_output_off_a_terminal_has_no_colour_and_at_most_100_columns(gpuemu: Run) -> None:
    plain = gpuemu("run", "v2_shared_memory", COLUMNS="", FORCE_COLOR="", TERM="xterm-256color").output
    assert "\x1b" not in plain
    assert 90 < max(map(len, plain.splitlines())) <= 100
    assert plain == gpuemu("run", "v2_shared_memory", COLUMNS="100", LANG="C").output
    narrow, wide = (gpuemu("run", "v2_shared_memory", COLUMNS=columns).output for columns in ("60", "200"))
    assert max(map(len, narrow.splitlines())) <= 60
    assert len(wide.splitlines()) < len(plain.splitlines()) < len(narrow.splitlines())


@pytest.mark.slow
def test_two_runs_print_the_same_bytes_whatever_the_hash_seed() -> None:
    words = [sys.executable, "-m", "gpuemu", "run", "v4_ldmatrix", "--format", "json"]
    first, second = (
        subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in "12"
    )
    assert first == second


@pytest.mark.slow
def test_sixty_four_banks_halve_the_wavefronts_of_v2_and_leave_a_third_of_its_conflicts(gpuemu: Run) -> None:
    # 64 banks of 4 bytes serve 256 bytes in a wavefront, 16 rows of a matrix load; rows of 32 bytes use half of them.
    plain, wide = (
        json.loads(gpuemu("run", "traces/v2_shared_memory.yaml", "--arch", "sm_89", "--format", "json", *more).output)
        for more in ((), ("--set", "shared_memory.banks=64"))
    )
    assert [sum(row["bank_conflicts"] for row in r["shared_memory"]) for r in (plain, wide)] == [12, 4]
    assert [sum(row["wavefronts"] for row in r["shared_memory"]) for r in (plain, wide)] == [36, 18]
    assert wide["cycles"] < plain["cycles"]
    assert wide["overrides"] == {"shared_memory.banks": 64}
    assert plain["counters"]["smsp__inst_executed.sum"] == wide["counters"]["smsp__inst_executed.sum"]


@pytest.mark.slow
def test_separate_ports_change_no_count_and_cost_no_cycle(gpuemu: Run) -> None:
    unified, separate = (
        json.loads(gpuemu("run", "traces/v2_shared_memory.yaml", "--arch", "sm_89", "--format", "json", *more).output)
        for more in ((), ("--set", "shared_memory.ports.topology=separate"))
    )
    for field in ("instructions", "wavefronts", "ideal_wavefronts", "bank_conflicts"):
        assert [row[field] for row in unified["shared_memory"]] == [row[field] for row in separate["shared_memory"]]
    assert separate["cycles"] <= unified["cycles"]
    resources = {bound["resource"] for bound in separate["bounds"]}
    assert {"shared-memory read ports", "shared-memory write ports"} <= resources
    assert "shared-memory data stage" not in resources


@pytest.mark.slow
def test_json_follows_its_schema_and_stalls_add_up(gpuemu: Run) -> None:
    schema = json.loads(PACKAGE_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in ("v1_global", "v2_shared_memory", "sm_80/v5_swizzle"):
        result = json.loads(gpuemu("run", name, "--format", "json").output)
        jsonschema.validate(result, schema)
        for warp in result["warps"]:
            assert sum(warp["stalls"].values()) == warp["end_cycle"] - warp["start_cycle"]


def test_every_field_of_the_schema_is_documented(gpuemu: Run) -> None:
    document = (ROOT / "docs" / "result.md").read_text(encoding="utf-8")
    schema = json.loads(PACKAGE_SCHEMA.read_text(encoding="utf-8"))
    for field in (*schema["properties"], *schema["$defs"]["stalls"]["properties"]):
        assert f"`{field}`" in document, field


@pytest.mark.slow
def test_output_goes_to_a_file_whole_or_not_at_all(gpuemu: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    ran = gpuemu("run", "v2_shared_memory", "--format", "json", "-o", str(target))
    assert (ran.status, ran.output) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["kernel"] == "v2_shared_memory"
    target.unlink()
    assert gpuemu("run", "v2_shared_memory", "--set", "shared_memory.banks=0", "-o", str(target)).status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_bad_input(gpuemu: Run, tmp_path: Path) -> None:
    ran = gpuemu("run", "v5_swizzle", "-o", "missing/out.txt", cwd=tmp_path)
    assert ran.status == 2
    assert ran.errors.startswith("error: missing/out.txt: no such file or directory")


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("excess_wavefronts>0", 1), ("excess_wavefronts>=12", 1), ("excess_wavefronts==12", 1), ("excess_wavefronts>12", 0),
        ("shared_load_matrix.excess_wavefronts != 8", 0), ("cycles<1", 0), ("stall.barrier>0", 1),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum>=4", 1), ("bound.tensor_core>1e9", 2),
    ],
)  # fmt: skip
def test_fail_on_sets_the_exit_code(condition: str, status: int, gpuemu: Run) -> None:
    assert gpuemu("run", "v2_shared_memory", "--fail-on", condition).status == status


@pytest.mark.slow
def test_a_condition_that_holds_is_named_after_the_report(gpuemu: Run) -> None:
    ran = gpuemu("run", "v2_shared_memory", "--fail-on", "excess_wavefronts>0", "--fail-on", "cycles<1")
    assert ran.status == 1
    assert ran.errors == "--fail-on excess_wavefronts>0: excess_wavefronts is 12\n"
    assert ran.output.startswith("v2_shared_memory on sm_89")
    assert gpuemu("run", "v5_swizzle", "--fail-on", "excess_wavefronts>0").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "v6"), "v6: no trace of that name"),
        (("run", "v5_swizle"), "v5_swizle: no trace of that name"),
        (("run", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (
            ("run", "v5_swizzle", "--set", "shared_memory.bankz=1", "--set", "layout.z=3x"),
            "--set: layout.z: found '3x'",
        ),
        (("run", "v5_swizzle", "--set", "shared_memory.bankz=1"), "--set: shared_memory.bankz: unknown name"),
        *(
            ((*words, "--set", "shared_memory.banks=32", "--set", "shared_memory.banks=16"),
             "--set: shared_memory.banks: the name is set twice")
            for words in (("run", "v5_swizzle"), ("why", "v5_swizzle"),
                          ("search", "--tile", "16x16:f16", "--access", "column"), ("banks", "LDS", "--lanes", "4*lane"),
                          ("fragment", "LDSM.4", "--pitch", "32"), ("layout", "pad:8", "--tile", "16x16:f16"))
        ),
        (("run", "v5_swizzle", "--set", "layout.bits=1", "--set", "layout.bits=2"),
         "--set: layout.bits: the name is set twice"),
        (("run", "v5_swizzle", "--chip", "RTX 4090", "--set", "chip=RTX 4080"),
         "--set: chip: the name is set twice"),
        (("run", "v5_swizzle", "--set", "layout.z=3"), "traces/v5_swizzle.yaml:6: layout: unknown name 'z'. Names of this trace: bits, base, shift.\n"),
        (("run", "v5_swizzle", "--fail-on", "cycles"), "--fail-on: found 'cycles'"),
        (("run", "v5_swizzle", "--fail-on", "cycle>3"), "--fail-on: unknown name 'cycle'. Did you mean 'cycles'?\n"),
        (("diff", "v5_swizzle", "nowhere.json"), "nowhere.json: no such file"),
    ],
)  # fmt: skip
def test_bad_input_exits_with_2_a_sentence_and_no_output(arguments: tuple[str, ...], message: str, gpuemu: Run) -> None:
    ran = gpuemu(*arguments)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}")


def test_an_unknown_command_exits_with_2(gpuemu: Run) -> None:
    ran = gpuemu("rum")
    assert ran.status == 2
    assert "error: no such command 'rum'" in ran.errors


@pytest.mark.slow
def test_a_layout_setting_moves_the_addresses(gpuemu: Run, tmp_path: Path) -> None:
    trace = tmp_path / "column.yaml"
    trace.write_text(
        "gpuemu_trace: 1\nkernel: column\narch: sm_89\nlaunch: {static_shared_bytes: 4224}\nlayout: {pitch: 128}\n"
        "code: |\n  LDS R4, [R0]\n  EXIT\nwarps:\n- addresses:\n    0x0000: pitch*lane\n",
        encoding="utf-8",
    )
    wavefronts = [
        json.loads(gpuemu("run", str(trace), "--format", "json", *more).output)["shared_memory"][0]["wavefronts"]
        for more in ((), ("--set", "layout.pitch=132"))
    ]
    assert wavefronts == [32, 1]


@pytest.mark.slow
def test_diff_compares_saved_results_and_settings_of_the_second_run(gpuemu: Run, tmp_path: Path) -> None:
    saved = str(tmp_path / "a.json")
    gpuemu("run", "v2_shared_memory", "--format", "json", "-o", saved)
    same = gpuemu("diff", saved, "v2_shared_memory")
    assert same.output.endswith("All numbers are equal.\n")
    more = json.loads(
        gpuemu("diff", saved, "v2_shared_memory", "--set-b", "shared_memory.banks=64", "--format", "json").output
    )
    assert more["metrics"]["excess_wavefronts"] == [12, 4]
    assert more["b"] == "v2_shared_memory on sm_89, shared_memory.banks=64"


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_difference_fits_and_gives_long_names_a_line_of_their_own(columns: str, gpuemu: Run) -> None:
    words = ("diff", "v4_ldmatrix", "v5_swizzle", "--all", "--set-b", "global_memory.l2.latency_cycles=300")
    more = (*words, "--set-b", "global_memory.latency_cycles=1000")
    lines = gpuemu(*more, COLUMNS=columns).output.splitlines()
    assert max(len(line) for line in lines if " " in line) <= int(columns), "but for names that are longer"
    name = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    (place,) = (at for at, line in enumerate(lines) if line.split()[:1] == [name])
    assert (lines[place] == name) is (columns == "80")
    assert lines[place + (columns == "80")].split()[-4].isdigit()


@pytest.mark.parametrize("content", ["", "[1, 2", "3", "{}", '{"gpuemu_result": 1}', '{"gpuemu_result": 2}'])
def test_diff_refuses_what_is_not_a_result(content: str, gpuemu: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(content, encoding="utf-8")
    ran = gpuemu("diff", str(file), str(file))
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {file}:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "k.ptx", "--block", "64"),
            "k.ptx: kernel: there is no __global__ function",
        ),
        (("run", ".", "--block", "64"), ".: this is a folder"),
        (
            ("run", "away.sass", "--block", "64"),
            "away.sass: no such file",
        ),
        (
            ("sweep", "study.yaml"),
            "study.yaml:2: gpuemu_study: a study instead of a trace",
        ),
        (
            ("diff", "a.cu", "b.cu"),
            "a.cu: machine code has no launch to compare",
        ),
    ],
)
def test_what_is_not_what_a_command_takes_is_told_by_what_it_is(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_80\n")
    (tmp_path / "study.yaml").write_text(
        "# mine\ngpuemu_study: 1\ntraces: v5_swizzle\nvary: {mio.queue_entries: 1..2}\n"
    )
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text("__global__ void k(int n) {}\n")
    ran = forked.gpuemu(*arguments, cwd=tmp_path)
    assert (ran.status, ran.output) == (2, "")
    assert ran.errors.startswith(f"error: {message}")
    assert ran.errors.count("\n") == 1
