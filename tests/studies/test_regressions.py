"""`gpuemu diff` of two folders of cubins: cycles and the cause of each difference, as a gate for a compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.sass.tools.disassembly import load_cubin

pytestmark = pytest.mark.slow
SOURCE = """
extern "C" __global__ void spill(float *out, const float *in, int n)
{
    float v[64];
    for (int k = 0; k < 64; k++)
        v[k] = in[threadIdx.x + k * n];
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 64; k++)
            v[k] = v[k] * v[(k + 7) % 64] + r;
    float s = 0;
    for (int k = 0; k < 64; k++)
        s += v[k];
    out[threadIdx.x] = s;
}
extern "C" __global__ void turn(float *out, const float *in)
{
    __shared__ float t[32][32 + PAD];
    t[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void strided(float *out, const float *in) { out[threadIdx.x] = in[threadIdx.x * STRIDE]; }
extern "C" __global__ void longer(float *out, const float *in)
{
    float x = in[threadIdx.x];
    for (int k = 0; k < STEPS; k++)
        x = __sinf(x);
    out[threadIdx.x] = x;
}
extern "C" __global__ void same(float *out) { out[threadIdx.x] = 1; }
extern "C" __global__ void counted(float *out, int n) { out[threadIdx.x + n * STRIDE] = n; }
"""
BEFORE, AFTER = ["-DPAD=1", "-DSTRIDE=1", "-DSTEPS=8"], ["-DPAD=0", "-DSTRIDE=8", "-DSTEPS=16", "--maxrregcount=32"]
LAUNCHES = [
    {"path": "*.cubin", "kernel": "spill", "block": 128, "args": ["zeros:f32:4096", "random:f32:16384", "128"]},
    {"path": "*.cubin", "kernel": "turn", "block": [32, 32], "args": ["zeros:f32:1024", "random:f32:1024"]},
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Cubins before and after a change; one exists only after it."""
    root = tmp_path_factory.mktemp("cubins")
    (root / "k.cu").write_text(SOURCE)
    found = root / "a", root / "b"
    for folder, options in zip(found, (BEFORE, AFTER), strict=True):
        folder.mkdir()
        (folder / "k.cubin").write_bytes(load_cubin(root / "k.cu", "sm_89", options=options).content)
    (found[1] / "new.cubin").write_bytes((found[1] / "k.cubin").read_bytes())
    (found[0] / "launches.json").write_text(json.dumps(LAUNCHES))
    return found


def diff(folders: tuple[Path, Path], *words: str) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, folders), "--jobs", "1", *words])


def test_each_cause_is_named_with_its_line(folders: tuple[Path, Path]) -> None:
    done = diff(folders, "--format", "json", "--allow", "cycles=2%")
    told = json.loads(done.stdout)
    found = {one["kernel"]: one for one in told["kernels"] if one["file"] == "k.cubin"}
    assert {name: one["cause"] for name, one in found.items()} == {
        "spill": "spills at k.cu:9", "turn": "bank conflicts at k.cu:20",
        "strided": "uncoalesced accesses at k.cu:22", "longer": "more instructions at k.cu:27",
        "same": "", "counted": "",
    }  # fmt: skip
    assert found["spill"]["change"] > 0.5
    assert found["spill"]["b"]["spill_instructions"] > found["spill"]["a"]["spill_instructions"] == 0
    assert {name: one["kind"] for name, one in found.items() if one["kind"] != "timed"} == {
        "same": "equal",
        "counted": "code",
    }
    assert sum(one["kind"] == "added" for one in told["kernels"]) == 6
    assert done.exit_code == 1
    assert len(told["failed"]) == 4
    assert any(one.startswith("k.cubin: spill: cycles ") and "spills at k.cu:9" in one for one in told["failed"])


def test_a_comparison_by_the_code_says_why(folders: tuple[Path, Path]) -> None:
    table = " ".join(diff(folders).stdout.split())
    assert "compared by the code" in table
    assert "needs 2 arguments" in table


def test_the_way_back_is_faster_and_passes(folders: tuple[Path, Path]) -> None:
    done = diff((folders[1], folders[0]), "--allow", "registers=100%", "--format", "github")
    assert done.exit_code == 1  # a cubin is missing
    assert "fewer spills at k.cu:9" in done.stdout
    assert "fewer bank conflicts at k.cu:20" in done.stdout
    assert "failed" in done.stdout.splitlines()[0]


def test_equal_folders_have_no_rows(folders: tuple[Path, Path]) -> None:
    done = diff((folders[0], folders[0]), "--allow", "cycles=0")
    assert (done.exit_code, done.stdout) == (0, "6 kernels: 6 with equal code\n")


def test_two_runs_and_two_processes_give_the_same_bytes(folders: tuple[Path, Path]) -> None:
    assert diff(folders).stdout == diff(folders, "--jobs", "2").stdout


def test_wrong_input_has_a_message(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "no_list.json").write_text("3")
    for words, told in (
        (("--launches", str(tmp_path / "no_list.json")), "no list of launches"),
        (("--launches", str(tmp_path / "none.json")), "no such file"),
        (("--allow", "nothing=3"), "'nothing'"),
    ):
        done = diff(folders, *words)
        assert isinstance(done.exception, GpuemuError)
        assert told in str(done.exception)
    with pytest.raises(GpuemuError, match="no cubins"):
        CliRunner().invoke(cli, ["diff", str(tmp_path), str(tmp_path)], catch_exceptions=False)
