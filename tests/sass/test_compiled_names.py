"""Names of files, definitions and folders are no commands and no options, whatever characters they have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.tools.toolchain import CompilerChoice, compile_cuda

COMPILERS: tuple[CompilerChoice, ...] = ("nvcc", "nvrtc") if shutil.which("nvcc") else ("nvrtc",)
SOURCE = """#include "value.h"
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
__device__ const char *text = TEXT(A);
__global__ void k(int *p) { p[threadIdx.x] = VALUE; }
"""
NAMES = [
    "./$(touch X).cu", "`touch X`.cu", "a;touch X;.cu", "'\"q.cu", "back\\slash.cu", "-dash.cu", "--help.cu", "@k.cu",
    "two  words.cu", "\u00e9\u6f22.cu", "a\nb.cu", "k\x1b[2J.cu", os.fsdecode(b"\xff.cu"), "gpuemu_source.cu", "K.CU",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("value.h").write_text("#define VALUE 7\n")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_compiled_and_runs_nothing(compiler: CompilerChoice, name: str) -> None:
    Path(name).write_text(SOURCE)
    there = sorted(os.listdir())
    cubin = read_cubin(compile_cuda(name, "sm_89", compiler, ("-DA=`touch X`;$(touch X)", "-I$(touch X)")), name)
    kernel = cubin.kernel(None)
    assert {line.line for line in kernel.source_lines if line is not None} == {5}
    if name.isprintable() and not {'"', "\\"} & {*name}:
        assert kernel.source_file is not None
        assert Path(kernel.source_file) == Path(name).absolute()
    assert sorted(os.listdir()) == there


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["$(touch X).cu", "-dash.cu", "a b.cu", "\u00e9.cu", "back\\slash.cu"])
def test_errors_have_the_name_and_the_line_that_the_user_knows(compiler: CompilerChoice, name: str) -> None:
    Path(name).write_text(SOURCE.replace("VALUE", "NO_VALUE"))
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(name, "sm_89", compiler)
    (problem,) = caught.value.problems
    assert (problem.file.removeprefix("./"), problem.line) == (name, 5)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_definitions_and_folders_mean_what_they_say(compiler: CompilerChoice) -> None:
    folder = Path("$(touch X) `y`")
    folder.mkdir()
    (folder / "more.h").write_text("#define MORE 1\n")
    Path("k.cu").write_text(
        '#include "more.h"\nstatic_assert(MORE == 1 && E == 1 && F(2) == 4 && sizeof(S) == 7);\n__global__ void k() {}\n'
    )
    options = ("-I", str(folder), "-DE", '-DS="$(ls) "', "--define-macro=F(x)=(x + 2)")
    assert compile_cuda("k.cu", "sm_89", compiler, options).startswith(b"\x7fELF")


@pytest.mark.parametrize("option", ["-DA=x\ny", "-D$(touch X)", "-D", "-D--help", "-DA;B=1", "-D1=2", "-I"])
def test_what_is_no_definition_and_no_folder_is_refused_by_name(option: str) -> None:
    Path("k.cu").write_text("__global__ void k() {}\n")
    for compiler in COMPILERS:
        with pytest.raises(GpuemuError, match=rf"^{option[:2]}: found '"):
            compile_cuda("k.cu", "sm_89", compiler, (option,))
    assert not Path("X").exists()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flag", ["--help", "--version", "-E", "-M", "-Xptxas=$(touch X)", "\0", "-Xcompiler=`touch X`"]
)
def test_flags_with_which_nothing_is_compiled_are_an_error_with_a_sentence(compiler: CompilerChoice, flag: str) -> None:
    Path("k.cu").write_text("__global__ void k() {}\n")
    with pytest.raises(GpuemuError):
        compile_cuda("k.cu", "sm_89", compiler, (flag,))
    assert not Path("X").exists()


@pytest.mark.skipif("nvcc" not in COMPILERS, reason="nvcc hands its flags to a shell")
def test_a_temporary_folder_that_a_shell_would_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "$(touch X)"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    Path("k.cu").write_text("__global__ void k() {}\n")
    with pytest.raises(GpuemuError, match="TMPDIR: found "):
        compile_cuda("k.cu", "sm_89", "nvcc")
