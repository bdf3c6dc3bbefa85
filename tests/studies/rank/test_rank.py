"""Configurations in order: what is faster stands before what is slower, what does not fit is named, what is known stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.rank import estimate
from gpuemu.studies.rank.rank_text import lines
from gpuemu.studies.rank.ranking import RankedRow, Ranking
from gpuemu.studies.rank.reasons import reason

TRANSPOSE = """
extern "C" __global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += ROWS) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += ROWS) out[(y + k) * n + x] = tile[threadIdx.x][threadIdx.y + k];
}
"""
LAUNCH = [
    "--vary",
    "PAD=0,1",
    "--grid",
    "8,8",
    "--block",
    "32,ROWS",
    "--arg",
    "arange:f32:65536",
    "--arg",
    "zeros:f32:65536",
]
ALL = [*LAUNCH, "--vary", "ROWS=8,16", "--arg", "256", "--jobs", "1"]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of estimates for all tests here, so that a launch that several of them rank is estimated once.

    Compiled code stays where all tests have it.
    """
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate, "cache", SimpleNamespace(**{**vars(estimate.cache), "cache_folder": lambda: folder}))
        yield


@pytest.fixture(scope="module")
def transpose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all tests, so that each variant is compiled once."""
    file = tmp_path_factory.mktemp("kernel") / "transpose.cu"
    file.write_text(TRANSPOSE)
    return file


def ranked(arguments: list[str]) -> Any:
    result = CliRunner().invoke(cli, ["rank", *arguments, "--format", "json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
def test_without_bank_conflicts_a_transpose_is_first_and_the_reason_is_told(transpose: Path) -> None:
    rows = ranked([str(transpose), "--arch", "sm_89", *ALL])["rows"]
    assert [row["place"] for row in rows] == [1, 2, 3, 4]
    assert [row["values"]["PAD"] for row in rows] == [1, 1, 0, 0]
    times = [row["nanoseconds"] for row in rows]
    assert times == sorted(times)
    assert rows[1]["why"] == "no bank conflicts"
    assert rows[0]["excess_wavefronts"] == 0 < rows[3]["excess_wavefronts"]


@pytest.mark.slow
def test_the_estimate_is_the_one_of_a_run(transpose: Path) -> None:
    (row, *_) = ranked([str(transpose), "--arch", "sm_89", *ALL])["rows"]
    arguments = [np.arange(65536, dtype=np.float32), np.zeros(65536, np.float32), 256]
    options = [f"-D{name}={value}" for name, value in row["values"].items()]
    rows = row["values"]["ROWS"]
    trace = gpuemu.trace_kernel(
        transpose, grid=(8, 8), block=(32, rows), args=arguments, arch="sm_89", options=options, timed_only=True
    )
    result = gpuemu.run(trace, "sm_89")
    assert (row["nanoseconds"], row["cycles"]) == (result.grid.nanoseconds, result.cycles)


@pytest.mark.slow
def test_launches_follow_each_other_without_a_profiler_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    """24 MB stay in L2. Of these, 3.9 MB outlast the passes of a profiler, and an H100 reads the rest from DRAM."""
    source = tmp_path / "copy.cu"
    source.write_text(
        'extern "C" __global__ void copy(float *to, const float *from)'
        "{ to[blockIdx.x * 256 + threadIdx.x] = from[blockIdx.x * 256 + threadIdx.x]; }"
    )
    count = 3 << 20
    arrays = [np.zeros(count, np.float32), np.zeros(count, np.float32)]
    one = gpuemu.Configuration(source, grid=count // 256, block=256, args=arrays)
    h100 = gpuemu.load_arch("sm_90").with_overrides({"chip": "H100"})
    profiled = h100.with_overrides({"chips.H100.l2_kept_kibibytes": 3800})
    alone, behind_passes = (gpuemu.rank([one], arch, kept=False, jobs=1).best for arch in (h100, profiled))
    assert alone.nanoseconds < 0.9 * behind_passes.nanoseconds


@pytest.mark.slow
def test_what_is_estimated_once_is_kept(transpose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(transpose), "--arch", "sm_89", *ALL]
    before = ranked(words)

    def refuse(*_: Any) -> None:
        raise AssertionError("estimated again")

    monkeypatch.setattr(estimate, "figures", refuse)
    assert ranked(words) == before
    with pytest.raises(AssertionError, match="estimated again"):
        CliRunner().invoke(cli, ["rank", *words, "--again"], catch_exceptions=False)


@pytest.mark.slow
def test_kernels_find_what_they_found_when_alone(tmp_path: Path) -> None:
    (tmp_path / "count.cu").write_text(
        'extern "C" __global__ void count(int *n) { int m = *n; for (int k = 0; k < m; k++) atomicAdd(n, STEP); }'
    )
    alone, after = (
        ranked([str(tmp_path / "count.cu"), "--vary", f"STEP={steps}", "--arg", "arange:i32:8", "--jobs", "1"])["rows"]
        for steps in ("2", "1,2")
    )
    assert alone[0]["cycles"] in [row["cycles"] for row in after]


@pytest.mark.slow
def test_what_one_resource_alone_makes_slower_than_the_last_wanted_is_not_timed(
    transpose: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []

    def counted(trace: Any, *words: Any) -> Any:
        timed.append(trace.name)
        return replay(trace, *words)

    replay = estimate.replay
    monkeypatch.setattr(estimate, "replay", counted)
    # The fast ones come first: PAD is the slower name.
    words = [str(transpose), "--arch", "sm_89", "--vary", "PAD=1,0", *LAUNCH[2:], *ALL[len(LAUNCH) :], "--again"]
    whole = ranked(words)
    assert (len(timed), whole["refused"]) == (4, [])
    assert all(row["least_nanoseconds"] <= row["nanoseconds"] for row in whole["rows"])
    timed.clear()
    found = ranked([*words, "--top", "1"])
    assert len(timed) == 2
    assert found["rows"][:1] == whole["rows"][:1]
    assert [one["values"]["PAD"] for one in found["refused"]] == [0, 0]
    told = r"needs 2.26 us for its start and the data stage of shared memory and L1 alone; rank 1 takes 1.95 us"
    assert found["refused"][0]["reason"] == told
    # In another order more is timed; the answer is the same.
    timed.clear()
    turned = ranked([*words[:3], "--vary", "PAD=0,1", *words[5:], "--top", "1"])
    assert len(timed) == 4
    assert (turned["rows"], turned["refused"][0]["reason"]) == (found["rows"], told)


TAKES_ALL = [
    "--vary", "KIB=120,200,300", "--dynamic-shared", "1024*KIB", "--arg", "zeros:f32:4", "--jobs", "1",
]  # fmt: skip


@pytest.fixture(scope="module")
def hungry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A kernel that the chips of sm_80 have room for up to 163 KiB, those of sm_89 never, those of sm_90 up to 227."""
    code = 'extern "C" __global__ void k(float *x) { extern __shared__ float s[]; s[0] = 1.0f; *x = s[0]; }'
    file = tmp_path_factory.mktemp("kernel") / "k.cu"
    file.write_text(code)
    return str(file)


@pytest.mark.slow
def test_what_does_not_fit_is_refused_with_the_reason_and_does_not_execute(
    hungry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []
    replay = estimate.replay
    monkeypatch.setattr(estimate, "replay", lambda trace, *words: timed.append(trace.name) or replay(trace, *words))
    found = ranked([hungry, *TAKES_ALL, "--arch", "sm_80", "--again"])
    assert [row["values"]["KIB"] for row in found["rows"]] == [120]
    assert [one["values"]["KIB"] for one in found["refused"]] == [200, 300]
    assert "204800 bytes of static and dynamic shared memory" in found["refused"][0]["reason"]
    assert len(timed) == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_when_every_chip_refuses_every_configuration_the_reasons_are_an_error(form: str, hungry: str) -> None:
    words = ["rank", hungry, *TAKES_ALL, "--arch", "sm_89", "--chip", "RTX 4090", "--chip", "L4", "--format", form]
    found = CliRunner().invoke(cli, words)
    assert (found.exit_code, found.stdout) == (2, "")
    said = found.stderr.splitlines()
    assert said[0] == "error: no configuration runs on RTX 4090 or L4: 3 of 3 refused"
    assert re.fullmatch(r"  KIB=120: .*122880 bytes of static and dynamic shared memory.*", said[1])
    assert len(said) == 4


@pytest.mark.slow
def test_equal_reasons_are_one_line_with_their_number(hungry: str) -> None:
    words = ["rank", hungry, "--vary", "A=1,2", "--vary", "B=1,2,3", "--dynamic-shared", "300000", "--jobs", "1"]
    found = CliRunner().invoke(cli, [*words, "--arg", "zeros:f32:4", "--expect-best", "A=1"])
    assert (found.exit_code, found.stdout) == (2, "")
    said = found.stderr.splitlines()
    assert said[0] == "error: no configuration runs on H200: 6 of 6 refused"
    assert said[1].startswith("  A=1 B=1 and 5 more: ")
    assert len(said) == 2


@pytest.mark.slow
def test_of_many_reasons_those_that_refused_most_are_shown_unless_all_are_wanted(hungry: str) -> None:
    words = [
        "rank",
        hungry,
        "--vary",
        "KIB=300..311",
        "--vary",
        "A=1,2",
        "--dynamic-shared",
        "1024*KIB - 1024*(KIB//311)",
    ]
    words += ["--arg", "zeros:f32:4", "--jobs", "1"]
    few, every = (CliRunner().invoke(cli, [*words, *more]) for more in ([], ["--top", "all"]))
    assert few.stderr.splitlines()[1].startswith("  KIB=310 A=1 and 3 more: ")
    assert few.stderr.splitlines()[-1] == "  2 more for 1 other reason: --top all"
    assert len(few.stderr.splitlines()) == len(every.stderr.splitlines()) == 12
    assert "other reason" not in every.stderr


@pytest.mark.slow
def test_a_chip_that_refuses_every_configuration_is_named_beside_those_that_do_not(hungry: str) -> None:
    words = ["rank", hungry, *TAKES_ALL, "--chip", "RTX 4090", "--chip", "A100", "--format"]
    table, data = (CliRunner().invoke(cli, [*words, form]) for form in ("text", "json"))
    assert (table.exit_code, table.stderr, data.exit_code) == (0, "", 0)
    assert table.stdout.startswith("A100: 1 configuration and 2 refused, fastest first")
    refused = table.stdout[table.stdout.index("no configuration runs on RTX 4090: 3 of 3 refused\n") :].splitlines()
    assert len(refused) == 4
    assert refused[1].startswith("  KIB=120: ")
    heads, row = table.stdout[table.stdout.index("Portability") :].splitlines()[:2]
    assert heads.split("  ")[-2].strip() == "on RTX 4090"
    assert re.fullmatch(r"KIB=120 +does not run +best", row)
    assert [row["chip"] for row in json.loads(data.stdout)["rows"]] == ["A100"]
    assert data.stderr.splitlines()[0] == "no configuration runs on RTX 4090: 3 of 3 refused"
    assert len(data.stderr.splitlines()) == 4
    best = CliRunner().invoke(cli, [*words, "json", "--expect-best", "KIB=120"])
    assert isinstance(best.exception, gpuemu.GpuemuError)  # the best of the first chip, which has none


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_the_table_fits_and_says_what_is_a_tie(columns: int) -> None:
    row = {
        "nanoseconds": 2700.0, "limited_by": "shared-memory data stage", "warps": 48, "waves": 1.333, "registers": 26,
        "shared_bytes": 4224, "notes": [],
    }  # fmt: skip
    rows = tuple(
        RankedRow(
            n, f"PAD={n} ROWS=8", {"PAD": n, "ROWS": 8}, chip, n + 1, row | {"nanoseconds": 2700.0 + 100 * n}, why
        )
        for chip in ("RTX 4090", "H100")
        for n, why in enumerate(("33% fewer warp instructions", "tie", ""))
    )
    text = [line for _, line in lines(Ranking(("RTX 4090", "H100"), rows, ()), columns=columns)]
    assert max(map(len, text)) <= columns
    title = "RTX 4090: 3 configurations, fastest first, all with ROWS=8; estimates, differences under 1% are ties"
    assert " ".join(" ".join(text).split()).startswith(title)
    first = next(line for line in text if line.startswith("1 "))
    assert first.split()[:5] == ["1", "0", "2.70", "us", "-"]
    assert ("4,224" in first) == (columns > 60)
    portability = text[next(n for n, line in enumerate(text) if line.startswith("Portability")) :]
    assert " ".join(portability[-1].split()) == "PAD=0 ROWS=8 best best"


@pytest.mark.slow
def test_chips_are_side_by_side_and_code_for_another_is_refused(transpose: Path) -> None:
    cubin = load_cubin(transpose, "sm_89", options=["-DPAD=1", "-DROWS=8"])
    arguments = [np.zeros(65536, np.float32), np.zeros(65536, np.float32), 256]
    one = gpuemu.Configuration(cubin.content, grid=(8, 8), block=(32, 8), args=arguments, name="padded")
    found = gpuemu.rank([one], chips=["RTX 4090", "RTX 4060 Ti", "H100"], jobs=1)
    assert [row.chip for row in found.rows] == ["RTX 4090", "RTX 4060 Ti"]
    assert found.rows[0].nanoseconds < found.rows[1].nanoseconds
    assert found.refused[0].reason == "code for sm_89, which H100 (sm_90) does not run"
    assert found.best.label == "padded"
    with pytest.raises(gpuemu.GpuemuError, match="no configuration runs on H100"):
        _ = gpuemu.rank([one], chips="H100", jobs=1).best
    text = "\n".join(line for _, line in lines(found))
    assert re.search(r"^Portability +on RTX 4090 +on RTX 4060 Ti +on H100$", text, re.MULTILINE)
    assert re.search(r"^padded +best +best +does not run$", text, re.MULTILINE)


@pytest.mark.slow
def test_two_processes_give_what_one_gives(transpose: Path) -> None:
    words = [str(transpose), "--arch", "sm_89", *ALL[:-2], "--again", "--jobs"]
    assert ranked([*words, "2"]) == ranked([*words, "1"])


@pytest.mark.slow
def test_the_table_says_what_is_the_same_once(transpose: Path) -> None:
    words = [str(transpose), "--arch", "sm_89", "--vary", "ROWS=8", *LAUNCH, "--arg", "256", "--jobs", "1"]
    result = CliRunner().invoke(cli, ["rank", *words])
    assert result.exception is None, result.output
    title, _, *table_lines = result.output.splitlines()
    first = next(line for line in table_lines if line.startswith("1 "))
    heads = " ".join(table_lines[: table_lines.index(first)]).split()
    assert title.startswith(
        "RTX 4060 Ti: 2 configurations, fastest first, all with ROWS=8; estimates, differences under "
    )
    words_of_heads = "PAD Duration Slower by Limited by Warps/SM Waves Regs Shared Advantage over the next"
    assert sorted(heads) == sorted(words_of_heads.split())
    assert first.split()[:2] == ["1", "1"]
    assert first.endswith("no bank conflicts")
    table = CliRunner().invoke(cli, ["rank", *words, "--format", "csv"])
    assert table.output.splitlines()[0].startswith("place,configuration,chip,nanoseconds,cycles,limited_by")
    assert len(table.output.splitlines()) == 3


@pytest.mark.slow
def test_without_arguments_each_pointer_gets_zeros_as_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "add.cu").write_text(
        'extern "C" __global__ void add(float *a, float *b) { b[threadIdx.x] = a[threadIdx.x * STEP]; }'
    )
    words = ["rank", str(tmp_path / "add.cu"), "--vary", "STEP=1,8", "--arch", "sm_89", "--format", "json"]
    zeros = ["--arg", "zeros:u8:1048576"] * 2
    without, given = CliRunner().invoke(cli, words), CliRunner().invoke(cli, [*words, *zeros])
    assert without.stderr == "no --arg: each pointer gets a buffer of 1 MiB of zeros\n"
    assert (without.exit_code, given.exit_code, given.stderr) == (0, 0, "")
    found, wanted = (json.loads(ran.stdout)["rows"] for ran in (without, given))
    assert [{**row, "notes": []} for row in found] == wanted
    (tmp_path / "list.json").write_text(json.dumps([{"path": "add.cu", "options": ["-DSTEP=8"]}]))
    (row,) = ranked([str(tmp_path / "list.json"), "--arch", "sm_89"])["rows"]
    assert row["nanoseconds"] == found[1]["nanoseconds"]


@pytest.mark.slow
def test_a_number_that_nothing_gives_is_refused_as_in_a_run(transpose: Path) -> None:
    found = CliRunner().invoke(cli, ["rank", str(transpose), "--vary", "PAD=0,1", "-D", "ROWS=8", "--arch", "sm_89"])
    assert (found.exit_code, found.stdout) == (2, "")
    assert "--arg: transpose needs 3 arguments, of 8, 8, 4 (i32) bytes. Give one --arg for each" in found.stderr


@pytest.mark.slow
def test_in_ci_another_best_is_exit_code_1(transpose: Path) -> None:
    words = ["rank", str(transpose), "--arch", "sm_89", *ALL]
    assert CliRunner().invoke(cli, [*words, "--expect-best", "PAD=1"]).exit_code == 0
    other = CliRunner().invoke(cli, [*words, "--expect-best", "PAD=0"])
    assert other.exit_code == 1
    assert "the best on RTX 4060 Ti is PAD=1 ROWS=" in other.stderr


@pytest.mark.slow
def test_a_list_of_configurations_in_a_file(transpose: Path) -> None:
    listed = [
        {"path": "transpose.cu", "kernel": "transpose", "grid": [8, 8], "block": [32, rows], "name": f"rows {rows}",
         "options": ["-DPAD=1", f"-DROWS={rows}"], "args": ["zeros:f32:65536", "zeros:f32:65536", "256"]}
        for rows in (8, 16)
    ]  # fmt: skip
    transpose.with_name("list.json").write_text(json.dumps(listed))
    rows = ranked([str(transpose.with_name("list.json")), "--chip", "RTX 4090", "--jobs", "1"])["rows"]
    assert sorted(row["configuration"] for row in rows) == ["rows 16", "rows 8"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["k.py", "--grid", "4"], r"k.py: a Triton program takes no --grid"),
        (["k.cu", "--call", "f()"], r"--call: k.cu is no Triton program"),
        (["k.cubin", "--vary", "TILE=1,2"], r"--vary: machine code has no macros"),
        (["k.cu", "--chip", "RTX 1"], r"--chip: unknown chip 'RTX 1'"),
        (["k.cu", "--vary", "T=1", "--vary", "T=2"], r"--vary: a name is given twice"),
        (["k.cu", "--top", "0"], r"--top: found '0'"),
        (["k.cu", "--vary", "T=1,2", "--grid", "U*4"], r"--grid: unknown name 'U'"),
        (["l.json"], r"l.json: invalid JSON"),
    ],
)
def test_what_is_wrong_as_a_whole_is_said_at_once(words: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["rank", *words])
    assert isinstance(result.exception, gpuemu.GpuemuError)
    assert re.search(message, str(result.exception)), str(result.exception)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([3], "found int"),
        ([{"path": "a", "gird": 1}], "unknown name 'gird'"),
        ([{"grid": 1}], "there is no path"),
        ([], "there is none"),
    ],
)
def test_python_says_what_a_configuration_is(given: Any, message: str) -> None:
    with pytest.raises(gpuemu.GpuemuError, match=message):
        gpuemu.rank(given, "sm_89")


def figures(**changed: Any) -> dict[str, Any]:
    base = {
        "nanoseconds": 1000.0, "cycles": 2000, "spilled_bytes": 0, "excess_wavefronts": 0, "l2_sectors": 1000, "busy_sms": 1.0,
        "global_sectors": 4000, "shared_wavefronts": 500, "instructions": 9000, "warps": 16, "resident_ctas": 2,
        "stalls": {"long_scoreboard": 0.5, "selected": 0.5},
    }  # fmt: skip
    return base | changed


@pytest.mark.parametrize(
    ("slower", "told"),
    [
        ({"nanoseconds": 1005.0}, "tie"),
        ({"l2_sectors": 2000}, "50% fewer sectors from L2"),
        ({"warps": 8}, "16 warps per SM instead of 8"),
        ({"excess_wavefronts": 300}, "no bank conflicts"),
        ({"busy_sms": 0.5}, "SMs busy 100% of the time instead of 50%"),
        ({"cycles": 4000}, "less long_scoreboard"),
        ({"resident_ctas": 8}, "its CTAs overlap better"),
    ],
)
def test_a_reason_is_the_figure_that_goes_with_the_time(slower: dict[str, Any], told: str) -> None:
    assert reason(figures(), figures(**{"nanoseconds": 1800.0} | slower)) == told
