"""Events between the written form and the dense one: evaluate them for each execution, and describe them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import compile_expression
from gpuemu.isa.warp import LANES
from gpuemu.trace.events import DEFAULTS, FIELDS, NONE, Events, event, table, told
from gpuemu.trace.mistakes import Place
from gpuemu.trace.model import Instruction, Trace, WarpTrace
from gpuemu.trace.symbolic import expression_of

VARIABLES = ("warp", "cta", "i")
_NOWHERE = ("", None, "")


class EventBinder:
    """The events of a form's warps. `refuse` receives each problem and its place."""

    def __init__(self, code: tuple[Instruction, ...], refuse: Callable[[Place, str, str], None]):
        self._has = np.array([i.has_events for i in code], np.bool_)
        self._offsets = np.array([i.offset for i in code], np.int64)
        self._code = code
        self._refuse = refuse
        self._known: dict[tuple[int, ...], int] = {}

    def of_warp(
        self, forms: Mapping[int, Any], entry: int, path: NDArray[np.int32], cta: int, warp: int,
        names: Mapping[str, int],
    ) -> NDArray[np.int32]:  # fmt: skip
        """Return the event number of each asynchronous instruction that a warp executes, in order."""
        executed = path[self._has[path]]
        numbers = np.full(len(executed), NONE, np.int32)
        for offset, value in forms.items():
            place: Place = ("warps", entry, "events", offset)
            index = int(np.searchsorted(self._offsets, offset))
            if index >= len(self._code) or self._offsets[index] != offset or not self._has[index]:
                self._refuse(place, f"an event at {offset:#06x}", "expected the offset of an asynchronous instruction")
                continue
            times = np.flatnonzero(executed == index)
            several = isinstance(value, dict) and "each" in value
            if several and len(value["each"]) != len(times):
                found = f"{len(value['each'])} entries under each"
                self._refuse(place, found, f"expected {len(times)}, one for each time the path executes it")
                continue
            for i, k in enumerate(times.tolist()):
                one = value["each"][i] if several else value
                if one is not None:
                    try:
                        numbers[k] = self._number(one, {**names, "warp": warp, "cta": cta, "i": i})
                    except GpuemuError as error:
                        self._refuse(place, error.problems[0].found, error.problems[0].right)
                        break
        return numbers

    def _number(self, given: Mapping[str, Any], values: Mapping[str, int]) -> int:
        found = {}
        for name, number in given.items():
            if isinstance(number, str):
                number = int(compile_expression(number, tuple(values), where=_NOWHERE).evaluate(values))
            found[name] = number
        return self._known.setdefault(event(**found), len(self._known))

    def table(self) -> Events:
        """Return all events, indexed by their numbers."""
        return table(list(self._known))


def described(trace: Trace, warp: WarpTrace) -> dict[int, Any]:
    """Return the events of a warp by the byte offsets of their instructions, as in the form."""
    if trace.events is None or warp.events is None:
        return {}
    executed = warp.path[np.array([i.has_events for i in trace.code], np.bool_)[warp.path]]
    found = {}
    for index in np.unique(executed).tolist():
        numbers = warp.events[executed == index]
        if (numbers == NONE).all():
            continue
        form = None if (numbers == NONE).any() else _together(trace.events[numbers], warp)
        if form is None:
            form = {"each": [None if n == NONE else _one(trace.events[n]) for n in numbers.tolist()]}
        found[trace.code[index].offset] = form
    return found


def _one(row: NDArray[np.int64]) -> dict[str, int]:
    return told(dict(zip(FIELDS, row.tolist(), strict=True)))


def _together(rows: Events, warp: WarpTrace) -> dict[str, Any] | None:
    """Return one description of all executions, or None if there is none."""
    found: dict[str, Any] = {}
    for name, column in zip(FIELDS, rows.T, strict=True):
        if (column == column[0]).all():
            if column[0] != DEFAULTS[name]:
                found[name] = int(column[0])
            continue
        lanes = np.repeat(column[None, :, None], LANES, axis=2)
        rule = expression_of(lanes, [warp.warp], [warp.cta], np.ones_like(lanes, np.bool_))
        if rule is None:
            return None
        found[name] = rule
    return found
