"""The traces of a sweep in the form for its workers: picklable, with a digest of everything that affects a run.

A trace without a layout is bound once, here. A trace with a layout travels as its text, and a worker binds it to the
numbers of each point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code
from gpuemu.trace.files import TraceFile, format_of
from gpuemu.trace.model import Trace


@dataclass
class Source:
    """A trace: either `trace` is the object, or `text` is the text of its file.

    `layout` has the numbers that a point may replace, and `arch` is the architecture that its code is for. `as_it_is`
    is the digest of a trace with its own layout numbers, and `digest` that of its text. `instructions`: the number that
    it executes with its own layout. `guessed`: the mnemonics without a timing rule.
    """

    label: str
    name: str
    arch: str
    layout: Mapping[str, int]
    digest: str
    instructions: int
    trace: Trace | None = None
    text: str = ""
    as_it_is: str = ""
    guessed: Mapping[str, int] = field(default_factory=dict)
    _file: TraceFile | None = field(default=None, repr=False, compare=False)

    def bind(self, layout: Mapping[str, int]) -> Trace:
        """The trace with these layout numbers. Raises GpuemuError if they are not valid."""
        if self.trace is not None:
            return self.trace
        if self._file is None:
            self._file = TraceFile(strict_yaml.parse(self.text, self.name), None)
        return self._file.bind({**self.layout, **layout})

    def identity(self, layout: Mapping[str, int]) -> str:
        """A digest of the trace with these numbers, independent of the place of its file."""
        if self.as_it_is and {**self.layout, **layout} == self.layout:
            return self.as_it_is
        return self.digest + "".join([f" {name}={value}" for name, value in {**self.layout, **layout}.items()])

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_file": None}


def of_file(path: Path, name: str, label: str) -> Source:
    """The source of a trace file; `name` is its name in messages. Raises GpuemuError with what is wrong."""
    form = format_of(path.name)
    if form is not None:
        return of_trace(form.read(path, name, None), label)
    document = strict_yaml.load(path, name)
    file = TraceFile(document, path.parent)
    trace = file.bind({})
    if not trace.layout:
        return of_trace(trace, label)
    text = path.read_text(encoding="utf-8-sig")
    return Source(label, name, trace.arch, trace.layout, _text_digest(text), trace.executed_instructions,
                  text=text, as_it_is=_digest(trace), guessed=trace.guessed)  # fmt: skip


def of_trace(trace: Trace, label: str) -> Source:
    """The source of a trace in memory. Its layout may vary if the trace is still the one that its text gives."""
    digest, instructions = _digest(trace), trace.executed_instructions
    if trace.text:
        found = Source(label, trace.file, trace.arch, trace.layout, _text_digest(trace.text), instructions,
                       text=trace.text, as_it_is=digest, guessed=trace.guessed)  # fmt: skip
        if _digest(found.bind({})) == digest:
            return found
    return Source(label, trace.file, trace.arch, {}, digest, instructions, trace=trace, guessed=trace.guessed)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def refuse_machine_code(path: str) -> None:
    """Raise GpuemuError if a kernel was given instead of a trace."""
    if is_machine_code(path):
        right = "Record a trace of it with gpuemu trace"
        raise GpuemuError.one(path, None, "", "machine code is not a trace", right)


def _digest(trace: Trace) -> str:
    """The digest of everything that a run reads; names, files and lines do not count."""
    content = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            data = part.tobytes() if isinstance(part, np.ndarray) else str(part).encode()
            content.update(b"%d:" % len(data))
            content.update(data)

    add(trace.launch)
    for instruction in trace.code:
        add(instruction.offset, instruction, instruction.control)
    for warp in trace.warps:
        add(warp.cta, warp.warp, warp.path.astype("<i4"), warp.rows.astype("<i4"))
    add(trace.addresses.astype("<i8"), trace.active.astype(np.bool_))
    if trace.spaces is not None:
        add(trace.spaces)
    if trace.sources is not None:
        add(trace.sources.astype("<i8"))
    if trace.events is not None:
        add(trace.events, *(warp.events for warp in trace.warps))
    return content.hexdigest()
