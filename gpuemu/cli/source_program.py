"""`gpuemu run` of a source with a main function: build it with nvcc, and run it as `gpuemu exec` does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import ending
from gpuemu.base.reading import read_whole
from gpuemu.cli.program_run import FORMS, Built, ProgramOptions, run_on

_LAUNCH = ("kernel", "grid", "block", "args")
"""Parameters that describe the launch of one kernel. With one of them, gpuemu runs only this kernel."""
_TAKEN = frozenset(
    ("trace", "arch_name", "chip", "caches", "settings", "form", "output", "define", "include", "compiler_flags")
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MAIN = re.compile(rb"\b(?:int|auto)\s+main\s*\(")
_ARCH = "sm_90"


def is_program(path: str, context: click.Context) -> bool:
    """Whether a file is a source with a main function, and the command line describes no launch."""
    if ending(path) != ".cu" or any(_is_given(context, name) for name in _LAUNCH):
        return False
    try:
        return _MAIN.search(_COMMENT.sub(b" ", read_whole(path))) is not None
    except OSError:  # The next reader reports the error.
        return False


def run_source(
    path: str, arch_name: str | None, settings: Sequence[str], form: str, output: str | None, options: Sequence[str],
    context: click.Context,
) -> int:  # fmt: skip
    """Build a source, run it on the emulated GPU, and return its exit code. Raises GpuemuError."""
    from gpuemu.arch import as_architecture, parse_overrides
    from gpuemu.sass.tools.temporary import temporary_folder
    from gpuemu.sass.tools.toolchain import build_program

    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _TAKEN and _is_given(context, name):
            wrong = f"it describes one kernel, and {path} is a whole program"
            raise GpuemuError.one(max(parameter.opts, key=len), None, "", wrong, "Add --kernel NAME to run one kernel")
    if form not in FORMS:
        raise GpuemuError.one("--format", None, "", f"a program has no {form}", f"Use one of: {', '.join(FORMS)}")
    arch = as_architecture(arch_name or _ARCH, where="--arch")
    if settings:
        arch = arch.with_overrides(parse_overrides(settings), where="--set")
    program = build_program(path, arch.code_name, options)
    with temporary_folder() as folder:
        file = folder / Path(path).stem
        file.write_bytes(program)
        file.chmod(0o700)
        how = shlex.join(["nvcc", f"-arch={arch.code_name}", "-lineinfo", *options, path, "-o", file.name])
        return run_on(arch, [str(file)], ProgramOptions(form, output), Built(how, [f"./{file.name}"]))


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
