"""NVIDIA's tools that gpuemu runs: a CUDA compiler and the disassembler, from wheels or a toolkit.

    cubin = compile_cuda("kernel.cu", "sm_89")      # nvcc if it is on the PATH, otherwise NVRTC's wheel
    text = run_nvdisasm(cubin, "kernel.cu")

Neither needs a GPU. They are dependencies of gpuemu on systems with NVIDIA wheels: Linux with glibc, and Windows.
Version 13 of each reads and writes code for sm_75 and later.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.extras import CUDA_TOOLS, INSTALL, missing, wheel_files
from gpuemu.base.reading import read_whole
from gpuemu.base.shown import name_of_a_line, shown_in_a_line
from gpuemu.sass.tools import kept_cubins, nvcc, nvrtc
from gpuemu.sass.tools.options import no_code, sorted_options
from gpuemu.sass.tools.temporary import full_folder, temporary_folder

CompilerChoice = Literal["auto", "nvcc", "nvrtc"]

DISASSEMBLY_S, COMPILATION_S = 120, 1200
"""Seconds after which a tool is assumed to loop endlessly, as nvdisasm does for some damaged cubins."""

_ARCH = re.compile(r"sm_\d+[af]?$")
_RELEASE = re.compile(r"release ([\d.]+), (V[\d.]+)")
_ERROR = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<found>(?:catastrophic |fatal )?error\b.*)$")
_PREPROCESSOR_ERROR = re.compile(r"^(?P<file>.+?):(?P<line>\d+)(?::\d+)?: (?P<found>(?:fatal )?error: .*)$")
_HOST_CODE = re.compile(r"in JIT mode")
_MOST_ERRORS = 8
_NOT_FOUND = re.compile(r"cannot open source file|No such file or directory")
_PTX_ERROR = re.compile(r"^ptxas .*, line (?P<line>\d+); +(?:error|fatal) *: *(?P<found>.*)$")
_NEEDS = re.compile(r"(?:Feature|Modifier|Instruction) (?P<what>'[^']*') requires \.target (?P<arch>sm_\d+[af]?)")
_ELSEWHERE = re.compile(r".* not supported on \.target 'sm_(?:90|1\d\d)'")
_MOST_NAMES = 4
_TOOL_ERROR = re.compile(r"^\w+ +(?:error|fatal) *:")


@lru_cache
def find_nvdisasm() -> str:
    """Return the disassembler from its wheel, whose version pyproject.toml bounds, or else from the PATH.

    Raises GpuemuError if there is none.
    """
    for file in wheel_files("nvidia-cuda-nvdisasm"):
        if file.stem == "nvdisasm" and file.parent.name == "bin" and file.is_file():
            return str(file)
    found = shutil.which("nvdisasm")
    if found is None:
        raise missing("nvdisasm", CUDA_TOOLS)
    return found


def find_nvcc() -> str | None:
    """Return the compiler driver on the PATH, or None."""
    return shutil.which("nvcc")


def _run(command: Sequence[str], file: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a tool on `file`. Raises GpuemuError if it does not end within this number of seconds."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        tool = Path(command[0]).name
        right = "Try a smaller file"
        raise GpuemuError.one(file, None, "", f"{tool} has not ended after {seconds} seconds", right) from None


def run_nvdisasm(cubin: bytes, file: str) -> str:
    """Return the disassembly of every function of a cubin, and keep it for the next time; messages call it `file`.

    Data-flow analysis is off, because it only guesses targets that the cubin's own tables give.
    """
    nvdisasm = find_nvdisasm()
    place = kept_cubins.place_of_disassembly(_content_version(nvdisasm), cubin)
    text = kept_cubins.kept_text(place)
    if text is not None:
        return text
    with temporary_folder() as folder:
        path = folder / "code.cubin"
        path.write_bytes(cubin)
        done = _run([nvdisasm, "--print-code", "--no-dataflow", str(path)], file, DISASSEMBLY_S)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).replace(str(path), file).splitlines()
            said = " ".join(" ".join(lines[:3]).split())
            if len(lines) > 3:
                said += f" (and {len(lines) - 3} lines more)"
            raise GpuemuError.one(
                file,
                None,
                "",
                f"nvdisasm refuses the code: {said}",
                f"A newer nvdisasm may read it ({INSTALL})",
            )
    kept_cubins.keep_text(place, done.stdout)
    return done.stdout


def choose_compiler(compiler: CompilerChoice = "auto") -> Literal["nvcc", "nvrtc"]:
    """Return the compiler that `compile_cuda` runs: for "auto", nvcc if it is on the PATH, otherwise NVRTC."""
    if compiler not in get_args(CompilerChoice):
        raise GpuemuError.one("compiler", None, "", f"'{compiler}'", "expected auto, nvcc or nvrtc")
    if compiler == "auto":
        return "nvcc" if find_nvcc() else "nvrtc"
    return compiler


def compiler_version(compiler: CompilerChoice = "auto") -> str:
    """Return a version such as "nvcc 13.0 (V13.0.88)" or "NVRTC 13.0"."""
    if choose_compiler(compiler) == "nvrtc":
        return nvrtc.version()
    return _nvcc_version(_nvcc(), _file_version(_nvcc()))


@lru_cache
def _nvcc_version(nvcc: str, file_version: tuple[int, int]) -> str:
    """Ask nvcc once in each process; `file_version` identifies its file."""
    release = _RELEASE.search(_run([nvcc, "--version"], "nvcc", DISASSEMBLY_S).stdout)
    return "nvcc" if release is None else f"nvcc {release[1]} ({release[2]})"


OF_AN_INSTANCE = ("--kernel", "__nv_name_map")
"""File names that nvcc and NVRTC report for errors in an instance, as opposed to its source."""


def compile_cuda(
    path: str | Path, arch: str, compiler: CompilerChoice = "auto", options: Sequence[str] = (), instance: str = ""
) -> bytes:
    """Return the cubin of a CUDA C++ source for an architecture such as "sm_89", with line information.

    `instance`: a kernel template of the source to instantiate, such as "gemm<128, 8>". `options` are passed to the
    compiler (`-I`, `-D`, `--use_fast_math`); neither they nor a file's name reach a shell. NVRTC compiles only device
    code: a source with host code needs nvcc. Raises GpuemuError with the compiler's errors, by file and line.
    """
    chosen = choose_compiler(compiler)
    file = str(path)
    if _ARCH.match(arch) is None:
        raise GpuemuError.one(file, None, "arch", f"'{arch}'", "expected an architecture such as sm_89")
    source = _read(path, "Give the path of a CUDA source")
    compiled = _with_nvcc if chosen == "nvcc" else _with_nvrtc
    log, cubin = compiled(source, file, arch, options, instance)
    if cubin is None:
        log = log.replace(name_of_a_line(file), shown_in_a_line(file))
        raise _compile_error(log, file, arch, "nvcc" if chosen == "nvcc" else "NVRTC (which takes device code only)")
    return cubin


def build_program(path: str | Path, arch: str, options: Sequence[str] = ()) -> bytes:
    """Return the program of a CUDA C++ source with a main function, built by nvcc for an architecture such as "sm_89".

    `options` are as for `compile_cuda`. Raises GpuemuError without nvcc, and with the compiler's errors.
    """
    file = str(path)
    source = _read(path, "Give a CUDA source")

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return _run(command, file, COMPILATION_S)

    with nvcc.prepared(_nvcc(), source, file, arch, options) as compilation:
        log, program = compilation.linked(run)
    if program is None:
        raise _compile_error(log.replace(name_of_a_line(file), shown_in_a_line(file)), file, arch, "nvcc")
    return program


def _with_nvcc(source: bytes, file: str, arch: str, options: Sequence[str], instance: str) -> tuple[str, bytes | None]:
    """Return nvcc's messages, and the kept or new cubin."""

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return _run(command, file, COMPILATION_S)

    if instance:  # taking its address instantiates it
        source += f'\n#line 1 "{OF_AN_INSTANCE[0]}"\nstatic const auto gpuemu_instance = &{instance};\n'.encode()
    with nvcc.prepared(_nvcc(), source, file, arch, options) as compilation:
        given = sorted_options(options)
        told = (compiler_version("nvcc"), find_nvcc(), file, arch)
        read = kept_cubins.all_read(source, Path(file).parent, [Path(folder) for folder in given.folders])
        around = (*given.folders, *given.definitions, *map(os.environ.get, nvcc.ENVIRONMENT))
        place = kept_cubins.place_of((*told, *around), given.flags, read)
        if place is not None:
            cubin = kept_cubins.kept_with_files(place)
            if cubin is not None:
                return "", cubin
            log, cubin = compilation.compiled(run)
            if cubin is not None:
                kept_cubins.keep_with_files(place, cubin, compilation.files_read())
            return log, cubin
        place = kept_cubins.place_of(told, given.flags, compilation.preprocessed(run))
        cubin = kept_cubins.kept(place)
        if cubin is not None:
            return "", cubin
        log, cubin = compilation.compiled(run)
    if cubin is not None:
        kept_cubins.keep(place, cubin)
    return log, cubin


def _with_nvrtc(source: bytes, file: str, arch: str, options: Sequence[str], instance: str) -> tuple[str, bytes | None]:
    """Return NVRTC's messages, and the kept or new cubin."""
    given = sorted_options(options)
    read = kept_cubins.all_read(source, Path(file).parent, [Path(folder) for folder in given.folders])
    told = (nvrtc.version(), nvrtc.headers(), file, arch, instance, *given.folders, *given.definitions)
    place = kept_cubins.place_of(told, given.flags, read)
    cubin = kept_cubins.kept(place)
    if cubin is not None:
        return "", cubin
    log, cubin = nvrtc.compile_source(source, file, arch, options, instance)
    if cubin is not None:
        kept_cubins.keep(place, cubin)
    return log, cubin


def assemble_ptx(path: str | Path, arch: str, options: Sequence[str] = ()) -> bytes:
    """Return the cubin of a PTX file for an architecture such as "sm_89", assembled by ptxas on the PATH.

    Raises GpuemuError without ptxas, and with the assembler's errors.
    """
    return assembled(_read(path, "Give the path of a PTX file"), str(path), arch, ("-lineinfo", *options))


def assembled(ptx: bytes, file: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """Return the cubin of PTX text, called `file` in messages, and keep it for the next time; see `assemble_ptx`."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        right = "Put ptxas of the CUDA toolkit on the PATH, or give the .cubin that it makes: ptxas -arch=sm_89 k.ptx"
        raise GpuemuError.one(file, None, "", "PTX needs ptxas to become machine code, and there is no ptxas", right)
    place = kept_cubins.place_of(("ptxas", ptxas, _file_version(ptxas), arch), options, ptx)
    cubin = kept_cubins.kept(place)
    if cubin is not None:
        return cubin
    with temporary_folder() as folder:
        to, source = folder / "kernel.cubin", folder / "kernel.ptx"
        source.write_bytes(ptx)
        done = _run([ptxas, f"-arch={arch}", *options, "-o", str(to), str(source)], file, COMPILATION_S)
        if done.returncode != 0:
            raise _compile_error((done.stderr + done.stdout).replace(str(source), file), file, arch, "ptxas")
        if not to.is_file():
            raise no_code("ptxas", file, options)
        cubin = to.read_bytes()
    kept_cubins.keep(place, cubin)
    return cubin


def linked(objects: Sequence[bytes], file: str, arch: str) -> bytes:
    """Link several relocatable cubins (`nvcc -rdc=true`) to one by nvlink on the PATH. Raises GpuemuError."""
    nvlink = shutil.which("nvlink")
    if nvlink is None:
        raise missing(
            "nvlink, which links separately compiled kernels", "Put the bin folder of the CUDA toolkit on the PATH"
        )
    with temporary_folder() as folder:
        paths = [folder / f"{number}.cubin" for number in range(len(objects))]
        for path, content in zip(paths, objects, strict=True):
            path.write_bytes(content)
        to = folder / "linked.cubin"
        done = _run([nvlink, f"-arch={arch}", "-o", str(to), *map(str, paths)], file, COMPILATION_S)
        if done.returncode != 0 or not to.is_file():
            raise _compile_error((done.stderr + done.stdout).replace(f"{folder}/", ""), file, arch, "nvlink")
        return to.read_bytes()


def _file_version(path: str) -> tuple[int, int]:
    """Identify a tool, so that its later replacement is recognized. A missing one is found out when it is run."""
    try:
        status = Path(path).resolve().stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


@lru_cache
def _content_version(path: str) -> str:
    """Identify a tool by its content, the same in every environment. A missing one is found out when it is run."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _read(path: str | Path, right: str) -> bytes:
    try:
        return read_whole(path)
    except OSError as error:
        found = f"cannot read the file ({error.strerror})"
        raise GpuemuError.one(str(path), None, "", found, right) from None


def _nvcc() -> str:
    found = find_nvcc()
    if found is None:
        raise missing("nvcc", f"Put the bin folder of the CUDA toolkit on the PATH, or use NVRTC. {CUDA_TOOLS}")
    return found


def _compile_error(log: str, file: str, arch: str, compiler: str) -> GpuemuError:
    """Return the compiler's own messages: the errors in the source or in its PTX, or any other output."""
    right = f"Reported by {compiler} for {arch}"
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    errors = [match for line in lines if (match := _ERROR.match(line) or _PREPROCESSOR_ERROR.match(line))]
    ptx: dict[str, list[str]] = {}  # one missing feature has a line for each instruction that needs it
    for line in lines:
        if e := _PTX_ERROR.match(line):
            ptx.setdefault(e["found"], []).append(e["line"])
    full = full_folder(log, suspected=not errors and not ptx)
    if full is not None:
        return full
    if errors:
        return GpuemuError(_source_problems(errors, file, compiler, right))
    if ptx:
        return GpuemuError(_ptx_problems(file, ptx, arch, right))
    said = [line for line in lines if _TOOL_ERROR.match(line)] or lines[:_MOST_ERRORS] or ["the compilation failed"]
    return GpuemuError(Problem(file, None, "", sentence, right) for sentence in dict.fromkeys(said))


def _source_problems(errors: Sequence[re.Match[str]], file: str, compiler: str, right: str) -> Iterator[Problem]:
    """Yield a problem for each error, at its first line; the last one counts the errors that are too many to list."""
    words = f"Reported by {compiler}"
    empty = "if only host code uses it, with a folder that has an empty file of that name"
    places: dict[tuple[str, str], list[int]] = {}
    for e in errors:
        places.setdefault((e["file"], e["found"]), []).append(int(e["line"]))
    for (where, found), at in list(places.items())[:_MOST_ERRORS]:
        more = f" (and in {len(at) - 1} more places)" * (len(at) > 1)
        if _NOT_FOUND.search(found):
            yield Problem(
                where,
                at[0],
                "",
                found.removeprefix("error: ") + more,
                f"{words}. Add -I with the folder that has it or, {empty}",
            )
        elif _HOST_CODE.search(found):
            kernel = "Put nvcc on the PATH, or give a .cu with the kernel alone, or its header"
            yield Problem(where, at[0], "", found.removeprefix("error: ") + more, f"{words}. {kernel}")
        else:
            yield Problem(where, at[0], "", found.removeprefix("error: ") + more, right)
    if len(places) > _MOST_ERRORS:
        yield Problem(
            file, None, "", f"{len(places) - _MOST_ERRORS} more errors", "The errors above often cause the rest"
        )


def _ptx_problems(file: str, errors: Mapping[str, list[str]], arch: str, right: str) -> Iterator[Problem]:
    """Yield a problem for each error, by its PTX lines, and one for all features that need a newer architecture."""
    lacks = {found: needed for found in errors if (needed := _NEEDS.match(found))}
    if lacks:
        newest = max((needed["arch"] for needed in lacks.values()), key=lambda name: int(name[3:].rstrip("af")))
        names = [needed["what"] for needed in lacks.values()]
        listed = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES))
        yield Problem(file, None, "", f"{arch} does not have {listed}", f"Use --arch {newest} or higher")
    for found, lines in errors.items():
        if found not in lacks:
            where = f"PTX line {lines[0]}" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
            own = f"{right}. Try --nvcc-flag -arch={arch}a, which has the features of {arch} alone"
            yield Problem(file, None, "", f"ptxas error: {found} ({where})", own if _ELSEWHERE.match(found) else right)
