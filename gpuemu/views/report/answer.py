"""The report's first screen: what costs most, and where the run stands under the roofs of its SM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2
from typing import Any

from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS
from gpuemu.views.stalls import stall_reason

SHOWN = 3
_COUNTED = {"conflicts": "excess_wavefronts", "sectors": "excess_sectors"}
"""What a cause of accesses counts, as a row of the source page names it."""
_WIDTH, _HEIGHT, _LEFT, _BELOW = 480, 280, 54, 40
Ranking = Sequence[Mapping[str, str | int | float]]


def costs(result: Result, ranking: Ranking, instructions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The three causes that cost most: of a ranking by `gpuemu why`, else the stall reasons with most cycles.

    Each has its name, cycles, share of its whole, what to do, code, and the row of the instruction that it is about.
    """
    code = result.program.code

    def most(count: Callable[[int], int]) -> int | None:
        """The instruction of which there is most; None of none."""
        found = max(range(len(instructions)), key=count)
        return found if count(found) > 0 else None

    def of_stall(reason: str) -> int | None:
        return most(lambda n: instructions[n]["stalls"].get(reason, 0))

    def of_cause(name: str) -> int | None:
        kind, at, place = name.partition("@")
        if kind not in _COUNTED:
            return of_stall(name.removeprefix("stall."))
        there = {n for n, i in enumerate(code) if not at or place == f"{i.offset:04x}"}
        there |= {n for n, i in enumerate(code) if i.source and place == ":".join(map(str, i.own_line))}
        found = most(lambda n: instructions[n][COLUMNS[_COUNTED[kind]]] if n in there else 0)
        return min(there, default=None) if found is None and at else found

    if ranking:
        return [
            {
                "name": row["Without"], "cycles": row["Cycles gained"],
                "share": int(row["Cycles gained"]) / max(1, result.cycles),
                "told": row["What to do"] or row.get("Simulated change"),
                "code": row.get("Code", ""),
                "row": of_cause(str(row["Without"])),
            }
            for row in [row for row in ranking if int(row["Cycles gained"]) > 0][:SHOWN]
        ]  # fmt: skip
    total = sum(result.stalls.values())
    waited = sorted(((cycles, reason) for reason, cycles in result.stalls.items() if reason != "selected"))[::-1]
    return [
        {
            "name": reason, "cycles": cycles, "share": cycles / total,
            "told": f"a warp {stall_reason(reason).sentence}", "code": "", "row": of_stall(reason),
        }
        for cycles, reason in waited[:SHOWN]
        if cycles
    ]  # fmt: skip


def roofs(result: Result) -> list[tuple[str, float, float, float]]:
    """Each memory's name, warp instructions for each sector or wavefront of it, how many of these it takes a cycle, and
    instructions a cycle."""
    memory, shared = result.arch.global_memory, result.arch.shared_memory
    issued, rate = len(result.program.path), len(result.program.path) / max(1, result.cycles)
    loaded, stored = result.l1.loaded_sectors, result.l1.stored_sectors
    # Loads and stores have ways of their own; what the last stores leave in the buffer takes no time of the run.
    late = max(0, stored - memory.store_buffer_sectors)
    busy = memory.sector_bytes * max(loaded / memory.bytes_per_cycle, late / memory.store_bytes_per_cycle)
    wavefronts = sum(counts.wavefronts for counts in result.shared_memory.values())
    ports = shared.ports.unified if shared.ports.topology != "separate" else shared.ports.read
    found = (
        ("L2, sectors", loaded + stored, (loaded + stored) / busy if busy else 1.0),
        ("shared memory, wavefronts", wavefronts, ports),
    )
    return [(name, issued / count, float(takes), rate) for name, count, takes in found if count]


def roofline(result: Result) -> str:
    """The instruction roofline as SVG: both axes by powers of two; "" where no memory was used."""
    of = roofs(result)
    if not of or not result.cycles:
        return ""
    top = float(result.arch.sm.sub_cores)
    xs = [x for _, each, takes, _ in of for x in (each, top / takes)]
    low_x, high_x = log2(min(xs)) - 1, log2(max(xs)) + 1
    low_y, high_y = log2(min(rate for *_, rate in of)) - 1, log2(top) + 0.5

    def at(x: float, y: float) -> tuple[float, float]:
        across = (log2(x) - low_x) / (high_x - low_x)
        up = (max(log2(y), low_y) - low_y) / (high_y - low_y)
        return round(_LEFT + across * (_WIDTH - _LEFT - 10), 1), round((1 - up) * (_HEIGHT - _BELOW), 1)

    said = "; ".join(f"{name}: {each:.2f} instructions each, {rate:.2f} a cycle" for name, each, _, rate in of)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Instruction roofline. {said}">']
    parts += _axes(low_x, high_x, low_y, high_y, at)
    for number, (name, each, takes, rate) in enumerate(of):
        (a, b), (c, d) = at(2**low_x, 2**low_x * takes), at(top / takes, top)
        start = at(2**low_y / takes, 2**low_y) if 2**low_x * takes < 2**low_y else (a, b)
        (e, f), (x, y) = at(2**high_x, top), at(each, rate)
        parts.append(f'<polyline class="roof k{number}" points="{start[0]},{start[1]} {c},{d} {e},{f}"/>')
        parts.append(f'<circle class="k{number}" cx="{x}" cy="{y}" r="6"/>')
        right = x > _WIDTH / 2
        parts.append(f'<text x="{x - 10 if right else x + 10}" y="{y - 10 if number else y + 20}"'
                     f' text-anchor="{"end" if right else "start"}">{name}</text>')  # fmt: skip
    return "".join([*parts, "</svg>"])


def _axes(low_x: float, high_x: float, low_y: float, high_y: float, at: Any) -> Iterator[str]:
    base = _HEIGHT - _BELOW
    yield f'<path class="axis" d="M{_LEFT} 0V{base}H{_WIDTH - 10}"/>'
    step = max(1, round((high_x - low_x) / 5))
    for power in range(int(-(-low_x // 1)), int(high_x) + 1, step):
        yield f'<text x="{at(2.0**power, 1)[0]}" y="{base + 18}" text-anchor="middle">{2.0**power:g}</text>'
    for power in range(int(-(-low_y // 1)), int(high_y) + 1, max(1, round((high_y - low_y) / 5))):
        yield f'<text x="{_LEFT - 6}" y="{at(1, 2.0**power)[1] + 5}" text-anchor="end">{2.0**power:.3g}</text>'
    yield f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 2}" text-anchor="end">instructions a sector or wavefront</text>'
    yield f'<text x="{_LEFT + 6}" y="14">instructions a cycle</text>'
