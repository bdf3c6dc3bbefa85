"""Read trace files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from gpuemu.arch import Architecture
from gpuemu.base import resources, strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import CUDA_SOURCES, ending
from gpuemu.trace import accel_sim
from gpuemu.trace.bind import Binder
from gpuemu.trace.form import TraceForm
from gpuemu.trace.formats import Format, one_alone
from gpuemu.trace.lines import with_lines, with_threads_of
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.mistakes import refusal
from gpuemu.trace.model import Trace

FORMATS = [accel_sim.FORMAT]
"""Formats of trace files that are read and written in addition to gpuemu's own."""


def load_trace(
    path: str | os.PathLike[str],
    *,
    arch: str | Architecture | None = None,
    layout: Mapping[str, int] | None = None,
    kernel: str | None = None,
) -> Trace:
    """Read a trace: a path to a YAML file, or the name of one that comes with gpuemu, such as "v5_swizzle".

    The file may also be an Accel-Sim trace: a `.traceg` file, a `.traceg.xz`, or a list of them, `kernelslist.g`. If
    the list has several kernels, `kernel` names one.

    `arch` selects among shipped traces of that name that were compiled for several architectures. If there is none for
    it, the trace of the plain name is read. `layout` replaces numbers of the trace's `layout`. Raises GpuemuError with
    the file, line and field of every problem.
    """
    found, label = locate(path, arch.name if isinstance(arch, Architecture) else arch)
    form = format_of(found.name)
    if form is not None:
        for name in layout or {}:
            raise GpuemuError.one(
                label,
                None,
                "layout",
                f"unknown name '{name}'",
                f"{form.name[0].upper()}{form.name[1:]} has no numbers to change",
            )
        return form.read(found, label, kernel)
    if kernel is not None:
        raise one_alone(label, kernel)
    trace = TraceFile(strict_yaml.load(found, label), found.parent).bind(layout or {})
    return replace(trace, text=found.read_text(encoding="utf-8-sig")) if trace.layout else trace


def format_of(name: str) -> Format | None:
    """Return the format of a trace file of that name, or None for gpuemu's own."""
    return next((form for form in FORMATS if form.takes(name)), None)


def lists_kernels(name: str) -> bool:
    """Whether a file of that name lists several traces, from which a kernel's name selects one."""
    return any(form.is_list(name) for form in FORMATS)


def as_trace(trace: Trace | str | os.PathLike[str], arch: str | None, *, where: str) -> Trace:
    """Return a trace unchanged, or load the one of that name or path (see `load_trace`). Raises GpuemuError."""
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, str | os.PathLike):
        return load_trace(trace, arch=arch)
    right = "expected a Trace, the name of a shipped one, or the path of a file"
    raise GpuemuError.one(where, None, "trace", strict_yaml.describe(trace), right)


class TraceFile:
    """A trace that was read and checked. Such a trace can be bound to numbers of its layout, also several times.

    `folder` is the folder of the file, in which its side file is looked up. Raises GpuemuError with the problems.
    """

    def __init__(self, document: strict_yaml.Document, folder: Path | None):
        if isinstance(document.value, dict) and "gpuemu_study" in document.value:
            right = f"Pass it as --study {document.name}"
            raise GpuemuError([document.problem(("gpuemu_study",), "a study instead of a trace", right)])
        self.form = _validate(document)
        first_line, second_line = (document.text_line(("code",), i) for i in range(2))
        code = parse_listing(self.form.code, document.name, first_line, line_step=second_line - first_line)
        code = with_lines(code, self.form.source) if self.form.source else code
        self._code = with_threads_of(code, self.form.threads) if self.form.threads else code
        self._document = document
        self._folder = folder

    def bind(self, layout: Mapping[str, int]) -> Trace:
        """Return the trace with these numbers in place of its layout's. Raises GpuemuError with the problems."""
        return Binder(self.form, self._code, self._document.name, self._document.line, self._folder).bind(layout)


_RECORD = "Record a trace of it with gpuemu trace or gpuemu.trace_kernel"
_NOT_TRACES = {
    ".ptx": ("PTX is not a trace", _RECORD),
    **dict.fromkeys(CUDA_SOURCES, ("a CUDA source is not a trace", _RECORD)),
    ".cubin": ("machine code is not a trace", _RECORD),
}


def locate(path: str | os.PathLike[str], arch: str | None = None) -> tuple[Path, str]:
    """Return the file that `load_trace` would read, and its name in messages. Raises GpuemuError."""
    right = "expected the path of a trace or the name of a shipped one"
    return _locate(strict_yaml.path_text(path, "load_trace()", right), arch)


def _locate(name: str, arch: str | None) -> tuple[Path, str]:
    """Return the file, and its name in messages."""
    given = Path(name)
    if ending(given) in _NOT_TRACES:
        raise GpuemuError.one(name, None, "", *_NOT_TRACES[ending(given)])
    if resources.is_file(given):
        return given, name
    bare = name.removesuffix(".yaml")
    for base in (bare, bare.removeprefix("traces/")):
        for candidate in (f"{arch}/{base}", base) if arch else (base,):
            shipped = resources.find("traces", candidate)
            if shipped is not None:
                return shipped, resources.label("traces", candidate)
    right = "Give the path of a trace, or the name of a shipped one"
    if os.path.isdir(given):  # this also covers a path that is too long for the system
        raise GpuemuError.one(name, None, "", "this is a folder", right)
    if given.suffix or "/" in name or "\\" in name:
        raise GpuemuError.one(name, None, "", "no such file", right)
    known = resources.names("traces")
    close = get_close_matches(name, known, 1)
    hint = f"Did you mean '{close[0]}'?" if close else "List the shipped traces with: gpuemu traces"
    raise GpuemuError.one(name, None, "", "no trace of that name", hint)


def _validate(document: strict_yaml.Document) -> TraceForm:
    try:
        return TraceForm.model_validate(document.value)
    except ValidationError as error:
        raise refusal(error, document.name, document.line) from None
