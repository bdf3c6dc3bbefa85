"""Convert the form that people write to a dense trace: walk the paths, evaluate the addresses, and separate the warps.

This module makes the checks that pydantic cannot. They find wrong offsets, memory instructions without addresses, warps
with two entries or none, and addresses outside the CTA's shared memory.
"""

from __future__ import annotations

import keyword
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.expressions import CompiledExpression, compile_expression
from gpuemu.base.strict_yaml import describe
from gpuemu.isa.opcodes import Row
from gpuemu.isa.warp import LANES
from gpuemu.trace.bulk import MOST_ROWS, THE_SIDE_FILE, Content, read_bulk
from gpuemu.trace.event_forms import EventBinder
from gpuemu.trace.form import TraceForm, WarpsForm
from gpuemu.trace.mistakes import Place, field_name
from gpuemu.trace.model import SPACES, Instruction, Launch, Trace, WarpTrace
from gpuemu.trace.ranges import MAX_ADDRESS, MAX_CTAS, parse_range, parse_selection
from gpuemu.trace.row_table import RowTable, joined_sources
from gpuemu.trace.shared_window import beyond_shared_memory
from gpuemu.trace.sizes import launch_of
from gpuemu.trace.spaces import ALL_LANES, names_a_space, says_from, space_numbers

VARIABLES = ("lane", "warp", "cta", "i")
MAX_PATH = 50_000_000
"""Maximum path length of one warp in instructions; a longer path probably has a wrong repeat count."""
MAX_THREADS = 32_768
"""Maximum number of threads of a CTA, which is also the limit of architecture files."""
MAX_WARPS = 1_000_000
"""Maximum number of warps of a trace; a larger launch is replayed on one SM in parts."""
MAX_ROWS = MOST_ROWS
"""Maximum number of executions with addresses of their own."""

_NOWHERE = ("", None, "")
_LANE = np.arange(LANES, dtype=np.int64)[None, :]


class Binder:
    """Binds one form. `line_of` gives the line of a field in the file, or None for a form built in Python.

    `folder` is the folder of the file, in which side files are looked up, or None for a form built in Python.
    """

    def __init__(
        self,
        form: TraceForm,
        code: tuple[Instruction, ...],
        file: str,
        line_of: Callable[[Place], int | None],
        folder: Path | None = None,
    ):
        self.form = form
        self.folder = folder
        self.code = code
        self.file = file
        self.line_of = line_of
        self.problems: list[Problem] = []
        self.launch = Launch()
        self.offsets = np.array([i.offset for i in code], dtype=np.int64)
        self._rows = RowTable()
        self._known_rows: dict[tuple[Any, ...], NDArray[np.int32]] = {}
        self._compiled: dict[str, CompiledExpression] = {}
        self._memory = np.array([i.accesses_memory for i in code], dtype=bool)

    def bind(self, layout: Mapping[str, int]) -> Trace:
        """Return the dense trace, with `layout` in place of the form's values of the same names.

        Raises GpuemuError with all problems.
        """
        form = self.form
        names: dict[str, Any] = {**form.layout, **layout}
        for name in form.layout:
            if name in VARIABLES or keyword.iskeyword(name) or not (name.isascii() and name.isidentifier()):
                right = f"expected a word of letters, digits and _ that is none of {', '.join(VARIABLES)}"
                self._refuse(("layout", name), f"the name '{name}'", right)
        for name, value in layout.items():
            if name not in form.layout:
                close = get_close_matches(name, form.layout, 1)
                known = f"Names of this trace: {', '.join(form.layout) or 'none'}"
                hint = f"Did you mean '{close[0]}'?" if close else known
                self._refuse(("layout",), f"unknown name '{name}'", hint)
            elif isinstance(value, bool) or not isinstance(value, (int, np.integer)) or abs(value) > MAX_ADDRESS:
                self._refuse(("layout", name), describe(value), "expected a whole number of at most 63 bits")
        if not self.code:
            self._refuse(("code",), "no instruction", "expected at least one line of SASS")
        self._raise()
        self.launch = launch_of(form.launch, names, self._refuse)
        if self.launch.threads_per_cta > MAX_THREADS:
            self._refuse(
                ("launch", "block"), f"{self.launch.threads_per_cta} threads", f"expected at most {MAX_THREADS}"
            )
        self._raise()
        warps, addresses, active, spaces, sources, events = (
            self._written(names) if form.bulk is None else self._side_file(form.bulk)
        )
        trace = Trace(
            form.kernel, form.arch, self.launch, self.code, warps, addresses, active, form.about, self.file,
            {name: int(value) for name, value in names.items()}, spaces=spaces,
            source_text=form.source_text, sources=sources, events=events,
        )  # fmt: skip
        if not self.problems:
            self.problems += beyond_shared_memory(trace)
        self._raise()
        return trace

    def _written(self, names: Mapping[str, int]) -> Content:
        """Return the content under `warps`."""
        owners = self._owners(self.launch)
        self._raise()
        paths = [self._path(n, entry) for n, entry in enumerate(self.form.warps)]
        self._raise()
        warps: list[WarpTrace] = []
        events = EventBinder(self.code, self._refuse) if any(entry.events for entry in self.form.warps) else None
        for (cta, warp), entry in sorted(owners.items()):
            path, forms = paths[entry], self.form.warps[entry].events
            rows = self._warp_rows(entry, path, cta, warp, names)
            mine = None if events is None else events.of_warp(forms, entry, path, cta, warp, names)
            warps.append(WarpTrace(cta, warp, path, rows, mine))
            if len(self.problems) > 20:
                break
        addresses = np.concatenate([np.zeros((0, LANES), np.int64), *self._rows.addresses])
        active = np.concatenate([np.zeros((0, LANES), np.bool_), *self._rows.active])
        spaces = np.concatenate([np.zeros((0, LANES), np.uint8), *self._rows.spaces])
        sources = joined_sources(self._rows.sources)
        found = None if events is None else events.table()
        return tuple(warps), addresses, active, spaces if spaces.any() else None, sources, found

    def _side_file(self, name: str) -> Content:
        """Return the content of the side file. Raises GpuemuError."""
        if self.folder is None or not resources.is_file(self.folder / name):
            found = f"no file '{name}' beside the trace"
            raise GpuemuError.one(self.file, self.line_of(("bulk",)), "bulk", found, THE_SIDE_FILE)
        label = os.path.join(os.path.dirname(self.file), name)
        return read_bulk(self.folder / name, label, self.launch, self.code)

    def _refuse(self, place: Place, found: str, right: str) -> None:
        self.problems.append(Problem(self.file, self.line_of(place), field_name(place), found, right))

    def _raise(self) -> None:
        if self.problems:
            raise GpuemuError(sorted(dict.fromkeys(self.problems), key=lambda problem: problem.line or 0))

    def _owners(self, launch: Launch) -> dict[tuple[int, int], int]:
        """Return the index of the `warps` entry for each (CTA, warp)."""
        selected: list[tuple[Sequence[int], Sequence[int]]] = []
        chosen_ctas: set[int] = set()
        for n, entry in enumerate(self.form.warps):
            ctas, warps = parse_selection(entry.cta), parse_selection(entry.warp)
            if ctas and ctas[-1] >= launch.ctas:
                right = f"expected 0 to {launch.ctas - 1}, the CTAs of the grid"
                self._refuse(("warps", n, "cta"), f"CTA {ctas[-1]}", right)
            if warps and warps[-1] >= launch.warps_per_cta:
                right = f"expected 0 to {launch.warps_per_cta - 1}, the warps of the block"
                self._refuse(("warps", n, "warp"), f"warp {warps[-1]}", right)
            if ctas is None and launch.ctas > MAX_CTAS:
                right = f"expected at most {MAX_CTAS}; choose CTAs with `cta` under warps"
                self._refuse(("launch",), f"{launch.ctas} CTAs", right)
                break
            chosen_ctas.update(ctas or range(launch.ctas))
            selected.append((ctas or range(launch.ctas), warps or range(launch.warps_per_cta)))
        for count, most, what in (
            (len(chosen_ctas), MAX_CTAS, "CTAs"),
            (len(chosen_ctas) * launch.warps_per_cta, MAX_WARPS, "warps"),
        ):
            if count > most:
                right = f"expected at most {most}; choose CTAs with `cta` under warps"
                self._refuse(("launch",), f"{count} {what}", right)
                break
        self._raise()
        owners: dict[tuple[int, int], int] = {}
        for n, chosen in enumerate(selected):
            for place in product(*chosen):
                if place in owners:
                    found = f"warp {place[1]} of CTA {place[0]} appears twice"
                    self._refuse(("warps", n), found, f"Remove it here or from warps[{owners[place]}]")
                    return owners
                owners[place] = n
        # A trace may omit whole CTAs. In each CTA that it has, every warp needs a path.
        for cta, warp in product(sorted({cta for cta, _ in owners}), range(launch.warps_per_cta)):
            if (cta, warp) not in owners:
                self._refuse(("warps",), f"warp {warp} of CTA {cta} has no entry", "Add one for each warp of the CTA")
                break
        return owners

    def _path(self, n: int, entry: WarpsForm) -> NDArray[np.int32]:
        place: Place = ("warps", n, "path")
        if entry.path is None:
            return np.arange(len(self.code), dtype=np.int32)
        path = self._walk(entry.path, place)
        if not len(path) and not self.problems:
            self._refuse(place, "the path is empty", "Add at least one instruction")
        return path

    def _walk(self, value: Any, place: Place) -> NDArray[np.int32]:
        parts = []
        total = 0
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                part = np.arange(len(self.code), dtype=np.int32)
            elif isinstance(item, dict):
                once = self._walk(item["path"], place)
                if len(once) * item["repeat"] > MAX_PATH:
                    self._refuse(
                        place,
                        f"{item['repeat']} times {len(once)} instructions",
                        f"expected at most {MAX_PATH}",
                    )
                    return once
                part = np.tile(once, item["repeat"])
            else:
                part = self._range(item, place)
            parts.append(part)
            total += len(part)
            if total > MAX_PATH:
                self._refuse(place, f"over {total} instructions", f"expected at most {MAX_PATH}")
                break
        return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)

    def _range(self, item: Any, place: Place) -> NDArray[np.int32]:
        first, last = parse_range(item)
        for offset in (first, last):
            if offset not in self.offsets:
                ends = f"{self.offsets[0]:#06x} to {self.offsets[-1]:#06x}"
                self._refuse(
                    place,
                    f"the offset {offset:#06x}",
                    f"expected the offset of an instruction, {ends}",
                )
                return np.zeros(0, np.int32)
        low, high = np.searchsorted(self.offsets, [first, last])
        return np.arange(low, high + 1, dtype=np.int32)

    def _warp_rows(
        self, n: int, path: NDArray[np.int32], cta: int, warp: int, names: Mapping[str, int]
    ) -> NDArray[np.int32]:
        """Return the address row of every memory instruction that the warp executes, in order."""
        memory = path[self._memory[path]]
        rows = np.zeros(len(memory), dtype=np.int32)
        by_index = {}
        for offset, value in self.form.warps[n].addresses.items():
            index = int(np.searchsorted(self.offsets, offset))
            place: Place = ("warps", n, "addresses", offset)
            if index >= len(self.code) or self.offsets[index] != offset:
                self._refuse(place, f"the offset {offset:#06x}", "expected the offset of an instruction in the code")
            elif not self._memory[index]:
                self._refuse(
                    place,
                    f"{self.code[index].opcode} has addresses",
                    "Only memory instructions have addresses",
                )
            elif names_a_space(value) and not self._means_memories(index):
                found = f"{self.code[index].opcode} has a space"
                self._refuse(place, found, "Only LD, ST and ATOM, whose addresses are generic, may have one")
            elif says_from(value) and not self._copies(index):
                self._refuse(
                    place, f"{self.code[index].opcode} has from", "Only asynchronous copies (LDGSTS) may have it"
                )
            else:
                by_index[index] = (place, value)
        if not len(memory):
            return rows
        order = np.argsort(memory, kind="stable")
        indices, starts = np.unique(memory[order], return_index=True)
        for index, executions in zip(indices.tolist(), np.split(order, starts[1:]), strict=True):
            if index not in by_index:
                instruction = self.code[index]
                self._refuse(
                    ("warps", n, "addresses"), f"{instruction.opcode} at {instruction.offset:#06x} has no addresses",
                    "Give addresses for each memory instruction that a path executes",
                )  # fmt: skip
                continue
            place, value = by_index[index]
            rows[executions] = self._rows_of(value, place, 0, len(executions), _Who(cta, warp), names)
        return rows

    def _copies(self, index: int) -> bool:
        return self.code[index].operation.row is Row.COPY

    def _means_memories(self, index: int) -> bool:
        """Whether an instruction's lanes may access different memories or receive zeros."""
        return self.code[index].takes_generic_addresses or self._copies(index)

    def _rows_of(
        self, value: Any, place: Place, first: int, executions: int, who: _Who, names: Mapping[str, int]
    ) -> NDArray[np.int32]:
        """Return row numbers [executions] for one instruction of one warp, from its execution `first` on."""
        if isinstance(value, dict) and "each" in value:
            entries = value["each"]
            if len(entries) != executions:
                right = f"expected {executions}, one for each time the path executes it"
                self._refuse(place, f"{len(entries)} entries under each", right)
                return np.zeros(executions, np.int32)
            parts = [self._rows_of(item, (*place, "each", k), k, 1, who, names) for k, item in enumerate(entries)]
            return np.concatenate([np.zeros(0, np.int32), *parts])
        lanes: Any = value
        active: Any = ALL_LANES
        space: Any = SPACES[0]
        source: Any = None
        if isinstance(value, dict):
            lanes, active, space = value["lanes"], value.get("active", ALL_LANES), value.get("space", space)
            source = value.get("from")
        if isinstance(active, int):
            active = f"{active} >> lane & 1"
        try:
            rows = self._evaluated_rows(lanes, active, space, source, first, executions, who, names)
        except GpuemuError as error:
            # Finding a line is slow in a large file, so it is looked up only now.
            for problem in error.problems:
                self._refuse(place, problem.found, problem.right)
            return np.zeros(executions, np.int32)
        return rows if len(rows) == executions else np.repeat(rows, executions)

    def _evaluated_rows(
        self, lanes: Any, active: str, space: Any, source: Any, first: int, executions: int, who: _Who,
        names: Mapping[str, int],
    ) -> NDArray[np.int32]:  # fmt: skip
        """Return the rows of these expressions: an existing row, one per warp, or one per execution."""
        address = self._evaluator(lanes, names)
        mask = self._evaluator(active, names)
        origin = None if source is None else self._evaluator(source, names)
        read = address.names | mask.names | (frozenset() if origin is None else origin.names)
        count = executions if "i" in read else 1
        # The last warp of a CTA may have fewer threads than lanes.
        threads = min(LANES, self.launch.threads_per_cta - LANES * who.warp)
        key = (
            repr((lanes, active, space, source)),
            who.cta if "cta" in read else None,
            who.warp if "warp" in read else None,
            (first, executions) if "i" in read else None, threads,
        )  # fmt: skip
        known = self._known_rows.get(key)
        if known is None:
            if self._rows.count + count > MAX_ROWS:
                found = f"{self._rows.count + count} executions with addresses of their own"
                raise GpuemuError.one(*_NOWHERE, found, f"expected at most {MAX_ROWS}")
            order = np.arange(first, first + count, dtype=np.int64)[:, None]
            values = {**names, "cta": who.cta, "warp": who.warp, "lane": _LANE, "i": order}
            table = np.broadcast_to(address.evaluate(values), (count, LANES)).astype(np.int64)
            takes_part = np.broadcast_to(mask.evaluate(values) != 0, (count, LANES)) & (threads > _LANE)
            sources = None
            if origin is not None:
                sources = np.broadcast_to(origin.evaluate(values), (count, LANES)).astype(np.int64)
                table = np.where(sources < 0, sources, table)
            bad = np.argwhere(takes_part & (table < 0))
            if len(bad):
                k, lane = bad[0].tolist()
                found = f"{table[k, lane]} in lane {lane}"
                raise GpuemuError.one(*_NOWHERE, found, "expected an address of at least 0")
            known = self._known_rows[key] = self._rows.add(table, takes_part, space_numbers(space, count), sources)
        return known

    def _evaluator(self, value: Any, names: Mapping[str, int]) -> _Evaluator:
        if isinstance(value, str):
            compiled = self._compiled.get(value)
            if compiled is None:
                compiled = self._compiled[value] = compile_expression(value, (*VARIABLES, *names), where=_NOWHERE)
            return _Evaluator(compiled.names, compiled.evaluate)
        constant = np.broadcast_to(np.array(value, dtype=np.int64), (1, LANES))
        return _Evaluator(frozenset(), lambda _: constant)


@dataclass(frozen=True)
class _Who:
    cta: int
    warp: int


@dataclass(frozen=True)
class _Evaluator:
    names: frozenset[str]
    evaluate: Callable[[Mapping[str, Any]], np.ndarray]
