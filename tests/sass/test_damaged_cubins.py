"""Files that are no cubin any more, or never end, are refused by name."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code, is_source
from gpuemu.base.reading import read_whole
from gpuemu.chip.tracing import trace_kernel
from gpuemu.cli.main import cli
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.machine.memory.arguments import parameter_sizes
from gpuemu.sass.tools import disassembly
from gpuemu.sass.tools.disassembly import decode_function, load_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.studies.check.api import check
from gpuemu.trace.files import load_trace

SOURCE = """
__device__ int table[4] = {1, 2, 3, 4};
__constant__ float factor[8];
__device__ float zeros[100];
__global__ void k(float *a, int n, float s) { zeros[n] = a[threadIdx.x] * s + factor[n & 7] + table[n & 3]; }
"""
WORDS = (b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", struct.pack("<I", 0x10001))


class Anywhere(dict[str, int]):
    """Every name has an address."""

    def get(self, key: str, default: Any = None) -> int:
        return 1 << 40


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damaged") / "k.cu"
    path.write_text(SOURCE)
    return compile_cuda(path, "sm_80", "nvrtc")


@pytest.mark.parametrize("section", [".nv.info", ".nv.info.", ".nv.constant4", ".rel.nv.constant4", ".symtab"])
@pytest.mark.parametrize("word", WORDS)
def test_whatever_stands_in_a_section_is_read_or_refused(cubin: bytes, section: str, word: bytes) -> None:
    refused = 0
    for one in ELFFile(BytesIO(cubin)).iter_sections():
        if not one.name.startswith(section) or one["sh_type"] == "SHT_NOBITS":
            continue
        for at in range(one["sh_offset"], one["sh_offset"] + one["sh_size"] - 3, 4):
            damaged = bytearray(cubin)
            damaged[at : at + 4] = word
            try:
                found = read_cubin(bytes(damaged), "k.cubin")
                for kernel in found.kernels.values():
                    kernel.placed_constant_banks(Anywhere())
                    sizes = [p.offset + p.size for p in kernel.parameters]
                    assert max(sizes, default=0) <= 1 << 16
                    assert kernel.local_bytes <= 1 << 19
            except GpuemuError:
                refused += 1
    assert refused or word != WORDS[0] or section != ".nv.info."


def test_a_parameter_that_no_launch_can_have_is_a_damage(cubin: bytes) -> None:
    kernel = decode_function(cubin)
    assert parameter_sizes(kernel).startswith("8")
    at = cubin.index(struct.pack("<IHH", 0, 2, 12))  # KPARAM_INFO of the last parameter: index, ordinal, offset
    damaged = cubin[: at + 8] + struct.pack("<I", 0xFFFFFFFF) + cubin[at + 12 :]
    assert read_cubin(damaged).kernel(None).parameters[2].size == 0x3FFF
    with pytest.raises(GpuemuError, match=r"the cubin is damaged: in it \w+ needs parameters up to byte 65,8"):
        read_cubin(cubin[: at + 6] + b"\xff\xff" + cubin[at + 8 :])


@pytest.mark.parametrize("name", ["x.cubin", "x.cu", "x.ptx", "x.yaml"])
def test_a_link_to_a_device_without_an_end_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.symlink_to("/dev/zero")
    with pytest.raises(GpuemuError, match=r"no such file|cannot read the file|ptxas"):
        (load_cubin if is_machine_code(path) else load_trace)(path)
    with pytest.raises(OSError, match="a device"):
        read_whole(path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.cubin"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(GpuemuError, match="more than 268,435,456 bytes"):
        load_cubin(path)


def test_endings_in_capital_letters_mean_the_same(tmp_path: Path) -> None:
    assert is_source("K.CU")
    assert is_machine_code("K.CUBIN")
    with pytest.raises(GpuemuError, match="a CUDA source is not a trace"):
        load_trace("K.CU")
    path = tmp_path / "K.CU"
    path.write_text(SOURCE)
    assert load_cubin(path, "sm_80", "nvrtc").kernel("k").source_name == "k"


SENTENCE = r"_Z1kPfif\+0x\w+: found the control word \[B\S+:R.:W.:.:S\d\d\]"
ARGUMENTS = [np.zeros(32, np.float32), 1, 1.5]
COMMANDS: dict[str, Callable[[Path], object]] = {
    "trace_kernel": lambda path: trace_kernel(path, block=32, args=ARGUMENTS),
    "check": lambda path: check(path, block=32, args=ARGUMENTS),
    "gpuemu run": lambda path: _command("run", path, "--engine", "compiled"),
    "gpuemu check": lambda path: _command("check", path),
    "gpuemu trace": lambda path: _command("trace", path, "-o", path.with_suffix(".yaml")),
}


def _command(*words: object) -> None:
    launch = ("--block", "32", "--arg", "zeros:f32:32", "--arg", "1", "--arg", "1.5")
    cli.main([*map(str, words), *launch], standalone_mode=False)


def _with_control_bits(cubin: bytes, instruction: int, first: int, bits: int) -> bytes:
    """The three bits of an instruction's 128 from `first` on set to something else."""
    code = next(s for s in ELFFile(BytesIO(cubin)).iter_sections() if s.name == ".text._Z1kPfif")["sh_offset"]
    at = code + 16 * instruction
    word = int.from_bytes(cubin[at : at + 16], "little") & ~(7 << first) | bits << first
    return cubin[:at] + word.to_bytes(16, "little") + cubin[at + 16 :]


@pytest.mark.slow
@pytest.mark.parametrize(("counter", "first"), [("write", 110), ("read", 113)])
@pytest.mark.parametrize("door", COMMANDS)
def test_a_counter_that_no_warp_has_is_refused_at_every_door(
    cubin: bytes, tmp_path: Path, door: str, counter: str, first: int
) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(_with_control_bits(cubin, 3, first, 6))
    with pytest.raises(GpuemuError, match=SENTENCE) as caught:
        COMMANDS[door](path)
    assert f":{'R6' if counter == 'read' else 'W6'}:" in str(caught.value).replace("]", ":")
    path.write_bytes(cubin)
    COMMANDS[door](path)


def test_the_judge_refuses_a_counter_that_no_warp_has(cubin: bytes, tmp_path: Path) -> None:
    path, problem = tmp_path / "k.cubin", tmp_path / "problem.py"
    path.write_bytes(_with_control_bits(cubin, 3, 110, 6))
    problem.write_text(
        "import numpy as np\nblock = 32\ndef inputs(rng): return [np.zeros(32, np.float32), np.int32(1), np.float32(1)]\n"
        "def reference(*arguments): pass\n"
    )
    judgement = gpuemu.judge(path, problem, "sm_80")
    assert judgement["verdict"] == "refused"
    assert re.search(SENTENCE, judgement["reason"])


def test_a_cubin_in_which_the_disassembler_finds_no_code_is_refused(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    disassembly._texts.cache_clear()
    monkeypatch.setattr(disassembly, "run_nvdisasm", lambda content, file: '\t.headerflags\t@"EF_CUDA_SM80"\n')
    with pytest.raises(GpuemuError, match="nvdisasm does not show it"):
        decode_function(cubin)
    disassembly._texts.cache_clear()
