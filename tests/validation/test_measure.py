"""Measuring, on a CuPy that launches on the emulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fake_cupy
import numpy as np
import pytest
from tiny import compiled, kernels_named

import gpuemu
from validation import measure, profiler, records
from validation.__main__ import main
from validation.corpus.kernel import OUTPUT_WORDS, RECORDS, WORKING_WORD, input_words
from validation.measure import MeasureError

NAMES = (
    "lat_ffma_16",
    "queue_ldsm4_w2",
    "rate_lds32_c1_w2_on_0",
    "resident_lds128_w1_x2",
    "tile_plain_resident_k32_n2_w1",
)


@pytest.fixture
def with_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(measure, "LAUNCHES", 2)
    monkeypatch.setattr(measure, "TOGETHER_LAUNCHES", 2)
    monkeypatch.setattr(measure, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(profiler, "find_ncu", lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("with_cupy")
def test_every_kernel_is_recorded_with_the_clocks_of_its_warps(tmp_path: Path) -> None:
    kernels = kernels_named(*NAMES)
    code = tmp_path / "code"
    code.mkdir()
    (code / "unit_000.cubin").write_bytes(compiled(kernels, tmp_path))
    (code / "units.json").write_text(json.dumps({"arch": "sm_90", "compiler": "c", "units": [list(NAMES)]}))
    said: list[str] = []
    output = measure.measure(code, tmp_path / "out", said.append)
    found = {m.name: m for m in records.read_measurements(output / records.MEASUREMENTS_FILE)}
    assert list(found) == list(NAMES)
    for kernel in kernels:
        m = found[kernel.name]
        assert len(m.clocks) == kernel.ctas * len(kernel.active or range(kernel.warps))
        assert all(len(warp) == kernel.reads for warp in m.clocks)
        assert m.cycles_min == max(warp[-1] for warp in m.clocks) > 0
        assert min(warp[0] for warp in m.clocks) == 0
    device = records.read_device(output / records.DEVICE_FILE)
    assert (device["name"], device["arch"], device["launches"]) == ("NVIDIA Fake 1", "sm_90", 2)
    assert records.read_code(output / records.CODE_FILE) == [(code / "unit_000.cubin").read_bytes()]
    assert "no profiler (ncu) here: counters are not recorded" in said


@pytest.mark.usefixtures("with_cupy")
def test_code_for_another_chip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "units.json").write_text(json.dumps({"arch": "sm_80", "compiler": "c", "units": []}))
    with pytest.raises(MeasureError, match="holds code for sm_80, and this GPU runs sm_90"):
        measure.measure(tmp_path, tmp_path / "out", lambda line: None)


def test_without_cupy_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MeasureError, match="pip install cupy-cuda13x"):
        measure.cupy()


def test_clocks_count_from_the_first_even_across_a_wrap() -> None:
    clocks = np.array([[0xFFFFFFF0, 0x10], [0xFFFFFFF8, 0x20]], dtype=np.uint32)
    assert measure.from_zero(clocks).tolist() == [[0, 32], [8, 48]]


def test_the_folder_is_named_after_the_gpu() -> None:
    assert measure.folder_name("NVIDIA H200") == "h200"
    assert measure.folder_name("NVIDIA GeForce RTX 4060 Ti") == "geforce_rtx_4060_ti"


def test_the_input_is_what_its_formula_says() -> None:
    words = input_words(0x7FFF)
    assert words[5] == (5 * 2654435761 % 2**32) >> 20
    assert (words.max(), words[-1], words[-2]) == (0x7FFF, 0x7FFF, 0)
    assert input_words()[-1] == 0


def test_counters_are_read_from_the_profiler_s_page() -> None:
    ld, inst = profiler.METRICS[0], profiler.METRICS[4]
    page = (
        "==PROF== Connected to process 1\n"
        f'"ID","Process ID","Kernel Name","{ld}","{inst}"\n'
        '"","","","",""\n'
        '"0","7","lat_ffma_16(unsigned int *, const unsigned int *, int)","1,024","330"\n'
        '"1","7","thr_ffma_w1","0","n/a"\n'
    )
    assert profiler.parse(page) == {"lat_ffma_16": {ld: 1024, inst: 330}, "thr_ffma_w1": {ld: 0}}


def test_an_architecture_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["build", "--arch", "sm_9x", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: 'sm_9x' is no architecture, expected one such as sm_90\n"


@pytest.mark.slow
@pytest.mark.parametrize(("working", "recorded"), [(0, True), (1, True), (2, False)])
def test_only_the_ctas_of_the_sm_that_is_to_work_go_on(tmp_path: Path, working: int, recorded: bool) -> None:
    """So that what runs on other SMs does not meet them in L2; the emulated CTAs are on SM 0."""
    (kernel,) = kernels_named("resident_lds128_w1_x2")
    cubin = tmp_path / "unit.cubin"
    cubin.write_bytes(compiled([kernel], tmp_path))
    out = np.zeros(OUTPUT_WORDS, dtype=np.uint32)
    gpuemu.trace_kernel(
        cubin, kernel=kernel.name, grid=(2, 1, 1), block=(32, 1, 1), dynamic_shared_bytes=kernel.shared_bytes,
        args=[out, input_words(working=working), 1],
    )  # fmt: skip
    assert out[RECORDS : RECORDS + 2 * kernel.reads].all() == recorded
    assert out[RECORDS : RECORDS + 2 * kernel.reads].any() == recorded


@pytest.mark.slow
@pytest.mark.usefixtures("with_cupy")
def test_another_sm_works_in_each_launch(tmp_path: Path) -> None:
    (kernel,) = kernels_named("resident_lds128_w1_x2")
    (tmp_path / "unit_000.cubin").write_bytes(compiled([kernel], tmp_path))
    runner = measure.Runner(fake_cupy, tmp_path)
    runner.multiprocessors = 3
    working = []
    for _ in range(4):
        runner.launch(runner.function(0, kernel), kernel)
        working.append(int(runner.together[WORKING_WORD]))
    assert working == [1, 2, 3, 1]
