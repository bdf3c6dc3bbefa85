"""The numbers of a result by name, which `--fail-on` tests and `gpuemu diff` compares."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.views.verdict import Verdict

_CONDITION = re.compile(r"\s*([\w.]+)\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)?)\s*\Z")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip
_OPPOSITES = {"<": "at least", "<=": "more than", "==": "not", "!=": "exactly", ">=": "less than", ">": "at most"}
"""The limit that a figure keeps if a condition does not hold."""


def metrics(data: Mapping[str, Any]) -> dict[str, int]:
    """The metrics by name, from the data of a result.

    They are cycles, warp_instructions and resident_ctas; wavefronts, ideal_wavefronts and excess_wavefronts of shared
    memory, and of each row (shared_load_matrix.excess_wavefronts); sectors and excess_sectors of global and local
    memory, and of each row (global_load.sectors); the fields of l1 (l1.hit_sectors); stall.REASON; bound.RESOURCE; and
    every counter under the profiler's name.
    """
    rows = data["shared_memory"]
    found = {
        "cycles": data["cycles"],
        "warp_instructions": data["counters"]["smsp__inst_executed.sum"],
        "resident_ctas": data["resident_ctas"],
        "wavefronts": sum(row["wavefronts"] for row in rows),
        "ideal_wavefronts": sum(row["ideal_wavefronts"] for row in rows),
        "excess_wavefronts": sum(row["bank_conflicts"] for row in rows),
    }
    for row in rows:
        name = row["row"].lower().replace(" ", "_")
        found[f"{name}.instructions"] = row["instructions"]
        found[f"{name}.wavefronts"] = row["wavefronts"]
        found[f"{name}.excess_wavefronts"] = row["bank_conflicts"]
    # A result that an earlier gpuemu saved has no table of global memory.
    beyond = data.get("global_memory", ())
    if beyond:
        found["sectors"] = sum(row["sectors"] for row in beyond)
        found["excess_sectors"] = sum(row["sectors"] - row["ideal_sectors"] for row in beyond)
    for row in beyond:
        name = row["row"].lower().replace(" ", "_")
        found[f"{name}.requests"] = row["requests"]
        found[f"{name}.sectors"] = row["sectors"]
        found[f"{name}.excess_sectors"] = row["sectors"] - row["ideal_sectors"]
    found.update({f"l1.{name}": count for name, count in data.get("l1", {}).items()})
    found.update({f"stall.{reason}": cycles for reason, cycles in data["stalls"].items()})
    found.update({f"bound.{_identifier(b['resource'])}": b["cycles"] for b in data["bounds"]})
    found.update(data["counters"])
    return found


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")


def figure_of(values: Mapping[str, int], name: str, where: str, line: int | None = None, field: str = "") -> int:
    """The metric of that name. `where` is the place of the name in an error. Raises GpuemuError if there is none."""
    if name in values:
        return values[name]
    if name.startswith("bound."):  # an unused resource has no bound
        return 0
    close = get_close_matches(name, values, 1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known names: {', '.join(list(values)[:6])}, ..."
    raise GpuemuError.one(where, line, field, f"unknown name '{name}'", hint)


class Condition:
    """A condition such as `excess_wavefronts>0`. Raises GpuemuError if it is not one."""

    def __init__(self, text: str):
        match = _CONDITION.match(text)
        if match is None:
            raise GpuemuError.one(
                "--fail-on", None, "", f"'{text}'", "expected a condition such as 'excess_wavefronts>0'"
            )
        self.text = text.strip()
        self.name, self._operator, number = match.groups()
        self.limit = f"{_OPPOSITES[self._operator]} {number}"
        self._number = float(number)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these metrics. Raises GpuemuError for a name that they lack."""
        return _OPERATORS[self._operator](figure_of(values, self.name, "--fail-on"), self._number)

    def verdict(self, values: Mapping[str, int]) -> Verdict:
        """The verdict on these metrics. Raises GpuemuError for a name that they lack."""
        holds, found = self.holds(values), values.get(self.name, 0)
        sentence = f"--fail-on {self.text}: {self.name} is {found}"
        return Verdict(f"--fail-on {self.text}", self.name, found, self.limit, holds, sentence)
