"""`gpuemu trace`, and `gpuemu run` on machine code, as a person uses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import forked
import numpy as np
import pytest

import gpuemu
from gpuemu.cli.kernel_arguments import parse_argument, parse_arguments
from gpuemu.cli.launching import ExtentOption
from gpuemu.sass.tools.disassembly import load_cubin

SOURCES = Path(__file__).resolve().parents[2] / "traces" / "src"


@pytest.mark.slow
def test_a_source_becomes_a_trace_that_runs(tmp_path: Path) -> None:
    source = str(SOURCES / "v5_swizzle.cu")
    done = forked.gpuemu(
        "trace", source, "--kernel", "v5_swizzle", "--arch", "sm_89", "--block", "32", "-o", "v5.yaml", cwd=tmp_path
    )
    assert (done.status, done.errors) == (0, "no --arg: each pointer gets a buffer of 1 MiB of zeros\n")
    assert done.output == "v5.yaml: v5_swizzle, 54 warp instructions of 1 warp\n"
    recorded = gpuemu.run(gpuemu.load_trace(tmp_path / "v5.yaml"), gpuemu.load_arch("sm_89"))
    shipped = gpuemu.run(gpuemu.load_trace("v5_swizzle"), gpuemu.load_arch("sm_89"))
    assert recorded.cycles == shipped.cycles
    assert recorded.counters == shipped.counters


@pytest.mark.slow
def test_a_cubin_runs_with_arguments_and_gives_its_results_back(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(load_cubin(str(SOURCES / "virtual_threads.cu"), "sm_90").content)
    tile = np.arange(1024, dtype=np.float32).reshape(32, 32)
    np.save(tmp_path / "in.npy", tile)
    options = ("--kernel", "transpose_plain", "--block", "1024", "--arg", "file:in.npy", "--arg", "zeros:f32:32x32")
    done = forked.gpuemu("run", "k.cubin", *options, "--save", "1=out.npy", "--format", "json", cwd=tmp_path)
    assert done.status == 0, done.errors
    result = json.loads(done.output)
    assert (result["arch"], result["trace_arch"], len(result["warps"])) == ("sm_90", "sm_90", 32)
    assert result["counters"]["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 31 * 32
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), tile.T, strict=True)
    np.testing.assert_array_equal(np.load(tmp_path / "in.npy"), tile)


@pytest.mark.slow
def test_a_trace_takes_the_text_of_its_source_along_on_request(tmp_path: Path) -> None:
    """Which the source page and the report then show where the file is not at hand; one at hand goes before it."""
    source = SOURCES / "v5_swizzle.cu"
    head = ("trace", str(source), "--arch", "sm_89", "--block", "32")
    assert forked.gpuemu(*head, "-o", "plain.yaml", cwd=tmp_path).status == 0
    assert forked.gpuemu(*head, "--with-source", "-o", "v5.yaml", cwd=tmp_path).status == 0
    assert gpuemu.load_trace(tmp_path / "plain.yaml").source_text == {}
    assert gpuemu.load_trace(tmp_path / "v5.yaml").source_text == {"v5_swizzle.cu": source.read_text(encoding="utf-8")}
    lines = source.read_text(encoding="utf-8").splitlines()

    def texts(*more: str) -> dict[str, str]:
        words = ("run", "v5.yaml", "--page", "source", "--by", "line", "--format", "json", *more)
        return {row["Place"]: row["Source"] for row in json.loads(forked.gpuemu(*words, cwd=tmp_path).output)}

    shown = texts()
    assert len(shown) > 5
    own = {place: int(place.rpartition(":")[2]) for place in shown if place.startswith("v5_swizzle.cu:")}
    assert shown == {place: lines[own[place] - 1] if place in own else "" for place in shown}
    page = forked.gpuemu("run", "v5.yaml", "--page", "source", cwd=tmp_path, COLUMNS="200").output
    report = forked.gpuemu("run", "v5.yaml", "--format", "html", cwd=tmp_path).output
    longest = max(shown.values(), key=len).strip()
    assert longest[:30] in page
    assert json.dumps(longest)[1:30].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") in report
    plain = forked.gpuemu("run", "plain.yaml", "--page", "source", cwd=tmp_path, COLUMNS="200").output
    assert longest[:30] not in plain
    assert longest[:20] in forked.gpuemu("run", "v5.yaml", "--page", "source", cwd=tmp_path).output
    (tmp_path / "v5_swizzle.cu").write_text("// another\n" * 100, encoding="utf-8")
    assert set(texts("--sources", ".").values()) == {"", "// another"}
    assert gpuemu.run(gpuemu.load_trace(tmp_path / "v5.yaml"), "sm_89").records("lines")[-1]["Source"] in lines


@pytest.mark.slow
def test_source_text_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(load_cubin(str(SOURCES / "v5_swizzle.cu"), "sm_89").content)
    done = forked.gpuemu("trace", "k.cubin", "--block", "32", "--with-source", "-o", "t.yaml", cwd=tmp_path)
    assert done.status == 2
    assert "v5_swizzle.cu beside the kernel. Give a .cu, or a .cubin compiled with -lineinfo" in done.errors
    assert not (tmp_path / "t.yaml").exists()


@pytest.mark.slow
def test_the_executor_tells_what_it_has_executed() -> None:
    counts: list[Callable[[], int]] = []
    trace = gpuemu.trace_kernel(
        str(SOURCES / "virtual_threads.cu"), "reduction_plain", grid=(2, 1, 1), block=(256, 1, 1), arch="sm_89",
        args=[np.ones(512, np.float32), np.zeros(2, np.float32)], watch=counts.append, ctas=range(2),
    )  # fmt: skip
    assert len(trace.warps) == 16
    assert [count() for count in counts] == [trace.executed_instructions]


@pytest.mark.slow
def test_a_fault_stops_the_run_and_writes_nothing(tmp_path: Path) -> None:
    source = str(Path(__file__).parents[1] / "sass" / "kernels" / "faults.cu")
    options = ("--kernel", "past_the_end", "--arg", "zeros:f32:32", "--arg", "zeros:f32:16", "--arg", "0")
    done = forked.gpuemu("trace", source, *options, "--save", "0=out.npy", "-o", "t.yaml", cwd=tmp_path)
    assert (done.status, done.output) == (2, "")
    assert "faults.cu:5: past_the_end at 0x" in done.errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "nosuch.cubin"),
            "nosuch.cubin: cannot read the file (No such file or directory)",
        ),
        (("run", "v5_swizzle", "--block", "64"), "v5_swizzle: a trace takes no --block"),
        (
            ("trace", "x.elf", "-o", "t.yaml"),
            "x.elf: no such file",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = forked.gpuemu(*arguments, cwd=tmp_path)
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"error: {message}")


def test_arguments_are_read_as_written() -> None:
    assert parse_argument("64") == 64
    assert parse_argument("-0x10") == -16
    assert parse_argument("1.5") == 1.5
    np.testing.assert_array_equal(parse_argument("zeros:u32:4x2"), np.zeros((4, 2), np.uint32), strict=True)
    np.testing.assert_array_equal(parse_argument("arange:i16:3"), np.arange(3, dtype=np.int16))
    assert parse_argument("random:f16:5").dtype == np.float16
    np.testing.assert_array_equal(parse_argument("random:u8:9"), parse_argument("random:u8:9"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "zeros:u33:4",
            "--arg: found the type 'u33' in 'zeros:u33:4'",
        ),
        (
            "ones:f32:0",
            "--arg: found the size '0' in 'ones:f32:0'",
        ),
        (
            "file:nosuch.npy",
            "nosuch.npy: no such file",
        ),
        (
            "what",
            "--arg: found 'what'",
        ),
    ],
)
def test_an_argument_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        parse_argument(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("010", "'010'"),
        ("-010", "'-010'"),
        ("1" * 5000, "a number of 5000 digits"),
        ("0x" + "f" * 5000, "a number of 5002 digits"),
        (
            "ones:u8:17179869184",
            "the size '17179869184' in 'ones:u8:17179869184'",
        ),
        (
            "ones:u8:1²",
            "the size '1²' in 'ones:u8:1²'",
        ),
    ],
)
def test_numbers_that_python_would_trip_over_are_refused(text: str, message: str) -> None:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        parse_argument(text)
    assert str(caught.value).startswith(f"--arg: found {message}")


def test_all_buffers_of_a_launch_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuemu.cli.kernel_arguments.MOST_BYTES", 1000)
    with pytest.raises(gpuemu.GpuemuError, match="found 1,200 bytes with 'zeros:u8:600'"):
        parse_arguments(["zeros:u8:600", "64", "zeros:u8:600"])


def test_buffers_are_filled_in_blocks_as_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [parse_argument(text) for text in ("arange:f16:3000", "random:f32:3000", "random:i8:3000")]
    monkeypatch.setattr("gpuemu.cli.kernel_arguments._BLOCK", 7)
    for text, array in zip(("arange:f16:3000", "random:f32:3000", "random:i8:3000"), whole, strict=True):
        np.testing.assert_array_equal(parse_argument(text), array)
    np.testing.assert_array_equal(whole[0], np.arange(3000).astype(np.float16))
    np.testing.assert_array_equal(whole[1], np.random.default_rng(0).uniform(-1, 1, 3000).astype(np.float32))


def header(text: str) -> bytes:
    """The start of a .npy file with this header."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


SHAPED = "{{'descr': '<f4', 'fortran_order': False, 'shape': {}}}\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"PK\x03\x04", "no header of a NumPy array"),
        (b"", "no header of a NumPy array"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': ("), "no header of a NumPy array"),
        (header("\n  {'descr': '<f4'\n, 'fortran_order': False,\n 'shape': (1,)}"), "no header of a NumPy array"),
        (header(SHAPED.format("(True,)")) + bytes(4), "no shape of a NumPy array"),
        (header(SHAPED.format("(99999999999999999999999,)")), "0 bytes for float32 [99999999999999999999999]"),
        (header(SHAPED.format("(2000000000,)")) + bytes(64), "64 bytes for float32 [2000000000]"),
        (header(SHAPED.format("(-1, -1)")) + bytes(4), "4 bytes for float32 [-1, -1]"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + bytes(8), "an array of objects"),
    ],
)
def test_a_file_is_believed_only_as_far_as_its_bytes_go(content: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(gpuemu.GpuemuError) as caught:
        parse_argument(f"file:{path}")
    assert str(caught.value).startswith(f"{path}: {found}")


def test_a_file_of_another_order_of_bytes_or_columns_is_read(tmp_path: Path) -> None:
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", np.asfortranarray(wanted.astype(">f4")))
    read = parse_argument(f"file:{tmp_path / 'a.npy'}")
    assert read.dtype == np.dtype("float32")
    np.testing.assert_array_equal(read, wanted)
    read[0, 0] = 7  # kernels write to it


@pytest.mark.parametrize("block", ["3²", "0", "1" * 5000, "1,1,1,1", "x", "-1"])
def test_a_block_of_other_than_sizes_is_refused(block: str) -> None:
    with pytest.raises(gpuemu.GpuemuError, match="expected one to three sizes such as 128 or 16,16"):
        ExtentOption().convert(block, None, None)
