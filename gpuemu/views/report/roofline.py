"""The instruction roofline as SVG: instructions per cycle against instructions per sector or wavefront."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from gpuemu.views.result import Result

_WIDTH, _HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BELOW = 44, 12, 22, 40
_LINE = 14
"""Height of a line of text, in pixels."""
_MOST_TICKS = 6
_ROOM_BELOW = 0.24
"""The space under the dots as a share of the space above them: two lines of text fit there."""


class Roof(NamedTuple):
    """A memory, and where the run is under its roof.

    `per_unit`: warp instructions per sector or wavefront; `rate`: sectors or wavefronts that it serves per cycle;
    `issued`: instructions per cycle.
    """

    name: str
    unit: str
    per_unit: float
    rate: float
    issued: float


def roofs(result: Result) -> list[Roof]:
    """L2 and shared memory, those that the run used."""
    memory, shared = result.arch.global_memory, result.arch.shared_memory
    issued, rate = len(result.program.path), len(result.program.path) / max(1, result.cycles)
    loaded, stored = result.l1.loaded_sectors, result.l1.stored_sectors
    # Loads and stores have separate paths. The last stores wait in the buffer and take no time of the run.
    late = max(0, stored - memory.store_buffer_sectors)
    busy = memory.sector_bytes * max(loaded / memory.bytes_per_cycle, late / memory.store_bytes_per_cycle)
    wavefronts = sum(counts.wavefronts for counts in result.shared_memory.values())
    ports = shared.ports.unified if shared.ports.topology != "separate" else shared.ports.read
    found = (
        ("L2", "sector", loaded + stored, (loaded + stored) / busy if busy else 1.0),
        ("shared memory", "wavefront", wavefronts, float(ports)),
    )
    return [Roof(name, unit, issued / count, serves, rate) for name, unit, count, serves in found if count]


@dataclass(frozen=True)
class _Axes:
    """Both axes count powers of two."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point."""
        across = (log2(x) - self.low_x) / (self.high_x - self.low_x)
        up = (max(log2(y), self.low_y) - self.low_y) / (self.high_y - self.low_y)
        height = _HEIGHT - _BELOW - _TOP
        return round(_LEFT + across * (_WIDTH - _LEFT - _RIGHT), 1), round(_TOP + (1 - up) * height, 1)

    def lines(self) -> Iterator[str]:
        """The axes with their ticks and titles."""
        base = _HEIGHT - _BELOW
        yield f'<path class="axis" d="M{_LEFT} {_TOP}V{base}H{_WIDTH - _RIGHT}"/>'
        for power in _ticks(self.low_x, self.high_x):
            x, _ = self.at(2.0**power, 1)
            yield f'<text x="{x}" y="{base + 16}" text-anchor="middle">{_power(power)}</text>'
        for power in _ticks(self.low_y, self.high_y):
            _, y = self.at(1, 2.0**power)
            yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{_power(power)}</text>'
        x, across = _WIDTH - _RIGHT, "instructions per sector or wavefront"
        yield f'<text class="title" x="{x}" y="{_HEIGHT - 6}" text-anchor="end">{across}</text>'
        yield '<text class="title" x="4" y="12">instructions per cycle</text>'


def _ticks(low: float, high: float) -> range:
    first, last = int(-(-low // 1)), int(high // 1)
    return range(first, last + 1, max(1, -(-(last - first + 1) // _MOST_TICKS)))


def _power(power: int) -> str:
    return f"{2**power:,}" if power >= 0 else f"1/{2**-power:,}"


def roofline(result: Result) -> str:
    """The picture; "" if the run used no memory."""
    of = roofs(result)
    if not of or not result.cycles:
        return ""
    top = float(result.arch.sm.sub_cores)
    xs = [x for roof in of for x in (roof.per_unit, top / roof.rate)]
    high_y, issued = log2(top) + 0.5, log2(of[0].issued)
    below = max(1.0, _ROOM_BELOW * (high_y - issued))
    axes = _Axes(log2(min(xs)) - 1, log2(max(xs)) + 1, issued - below, high_y)
    said = "; ".join(f"{roof.name}: {_numbers(roof)}" for roof in of)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Instruction roofline. {said}">']
    parts += axes.lines()
    for number, roof in enumerate(of):
        left, (knee, height), (right, _) = 2**axes.low_x, axes.at(top / roof.rate, top), axes.at(2**axes.high_x, top)
        start = axes.at(left, left * roof.rate)
        if left * roof.rate < 2**axes.low_y:
            start = axes.at(2**axes.low_y / roof.rate, 2**axes.low_y)
        x, y = axes.at(roof.per_unit, roof.issued)
        points = f"{start[0]},{start[1]} {knee},{height} {right},{height}"
        parts.append(f'<polyline class="roof k{number}" points="{points}"/>')
        parts.append(f'<circle class="k{number}" cx="{x}" cy="{y}" r="5"/>')
        parts += _label(roof, x, max(y - _LINE - 10, _TOP + 10) if number else y + _LINE + 4)
    return "".join([*parts, "</svg>"])


def _label(roof: Roof, x: float, y: float) -> Iterator[str]:
    """The name and the numbers of a dot, beside it and within the picture."""
    anchor, shift = ("end", -9) if x > _WIDTH / 2 else ("start", 9)
    for line, text in enumerate((roof.name, _numbers(roof))):
        yield f'<text class="dot" x="{x + shift}" y="{y + line * _LINE}" text-anchor="{anchor}">{text}</text>'


def _numbers(roof: Roof) -> str:
    return f"{roof.per_unit:.2f} per {roof.unit}, {roof.issued:.2f} per cycle"
