from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuemu.base import extras
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.tools import nvrtc, toolchain
from gpuemu.sass.tools.disassembly import decode_function, load_cubin
from gpuemu.sass.tools.toolchain import CompilerChoice, compile_cuda, compiler_version, find_nvdisasm, run_nvdisasm


@pytest.fixture
def fake_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder first on the PATH whose nvcc writes its arguments as the cubin, its own and those of the host compiler, or fails as `log` says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "nvcc"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ -f "{folder}/log" ]; then cat "{folder}/log" >&2; exit 1; fi\n'
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; fi\n'
        'all="$*"\n'
        'while [ "$1" != -o ]; do [ "$1" = -Xcompiler ] && arguments="${2#@}"; shift; done\n'
        '(printf "\\177ELF "; echo "$all"; cat "$arguments") > "$2"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no wheel were installed and nothing were on the PATH."""
    monkeypatch.setattr(toolchain, "wheel_files", lambda wheel: ())
    monkeypatch.setattr(nvrtc, "wheel_files", lambda wheel: ())
    monkeypatch.setenv("PATH", "")
    for cached in (find_nvdisasm, nvrtc._library, nvrtc.include_folders):
        cached.cache_clear()


def test_the_disassembler_comes_from_its_wheel() -> None:
    find_nvdisasm.cache_clear()
    assert Path(find_nvdisasm()) in toolchain.wheel_files("nvidia-cuda-nvdisasm")


def test_nvrtc_names_its_version() -> None:
    assert compiler_version("nvrtc").startswith("NVRTC 1")


def test_nvcc_names_its_version(fake_nvcc: Path) -> None:
    assert compiler_version() == "nvcc 13.0 (V13.0.88)"


def test_nvcc_is_preferred_and_gets_line_information_and_options(fake_nvcc: Path, kernel_sources: Path) -> None:
    options = ("-DN=3", "-Iinc", "--use_fast_math")
    head, *arguments = compile_cuda(kernel_sources / "calls.cu", "sm_86", options=options).decode().splitlines()
    assert head.split()[1:5] == ["-cubin", "-arch=sm_86", "-lineinfo", "--use_fast_math"]
    assert arguments == ['"-iquote"', f'"{kernel_sources}"', '"-I"', '"inc"', '"-DN=3"']


def test_nvcc_errors_keep_their_file_and_line(fake_nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    (fake_nvcc / "log").write_text(
        'k.cu(7): warning #177-D: variable "x" was declared but never referenced\n'
        "  float x;\n        ^\n\n"
        'inc/k.h(12): error: expected a ";"\n  int y\n       ^\n\n'
        '1 error detected in the compilation of "k.cu".\n'
    )
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvcc")
    assert str(caught.value).startswith('inc/k.h:12: expected a ";"')


def test_errors_without_a_line_are_shown_too(fake_nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    sentence = "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)"
    (fake_nvcc / "log").write_text(f"something else\n{sentence}\n")
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvcc")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(source), None)
    assert problem.found == " ".join(sentence.split())


def test_nvrtc_errors_are_all_shown_with_file_and_line(kernel_sources: Path) -> None:
    path = kernel_sources / "broken.cu"
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(path, "sm_90", "nvrtc")
    first, second = caught.value.problems
    assert (first.file, first.line) == (str(path), 2)
    assert first.found == 'identifier "missing_name" is undefined'
    assert (second.line, second.found) == (4, 'expected a ";"')


def test_nvrtc_finds_headers_beside_the_source_and_takes_options(tmp_path: Path) -> None:
    (tmp_path / "k.h").write_text("#include <cstdint>\n#include <climits>\ntypedef std::uint32_t word;\n")
    source = tmp_path / "k.cu"
    source.write_text(
        '#include "k.h"\n#include <stdint.h>\n#include <cuda_runtime.h>\n#include <cstdio>\n'
        "static_assert(sizeof(word) == sizeof(uint32_t) && INT_MAX == 0x7fffffff);\n"
        "__global__ void k(word *o, float *f) { *o = N; *f = INFINITY; }\n"
    )
    assert compile_cuda(source, "sm_80", "nvrtc", options=("-DN=3",)).startswith(b"\x7fELF")
    with pytest.raises(GpuemuError, match='identifier "N" is undefined'):
        compile_cuda(source, "sm_80", "nvrtc")


@pytest.mark.parametrize(
    "headers", ["assert.h", "cfloat", "climits", "cstddef", "math.h", "stdio.h", " ".join(nvrtc.SHIMS)]
)
def test_standard_headers_that_nvrtc_is_given_compile_alone_and_together(headers: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    includes = "".join(f"#include <{header}>\n" for header in headers.split())
    source.write_text(f"{includes}__global__ void k(int *o) {{ *o = 1; }}")
    assert compile_cuda(source, "sm_80", "nvrtc").startswith(b"\x7fELF")


def test_what_an_architecture_lacks_is_one_line_that_says_which_has_it(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    asked = [
        "cp.async.commit_group;", "cp.async.wait_group 0;", "cp.async.wait_all;", "griddepcontrol.wait;", "fence.acq_rel.cluster;"
    ]  # fmt: skip
    lines = "".join(f'asm volatile("{one}");' for one in asked * 20)
    source.write_text(f"__global__ void k() {{ {lines} }}")
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_75", "nvrtc")
    (problem,) = caught.value.problems
    assert problem.found.startswith("sm_75 does not have 'cp.async.commit_group', 'cp.async.wait_group', ")
    assert problem.right == "Use --arch sm_90 or higher"


def test_what_the_host_compiler_says_is_one_error_with_its_line(fake_nvcc: Path, tmp_path: Path) -> None:
    (fake_nvcc / "log").write_text("k.cu:3: error: unterminated #ifndef\n    3 | #ifndef THERE\n      |\n")
    (tmp_path / "k.cu").write_text("x")
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(tmp_path / "k.cu", "sm_89")
    assert [(p.file, p.line, p.found) for p in caught.value.problems] == [("k.cu", 3, "unterminated #ifndef")]


def test_an_error_in_many_lines_of_ptx_is_told_once(fake_nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    lines = [f"ptxas k.ptx, line {n}; error   : Illegal operand type to instruction 'mad'\n" for n in (5, 9, 12)]
    (fake_nvcc / "log").write_text("".join(lines))
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvcc")
    (problem,) = caught.value.problems
    assert problem.found == "ptxas error: Illegal operand type to instruction 'mad' (PTX line 5 and 2 more)"


def test_a_header_that_is_not_found_has_its_line_and_the_option_that_finds_it(fake_nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text('// k.cu\n#include "scale.h"\n')
    (fake_nvcc / "log").write_text(
        "k.cu:2:10: fatal error: scale.h: No such file or directory\n"
        '    2 | #include "scale.h"\n      |          ^~~~~~~~~\ncompilation terminated.\n'
    )
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvcc")
    assert str(caught.value).startswith("k.cu:2: fatal error: scale.h: No such file or directory")
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvrtc")
    (problem,) = caught.value.problems
    assert (problem.line, problem.found) == (2, 'catastrophic error: cannot open source file "scale.h"')
    assert problem.right.startswith("Reported by NVRTC")
    assert "Add -I with the folder that has it" in problem.right


def test_an_error_in_many_lines_is_told_once_and_only_so_many_errors_are(fake_nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    lines = [f'k.cu({n}): error: identifier "word" is undefined\n' for n in (5, 9, 9)]
    lines += [f'k.cu({n}): error: identifier "v{n}" is undefined\n' for n in range(20, 40)]
    (fake_nvcc / "log").write_text("".join(lines))
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvcc")
    first, *others, last = caught.value.problems
    assert (first.line, first.found) == (5, 'identifier "word" is undefined (and in 2 more places)')
    assert [problem.line for problem in others] == list(range(20, 27))
    assert (last.file, last.line, last.found) == (str(source), None, "13 more errors")


def test_host_code_that_nvrtc_refuses_is_told_what_takes_it(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("int rows = 4;\nvoid launch() {}\n__global__ void k(int *o) { *o = 1; }\n")
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(source, "sm_89", "nvrtc")
    assert ["Put nvcc on the PATH" in problem.right for problem in caught.value.problems] == [True, True]


def test_nvrtc_knows_the_short_names_of_unsigned_types_that_nvcc_knows(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "typedef unsigned int uint;\n__global__ void k(uint *a, ushort *b, ulong *c) { *a = *b + *c; }\n"
        "static_assert(sizeof(ushort) == 2 && sizeof(uint) == 4 && sizeof(ulong) == 8);\n"
    )
    assert compile_cuda(source, "sm_89", "nvrtc").startswith(b"\x7fELF")


TEMPLATES = """
namespace ns { template <int N, class T = float> __global__ void fill(T *p) { p[threadIdx.x] = N; } }
template <int M = 3> __global__ void one(int *p) { p[threadIdx.x] = M; }
template __global__ void one<7>(int *);
"""
COMPILERS = ["nvrtc", pytest.param("nvcc", marks=pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc"))]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_template_is_instantiated_by_the_name_of_the_kernel(compiler: CompilerChoice, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TEMPLATES)

    def kernels(name: str | None) -> list[str]:
        return [*load_cubin(tmp_path / "k.cu", "sm_89", compiler, kernel=name).kernels]

    there = "_Z3oneILi7EEvPi"
    assert kernels(None) == kernels("one") == kernels("one<7>") == [there]
    assert kernels("one<5>") == ["_Z3oneILi5EEvPi", there]
    assert kernels("ns::fill<4, double>") == ["_ZN2ns4fillILi4EdEEvPT0_", there]
    assert decode_function(tmp_path / "k.cu", "ns::fill<9>", "sm_89", compiler).name == "_ZN2ns4fillILi9EfEEvPT0_"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_that_is_no_instance_is_refused_by_its_name(compiler: CompilerChoice, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TEMPLATES)
    right = ""
    with pytest.raises(GpuemuError, match=r"k.cu: kernel: cannot instantiate 'two<5>' \(.*two.*\)" + right):
        load_cubin(tmp_path / "k.cu", "sm_89", compiler, kernel="two<5>")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_error_in_the_template_has_its_own_line(compiler: CompilerChoice, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TEMPLATES.replace("p[threadIdx.x] = N;", '\nstatic_assert(N > 4, "too few");'))
    with pytest.raises(GpuemuError, match=r"k.cu:3: static assertion failed .*too few"):
        load_cubin(tmp_path / "k.cu", "sm_89", compiler, kernel="ns::fill<2>")


def test_an_architecture_that_the_compiler_does_not_know_is_refused(kernel_sources: Path) -> None:
    with pytest.raises(GpuemuError, match=r"invalid value for --gpu-architecture.*for sm_35"):
        compile_cuda(kernel_sources / "calls.cu", "sm_35", "nvrtc")


def test_a_word_that_is_no_architecture_is_refused(kernel_sources: Path) -> None:
    with pytest.raises(GpuemuError, match=r"arch: found 'ada'"):
        compile_cuda(kernel_sources / "calls.cu", "ada", "nvrtc")


def test_an_unknown_compiler_is_refused(kernel_sources: Path) -> None:
    with pytest.raises(GpuemuError, match=r"^compiler: found 'clang'"):
        compile_cuda(kernel_sources / "calls.cu", "sm_89", "clang")  # type: ignore[arg-type]


def test_a_missing_source_is_refused() -> None:
    with pytest.raises(GpuemuError, match=r"^no\.cu: cannot read the file \(No such file or direc"):
        compile_cuda("no.cu", "sm_89", "nvrtc")


@pytest.mark.usefixtures("no_wheels")
@pytest.mark.parametrize("compiler", ["auto", "nvcc", "nvrtc"])
def test_a_missing_compiler_names_the_pip_command(compiler: str, kernel_sources: Path) -> None:
    with pytest.raises(GpuemuError) as caught:
        compile_cuda(kernel_sources / "calls.cu", "sm_89", compiler)  # type: ignore[arg-type]
    assert extras.CUDA_TOOLS in caught.value.problems[0].right


@pytest.mark.usefixtures("no_wheels")
def test_a_missing_disassembler_names_the_pip_command() -> None:
    with pytest.raises(GpuemuError) as caught:
        run_nvdisasm(b"", "k.cubin")
    assert str(caught.value).startswith(f"nvdisasm: not installed. {extras.CUDA_TOOLS}")


def test_what_the_disassembler_says_is_passed_on() -> None:
    find_nvdisasm.cache_clear()
    with pytest.raises(GpuemuError, match=r"^k\.cubin: nvdisasm refuses the code: nvdisasm fatal"):
        run_nvdisasm(b"no cubin at all", "k.cubin")


def test_of_what_it_says_about_every_instruction_the_first_lines_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "".join(f"nvdisasm error : undefined value at address {16 * i:#x}\n" for i in range(3000))
    monkeypatch.setattr(toolchain.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1, stderr=said))
    monkeypatch.setattr(toolchain, "find_nvdisasm", lambda: "nvdisasm")
    with pytest.raises(GpuemuError, match=r"at address 0x20 \(and 2997 lines more\)"):
        run_nvdisasm(b"", "k.cubin")


def test_a_disassembler_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "nvdisasm"
    slow.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n", encoding="utf-8")
    slow.chmod(0o755)
    monkeypatch.setattr(toolchain, "find_nvdisasm", lambda: str(slow))
    monkeypatch.setattr(toolchain, "DISASSEMBLY_S", 0.2)
    with pytest.raises(GpuemuError) as caught:
        run_nvdisasm(b"", "k.cubin")
    assert str(caught.value).startswith("k.cubin: nvdisasm has not ended after 0.2 seconds")


FULL = r"^TMPDIR: the temporary folder '.*' is full \(4,096 bytes free\)"
WITHOUT_A_PLACE = "nvcc fatal   : Failed to preprocess host compiler properties.\n"
WRITING = "<built-in>: fatal error: when writing output to t/a.ii: No space left on device\ncompilation terminated.\n"
OF_THE_SOURCE = 'k.cu(7): error: expected a ";"\n'


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(total=1 << 16, used=61_440, free=4_096))


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("log", [WITHOUT_A_PLACE, WRITING])
def test_a_full_temporary_folder_is_named_and_not_the_source(fake_nvcc: Path, kernel_sources: Path, log: str) -> None:
    (fake_nvcc / "log").write_text(log)
    with pytest.raises(GpuemuError, match=FULL):
        compile_cuda(kernel_sources / "calls.cu", "sm_86", "nvcc")


@pytest.mark.usefixtures("little_room")
def test_an_error_of_the_source_is_told_in_a_folder_with_little_room(fake_nvcc: Path, kernel_sources: Path) -> None:
    (fake_nvcc / "log").write_text(OF_THE_SOURCE)
    with pytest.raises(GpuemuError, match=r'k\.cu:7: expected a "'):
        compile_cuda(kernel_sources / "calls.cu", "sm_86", "nvcc")


def test_a_failure_for_another_reason_keeps_its_words_where_there_is_room(
    fake_nvcc: Path, kernel_sources: Path
) -> None:
    (fake_nvcc / "log").write_text(WITHOUT_A_PLACE)
    with pytest.raises(GpuemuError, match="Failed to preprocess host compiler properties"):
        compile_cuda(kernel_sources / "calls.cu", "sm_86", "nvcc")


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("tool", ["nvcc", "nvdisasm"])
def test_a_folder_that_is_full_before_the_tool_starts(
    fake_nvcc: Path, kernel_sources: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    source = kernel_sources / "calls.cu"
    work = (lambda: compile_cuda(source, "sm_86", "nvcc")) if tool == "nvcc" else lambda: run_nvdisasm(b"", "k.cubin")
    with pytest.raises(GpuemuError, match=FULL):
        work()


def test_no_temporary_folder_at_all(kernel_sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(GpuemuError, match="TMPDIR: no writable temporary folder"):
        run_nvdisasm(b"a cubin", "k.cubin")
