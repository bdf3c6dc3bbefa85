"""Triton programs on an emulated device. Some of these need torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from click.testing import CliRunner
from triton.language.extra.cuda import globaltimer

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.views.clocks import SavedClocks


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def sums(x, out, rows, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if EVEN:  # noqa: SIM108
        values = tl.load(x + row * columns + i)
    else:
        values = tl.load(x + row * columns + i, mask=i < columns, other=0)
    tl.store(out + row, tl.sum(values, axis=0))


@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        total += tl.dot(tl.load(a + m[:, None] * K + kk[None, :]), tl.load(b + kk[:, None] * BN + n[None, :]))
    tl.store(c + m[:, None] * BN + n[None, :], total)


@triton.jit
def timed(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    from_ = globaltimer()
    values = tl.load(x + i)
    tl.store(x + i, values + 1)
    tl.debug_barrier()
    tl.store(out, globaltimer() - from_)


@triton.jit
def copy(source, target, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    target.store([m, 0], source.load([m, 0]))


@triton.jit
def copy_by_own_descriptor(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    target.store([m, 0], source.load([m, 0]))


def grid_of(n: int) -> Any:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "chip"), [("sm_89", "RTX 4090"), ("sm_90", "H100"), ("sm_80", None)])
def test_arrays_are_changed_as_a_gpu_would_and_the_launch_is_timed(arch: str, chip: str | None) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = np.zeros(1000, np.float32)
    with gpuemu.triton.device(arch, chip=chip) as gpu:
        compiled = add[grid_of(1000)](x, y, out, 1000, BLOCK=256)
    assert np.array_equal(out, x + y)
    (launch,) = gpu.launches
    assert (launch.kernel, launch.grid, launch.block) == ("add", (4, 1, 1), (128, 1, 1))
    assert compiled.n_regs == launch.registers > 0
    assert launch.result.cycles == launch.cycles
    assert launch.nanoseconds == gpu.nanoseconds == launch.result.grid.nanoseconds


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_a_program_of_two_ctas_is_a_cluster(arch: str) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = np.zeros(1000, np.float32)
    with gpuemu.triton.device(arch) as gpu:
        add[grid_of(1000)](x, y, out, 1000, BLOCK=256, num_ctas=2)
    assert np.array_equal(out, x + y)
    assert gpu.launches[0].grid == (8, 1, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_descriptor_has_the_type_of_its_elements(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(64 * 64, dtype=getattr(torch, dtype)).reshape(64, 64)
    target = torch.zeros_like(source)
    from triton.tools.tensor_descriptor import TensorDescriptor

    with gpuemu.triton.device("sm_90"):
        maps = [TensorDescriptor.from_tensor(one, [32, 64]) for one in (source, target)]
        copy[(2,)](*maps, BM=32, BN=64)
    assert torch.equal(source, target)


def test_a_kernel_that_reads_the_timer_saves_emulated_nanoseconds() -> None:
    x, out = np.zeros(256, np.int32), np.zeros(1, np.int64)
    with gpuemu.triton.device("sm_90", chip="H100") as gpu:
        timed[(1,)](x, out, BLOCK=256)
    assert (x == 1).all()  # and not 2: the second execution starts from what was there
    result = gpu.launches[0].result
    assert result.clocks == SavedClocks("", "", ())
    reads = np.array([i.reads_time for i in result.trace.code])[result.program.path]
    first, last = result.log.issue[reads][:2].tolist()
    mhz = result.arch.chips["H100"].clock_mhz
    assert last - first > 200  # cycles of a load from L2
    assert out[0] == last * 1000 // mhz - first * 1000 // mhz


def test_a_result_has_the_lines_of_the_python_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # what lies in the own one may name another checkout
    x = np.ones(256, np.float32)
    with gpuemu.triton.device("sm_89") as gpu:
        add[(1,)](x, x, np.zeros(256, np.float32), 256, BLOCK=256)
    result = gpu.launches[0].result
    assert [Path(path).name for path in result.trace.source_paths.values()] == ["test_device.py"]
    assert any("tl.store(out + i, tl.load(x + i" in str(row["Source"]) for row in result.records("lines"))


def test_a_constexpr_changes_what_is_compiled_and_heuristics_set_it() -> None:
    chosen = triton.heuristics({"EVEN": lambda args: args["columns"] == args["BLOCK"]})(sums)
    with gpuemu.triton.device("sm_89", timed=False) as gpu:
        for columns in (64, 50):
            x, out = np.ones((3, columns), np.float32), np.zeros(3, np.float32)
            chosen[(3,)](x, out, 3, columns, BLOCK=64)
            assert np.array_equal(out, np.full(3, columns, np.float32))
    assert gpu.launches[0].cubin.content != gpu.launches[1].cubin.content
    assert gpu.launches[0].cycles is None


def test_do_bench_answers_with_emulated_time_and_flushed_caches() -> None:
    x, out = np.ones(8192, np.float32), np.zeros(8192, np.float32)
    with gpuemu.triton.device("sm_90", chip="H100") as gpu:
        warm = add[grid_of(8192)]
        warm(x, x, out, 8192, BLOCK=1024)
        found = triton.testing.do_bench(lambda: warm(x, x, out, 8192, BLOCK=1024))
        assert triton.testing.do_bench(lambda: warm(x, x, out, 8192, BLOCK=1024), quantiles=[0.5, 0.2]) == [found] * 2
        assert np.isnan(triton.testing.do_bench(lambda: None))
    assert found * 1e6 == pytest.approx(gpu.launches[-1].nanoseconds)
    assert found * 1e6 > gpu.launches[0].nanoseconds


@pytest.mark.slow
def test_autotune_picks_what_is_fastest_here() -> None:
    configurations = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 1), (2048, 4))]
    tuned = triton.autotune(configurations, key=["n"])(add)
    x, out = np.ones(1 << 17, np.float32), np.zeros(1 << 17, np.float32)
    with gpuemu.triton.device("sm_90", chip="H100") as gpu:
        tuned[grid_of(1 << 17)](x, x, out, 1 << 17)
    times = {launch.grid[0]: launch.nanoseconds for launch in gpu.launches if launch.timed_only}
    assert tuned.best_config.kwargs["BLOCK"] == (1 << 17) // min(times, key=times.__getitem__)
    assert np.array_equal(out, x + x)


@pytest.mark.slow
def test_a_configuration_that_does_not_fit_is_left_out_by_autotune() -> None:
    configurations = [
        triton.Config({"BM": 64, "BN": 64, "BK": bk}, num_stages=stages) for bk, stages in ((32, 2), (128, 8))
    ]
    tuned = triton.autotune(configurations, key=["K"])(product)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 2048), (2048, 64)))
    c = np.zeros((64, 64), np.float32)
    with gpuemu.triton.device("sm_89"):
        tuned[(1,)](a, b, c, 2048)
    assert tuned.best_config.kwargs["BK"] == 32
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-2)


def test_hooks_and_warmup_work() -> None:
    told: list[str] = []
    x = np.ones(32, np.float32)
    with gpuemu.triton.device("sm_89") as gpu:
        compiled = add.warmup(x, x, x, 32, BLOCK=32, grid=(1,))
        assert compiled.asm["cubin"][:4] == b"\x7fELF"
        assert gpu.launches == []
        hooks = triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook
        for hook, word in zip(hooks, ("enter", "leave"), strict=True):
            hook.add(lambda metadata, word=word: told.append(f"{word} {metadata.get()['name']}"))
        try:
            add[(1,)](x, x, np.zeros(32, np.float32), 32, BLOCK=32)
        finally:
            for hook in hooks:
                hook.calls.clear()
    assert told == ["enter add", "leave add"]


def test_the_driver_before_is_back_afterwards() -> None:
    before, run = triton.runtime.driver._active, triton.runtime.jit.JITFunction.run
    with pytest.raises(ZeroDivisionError), gpuemu.triton.device("sm_89"):
        _ = 1 / 0
    assert triton.runtime.driver._active is before
    assert triton.runtime.jit.JITFunction.run is run


@pytest.mark.parametrize("arch", ["sm_89", "sm_90"])
def test_descriptors_of_the_host_and_of_the_device(arch: str) -> None:
    torch = pytest.importorskip("torch")
    from triton.tools.tensor_descriptor import TensorDescriptor

    with gpuemu.triton.device(arch):
        x = torch.arange(64 * 64, dtype=torch.float32, device="cuda").reshape(64, 64).half()
        out, again = torch.zeros_like(x), torch.zeros_like(x)
        source, target = (TensorDescriptor.from_tensor(one, [32, 64]) for one in (x, out))
        copy[(2,)](source, target, BM=32, BN=64)
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        copy_by_own_descriptor[(2,)](x, again, 64, 64, BM=32, BN=64)
        assert torch.equal(out, x)
        assert torch.equal(again, x)


def test_views_of_tensors_and_torchs_words_for_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    with gpuemu.triton.device("sm_89", chip="RTX 4090"):
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (8, 9)
        x = torch.rand(100).to("cuda").cuda()
        assert x.is_cuda
        out = torch.zeros(100, device=torch.device("cuda"))
        add[(1,)](x[10:], x[20:], out[5:], 50, BLOCK=64)
        assert torch.equal(out[5:55], x[10:60] + x[20:70])
        assert not out[55:].any()
    assert not x.is_cuda


def test_an_access_outside_of_a_tensor_names_the_line() -> None:
    x = np.ones(100, np.float32)
    with (
        gpuemu.triton.device("sm_89"),
        pytest.raises(gpuemu.GpuemuError, match=r"test_device.py:\d+: add at .* past the end"),
    ):
        add[(1,)](x, x, np.zeros(100, np.float32), 128, BLOCK=128)


def test_a_device_that_checks_keeps_the_findings() -> None:
    x = np.ones(128, np.float32)
    with gpuemu.triton.device("sm_89", checked=True) as gpu:
        add[(1,)](x, x, np.zeros(128, np.float32), 128, BLOCK=128)
        add[(2,)](x, x, x, 64, BLOCK=64)
        assert gpu.launches[0].findings == ()


PROGRAM = """
import sys
import numpy as np
import triton, triton.language as tl

@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
twice[(1,)](x, out, 100, BLOCK=128)
print(sys.argv[1:], out.sum(), __name__)
"""


def test_the_command_runs_a_program_and_lists_its_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))  # Triton's own does not tell files by their folders
    script = tmp_path / "twice.py"
    script.write_text(PROGRAM)
    written, page = tmp_path / "launches.json", tmp_path / "twice.html"
    words = ["triton", "--arch", "sm_89", "--json", str(written), "--html", str(page), str(script), "--n", "3"]
    result = CliRunner().invoke(cli, words)
    assert result.exception is None, result.exception
    assert "['--n', '3'] 200.0 __main__\n" in result.output
    assert result.stderr.splitlines()[1].startswith("twice   1x1x1")
    assert json.loads(written.read_text())[0]["kernel"] == "twice"
    assert "2 * tl.load(x + i" in page.read_text()
