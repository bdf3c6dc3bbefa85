"""Does `Limited by` name what limits? python tools/limits.py [--arch sm_89]... [--kernel NAME]... [--why]

Every value of the architecture file is set free, one at a time: an interval or latency to the least possible, a
capacity or rate to the most that there may be. Where a shipped kernel gains a tenth of its cycles or more by that, the
value's resource (`gpuemu/views/resources.py`) must have a bound of at least half the gain, and with --why one of its
causes must gain half of it, too. Prints each such value; exits with 1 if one is not named. All of it takes an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

import gpuemu
from gpuemu.arch import Architecture, load_arch
from gpuemu.base import resources as files
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import run
from gpuemu.studies.why.hardware import executed_timings, least_latencies
from gpuemu.views.resources import LEAST, PIPES, RESIDENCY, entry_of, is_pipe, owner
from gpuemu.views.result import Result

GAIN = 0.1
ENOUGH = 0.5
"""Of a gain: what the bound, or the cause, must have at least."""


@dataclass(frozen=True)
class Gain:
    """What a value gains when it is free, of the run's cycles; so much its bound says, and the best of its causes."""

    value: str
    gained: float
    bound: float
    cause: float

    def __str__(self) -> str:
        return f"{self.value:60}{self.gained:8.1%}{self.bound:8.1%}{self.cause:8.1%}  {owner(self.value).resource}"

    @property
    def is_named(self) -> bool:
        """Whether its resource has a bound, and its causes a gain, that shows it."""
        return min(self.bound, self.cause) >= ENOUGH * self.gained


def ranges(part: BaseModel, before: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The numbers of an architecture, by dotted name, with the least and the most that each may be."""
    for name, field in type(part).model_fields.items():
        value, place = getattr(part, name), f"{before}{name}"
        if isinstance(value, BaseModel):
            yield from ranges(value, f"{place}.")
        elif hasattr(value, "items"):
            for key, entry in value.items():
                yield from ranges(entry, f"{place}.{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            low, high = (next(getattr(m, end) for m in field.metadata if hasattr(m, end)) for end in ("ge", "le"))
            yield place, low, high


def freed(result: Result) -> Iterator[tuple[str, Architecture]]:
    """Each value that can be set free and that this run may hang on, and the architecture with it free."""
    least = {name: value for part in least_latencies(result) for name, value in part.items()}
    executed, flat = executed_timings(result.program), result.arch.flat()
    for name, low, high in ranges(result.arch):
        of = owner(name)
        end = least.get(name, low) if of.free == LEAST else high
        timing = entry_of(name) != name and name.rpartition(".")[0] not in executed
        if of.free is None or flat[name] == end or timing:
            continue
        try:
            yield name, result.arch.with_overrides({name: end})
        except GpuemuError:
            continue  # does not fit together with others


def gains(name: str, arch: str | Architecture, with_why: bool = True) -> list[Gain]:
    """What gains a tenth and more by a single value in a shipped kernel."""
    trace = gpuemu.load_trace(name)
    result = run(trace, arch)
    rows: dict[str, int] = {}
    found = []
    for value, other in freed(result):
        try:
            gained = 1 - run(trace, other).cycles / result.cycles
        except GpuemuError:
            continue  # an effect would come before its cause
        if gained < GAIN:
            continue
        if with_why and not rows:
            rows = {row.cause.name: row.gained for row in gpuemu.why(trace, result.arch, pairs=0, jobs=1).rows}
        of = owner(value)
        own = [row for row in rows if row.partition("@")[0] in of.causes or _is_pipe(row, of)]
        causes = [rows[row] / result.cycles for row in own]
        found.append(Gain(value, gained, _bound(result, of.resource), max(causes, default=0) if with_why else 1))
    return found


def _is_pipe(row: str, of: Any) -> bool:
    return of.resource == PIPES and row.startswith("pipe.")


def _bound(result: Result, resource: str) -> float:
    """The share of the run that the bound of a resource says; residency has none, and a line of its own."""
    if resource == RESIDENCY:
        return 1.0
    fits = is_pipe if resource == PIPES else lambda name: resource in name
    return max((b.cycles for b in result.bounds if fits(b.resource)), default=0) / result.cycles


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--arch", action="append")
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--why", action="store_true", help="ask for the causes as well")
    options = parser.parse_args()
    missing = 0
    for name in options.kernel or files.names("traces"):
        for arch in options.arch or ("sm_80", "sm_89", "sm_90"):
            try:
                load_arch(arch)
                for gain in gains(name, arch, options.why):
                    missing += not gain.is_named
                    print(f"{name:28}{arch:8}{'' if gain.is_named else 'NOT NAMED  '}{gain}", flush=True)
            except GpuemuError as error:
                print(f"{name:28}{arch:8}{error}")
    raise SystemExit(1 if missing else 0)


if __name__ == "__main__":
    main()
