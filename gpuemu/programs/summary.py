"""The tables of a program's run: kernels with their configurations, copies, and further commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.base.table import Table, number, words
from gpuemu.programs.journal import Journal, LaunchRecord

_COLUMNS = (
    words("Kernel", name="kernel", cut=(16, 48)),
    number("Calls", name="calls"),
    words("Each", name="each"),
    words("Total", name="total"),
    number("Share", ".1%", name="share"),
    words("Grid", name="grid", leaves=3),
    words("Block", name="block", leaves=2),
    words("Limited by", name="limited_by", leaves=1),
    words("Values", name="values", leaves=4),
)


def duration(nanoseconds: float | None) -> str:
    """With a unit: 1.72 us."""
    if nanoseconds is None:
        return "not timed"
    for size, unit in ((1e9, "s"), (1e6, "ms")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.2f} {unit}"
    return f"{nanoseconds / 1000:,.2f} us"


def bytes_text(count: int) -> str:
    """With a unit: 4.0 KiB."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def rows_of(launches: Iterable[LaunchRecord]) -> list[list[LaunchRecord]]:
    """The launches of each kernel with one configuration. The longest total time comes first."""
    found: dict[Any, list[LaunchRecord]] = {}
    for one in launches:
        found.setdefault((one.symbol, one.kernel, one.grid, one.block, one.shared_bytes), []).append(one)
    return sorted(found.values(), key=_total, reverse=True)


def kernel_table(journal: Journal) -> Table:
    """A row for each kernel and configuration."""
    whole = _total(journal.launches)
    rows = []
    for same in rows_of(journal.launches):
        first, timed = same[0], [one for one in same if one.nanoseconds is not None]
        each = _total(timed) / len(timed) if timed else None
        rows.append(
            (
                first.kernel, len(same), duration(each), duration(_total(timed) if timed else None),
                _total(timed) / whole if whole else 0.0, _sizes(first.grid), _sizes(first.block),
                max(timed, key=_total_of).limited_by if timed else "", _values(same),
            )
        )  # fmt: skip
    return Table(_COLUMNS, rows)


def copy_table(journal: Journal) -> Table:
    """A row for each kind of copy."""
    found: dict[str, list[Any]] = {}
    for one in journal.copies:
        found.setdefault(one.kind, []).append(one)
    rows = [
        (kind, len(same), bytes_text(sum(one.size for one in same)), duration(sum(one.nanoseconds for one in same)))
        for kind, same in found.items()
    ]
    columns = (words("Copies"), number("Calls"), words("Size"), words("Total"))
    return Table(columns, rows)


def launch_table(journal: Journal) -> Table:
    """A row for each launch."""
    columns = (
        number("Launch"), words("Kernel"), words("Grid"), words("Block"), number("Elapsed Cycles"), words("Duration"),
        words("Limited by"), words("Values"),
    )  # fmt: skip
    rows = [
        (
            one.number, one.kernel, _sizes(one.grid), _sizes(one.block), one.elapsed_cycles, duration(one.nanoseconds),
            one.limited_by, one.values,
        )
        for one in journal.launches
    ]  # fmt: skip
    return Table(columns, rows)


def summary(journal: Journal, arch: Architecture, further: Further, columns: int) -> str:
    """The text that `gpuemu exec` prints after the program."""
    if not journal.launches:
        return "".join(f"{line}\n" for line in ("The program launched no kernel.", *notes_of(journal)))
    kernels = len({one.symbol for one in journal.launches})
    calls = len(journal.launches)
    head = f"{arch.chip}: {_launches(calls)} of {kernels} kernel{'s' * (kernels != 1)}, "
    head += f"{duration(_total(journal.launches))} in all"
    parts = [f"{head}\n", kernel_table(journal).text(columns)]
    if journal.copies:
        parts.append(copy_table(journal).text(columns))
    parts += [f"note: {note}\n" for note in notes_of(journal)]
    parts.append("Look further:\n")
    parts += [f"  {line}\n" for line in further.lines(journal)]
    return "\n".join("".join(part) for part in _groups(parts))


@dataclass(frozen=True)
class Further:
    """Further commands. `how_to_build`: the command that builds the program, if gpuemu has built it. `is_checked`: the
    launches were checked.
    """

    command: Sequence[str]
    how_to_build: str = ""
    is_checked: bool = False

    def lines(self, journal: Journal) -> list[str]:
        """Commands that show more. The first is about the kernel with the longest total time."""
        if not journal.launches:
            return []
        program, slowest = shlex.join(self.command), rows_of(journal.launches)[0][0]
        return [
            *filter(None, [self.how_to_build]),
            f"gpuemu exec --why {shlex.quote(slowest.kernel)} -- {program}",
            *([] if self.is_checked else [f"gpuemu exec --check -- {program}"]),
            f"gpuemu exec --format html -o report.html -- {program}",
        ]


def _groups(parts: Sequence[str]) -> list[list[str]]:
    """The parts in groups: head and tables alone, notes together, commands together."""
    groups: list[list[str]] = []
    for part in parts:
        joins = groups and (part.startswith("  ") or (part.startswith("note:") and groups[-1][0].startswith("note:")))
        if joins and not part.startswith("  Kernel"):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def notes_of(journal: Journal) -> list[str]:
    """The notes below the tables."""
    found = []
    late = sum(one.is_late for one in journal.launches)
    unread = sum(one.values == "sampled" for one in journal.launches) - late
    if unread:
        found.append(f"the program reads no result of {_launches(unread)}, which did not execute")
    if late:
        which = "values that the program read are wrong" if journal.lacks_values else "the program did not read them"
        found.append(f"time was too short for the results of {_launches(late)} (--seconds); {which}")
    timed = sum(one.timed for one in journal.launches)
    if timed < len(journal.launches):
        found.append(
            f"gpuemu simulated {timed:,} of {len(journal.launches):,} launches; the others are like one of them"
        )
    return [*found, *journal.notes]


def _launches(count: int) -> str:
    return f"{count:,} launch{'es' * (count != 1)}"


def _values(same: Sequence[LaunchRecord]) -> str:
    sampled = sum(one.values == "sampled" for one in same)
    if not sampled:
        return "executed"
    return "sampled" if sampled == len(same) else f"{sampled} sampled"


def _total(launches: Iterable[LaunchRecord]) -> float:
    return sum(map(_total_of, launches))


def _total_of(one: LaunchRecord) -> float:
    return one.nanoseconds or 0.0


def _sizes(sizes: tuple[int, int, int]) -> str:
    x, y, z = sizes
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else str(x)
