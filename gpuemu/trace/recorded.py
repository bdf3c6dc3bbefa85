"""Convert a recorded trace to the form that people read, and to a side file for content that nobody would read.

Paths become ranges and repetitions. Addresses become expressions if they follow a rule, otherwise lists. A trace whose
lists would exceed `MOST_NUMBERS` numbers keeps its warps in a binary file next to the YAML (see `bulk`). The YAML names
that file under `bulk`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import is_written_into, whole_file
from gpuemu.isa.warp import LANES
from gpuemu.trace.bulk import is_side_file, write_bulk
from gpuemu.trace.event_forms import described
from gpuemu.trace.form import LaunchForm, TraceForm
from gpuemu.trace.lines import ranges
from gpuemu.trace.listing import format_listing
from gpuemu.trace.mistakes import refusal
from gpuemu.trace.model import GLOBAL, LOCAL, SHARED, SPACES, ZEROS, Launch, Trace, WarpTrace
from gpuemu.trace.naming import SIZES, Naming
from gpuemu.trace.paths import path_form, path_items
from gpuemu.trace.ranges import MAX_CTAS
from gpuemu.trace.symbolic import expression_of
from gpuemu.trace.writing import write_form

MOST_NUMBERS = 20_000
"""Maximum count of numbers (addresses and parts of paths) in a YAML file; above it, a side file holds the warps."""
_OF_AN_EXPRESSION = 8
"""An expression counts as this many numbers, because it takes a reader as much time."""
_MOST_ROWS = 1 << 19
"""Maximum number of executions of an instruction for which one rule is sought; more would exhaust the memory."""
_MOST_RULES = 64
"""Maximum number of executions of an instruction for which separate rules are sought."""


def write_trace(trace: Trace, path: str | os.PathLike[str], naming: Naming | None = None) -> list[Path]:
    """Write a trace as YAML, with a side file if its addresses are bulky; return the files written.

    With a `naming` (see `naming`) of this trace, its addresses and sizes use the names of a layout. The side file has
    the name of the trace with `.npz` for `.yaml`. A side file from an earlier write is replaced, or removed if none is
    needed. Any other file of that name stays and causes a GpuemuError. If writing fails, the earlier files are
    unchanged.
    """
    if not trace.knows_copies:
        found = "the trace lacks the shared addresses that its asynchronous copies (LDGSTS) write"
        right = "A trace of Accel-Sim cannot be converted, but runs as it is"
        raise GpuemuError.one(trace.file, None, "", found, right)
    target = Path(path)
    side = target.with_name(f"{target.stem if target.suffix in ('.yaml', '.yml') else target.name}.npz")
    warps = _warp_forms(trace, naming)
    fields: dict[str, Any] = {"warps": warps} if warps is not None else {"bulk": side.name}
    if naming is not None and warps is not None:
        fields["layout"] = dict(naming.layout)
        fields["launch"] = _launch(trace) | {name: naming.size(name) for name in SIZES}
    if lines := ranges(trace.code):
        fields["source"] = lines
    if trace.source_text:
        fields["source_text"] = trace.source_text
    if threads := {i.offset: i.threads for i in trace.code if i.threads is not None}:
        fields["threads"] = threads
    text = write_form(_form(trace, fields, os.fspath(path)))
    side_is_ours = is_side_file(side)
    if warps is None and side.exists() and not side_is_ours:
        right = "Choose another name for the trace"
        raise GpuemuError.one(
            str(side), None, "", "this file would be overwritten, and it is not a side file of a trace", right
        )
    if warps is None and is_written_into(target):
        found = "this trace needs a side file for its addresses, and the output is not a regular file"
        raise GpuemuError.one(os.fspath(path), None, "", found, "Give the name of a file")
    old_side, replaced = side.read_bytes() if side_is_ours else None, False
    try:
        with whole_file(target) as new_text:
            new_text.write(text.encode())
            if warps is None:
                with whole_file(side) as new_side:
                    write_bulk(trace, new_side, str(side))
                replaced = True
    except OSError:
        if replaced and old_side is None:
            side.unlink()
        elif replaced and old_side is not None:
            side.write_bytes(old_side)
        raise
    if warps is not None and side_is_ours:
        side.unlink()
    return [target, side] if warps is None else [target]


def _form(trace: Trace, fields: dict[str, Any], file: str) -> TraceForm:
    about = "; ".join(filter(None, (trace.about, *trace.lacks)))
    head = {
        "gpuemu_trace": 1, "kernel": trace.name, "arch": trace.arch, "about": about, "launch": _launch(trace),
        "code": format_listing(trace.code),
    }  # fmt: skip
    try:
        return TraceForm.model_validate(head | fields)
    except ValidationError as error:
        raise refusal(error, file, lambda _: None) from None


def _launch(trace: Trace) -> dict[str, Any]:
    return {name: getattr(trace.launch, name) for name in LaunchForm.model_fields}


class _TooManyNumbersError(Exception):
    """The trace is bulky."""


@dataclass
class _Entry:
    """Warps that share a path and addresses, by byte offset."""

    addresses: dict[int, Any]
    warps: list[WarpTrace] = field(default_factory=list)


def _warp_forms(trace: Trace, naming: Naming | None) -> list[dict[str, Any]] | None:
    """Return the `warps` entries, or None if they need too many numbers or more CTAs than a written trace may have."""
    if len({w.cta for w in trace.warps}) > MAX_CTAS:
        return None
    memory = np.array([i.accesses_memory for i in trace.code], dtype=np.bool_)
    offsets = np.array([i.offset for i in trace.code], dtype=np.int64)
    groups: dict[tuple[bytes, bytes, bytes, str], list[WarpTrace]] = {}
    events: dict[str, dict[int, Any]] = {}
    for warp in sorted(trace.warps, key=lambda w: (w.cta, w.warp)):
        masks = np.packbits(_masks(trace, warp), axis=1)
        spaces = b"" if trace.spaces is None else _spaces(trace, warp).tobytes()
        its_events = described(trace, warp)
        name = repr(its_events)
        events[name] = its_events
        groups.setdefault((warp.path.tobytes(), masks.tobytes(), spaces, name), []).append(warp)
    forms = []
    numbers = 0
    paths: dict[bytes, Any] = {}
    try:
        for (path, *_, name), group in groups.items():
            if path not in paths:
                paths[path] = path_form(group[0].path, offsets)
            description = _Group(trace, memory, MOST_NUMBERS - numbers, naming)
            for entry in description.entries(group):
                for ctas, warps in _products(entry.warps):
                    description.spend(path_items(paths[path]) + _numbers(events[name]))
                    forms.append(
                        {
                            "cta": _selection(ctas, trace.launch.ctas),
                            "warp": _selection(warps, trace.launch.warps_per_cta),
                            "path": paths[path],
                            "addresses": entry.addresses,
                            "events": events[name],
                        }
                    )
            numbers = MOST_NUMBERS - description.numbers_left
    except _TooManyNumbersError:
        return None
    return forms


def _existing(launch: Launch, warp: int) -> NDArray[np.bool_]:
    """Return the lanes of a warp that have a thread, [32]."""
    return LANES * warp + np.arange(LANES) < launch.threads_per_cta


def _masks(trace: Trace, warp: WarpTrace) -> NDArray[np.bool_]:
    """Return the active lanes, [memory instructions, 32]; lanes without a thread count as active."""
    return trace.active[warp.rows] | ~_existing(trace.launch, warp.warp)


def _spaces(trace: Trace, warp: WarpTrace) -> NDArray[np.uint8]:
    """Return the memory of each lane, [memory instructions, 32]; inactive lanes have global."""
    assert trace.spaces is not None
    return np.where(trace.active[warp.rows], trace.spaces[warp.rows], np.uint8(GLOBAL))


def _number(mask: NDArray[np.bool_]) -> int:
    return sum(1 << lane for lane, on in enumerate(mask.tolist()) if on)


class _Group:
    """Describes warps with the same path and the same active lanes."""

    def __init__(self, trace: Trace, memory: NDArray[np.bool_], numbers_left: int, naming: Naming | None):
        self.trace = trace
        self.naming = naming
        self.memory = memory
        self.numbers_left = numbers_left
        self._found: dict[tuple[tuple[int, int], ...], dict[int, Any] | None] = {}

    def spend(self, numbers: int) -> None:
        """Count numbers that the file will contain."""
        self._expect(numbers)
        self.numbers_left -= numbers

    def entries(self, group: Sequence[WarpTrace]) -> Iterable[_Entry]:
        """Return descriptions that each cover as many warps as possible."""
        for split in (_whole, _by_warp, _by_cta, _one_by_one):
            same: dict[str, _Entry] = {}
            numbers = 0
            for part in split(group):
                addresses = self._known(part)
                if addresses is None:
                    break
                key = repr(addresses)
                if key not in same:
                    numbers += _numbers(addresses)
                    if numbers > self.numbers_left:
                        break
                    same[key] = _Entry(addresses)
                same[key].warps += part
            else:
                self.spend(numbers)
                return same.values()
        raise _TooManyNumbersError

    def _known(self, group: Sequence[WarpTrace]) -> dict[int, Any] | None:
        """Call `_addresses` once for each group, and remember the result."""
        key = tuple((w.cta, w.warp) for w in group)
        if key not in self._found:
            self._found[key] = self._addresses(group)
        return self._found[key]

    def _addresses(self, group: Sequence[WarpTrace]) -> dict[int, Any] | None:
        """Return addresses by byte offset, or None if several warps need different descriptions."""
        executed = group[0].path[self.memory[group[0].path]]
        sources = self.trace.sources
        rows = np.stack([w.rows for w in group])
        masks = _masks(self.trace, group[0])
        spaces = np.zeros_like(masks, np.uint8) if self.trace.spaces is None else _spaces(self.trace, group[0])
        found: dict[int, Any] = {}
        numbers = 0
        for index in np.unique(executed).tolist():
            here = executed == index
            value = self._one_instruction(rows[:, here], _Lanes(masks[here], spaces[here]), group)
            if value is None:
                return None
            if sources is not None and (sources[rows[:, here]] >= 0).all():
                source = self._one_instruction(rows[:, here], _Lanes.plain(here.sum()), group, sources)
                if source is None:
                    return None
                value = _with_source(value, source, int(here.sum()))
            numbers += _numbers(value)
            self._expect(numbers)
            found[self.trace.code[index].offset] = value
        return found

    def _one_instruction(
        self, rows: NDArray[np.int32], lanes_of: _Lanes, group: Sequence[WarpTrace],
        sources: NDArray[np.int64] | None = None,
    ) -> Any:  # fmt: skip
        """Return the form of the addresses in these rows [warps, executions], or of those in `sources` if given."""
        times = rows.shape[1]
        each_mask = not lanes_of.always_the_same
        if rows.size <= _MOST_ROWS:
            ctas, warps = [w.cta for w in group], [w.warp for w in group]
            rule = self._rule(rows, warps, ctas, sources)
            if rule is not None and not each_mask:
                return lanes_of.written(rule, 0)
            if rule is not None:
                self._expect(times * _OF_AN_EXPRESSION)
                return {"each": [lanes_of.written(rule, k) for k in range(times)]}
            if 1 < times <= _MOST_RULES:
                entries: list[Any] = []
                for k in range(times):
                    lanes: Any = self._rule(rows[:, k : k + 1], warps, ctas, sources)
                    if lanes is None and len(group) > 1:
                        return None
                    entries.append(lanes_of.written(lanes or self._numbers_of(rows[0, k], sources).tolist(), k))
                return {"each": entries}
        if len(group) > 1:
            return None
        numbers = self._numbers_of(rows[0], sources)
        if (numbers == numbers[0]).all() and not each_mask:
            return lanes_of.written(numbers[0].tolist(), 0)
        self._expect(numbers.size)
        return {"each": [lanes_of.written(lanes, k) for k, lanes in enumerate(numbers.tolist())]}

    def _rule(
        self, rows: NDArray[np.int32], warps: list[int], ctas: list[int], sources: NDArray[np.int64] | None
    ) -> str | None:
        if self.naming is not None and sources is None:
            return self.naming.expression(rows, warps, ctas)
        table = self.trace.addresses if sources is None else sources
        return expression_of(table[rows], warps, ctas, self.trace.active[rows])

    def _expect(self, numbers: int) -> None:
        """Raise _TooManyNumbersError if there is no room for that many numbers, before they are written out."""
        if numbers > self.numbers_left:
            raise _TooManyNumbersError

    def _numbers_of(self, rows: Any, sources: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the addresses of these rows, or their sources, with 0 in inactive lanes."""
        return np.where(self.trace.active[rows], (self.trace.addresses if sources is None else sources)[rows], 0)


@dataclass(frozen=True)
class _Lanes:
    """The active lanes in each execution of an instruction, and the memories that they access, [executions, 32]."""

    masks: NDArray[np.bool_]
    spaces: NDArray[np.uint8]

    @classmethod
    def plain(cls, times: int) -> _Lanes:
        """Return the lanes of executions in which all lanes are active."""
        return cls(np.ones((times, LANES), np.bool_), np.zeros((times, LANES), np.uint8))

    @property
    def always_the_same(self) -> bool:
        """Whether all executions are equal."""
        return bool((self.masks == self.masks[0]).all() and (self.spaces == self.spaces[0]).all())

    def written(self, lanes: Any, k: int) -> Any:
        """Return the addresses of the k-th execution, with its mask and memories if they are needed."""
        mask, spaces = self.masks[k], self.spaces[k]
        more: dict[str, Any] = {} if mask.all() else {"active": _number(mask)}
        meant = {SPACES[space]: _number(spaces == space) for space in (SHARED, LOCAL, ZEROS) if (spaces == space).any()}
        if meant:
            name, *others = meant
            # Inactive lanes have no memory, which is written as global.
            alone = not others and not (mask & (spaces == GLOBAL)).any()
            more["space"] = name if alone else meant
        return {"lanes": lanes, **more} if more else lanes


def _with_source(value: Any, source: Any, times: int) -> Any:
    """Combine the form of the addresses that copies write with the form of those that they read."""
    several = [isinstance(v, dict) and "each" in v for v in (value, source)]
    if any(several):
        values, sources = (v["each"] if each else [v] * times for v, each in zip((value, source), several, strict=True))
        return {"each": [_with_source(v, s, 1) for v, s in zip(values, sources, strict=True)]}
    return {**(value if isinstance(value, dict) else {"lanes": value}), "from": source}


def _numbers(value: Any) -> int:
    """Return how many numbers a form of addresses adds to a file."""
    if isinstance(value, dict):
        return sum(map(_numbers, value.values()))
    if isinstance(value, list):
        return sum(map(_numbers, value))
    return _OF_AN_EXPRESSION if isinstance(value, str) else 1


def _whole(group: Sequence[WarpTrace]) -> Iterator[list[WarpTrace]]:
    yield list(group)


def _by_warp(group: Sequence[WarpTrace]) -> Iterator[list[WarpTrace]]:
    yield from _split(group, [w.warp for w in group])


def _by_cta(group: Sequence[WarpTrace]) -> Iterator[list[WarpTrace]]:
    yield from _split(group, [w.cta for w in group])


def _one_by_one(group: Sequence[WarpTrace]) -> Iterator[list[WarpTrace]]:
    yield from ([warp] for warp in group)


def _split(group: Sequence[WarpTrace], keys: list[int]) -> Iterator[list[WarpTrace]]:
    for key in sorted(set(keys)):
        yield [w for w, its in zip(group, keys, strict=True) if its == key]


def _products(warps: Sequence[WarpTrace]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (CTAs, warps) whose combinations are exactly these warps."""
    of_cta: dict[int, list[int]] = {}
    for warp in sorted(warps, key=lambda w: (w.cta, w.warp)):
        of_cta.setdefault(warp.cta, []).append(warp.warp)
    ctas: dict[tuple[int, ...], list[int]] = {}
    for cta, its in of_cta.items():
        ctas.setdefault(tuple(its), []).append(cta)
    for members, who in ctas.items():
        yield who, list(members)


def _selection(numbers: list[int], count: int) -> Any:
    """Return ascending numbers below `count` as in the form: all, 3, 0-3, or a list of these."""
    if len(numbers) == count:
        return "all"
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1 and number - ranges[-1][0] < 1 << 16:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words: list[Any] = [first if first == last else f"{first}-{last}" for first, last in ranges]
    return words[0] if len(words) == 1 else words
