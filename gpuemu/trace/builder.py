"""Build traces by hand, in Python.

    from gpuemu import TraceBuilder

    trace = TraceBuilder("copy", arch="sm_89", block=(128, 1, 1), static_shared_bytes=2048)
    trace.emit("S2R R0, SR_TID.X")
    with trace.repeat(16):
        trace.emit("LDS.128 R4, [R0]", lanes="512*warp + 16*lane")
        with trace.only(warps="0-1"):
            trace.emit("STS.128 [R0], R4", lanes="512*warp + 16*lane")
    trace.emit("EXIT")
    trace.write("copy.yaml")

`emit` appends an instruction to the code and to the path of the warps in scope. To use existing code, pass its whole
listing to `listing`, and the addresses of its memory instructions to `addresses`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpuemu.base.errors import GpuemuError
from gpuemu.base.strict_yaml import describe
from gpuemu.base.whole_files import whole_file
from gpuemu.trace.bind import Binder
from gpuemu.trace.form import LaunchForm, TraceForm, WarpsForm
from gpuemu.trace.listing import INSTRUCTION_BYTES, format_listing, parse_listing
from gpuemu.trace.mistakes import Place, refusal
from gpuemu.trace.model import ControlWord, Instruction, Launch, Trace
from gpuemu.trace.ranges import MAX_REPEAT, parse_selection
from gpuemu.trace.writing import write_form

Form = TypeVar("Form", bound=BaseModel)
Extent = int | Sequence[int]
"""Up to three sizes; missing sizes are 1."""
FILE = "<builder>"
"""Name in messages for a trace without a file."""


@dataclass
class _Block:
    """Part of a path: offsets and blocks, executed `times` times by the warps in `warps` (all if None)."""

    times: int = 1
    warps: frozenset[int] | None = None
    items: list[int | _Block] = field(default_factory=list)

    def path(self, warp: int) -> list[Any]:
        """Return the instructions that `warp` executes here, as path items of the form."""
        items: list[Any] = []
        for item in self.items:
            if isinstance(item, int):
                items.append(item)
            elif item.warps is None or warp in item.warps:
                inside = item.path(warp)
                if inside and item.times == 1:
                    items += inside
                elif inside and item.times:
                    items.append({"repeat": item.times, "path": _ranges(inside)})
        return items


def _ranges(items: list[Any]) -> Any:
    """Join consecutive offsets to ranges, as people write them."""
    joined: list[Any] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, int) and isinstance(last, list) and item == last[1] + INSTRUCTION_BYTES:
            last[1] = item
        else:
            joined.append([item, item] if isinstance(item, int) else item)
    written = [
        (f"{i[0]:#06x}" if i[0] == i[1] else f"{i[0]:#06x}-{i[1]:#06x}") if isinstance(i, list) else i for i in joined
    ]
    return written[0] if len(written) == 1 else written


class TraceBuilder:
    """Collects instructions, paths and addresses; `build` returns the trace, and `write` writes the file.

    Sizes are in CTAs, threads, registers and bytes. `layout` names numbers for address expressions. The bytes of shared
    memory may also be such expressions.
    """

    def __init__(
        self,
        kernel: str,
        *,
        arch: str,
        grid: Extent = (1, 1, 1),
        block: Extent = (32, 1, 1),
        registers_per_thread: int = 32,
        static_shared_bytes: int | str = 0,
        dynamic_shared_bytes: int | str = 0,
        about: str = "",
        layout: Mapping[str, int] | None = None,
    ):
        self._head: dict[str, Any] = {"gpuemu_trace": 1, "kernel": kernel, "arch": arch, "about": about}
        launch = {
            "grid": _three(grid), "block": _three(block), "registers_per_thread": registers_per_thread,
            "static_shared_bytes": static_shared_bytes, "dynamic_shared_bytes": dynamic_shared_bytes,
        }  # fmt: skip
        self._launch = _checked(LaunchForm, launch, ("launch",))
        self._layout = dict(layout or {})
        self._code: list[Instruction] = []
        self._root = _Block()
        self._scopes = [self._root]
        self._addresses: dict[int, Any] = {}
        self._events: dict[int, Any] = {}

    def emit(
        self, sass: str, *, lanes: Any = None, active: int | str | None = None, each: list[Any] | None = None,
        space: str | dict[str, int] | None = None, source: Any = None, event: Any = None,
        control: str | ControlWord | None = None,
    ) -> int:  # fmt: skip
        """Append one instruction and return its byte offset.

        `lanes`, `active`, `space`, `source` (the form's `from`) and `each` are its addresses, as in the trace form.
        `event` is the effect of an asynchronous instruction (see `trace.events`). `control` is its control word, such
        as "B0-----:R-:W1:-:S02". Raises GpuemuError for an unknown instruction.
        """
        offset = self._code[-1].offset + INSTRUCTION_BYTES if self._code else 0
        word = f"[{str(control).strip('[]')}] " if control is not None else ""
        field = f"code at {offset:#06x}"
        parsed = parse_listing(f"{offset:04x}: {word}{sass}", FILE, None, field)
        if len(parsed) != 1:
            found = f"{len(parsed)} instructions"
            raise GpuemuError.one(FILE, None, field, found, "expected one instruction; use `listing` for several")
        self._code += parsed
        self._scopes[-1].items.append(offset)
        if each is not None:
            self._addresses[offset] = {"each": _plain(each)}
        elif lanes is not None:
            self.addresses(offset, lanes, active, space, source)
        if event is not None:
            self._events[offset] = _plain(event)
        return offset

    def listing(self, text: str, file: str = "<listing>") -> None:
        """Append a whole listing, executed once from top to bottom; `file` is its name in messages."""
        if self._code:
            raise GpuemuError.one(
                file, None, "code", "a listing after other code", "Give the listing before any other instruction"
            )
        self._code = list(parse_listing(text, file, 1))
        self._scopes[-1].items += [i.offset for i in self._code]

    def addresses(
        self, offset: int, lanes: Any, active: int | str | None = None, space: str | dict[str, int] | None = None,
        source: Any = None,
    ) -> None:  # fmt: skip
        """Set the lane byte addresses of the memory instruction at `offset`: an expression or 32 numbers.

        `active`: a mask, or an expression that is not 0 in the active lanes. `space`: the memory of generic addresses,
        "shared" or "local", or a mask of lanes for each. `source`: the global addresses that the lanes of an
        asynchronous copy read.
        """
        given = (("active", active), ("space", space), ("from", source))
        more = {name: value for name, value in given if value is not None}
        self._addresses[offset] = _plain({"lanes": lanes, **more} if more else lanes)

    @property
    def code(self) -> tuple[Instruction, ...]:
        return tuple(self._code)

    @property
    def _warps(self) -> int:
        return Launch(**self._launch.model_dump()).warps_per_cta

    @contextmanager
    def repeat(self, times: int) -> Iterator[None]:
        """Execute the instructions emitted inside `times` times."""
        if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= MAX_REPEAT:
            raise GpuemuError.one(FILE, None, "repeat", describe(times), "expected a whole number of times")
        with self._scope(_Block(times=times)):
            yield

    @contextmanager
    def only(self, warps: int | str | list[int]) -> Iterator[None]:
        """Let only these warps of each CTA execute the instructions emitted inside: 3, "0-3" or a list."""
        form = _checked(WarpsForm, {"warp": warps}, ("only",))
        selected = parse_selection(form.warp)
        if selected is not None and selected[-1] >= self._warps:
            right = f"expected 0 to {self._warps - 1}, the warps of the block"
            raise GpuemuError.one(FILE, None, "only.warp", f"warp {selected[-1]}", right)
        with self._scope(_Block(warps=None if selected is None else frozenset(selected))):
            yield

    @contextmanager
    def _scope(self, block: _Block) -> Iterator[None]:
        self._scopes[-1].items.append(block)
        self._scopes.append(block)
        try:
            yield
        finally:
            self._scopes.pop()

    def form(self) -> TraceForm:
        """Return the trace as the form that `write` writes. Raises GpuemuError with the problems in it."""
        groups: dict[str, tuple[list[int], Any]] = {}
        for warp in range(self._warps):
            path = _ranges(self._root.path(warp))
            groups.setdefault(repr(path), ([], path))[0].append(warp)
        whole_code = repr(_ranges([i.offset for i in self._code]))
        warps = []
        for key, (members, path) in groups.items():
            executed = _offsets(path)
            entry = {
                "warp": "all" if len(groups) == 1 else _selection(members),
                "path": None if key == whole_code else path,
                "addresses": {o: a for o, a in self._addresses.items() if o in executed},
                "events": {o: e for o, e in self._events.items() if o in executed},
            }
            warps.append(entry)
        code = format_listing(self._code)
        form = {**self._head, "launch": self._launch, "layout": self._layout, "code": code, "warps": warps}
        return _checked(TraceForm, form, ())

    def build(self, layout: Mapping[str, int] | None = None) -> Trace:
        """Return the dense trace, ready to run. Raises GpuemuError with all problems."""
        form = self.form()
        trace = Binder(form, tuple(self._code), FILE, lambda _: None).bind(layout or {})
        return replace(trace, text=write_form(form)) if trace.layout else trace

    def write(self, path: str | os.PathLike[str]) -> None:
        """Check the trace, then write it as a YAML file."""
        self.build()
        with whole_file(path) as file:
            file.write(write_form(self.form()).encode())


def _three(extent: Extent) -> tuple[int, ...]:
    sizes = (extent,) if isinstance(extent, int) else tuple(extent)
    return (*sizes, 1, 1)[: max(3, len(sizes))]


def _checked(form: type[Form], value: Mapping[str, Any], place: Place) -> Form:
    """Validate a value as a form at `place` of the trace form. Raises GpuemuError with its problems."""
    try:
        return form.model_validate(value)
    except ValidationError as error:
        raise refusal(error, FILE, lambda _: None, place) from None


def _plain(value: Any) -> Any:
    """Convert arrays, tuples, ranges and NumPy numbers to YAML types."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _selection(warps: list[int]) -> Any:
    consecutive = warps == list(range(warps[0], warps[-1] + 1))
    return warps[0] if len(warps) == 1 else f"{warps[0]}-{warps[-1]}" if consecutive else warps


def _offsets(path: Any) -> set[int]:
    offsets: set[int] = set()
    for item in path if isinstance(path, list) else [path]:
        if isinstance(item, dict):
            offsets |= _offsets(item["path"])
        else:
            first, _, last = item.partition("-")
            offsets.update(range(int(first, 16), int(last or first, 16) + 1, INSTRUCTION_BYTES))
    return offsets
