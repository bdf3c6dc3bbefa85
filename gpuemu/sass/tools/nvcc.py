"""Run nvcc, the compiler driver. Because nvcc runs each step in a shell, its command line has no names or definitions.

gpuemu compiles a source under a fixed name in its own folder, with a `#line` that gives the real name. Definitions and
include folders are in an argument file that the host compiler reads directly. Flags are passed to nvcc unchanged, but
flags with characters that a shell would interpret are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from gpuemu.base.errors import GpuemuError
from gpuemu.base.shown import name_of_a_line, shown_in_a_line
from gpuemu.sass.tools.options import ELF, no_code, sorted_options
from gpuemu.sass.tools.temporary import temporary_folder

Run = Callable[[Sequence[str]], "CompletedProcess[str]"]

SOURCE, ARGUMENTS, CUBIN, PREPROCESSED = "gpuemu_source.cu", "gpuemu_arguments", "gpuemu.cubin", "gpuemu.ii"
PROGRAM, READ = "gpuemu_program", "gpuemu.d"
ENVIRONMENT = ("PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")
"""Variables that choose the host compiler and its headers."""
_OF_A_SHELL = re.compile(r"[\x00-\x1f\x7f$`\"'\\;&|<>(){}*?\[\]!#]")
_OF_A_FOLDER = re.compile(r"[\w@%+=:./-]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OF_DEPENDENCIES = ("-M", "--generate-", "--dependency-")
_FILE = re.compile(r"(?:\\[ #]|\\(?!\s)|[^\s\\])+")


class Compilation:
    """A source in a folder of gpuemu, ready to be compiled; see `prepared`."""

    def __init__(self, folder: Path, nvcc: str, file: str, flags: Sequence[str]):
        self._folder, self._file = folder, file
        self._nvcc, self._flags = nvcc, flags

    def compiled(self, run: Run) -> tuple[str, bytes | None]:
        """Return nvcc's messages, and the cubin if it compiles. Raises GpuemuError for flags that produce no code."""
        done, content = self._run(run, "-cubin", CUBIN, tells=True)
        if done.returncode == 0 and not content.startswith(ELF):
            raise no_code("nvcc", self._file, self._flags)
        log = (done.stderr + done.stdout).replace(str(self._folder / SOURCE), self._file)
        return log.replace(f"{Path.cwd()}{os.sep}", ""), content if done.returncode == 0 else None

    def files_read(self) -> tuple[str, ...]:
        """Return the files that the compilation read, apart from the source; none if nvcc does not report them."""
        try:
            _, _, text = (self._folder / READ).read_text(encoding="utf-8", errors="surrogateescape").partition(": ")
        except FileNotFoundError:
            return ()
        names = (name.replace("\\ ", " ").replace("\\#", "#").replace("$$", "$") for name in _FILE.findall(text))
        return tuple(name for name in names if name != str(self._folder / SOURCE))

    def linked(self, run: Run) -> tuple[str, bytes | None]:
        """Return nvcc's messages, and the program if it compiles and links."""
        done, content = self._run(run, "-link", PROGRAM)
        log = (done.stderr + done.stdout).replace(str(self._folder / SOURCE), self._file)
        return log.replace(f"{Path.cwd()}{os.sep}", ""), content if done.returncode == 0 and content else None

    def preprocessed(self, run: Run) -> bytes | None:
        """Return everything that the compiler proper would read, without the folder's name; None if that fails."""
        done, content = self._run(run, "-E", PREPROCESSED)
        return content.replace(os.fsencode(self._folder), b"") if done.returncode == 0 and content else None

    def _run(self, run: Run, step: str, target: str, tells: bool = False) -> tuple[CompletedProcess[str], bytes]:
        """Run a step of nvcc; return its result and its output file, or b"" if there is none.

        `tells`: nvcc also lists the files that it reads, unless a flag of the user's asks for such a list.
        """
        source, arguments, output, read = (str(self._folder / name) for name in (SOURCE, ARGUMENTS, target, READ))
        tells = tells and not any(flag.startswith(_OF_DEPENDENCIES) for flag in self._flags)
        listing = ["-MD", "-MF", read] if tells else []
        done = run([self._nvcc, step, *self._flags, "-Xcompiler", f"@{arguments}", *listing, "-o", output, source])
        try:
            return done, Path(output).read_bytes()
        except FileNotFoundError:
            return done, b""


@contextmanager
def prepared(nvcc: str, source: bytes, file: str, arch: str, options: Sequence[str]) -> Iterator[Compilation]:
    """Prepare the compilation of a source; `file` is its name in messages. Raises GpuemuError for bad options."""
    given = sorted_options(options)
    for flag in given.flags:
        if found := _OF_A_SHELL.search(flag):
            right = "Remove it: nvcc passes its flags to a shell; only -D and -I may have such characters"
            what = f"'{shown_in_a_line(found[0])}' in the flag '{shown_in_a_line(flag)}'"
            raise GpuemuError.one("--nvcc-flag", None, "", what, right)
    with temporary_folder() as folder:
        if _OF_A_FOLDER.fullmatch(str(folder)) is None:
            right = "expected a folder of letters, digits and -_./, because nvcc passes it to a shell"
            raise GpuemuError.one("TMPDIR", None, "", f"'{shown_in_a_line(str(folder))}'", right)
        body = source.removeprefix(_BYTE_ORDER_MARK)
        (folder / SOURCE).write_bytes(b'#line 1 "' + name_of_a_line(file).encode() + b'"\n' + body)
        beside = os.path.dirname(file) or str(Path.cwd())  # with ".", the line table would contain "./"
        words = ["-iquote", beside]
        words += [word for text in given.folders for word in ("-I", text)] + [f"-D{text}" for text in given.definitions]
        lines = (b'"' + _quoted(os.fsencode(word)) + b'"\n' for word in words)
        (folder / ARGUMENTS).write_bytes(b"".join(lines))
        yield Compilation(folder, nvcc, file, [f"-arch={arch}", "-lineinfo", *given.flags])


def _quoted(text: bytes) -> bytes:
    """Escape text for double quotes, in C and in an argument file."""
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
