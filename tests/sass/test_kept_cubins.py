"""A source compiles once, until anything that goes into it changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.tools import kept_cubins, nvcc, nvrtc, toolchain
from gpuemu.sass.tools.toolchain import CompilerChoice, compile_cuda, run_nvdisasm

COMPILERS: tuple[CompilerChoice, ...] = ("nvcc", "nvrtc") if shutil.which("nvcc") else ("nvrtc",)
SOURCE = '#include "value.h"\n__global__ void k(int *p) { p[threadIdx.x] = VALUE; }\n'
Count = Callable[[], int]


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """How often a compiler ran since the last time."""
    ran: list[str] = []
    with_nvcc, with_nvrtc = nvcc.Compilation.compiled, nvrtc.compile_source
    monkeypatch.setattr(nvcc.Compilation, "compiled", lambda *given: (ran.append("nvcc"), with_nvcc(*given))[1])
    monkeypatch.setattr(nvrtc, "compile_source", lambda *given: (ran.append("nvrtc"), with_nvrtc(*given))[1])
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("k.cu").write_text(SOURCE)
    Path("value.h").write_text("#define VALUE 7\n")

    def count() -> int:
        many = len(ran)
        ran.clear()
        return many

    return count


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "cubins").iterdir())


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_second_time_nothing_is_compiled_and_the_bytes_are_the_same(
    compilations: Count, compiler: CompilerChoice
) -> None:
    first = compile_cuda("k.cu", "sm_89", compiler)
    assert compilations() == 1
    assert compile_cuda("k.cu", "sm_89", compiler) == first
    assert compilations() == 0


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_whatever_goes_into_it_is_looked_at(compilations: Count, compiler: CompilerChoice, tmp_path: Path) -> None:
    def compiled(*options: str, file: str = "k.cu", arch: str = "sm_89") -> int:
        compile_cuda(file, arch, compiler, options)
        return compilations()

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "far.h").write_text("#define FAR 1\n")
    folder = f"-I{tmp_path / 'a'}"
    assert compiled(folder) == 1
    assert compiled("--use_fast_math", folder) == 1
    assert compiled(folder, arch="sm_90") == 1
    Path("value.h").write_text("#define VALUE 8\n")
    assert compiled(folder) == 1
    Path("value.h").write_text("#define VALUE 7\n")
    assert compiled(folder) == 0
    Path("value.h").write_text("#include <far.h>\n#define VALUE FAR\n")
    assert compiled(folder) == 1
    Path("far.h").write_text("#define FAR 2\n")  # where nvcc does not look for it, but NVRTC does
    compiled(folder)
    (tmp_path / "a" / "far.h").write_text("#define FAR 3\n")
    assert compiled(folder) == 1
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "far.h").write_text("#define FAR 4\n")
    assert compiled(f"-I{tmp_path / 'b'}", folder) == 1
    shutil.copy("k.cu", "other.cu")
    assert compiled(folder, file="other.cu") == 1
    Path("k.cu").write_text(SOURCE.replace("VALUE;", "VALUE + N;"))
    assert [compiled(folder, "-DN=1"), compiled(folder, "-DN=2"), compiled(folder, "-DN=1")] == [1, 1, 0]
    if compiler == "nvcc":
        assert [compiled(folder, "-DN=1", "-include", "value.h") for _ in "ab"] == [1, 1]


def test_a_file_that_nvcc_reports_is_looked_at(
    compilations: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nvcc is a script that reports a file of the system: no include of the source leads to it."""
    read = tmp_path / "far header.h"
    (tmp_path / "list").write_text(f"gpuemu.cubin: \\\n {tmp_path}/far\\ header.h\n")
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; fi\n'
        'while [ $# -gt 1 ]; do case "$1" in -o) output="$2" ;; -MF) list="$2" ;; esac; shift; done\n'
        'printf "\\177ELF" > "$output"\n'
        f'cp "{tmp_path}/list" "$list"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    for content, many in (("1", [1, 0]), ("2", [1, 0])):
        read.write_text(content)
        assert [(compile_cuda("k.cu", "sm_89", "nvcc"), compilations())[1] for _ in "ab"] == many
    read.unlink()
    assert [(compile_cuda("k.cu", "sm_89", "nvcc"), compilations())[1] for _ in "ab"] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("size", [0, 40, 200, -1])
def test_a_damaged_one_is_said_in_a_line_and_made_anew(
    compilations: Count, compiler: CompilerChoice, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = compile_cuda("k.cu", "sm_89", compiler)
    (file,) = kept(tmp_path)
    content = bytearray(file.read_bytes())
    content[-30] ^= 4
    file.write_bytes(content if size < 0 else content[:size])
    compilations()
    assert compile_cuda("k.cu", "sm_89", compiler) == first
    assert compilations() == 1
    assert (
        capsys.readouterr().err
        == f"{file}: damaged in the cache of compiled code. gpuemu deletes it and makes it again when needed.\n"
    )
    assert compile_cuda("k.cu", "sm_89", compiler) == first
    assert compilations() == 0


@pytest.fixture
def disassemblies(compilations: Count, monkeypatch: pytest.MonkeyPatch) -> Count:
    """How often nvdisasm ran since the last time."""
    ran: list[str] = []
    run = toolchain._run

    def counted(command: Sequence[str], file: str, seconds: float) -> Any:
        ran.append(command[0])
        return run(command, file, seconds)

    monkeypatch.setattr(toolchain, "_run", counted)

    def count() -> int:
        many = sum(Path(tool).name.startswith("nvdisasm") for tool in ran)
        ran.clear()
        return many

    return count


@pytest.mark.slow
def test_a_cubin_is_disassembled_once_by_each_tool(
    disassemblies: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubin = compile_cuda("k.cu", "sm_89", "nvrtc")
    (compiled,) = kept(tmp_path)
    first = run_nvdisasm(cubin, "k.cu")
    assert "STG" in first
    assert [disassemblies(), run_nvdisasm(cubin, "other.cu") == first, disassemblies()] == [1, True, 0]
    (file,) = set(kept(tmp_path)) - {compiled}
    file.write_bytes(file.read_bytes()[:-4])
    assert [run_nvdisasm(cubin, "k.cu") == first, disassemblies()] == [True, 1]
    other = compile_cuda("k.cu", "sm_86", "nvrtc")
    assert [run_nvdisasm(other, "k.cu") == first, disassemblies()] == [False, 1]
    tool, copies = toolchain.find_nvdisasm(), [tmp_path / place / "nvdisasm" for place in ("same", "newer")]
    for copy, then in zip(copies, (0, 1), strict=True):
        copy.parent.mkdir()
        shutil.copy(tool, copy)
        with copy.open("ab") as file:
            file.write(b"\0" * then)
        monkeypatch.setattr(toolchain, "find_nvdisasm", lambda copy=copy: str(copy))
        assert [run_nvdisasm(cubin, "k.cu") == first, disassemblies()] == [True, then]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_100"])
def test_code_is_disassembled_once_wherever_its_source_lies(disassemblies: Count, arch: str, tmp_path: Path) -> None:
    texts = {}
    for name, source in {
        "k.cu": SOURCE,
        "a_longer_name.cu": f"\n\n{SOURCE}",
        "o.cu": SOURCE.replace("threadIdx", "blockIdx"),
    }.items():
        Path(name).write_text(source)
        cubin = compile_cuda(name, arch, "nvrtc")
        texts[name] = cubin, run_nvdisasm(cubin, name), disassemblies()
    (one, text, first), (same, same_text, again), (_, other_text, other) = texts.values()
    assert one != same
    assert (text == same_text, text == other_text) == (True, False)
    assert (first, again, other) == (1, 0, 1)


def test_what_the_disassembler_refuses_is_refused_each_time(disassemblies: Count, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(GpuemuError, match="nvdisasm refuses the code"):
            run_nvdisasm(b"no cubin", "k.cubin")
        assert disassemblies() == 1
    assert not (tmp_path / "cache" / "cubins").exists()


@pytest.mark.parametrize("text", ["__TIME__", "\n#include NAME\n", "\n#if __has_include(NAME)\n#endif\n"])
def test_what_may_read_anything_is_compiled_each_time(compilations: Count, text: str) -> None:
    Path("k.cu").write_text(f'#define NAME "value.h"\n#define TEXT(x) #x\n{SOURCE}// {text}\n')
    compile_cuda("k.cu", "sm_89", "nvrtc")
    compile_cuda("k.cu", "sm_89", "nvrtc")
    assert compilations() == 2


def test_those_that_were_used_last_stay(compilations: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        compile_cuda("k.cu", "sm_89", "nvrtc", (f"-DN={number}",))
        for file in kept(tmp_path):
            os.utime(file, ns=(1, 1) if number == 0 else (number, number)) if file.stat().st_mtime_ns > 10 else None
    size = kept(tmp_path)[0].stat().st_size
    compile_cuda("k.cu", "sm_89", "nvrtc", ("-DN=0",))
    monkeypatch.setattr(kept_cubins, "MOST_BYTES", int(2.5 * size))
    compile_cuda("k.cu", "sm_89", "nvrtc", ("-DN=4",))
    compilations()
    for number, many in ((0, 0), (4, 0), (1, 1)):
        compile_cuda("k.cu", "sm_89", "nvrtc", (f"-DN={number}",))
        assert compilations() == many


@pytest.mark.parametrize("place", ["/dev/null", "file/deeper"])
def test_where_nothing_can_be_kept_it_compiles_and_says_so(
    compilations: Count, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / place))
    compile_cuda("k.cu", "sm_89", "nvrtc")
    assert compilations() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "gpuemu keeps nothing" in line
