"""The form of recorded measurements. `measure` writes them, and everything else reads them.

    validation/data/<gpu>/
        device.json          the GPU, its driver, CUDA, clocks, and the compiler of the kernels
        measurements.csv     a kernel per row, see Measurement
        counters.csv         the profiler's counters of each kernel, if the profiler was there
        code.tar.xz          the machine code that ran: the units, a cubin each

The module needs only the standard library, because the measuring machine writes with it.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEVICE_FILE, MEASUREMENTS_FILE, COUNTERS_FILE, CODE_FILE = (
    "device.json",
    "measurements.csv",
    "counters.csv",
    "code.tar.xz",
)
DATA = Path(__file__).resolve().parent / "data"


class RecordError(Exception):
    """A data folder that is missing, or a row that does not read; the text names the file and line."""


@dataclass(frozen=True)
class KernelLaunch:
    """The launch of a kernel: everything that a replay knows, so that it cannot know the measured cycles.

    `active` are the warps of a CTA that took part, empty for all. `unit` is the number of the cubin with the code.
    """

    name: str
    warps: int
    ctas: int
    iterations: int
    shared_bytes: int
    reads: int
    active: tuple[int, ...]
    unit: int

    @property
    def running_warps(self) -> tuple[int, ...]:
        """The warps of a CTA that took part."""
        return self.active or tuple(range(self.warps))


@dataclass(frozen=True)
class Measurement:
    """The measurement of one kernel.

    `cycles_*`: the last clock of the second pass minus the first, over all warps that took part, of `launches`
    launches. `clocks` [warps that took part, over all CTAs][reads] are those of the fastest launch, counted from the
    earliest read. The other fields have the same meaning as in a KernelLaunch.
    """

    name: str
    family: str
    warps: int
    ctas: int
    iterations: int
    shared_bytes: int
    reads: int
    active: tuple[int, ...]
    unit: int
    launches: int
    cycles_min: int
    cycles_median: int
    cycles_max: int
    clocks: tuple[tuple[int, ...], ...]

    @property
    def launch(self) -> KernelLaunch:
        """The row without its figures."""
        return KernelLaunch(
            self.name, self.warps, self.ctas, self.iterations, self.shared_bytes, self.reads, self.active, self.unit
        )


_NUMBERS = (
    "warps", "ctas", "iterations", "shared_bytes", "reads", "unit", "launches", "cycles_min", "cycles_median",
    "cycles_max",
)  # fmt: skip
_COLUMNS = (
    "name", "family", "warps", "ctas", "iterations", "shared_bytes", "reads", "active", "unit", "launches",
    "cycles_min", "cycles_median", "cycles_max", "clocks",
)  # fmt: skip


def write_measurements(path: Path, measurements: Iterable[Measurement]) -> None:
    """Write measurements.csv."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for m in measurements:
            row = {column: getattr(m, column) for column in _COLUMNS}
            row["active"] = " ".join(map(str, m.active))
            row["clocks"] = ";".join(" ".join(map(str, warp)) for warp in m.clocks)
            writer.writerow(row[column] for column in _COLUMNS)


def read_measurements(path: Path, wanted: Callable[[str, str], bool] = lambda name, family: True) -> list[Measurement]:
    """Read measurements.csv, only the kernels whose name and family are `wanted`.

    Raises RecordError naming file and line.
    """
    found = []
    for line, row in _rows(path):
        try:
            if wanted(row["name"], row["family"]):
                found.append(_measurement(row))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise RecordError(f"{path}:{line}: not a measurement ({error!r})") from None
    return found


def read_names(path: Path) -> list[tuple[str, str]]:
    """Name and family of every kernel, without its figures."""
    return [(row["name"], row["family"]) for _, row in _rows(path)]


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(1 << 24)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        right = "Write it with `python -m validation measure`"
        raise RecordError(f"{path}: cannot be read ({error.strerror}); {right}") from None
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        yield reader.line_num, row


def _measurement(row: Mapping[str, str]) -> Measurement:
    numbers: dict[str, Any] = {column: int(row[column]) for column in _NUMBERS}
    return Measurement(
        name=row["name"],
        family=row["family"],
        active=tuple(int(w) for w in row["active"].split()),
        clocks=tuple(tuple(int(c) for c in warp.split()) for warp in row["clocks"].split(";")),
        **numbers,
    )


def write_counters(path: Path, counters: Mapping[str, Mapping[str, int]], metrics: Sequence[str]) -> None:
    """Write counters.csv: a row per kernel, a column per metric."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", *metrics))
        for name, values in counters.items():
            writer.writerow((name, *(values.get(metric, "") for metric in metrics)))


def read_counters(path: Path) -> dict[str, dict[str, int]]:
    """Read counters.csv; empty if the profiler was not there."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row.pop("name"): {metric: int(value) for metric, value in row.items() if value}
            for row in csv.DictReader(file)
        }


def write_device(path: Path, device: Mapping[str, Any]) -> None:
    """Write device.json."""
    path.write_text(json.dumps(device, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_device(path: Path) -> dict[str, Any]:
    """Read device.json."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: {error}") from None
    return found


def write_code(path: Path, units: Sequence[bytes]) -> None:
    """Pack the units; the same units give the same bytes."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for number, data in enumerate(units):
            entry = tarfile.TarInfo(f"unit_{number:03d}.cubin")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def read_code(path: Path) -> list[bytes]:
    """The units, in order."""
    try:
        with tarfile.open(path, "r:xz") as archive:
            return [archive.extractfile(entry).read() for entry in archive.getmembers()]  # type: ignore[union-attr]
    except (OSError, tarfile.TarError) as error:
        raise RecordError(f"{path}: {error}") from None


def data_folder(gpu: str, file: str = MEASUREMENTS_FILE) -> Path:
    """The folder of a GPU's data that has such a file, by its name under validation/data or as a path."""
    for folder in (DATA / gpu, Path(gpu)):
        if (folder / file).is_file():
            return folder
    known = sorted(path.parent.name for path in DATA.glob(f"*/{file}"))
    raise RecordError(
        f"no measurements for '{gpu}'; there are {', '.join(known) or 'none'}, or give a folder that has them"
    )
