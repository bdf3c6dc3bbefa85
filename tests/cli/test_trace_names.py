"""`gpuemu trace --name`: numbers of the layout of one's own kernel get names, and sweep varies them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.cli.naming import NameOption

KERNEL = """
#ifndef PITCH
#define PITCH 32
#endif
#ifndef MASK
#define MASK 7
#endif
extern "C" __global__ void columns(float* out) {
    __shared__ float tile[32 * PITCH];
    const int t = threadIdx.x;
    for (int i = 0; i < 32; ++i) tile[i * PITCH + t] = i + t;
    __syncthreads();
    float sum = 0;
#pragma unroll 1  // else rows of whole vectors are read as vectors
    for (int i = 0; i < 32; ++i) sum += tile[t * PITCH + i];
    out[t] = sum;
}
extern "C" __global__ void at_run_time(float* out, int pitch) {
    extern __shared__ float tile[];
    const int t = threadIdx.x;
    tile[t * pitch] = t;
    __syncthreads();
    out[t] = tile[t * pitch + 1 - 1];
}
extern "C" __global__ void rows(float* out) {
    __shared__ __align__(128) float4 tile[256];
    const int t = threadIdx.x;
    for (int i = 0; i < 8; ++i) tile[(8 * t + i) ^ (t & MASK)] = make_float4(t, i, 0, 0);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 8; ++i) {
        const float4 v = tile[(8 * t + i) ^ (t & MASK)];
        sum += v.x + v.y + v.z + v.w;
    }
    out[t] = sum;
}
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(KERNEL, encoding="utf-8")
    return "k.cu"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments], catch_exceptions=True)


def excess(layout: str) -> dict[int, int]:
    ran = invoke("sweep", "t.yaml", "--vary", layout, "--format", "json")
    assert ran.exit_code == 0, ran.output
    name = layout.partition("=")[0]
    return {r[name]: r["excess_wavefronts"] for r in json.loads(ran.stdout)}


@pytest.mark.slow
def test_a_macro_names_a_pitch_which_sweep_varies(kernel: str) -> None:
    ran = invoke("trace", kernel, "--kernel", "columns", "--name", "pitch=PITCH:33,35,40", "-o", "t.yaml")
    assert ran.exit_code == 0, ran.output
    assert "layout.pitch = 33" in ran.stderr
    found = excess("layout.pitch=32..36..1")
    assert found[33] == found[35] == 0
    assert found[32] == 32 * 31
    plain = invoke("trace", kernel, "--kernel", "columns", "-o", "plain.yaml")
    assert plain.exit_code == 0
    there = json.loads(invoke("run", "plain.yaml", "--format", "json").stdout)
    assert sum(row["bank_conflicts"] for row in there["shared_memory"]) == found[32]


@pytest.mark.slow
def test_an_argument_names_a_pitch_and_sizes_go_with_it(kernel: str) -> None:
    ran = invoke(
        "trace", kernel, "--kernel", "at_run_time", "--arg", "zeros:f32:32", "--arg", "33",
        "--name", "pitch=1:33/4224,34/4352,40/5120", "-o", "t.yaml",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    text = Path("t.yaml").read_text(encoding="utf-8")
    assert "layout: {pitch: 33}" in text
    assert "dynamic_shared_bytes: 128*pitch" in text
    assert excess("layout.pitch=32,33") == {32: 62, 33: 0}


@pytest.mark.slow
def test_a_swizzle_is_found_from_a_recording_without_it(kernel: str) -> None:
    ran = invoke("trace", kernel, "--kernel", "rows", "--name", "swizzle=MASK:0", "-o", "t.yaml")
    assert ran.exit_code == 0, ran.output
    assert "layout: {bits: 3, base: 4, shift: 3}" in Path("t.yaml").read_text(encoding="utf-8")
    found = excess("layout.bits=0..3..1")
    assert found[3] == 0
    assert found[0] > found[1] > found[2] > 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pitch", "'pitch', expected NAME=MACRO:VALUES with three"),
        ("pitch=PITCH:24,40", "'pitch=PITCH:24,40', expected NAME=MACRO:VALUES with three"),
        ("pitch=PITCH:24,40,40", "NAME=MACRO:VALUES with three"),
        ("pitch=PITCH:24,x,40", "NAME=MACRO:VALUES with three"),
        ("swizzle=BITS:0,1", "NAME=MACRO:VALUES with three"),
    ],
)
def test_other_forms_are_refused(text: str, found: str) -> None:
    with pytest.raises(GpuemuError, match="NAME=MACRO:VALUES") as refused:
        NameOption.parse(text)
    assert found in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pitch=3:33,34,35", "there is no argument 3: --arg gives 0"),
        ("swizzle=PITCH:32", "the same shared addresses in both recordings"),
    ],
)
def test_what_has_no_rule_is_refused(kernel: str, name: str, found: str) -> None:
    ran = invoke("trace", kernel, "--kernel", "columns", "--name", name, "-o", "t.yaml")
    assert isinstance(ran.exception, GpuemuError)
    assert found in str(ran.exception)
    assert not Path("t.yaml").exists()
