"""Python takes names and paths wherever it takes the thing itself, and says what it cannot take."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import brief

import gpuemu
from gpuemu.arch.files import by_name

ROOT = Path(__file__).resolve().parents[1]
ARCHS = ["sm_89", str(ROOT / "configs" / "sm_89.yaml"), ROOT / "configs" / "sm_89.yaml", gpuemu.load_arch("sm_89")]
KERNELS = ROOT / "traces" / "src" / "virtual_threads.cu"


def refused(call: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        call(*args, **named)
    return "\n".join(brief(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS, ids=["name", "text", "path", "itself"])
def test_an_architecture_is_taken_by_name_by_path_and_itself(arch: Any) -> None:
    cycles = gpuemu.run(gpuemu.load_trace("v5_swizzle"), gpuemu.load_arch("sm_89")).cycles
    assert gpuemu.run("v5_swizzle", arch).cycles == cycles
    assert gpuemu.search(arch, "32x32:f32", ["copy-in:32"]).lower_bound == 32
    assert gpuemu.shared_access(arch, "LDS.32", [128 * lane for lane in range(32)]).wavefronts == 32
    ones = np.full((4, 32), 0x3C003C00, np.uint32)
    d = gpuemu.mma(arch, "m16n8k16.f32.f16", ones, ones[:2], np.zeros((4, 32), np.uint32))
    assert (d.view(np.float32) == 16).all()
    (record,) = gpuemu.sweep("v5_swizzle", arch=arch)
    assert record["cycles"] == cycles
    arguments = [np.ones(512, np.float32), np.zeros(2, np.float32)]
    trace = gpuemu.trace_kernel(KERNELS, "reduction_plain", grid=2, block=256, args=arguments, arch=arch)
    assert (trace.arch, trace.launch.grid, trace.launch.block) == ("sm_89", (2, 1, 1), (256, 1, 1))
    assert arguments[1].tolist() == [256, 256]


def test_a_trace_is_taken_by_name_by_path_and_itself_and_runs_on_what_its_code_is_for() -> None:
    path = ROOT / "traces" / "v5_swizzle.yaml"
    trace = gpuemu.load_trace("v5_swizzle", arch=gpuemu.load_arch("sm_80"))
    assert trace.arch == "sm_80"
    assert gpuemu.run("v5_swizzle", "sm_80").cycles == gpuemu.run(trace).cycles
    itself = gpuemu.run(gpuemu.load_trace(path), gpuemu.load_arch("sm_89"))
    assert gpuemu.run(path).cycles == gpuemu.run(str(path), "sm_89").cycles == itself.cycles


def test_what_is_neither_is_refused_with_what_would_be_right() -> None:
    assert refused(gpuemu.run, 7, "sm_89") == ("run(): trace: 7")
    assert refused(gpuemu.run, "v5_swizzle", 7) == ("run(): arch: 7")
    for grid in (0, (1, 2, 3, 4), 1.5, (), True):
        assert refused(gpuemu.trace_kernel, KERNELS, "reduction_plain", grid=grid) == (
            f"trace_kernel(): grid: {grid!r}"
        )


def test_a_function_that_takes_names_keeps_its_own_and_its_words() -> None:
    def of(arch: Any, more: int = 0) -> tuple[str, int]:
        """What it says."""
        return arch.name, more

    named = by_name(of)
    assert (named.__name__, named.__doc__) == ("of", "What it says.")
    assert named("sm_80", more=2) == ("sm_80", 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "k.ptx",
            "PTX is not a trace",
        ),
        ("k.cuh", "a CUDA source is not a trace"),
        ("k.cu", "a CUDA source is not a trace"),
        ("here", "this is a folder"),
        ("away.yaml", "no such file"),
        ("away.bin", "no such file"),
        ("v5_swizle", "no trace of that name"),
    ],
)
def test_what_is_no_trace_is_told_by_what_it_is(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    for present in ("k.ptx", "k.cu"):
        Path(present).write_text(".version 8.0")
    assert refused(gpuemu.run, name, "sm_89") == f"{name}: {message}"


def test_what_is_public_is_in_dir_and_nothing_else() -> None:
    assert set(gpuemu.__all__) | {"__version__", "triton"} == set(dir(gpuemu))
    assert all(getattr(gpuemu, name) is not None for name in gpuemu.__all__)


def test_rows_of_tables_are_found_by_the_profilers_words() -> None:
    result = gpuemu.run("v2_shared_memory", "sm_89")
    assert result.shared_memory["Shared Load Matrix"].bank_conflicts == 8
    assert result.global_memory["Global Load"].sectors == 32


@pytest.mark.slow
def test_grids_and_blocks_have_one_shape_everywhere() -> None:
    for block in (64, (64,), (64, 1), (64, 1, 1)):
        builder = gpuemu.TraceBuilder("k", arch="sm_89", grid=2, block=block)
        builder.emit("EXIT")
        assert builder.build().launch.block == (64, 1, 1)
        args = [np.ones(64, np.float32), np.zeros(1, np.float32)]
        report = gpuemu.check(KERNELS, "reduction_plain", (1, 1), block, args=args, tools=["synccheck"])
        assert (report.grid, report.block) == ((1, 1, 1), (64, 1, 1))


def test_variants_of_an_architecture_are_told_apart() -> None:
    wide = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": 64})
    named = wide.with_overrides({}, name="wide")
    records = gpuemu.sweep("v5_swizzle", arch=["sm_89", wide, named])
    labels = ["sm_89", "sm_89 with shared_memory.banks=64", "wide with shared_memory.banks=64"]
    assert [record["arch"] for record in records] == labels
    assert gpuemu.run("v5_swizzle", named).arch.name == "wide"


def test_type_checkers_see_the_parameters_of_what_takes_an_architecture_by_name() -> None:
    assert all("Concatenate[" in told and ", P]" in told for told in by_name.__annotations__.values())
    assert list(inspect.signature(gpuemu.search).parameters)[:3] == ["arch", "tile", "accesses"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: gpuemu.load_arch(3),
        lambda: gpuemu.load_trace(3),
        lambda: gpuemu.run(3),
        lambda: gpuemu.check(3),
        lambda: gpuemu.why(3),
        lambda: gpuemu.trace_kernel(3),
        lambda: gpuemu.judge(3, "problem.py"),
        lambda: gpuemu.rank(3),
        lambda: gpuemu.sweep(3),
        lambda: gpuemu.run("v5_swizzle").to_html(3),
    ],
    ids=["load_arch", "load_trace", "run", "check", "why", "trace_kernel", "judge", "rank", "sweep", "to_html"],
)
def test_what_is_no_path_is_an_error_of_the_family(call: Any) -> None:
    assert "3" in refused(call)


def test_a_launch_beside_a_trace_that_has_its_own_is_refused() -> None:
    assert gpuemu.check("v5_swizzle", grid=(1, 1)).grid == (1, 1, 1)
    assert "grid: 4" in refused(gpuemu.check, "v5_swizzle", grid=4)
    assert "block: 64" in refused(gpuemu.check, "v5_swizzle", block=64)
    assert "a trace takes no arguments" in refused(gpuemu.check, "v5_swizzle", args=[1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: gpuemu.empty("x"),
        lambda: gpuemu.empty(-1),
        lambda: gpuemu.empty(4, "f32"),
        lambda: gpuemu.TensorMap(3, (8,)),
        lambda: gpuemu.TensorMap(np.zeros(64, np.float32), 8),
        lambda: gpuemu.TensorMap(np.zeros(64, np.float32), "8"),
        lambda: gpuemu.search("sm_89", 16, []),
        lambda: gpuemu.search("sm_89", "16x16:f16", [3]),
        lambda: gpuemu.shared_access("sm_89", 32, range(0, 128, 4)),
        lambda: gpuemu.load_arch("sm_89").with_overrides(3),
    ],
)
def test_a_value_of_another_kind_is_an_error_of_the_family(call: Any) -> None:
    assert refused(call)
