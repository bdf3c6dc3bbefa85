"""The result of `rank`: configurations by estimated duration on each chip, and those that do not fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.html import paragraph
from gpuemu.base.table import Bar, Table, number, words
from gpuemu.studies.rank.certainty import PROBABILITY, Certainty, certainties
from gpuemu.studies.rank.reasons import reason

SHOWN = 20
"""The most rows of a chip in a notebook."""


@dataclass(frozen=True)
class RankedRow:
    """A configuration on a chip: its rank from 1 on, and its figures. `why`: its advantage over the next row.

    `certainty`: how sure its rank is. Rows that are too slow to be the fastest have none.
    """

    number: int
    label: str
    values: Mapping[str, Any]
    chip: str
    place: int
    figures: Mapping[str, Any]
    why: str = ""
    certainty: Certainty | None = None

    @property
    def nanoseconds(self) -> float:
        """The estimated duration of the whole launch."""
        return float(self.figures["nanoseconds"])

    def data(self) -> dict[str, Any]:
        return {
            "place": self.place, "configuration": self.label, "values": dict(self.values), "chip": self.chip,
            **self.figures, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class RefusedRow:
    """A configuration that a chip does not run, and why."""

    number: int
    label: str
    values: Mapping[str, Any]
    chip: str
    reason: str

    def data(self) -> dict[str, Any]:
        return {
            "configuration": self.label, "values": dict(self.values), "chip": self.chip, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """`rows` by chip, from the fastest on; `refused` in the given order; `probability`: see `measure`."""

    chips: tuple[str, ...]
    rows: tuple[RankedRow, ...]
    refused: tuple[RefusedRow, ...]
    probability: float = PROBABILITY

    def on(self, chip: str | None = None) -> list[RankedRow]:
        """The rows of a chip, by default the first. Raises GpuemuError for an unknown chip."""
        wanted = self.chips[0] if chip is None else chip
        if wanted not in self.chips:
            raise GpuemuError.one("ranking", None, "chip", f"'{chip}'", f"expected one of {', '.join(self.chips)}")
        return [row for row in self.rows if row.chip == wanted]

    @property
    def best(self) -> RankedRow:
        """The fastest on the first chip. Raises GpuemuError if none runs there."""
        rows = self.on()
        if not rows:
            found = f"no configuration runs on {self.chips[0]}"
            raise GpuemuError.one("ranking", None, "", found, "The field refused says why none fits")
        return rows[0]

    def measure(self, chip: str | None = None) -> list[RankedRow]:
        """The configurations to measure on a chip, by default the first, in the order of the estimates.

        With the probability `probability`, this small set holds one within 1% of the fastest. Raises GpuemuError for an
        unknown chip.
        """
        return [row for row in self.on(chip) if row.certainty is not None and row.certainty.measure]

    def records(self) -> list[dict[str, Any]]:
        """Flat records for pandas.DataFrame and polars.DataFrame."""
        dropped = ("values", "stalls", "notes")
        return [
            {
                **{k: v for k, v in row.data().items() if k not in dropped},
                **({} if row.certainty is None else row.certainty.data()), **row.values,
            }
            for row in self.rows
        ]  # fmt: skip

    def data(self) -> dict[str, Any]:
        return {
            "chips": list(self.chips), "rows": [row.data() for row in self.rows],
            "refused": [row.data() for row in self.refused], "measure": self._to_measure(),
            "certainties": [
                {"chip": row.chip, "place": row.place, **row.certainty.data()} for row in self.rows if row.certainty
            ],
        }  # fmt: skip

    def _to_measure(self) -> list[dict[str, Any]]:
        """The set to measure of each chip."""
        return [
            {
                "chip": chip, "probability": self.probability,
                "places": [row.place for row in self.measure(chip)],
            }
            for chip in self.chips
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        parts = [paragraph(repr(self)[1:-1], strong=True)]
        for chip in self.chips:
            rows = self.on(chip)
            shown = [
                (row.place, row.label, row.nanoseconds / 1000, Bar(rows[0].nanoseconds / row.nanoseconds),
                 str(row.figures["limited_by"]), row.why)
                for row in rows[:SHOWN]
            ]  # fmt: skip
            columns = [
                number("Place"), words("Configuration"), number("us", ",.2f"), words("Share of the fastest"),
                words("Limited by"), words("Better than the next"),
            ]  # fmt: skip
            parts.append(Table(columns, shown, title=chip).html())
            if len(rows) > SHOWN:
                parts.append(paragraph(f"and {len(rows) - SHOWN} more"))
        if self.refused:
            refused = [(row.label, row.chip, row.reason) for row in self.refused]
            columns = [words("Configuration"), words("Chip"), words("Why it is left out")]
            parts.append(Table(columns, refused).html())
        return "".join(parts)

    def __repr__(self) -> str:
        first = f"; {self.rows[0].label} first, {self.rows[0].nanoseconds / 1000:,.1f} us" if self.rows else ""
        return f"<Ranking of {len(self.rows)} on {', '.join(self.chips)}{first}; {len(self.refused)} refused>"


def limit(figures: Iterable[Mapping[str, Any]], top: int | None) -> float:
    """The nanoseconds of the row with rank `top`; infinite if there is none."""
    times = sorted(one["nanoseconds"] for one in figures if "nanoseconds" in one)
    return times[top - 1] if top is not None and len(times) >= top else math.inf


def ordered(
    labels: Sequence[Sequence[tuple[str, Mapping[str, Any]]]], chips: Sequence[str],
    outcomes: Mapping[tuple[int, int], Mapping[str, Any]], top: int | None = None, probability: float = PROBABILITY,
) -> Ranking:  # fmt: skip
    """The ranking of outcomes, by (configuration, chip). Equal times stay in the given order.

    If one resource alone takes longer than the row with rank `top`, the configuration is refused even if it was timed.
    Which ones are timed depends on the order in which workers finish.
    """
    rows: list[RankedRow] = []
    refused: list[RefusedRow] = []
    for at, chip in enumerate(chips):
        good: list[tuple[float, int]] = []
        most = limit([one for (_, chip_at), one in outcomes.items() if chip_at == at], top)
        for configuration, (label, values) in enumerate(labels[at]):
            figures = outcomes.get((configuration, at), {"refused": "not estimated"})
            if "refused" in figures:
                refused.append(RefusedRow(configuration, label, values, chip, str(figures["refused"])))
            elif figures["least_nanoseconds"] > most:
                least = f"{figures['least_nanoseconds'] / 1000:,.2f} us"
                needs = f"needs {least} for its start and {figures['least_for']} alone"
                told = f"{needs}; rank {top} takes {most / 1000:,.2f} us"
                refused.append(RefusedRow(configuration, label, values, chip, told))
            else:
                good.append((figures["nanoseconds"], configuration))
        places = [configuration for _, configuration in sorted(good)]
        sure = certainties([outcomes[configuration, at] for configuration in places], probability)
        for place, configuration in enumerate(places):
            figures = outcomes[configuration, at]
            behind = outcomes[places[place + 1], at] if place + 1 < len(places) else None
            why = "" if behind is None else reason(figures, behind)
            label, values = labels[at][configuration]
            rows.append(RankedRow(configuration, label, values, chip, place + 1, figures, why, sure[place]))
    return Ranking(tuple(chips), tuple(rows), tuple(refused), probability)
