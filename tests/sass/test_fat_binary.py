"""Fat binaries are read as the driver reads them: the entry for the GPU, unpacked, PTX assembled, parts linked."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard
from elftools.elf.elffile import ELFFile

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import MissingToolError
from gpuemu.sass.image import fat_binary
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.image.fat_binary import MAGIC, choose, read_containers, unpack_lz4
from gpuemu.sass.tools import images
from gpuemu.sass.tools.images import NoImageError, load_image
from gpuemu.sass.tools.toolchain import compile_cuda

SOURCE = "__global__ void k(int* a) { a[threadIdx.x] = __CUDA_ARCH__; }"
NEEDS_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc")


def entry(kind: str, sm: int, content: bytes, flags: int = 0, size: int = 0, options: str = "") -> bytes:
    """An entry as `fatbinary` writes one."""
    text = options.encode()
    more = struct.pack("<II", 72, len(text)) + text + bytes(-len(text) % 8) if text else b""
    padded = content + bytes(-len(content) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", {"ptx": 1, "cubin": 2}[kind], 0x101, 64 + len(more), len(padded),
        len(content) if size else 0, 64 if text else 0, 0, 9, sm, 0, 0, 0x11 | flags, 0, size,
    )  # fmt: skip
    return head + more + padded


def container(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<4sHHQ", MAGIC, 1, 16, len(content)) + content


def lz4(data: bytes) -> bytes:
    """Packs greedily, with matches of all lengths, overlapping ones too."""
    found, at, literals = bytearray(), 0, 0

    def number(value: int) -> bytes:
        return b"" if value < 15 else b"\xff" * ((value - 15) // 255) + bytes([(value - 15) % 255])

    while at < len(data):
        start = data.rfind(data[at : at + 4], max(0, at - 65535), at + 3) if at + 4 <= len(data) - 12 else -1
        if start < 0 or start == at:
            at += 1
            continue
        length = 4
        while at + length < len(data) - 5 and data[start + length] == data[at + length]:
            length += 1
        found += bytes([min(15, at - literals) << 4 | min(15, length - 4)]) + number(at - literals) + data[literals:at]
        found += struct.pack("<H", at - start) + number(length - 4)
        at += length
        literals = at
    found += bytes([min(15, at - literals) << 4]) + number(at - literals) + data[literals:]
    return bytes(found)


CHOICES = {
    "the highest minor that is not above": ("cubin 80, cubin 86, cubin 90", (8, 9), "cubin sm_86"),
    "no other major": ("cubin 80, cubin 86", (9, 0), "None"),
    "no later minor": ("cubin 89", (8, 6), "None"),
    "code before PTX of a later architecture": ("cubin 80, ptx 86", (8, 6), "cubin sm_80"),
    "PTX where no code runs": ("cubin 80, ptx 80, ptx 75", (9, 0), "ptx sm_80"),
    "no PTX of a later architecture": ("ptx 90", (8, 9), "None"),
    "code for one architecture only": ("cubin 90a", (9, 0), "cubin sm_90a"),
    "and on no other": ("cubin 120a, ptx 120a", (12, 1), "None"),
    "before code for all": ("cubin 90, cubin 90a", (9, 0), "cubin sm_90a"),
    "code for a family": ("cubin 100f", (10, 3), "cubin sm_100f"),
    "and not for another": ("cubin 100f, ptx 100f", (12, 0), "None"),
    "nothing": ("", (9, 0), "None"),
}


@pytest.mark.parametrize(("there", "capability", "chosen"), CHOICES.values(), ids=CHOICES)
def test_the_entry_is_the_one_that_the_driver_takes(there: str, capability: tuple[int, int], chosen: str) -> None:
    flags = {"a": 0x100000, "f": 0x200000}
    words = [one.split() for one in there.split(", ") if one]
    given = [entry(kind, int(name.rstrip("af")), b"x", flags.get(name[-1], 0)) for kind, name in words]
    for order in (given, given[::-1]):
        (entries,) = read_containers(container(*order), "a.out")
        found = choose(entries, capability)
        assert (f"{found.kind} {found.name}" if found else "None") == chosen


@pytest.mark.slow
@pytest.mark.parametrize("packed", ["plain", "lz4", "zstd"])
def test_what_is_compressed_is_unpacked(packed: str) -> None:
    text = b".version 9.0\n" + b"mov.u32 r1, r2;\n" * 300 + random.Random(1).randbytes(70_000) + b"a" * 1000
    stored = {"plain": text, "lz4": lz4(text), "zstd": zstandard.compress(text)}[packed]
    flags = {"plain": 0, "lz4": 0x2000, "zstd": 0x8000}[packed]
    size = len(text) if flags else 0
    image = container(entry("ptx", 80, stored, flags, size, " -g --return-at-end "), entry("cubin", 90, b"\x7fELF"))
    ((first, second),) = read_containers(image, "a.out")
    assert first.content().rstrip(b"\0") == text
    assert (first.options, second.content()[:4]) == (" -g --return-at-end ", b"\x7fELF")


def test_several_containers_follow_one_another_and_unknown_entries_are_passed_over() -> None:
    unknown = bytearray(entry("ptx", 80, b"y"))
    unknown[0] = 9
    image = container() + container(bytes(unknown), entry("ptx", 75, b"x")) + b"\0" * 8
    assert [[one.name for one in entries] for entries in read_containers(image, "a.out")] == [[], ["sm_75"]]


def test_whatever_is_damaged_is_refused() -> None:
    text = b"abcdefgh" * 40
    good = container(entry("ptx", 80, lz4(text), 0x2000, len(text), "-g"), entry("cubin", 80, b"\x7fELF" * 9))
    generator = random.Random(2)
    refused = 0
    for _ in range(2000):
        image = bytearray(good)
        for _ in range(generator.randint(1, 3)):
            image[generator.randrange(len(image))] = generator.choice((0, 1, 255, generator.randrange(256)))
        try:
            for entries in read_containers(bytes(image[: generator.choice((len(good), 50, 200))]), "a.out"):
                for one in entries:
                    one.content()
        except GpuemuError:
            refused += 1
    assert refused > 500
    assert unpack_lz4(b"\xf0", 10) is None
    assert unpack_lz4(b"\x10a\x00\x00", 10) is None
    assert unpack_lz4(lz4(text), len(text) - 20) is None


def test_without_zstandard_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    ((one,),) = read_containers(container(entry("ptx", 80, zstandard.compress(b"a"), 0x8000, 1)), "a.out")
    with pytest.raises(MissingToolError, match="zstandard"):
        one.content()


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fat") / "k.cu"
    path.write_text(SOURCE)
    return compile_cuda(path, "sm_80", "nvrtc")


def test_an_image_is_a_fat_binary_or_a_cubin(cubin: bytes) -> None:
    fat = container(entry("cubin", 75, b"none"), entry("cubin", 80, zstandard.compress(cubin), 0x8000, len(cubin)))
    for image in (cubin, fat):
        assert [*load_image(image, "a.out", (8, 6)).cubin.kernels] == ["_Z1kPi"]
    with pytest.raises(NoImageError, match=r"no code for sm_90 \(sm_75, sm_80 is there\)"):
        load_image(fat, "a.out", (9, 0))


PROGRAM = """
__global__ void k(int* a) { a[threadIdx.x] = 1; }
int main() { k<<<1, 1>>>(nullptr); }
"""
PARTS = (
    "extern __device__ int more(int);\n__global__ void k(int* a) { a[0] = more(a[0]); }\nint main() { k<<<1, 1>>>(0); }",
    "__device__ int count = 3;\n__device__ int more(int x) { count += x; return count; }",
)
BUILDS = {
    "several": (
        "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90",
        "80 80 90 120",
    ),
    "no -arch": ("", "80 89 90 120"),
    "PTX only": ("-gencode arch=compute_80,code=compute_80", "80 89 90 120"),
    "speed": ("-arch=sm_80 --compress-mode=speed", "80 80 90 120"),
    "for one": ("-gencode arch=compute_90a,code=sm_90a", "- - 90 -"),
    "debug": ("-arch=sm_90 -g -G", "- - 90 120"),
}


def image_of(program: Path) -> bytes:
    """The container with the program's kernels, and of separately compiled ones those of the parts behind it."""
    elf = ELFFile(io.BytesIO(program.read_bytes()))
    main, parts = (elf.get_section_by_name(name) for name in (".nv_fatbin", "__nv_relfatbin"))
    if parts is not None:
        return bytes(main.data() + parts.data())
    data = bytes(main.data())
    return data[data.rindex(MAGIC) :]


def built(folder: Path, sources: tuple[str, ...], options: str) -> Path:
    for number, text in enumerate(sources):
        (folder / f"part{number}.cu").write_text(text)
    names = [f"part{number}.cu" for number in range(len(sources))]
    subprocess.run(["nvcc", *options.split(), *names, "-o", "main"], cwd=folder, check=True, capture_output=True)
    return folder / "main"


def loaded(image: bytes, capability: tuple[int, int]) -> Cubin | None:
    try:
        return load_image(image, "main", capability).cubin
    except NoImageError:
        return None


@pytest.mark.slow
@NEEDS_NVCC
@pytest.mark.parametrize(("options", "archs"), list(BUILDS.values()))
def test_programs_of_nvcc_have_the_code_that_the_driver_would_run(tmp_path: Path, options: str, archs: str) -> None:
    image = image_of(built(tmp_path, (PROGRAM,), options))
    for capability, arch in zip(((8, 0), (8, 9), (9, 0), (12, 0)), archs.split(), strict=True):
        cubin = loaded(image, capability)
        assert (cubin.arch if cubin else "-").removeprefix("sm_") == arch, capability
        assert cubin is None or [*cubin.kernels] == ["_Z1kPi"]


@pytest.mark.slow
@NEEDS_NVCC
@pytest.mark.parametrize("target", ["code=sm_80", "code=compute_80"])
def test_parts_that_were_compiled_separately_are_linked(tmp_path: Path, target: str) -> None:
    cubin = loaded(image_of(built(tmp_path, PARTS, f"-rdc=true -gencode arch=compute_80,{target}")), (8, 6))
    assert cubin is not None
    assert cubin.linked
    assert "_Z1kPi" in cubin.kernels
    assert "count" in {v.name for section in cubin.global_sections for v in section.variables}


@pytest.mark.slow
@NEEDS_NVCC
def test_ptx_text_is_assembled_for_the_gpu_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / "cache"))
    (tmp_path / "k.cu").write_text(SOURCE)
    subprocess.run(["nvcc", "-ptx", "-arch=sm_90a", "k.cu"], cwd=tmp_path, check=True)
    text = (tmp_path / "k.ptx").read_bytes()
    for ending in (b"", b"\0"):
        assert load_image(text + ending, "k", (9, 0)).cubin.arch == "sm_90"
    monkeypatch.setattr(images.assembled.__globals__["subprocess"], "run", None)
    assert load_image(text, "k", (9, 0)).cubin.arch == "sm_90"
    assert fat_binary.MAGIC not in text
