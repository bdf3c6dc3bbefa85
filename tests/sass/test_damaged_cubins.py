"""Files that are no cubin any more, or never end, are refused by name."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code, is_source
from gpuemu.base.reading import read_whole
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.machine.arguments import parameter_sizes
from gpuemu.sass.tools.disassembly import decode_function, load_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
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
    with pytest.raises(GpuemuError, match=r"a damaged cubin, in which \w+ needs parameters up to byte 65,8"):
        read_cubin(cubin[: at + 6] + b"\xff\xff" + cubin[at + 8 :])


@pytest.mark.parametrize("name", ["x.cubin", "x.cu", "x.ptx", "x.yaml"])
def test_a_link_to_a_device_without_an_end_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.symlink_to("/dev/zero")
    with pytest.raises(GpuemuError, match=r"no such file|cannot be read|ptxas"):
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
    with pytest.raises(GpuemuError, match="a CUDA source"):
        load_trace("K.CU")
    path = tmp_path / "K.CU"
    path.write_text(SOURCE)
    assert load_cubin(path, "sm_80", "nvrtc").kernel("k").source_name == "k"
