"""Read the output of `ncu --csv --page raw|details|source`. The header identifies the page, wherever it begins.

    "ID",...,"Kernel Name",...,"sm__cycles_active.max",...        raw: a launch per row, below a row of units
    "ID",...,"Section Name","Metric Name","Metric Unit","Metric Value",...     details: a metric per row
    "Kernel Name","tile(float *)"                                source: a kernel's name, a header,
    "Address","Source",...,"Instructions Executed",...            and an instruction per row

Output of the profiled program or of the profiler before the header is skipped.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu.base.errors import GpuemuError
from gpuemu.base.reading import read_whole

RIGHT = "Give the output of ncu --csv --page raw, details or source"
_NUMBER = re.compile(
    r"([-+]?(?:[1-9]\d{0,2}(?:,\d{3}){1,6}|\d{1,20})(\.\d{1,20})?(?:[eE][-+]?\d\d?)?)(?: \(.*\))?", re.DOTALL
)
"""Commas separate thousands only: in 0,760 and 1234,567 they are decimal points."""
_UNIT = re.compile(r"([KMG]?)(byte|inst|cycle|sector|request|warp|block|thread|register)\b.*")
_PREFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_NOTHING = ("", "-", "n/a", "nan", "no data", "(!) nan", "(!) n/a")
_DETAILS = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")


@dataclass(frozen=True)
class Measured:
    """A number of the file. `step`: the difference that rounding to the shown digits may have made."""

    value: float
    step: float
    line: int


@dataclass(frozen=True)
class Instruction:
    """A row of the source page: the SASS, and its columns."""

    source: str
    line: int
    columns: Mapping[str, str]


@dataclass
class ProfiledLaunch:
    """A profiled launch. `figures` are texts with units by the profiler's names; `code` has the rows of the source
    page.

    `grid` and `block` are None, and `capability` and `device` "", if the page lacks them.
    """

    number: str
    kernel: str
    line: int
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    capability: str = ""
    device: str = ""
    figures: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The kernel's name without return type, template arguments and parameters."""
        return base_name(self.kernel)


@dataclass(frozen=True)
class Profile:
    """A file: its page (raw, details or source), and its launches."""

    file: str
    page: str
    launches: tuple[ProfiledLaunch, ...]

    def number(self, text: str, unit: str, line: int, name: str) -> Measured | None:
        """A figure as a number, None if nothing was measured. Raises GpuemuError for another text."""
        text = text.strip()
        if text.lower() in _NOTHING:
            return None
        match = _NUMBER.fullmatch(text)
        if match is None:
            right = "expected a number such as 1,985.94, as ncu prints with LC_ALL=C"
            raise GpuemuError.one(self.file, line, name, f"'{text[:40]}'", right)
        scaled = _UNIT.fullmatch(unit)
        scale = _PREFIX[scaled[1]] if scaled else 1
        decimals = len(match[2] or ".") - 1
        step = 0.5 * 10.0**-decimals * scale if decimals or scale > 1 else 0.0
        return Measured(float(match[1].replace(",", "")) * scale, step, line)

    def launch_like(
        self, kernel: str | None, grid: Sequence[int] | None, block: Sequence[int] | None, wanted: str | None
    ) -> ProfiledLaunch | None:
        """The launch that a command without extents means: the one that `launch` finds for the given options.

        None if the file has several kernels and none is named, or if there is no such launch.
        """
        named = [
            launch
            for launch in self.launches
            if (launch.number == wanted if wanted is not None else kernel is None or launch.name == base_name(kernel))
        ]
        if len({launch.name for launch in named}) != 1:
            return None
        return next((one for one in named if _is(one.grid, grid) and _is(one.block, block)), None)

    def launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], wanted: str | None
    ) -> tuple[ProfiledLaunch, int]:
        """The launch to compare with, and the number of equal launches: the first with the kernel's name and extents.

        `wanted` is a launch's ID. If there is no such launch, raises GpuemuError with a list of the file's launches.
        """
        if wanted is not None:
            for launch in self.launches:
                if launch.number == wanted:
                    return launch, 1
            numbers = [launch.number for launch in self.launches]
            right = f"expected one of {', '.join(numbers[:8])}{', ...' if len(numbers) > 8 else ''} in {self.file}"
            raise GpuemuError.one("--launch", None, "", f"'{wanted}'", right)
        named = [launch for launch in self.launches if launch.name == kernel.rpartition("::")[2]]
        if not named:
            names = list(dict.fromkeys(launch.name for launch in self.launches))
            found = f"the file has no launch of {kernel}"
            right = f"Choose --kernel of {', '.join(names[:6])}, or --launch with its ID"
            raise GpuemuError.one(self.file, self.launches[0].line, "Kernel Name", found, right)
        alike = [
            launch
            for launch in named
            if _same(launch.grid, grid) and _same(launch.block, block)
        ]  # fmt: skip
        if not alike:
            first = named[0]
            found = f"{kernel} launched with grid {_extent(first.grid)} and block {_extent(first.block)}"
            right = f"Launch the same with --grid and --block: gpuemu ran {_extent(grid)} and {_extent(block)}"
            raise GpuemuError.one(self.file, first.line, "Grid Size", found, right)
        return alike[0], len(alike)


def read_profile(path: str) -> Profile:
    """The file at `path`. Raises GpuemuError with the file, line and field of the error."""
    try:
        text = read_whole(path).decode("utf-8-sig", errors="replace")
    except OSError as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else "cannot read the file"
        raise GpuemuError.one(path, None, "", found, RIGHT) from None
    rows = list(_rows(text))
    for place, (line, row) in enumerate(rows):
        below = rows[place + 1 :]
        if row[0] == "Kernel Name" and len(row) >= 2 and any(_is_listing(r) for _, r in below[:2]):
            return Profile(path, "source", _source(path, rows[place:]))
        if "Kernel Name" in row and "Metric Name" in row:
            return Profile(path, "details", _details(path, line, row, below))
        if "Kernel Name" in row and "ID" in row:
            return Profile(path, "raw", _raw(path, line, row, below))
        if _is_listing(row):
            return Profile(path, "source", _source(path, [(line, ["Kernel Name", ""]), *rows[place:]]))
    found = f"'{rows[0][1][0][:40]}'" if rows else "nothing"
    raise GpuemuError.one(path, 1 if rows else None, "", f"no header of the profiler, but {found}", RIGHT)


def base_name(kernel: str) -> str:
    """`void ns::tile<float, (int)4>(float *, int)` is `tile`."""
    kernel = kernel.replace("(anonymous namespace)::", "")
    depth, kept = 0, []
    for mark in kernel:
        depth += (mark == "<") - (mark == ">")
        if depth == 0 and mark != ">":
            kept.append(mark)
    return "".join(kept).partition("(")[0].split()[-1].rpartition("::")[2] if kernel.strip() else ""


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the lines on which they begin, without the profiler's own remarks and empty lines."""
    reader = csv.reader(text.splitlines(keepends=True))
    line = 1
    try:
        for row in reader:
            if row and row[0][:2] != "==":
                yield line, row
            line = reader.line_num + 1
    except csv.Error:
        return  # Unreadable text does not come from the profiler.


def _is_listing(row: Sequence[str]) -> bool:
    return "Source" in row and "Instructions Executed" in row


def _whole(path: str, line: int, row: list[str], head: Sequence[str], head_line: int) -> None:
    while len(row) > len(head) and not row[-1]:  # Some versions end a row with a comma.
        row.pop()
    if len(row) != len(head):
        right = f"expected {len(head)}, as in line {head_line}"
        raise GpuemuError.one(path, line, "", f"{len(row)} columns", right)


def _launch(path: str, line: int, cells: Mapping[str, str]) -> ProfiledLaunch:
    grid, block = (_read_extent(path, line, name, cells.get(name, "")) for name in ("Grid Size", "Block Size"))
    device = cells.get("device__attribute_display_name", "")
    return ProfiledLaunch(cells.get("ID", ""), cells["Kernel Name"], line, grid, block, cells.get("CC", ""), device)


def _raw(path: str, line: int, head: list[str], rows: Sequence[tuple[int, list[str]]]) -> tuple[ProfiledLaunch, ...]:
    if not rows or rows[0][1][0].strip():
        right = "Keep the row of units that ncu prints below the header"
        raise GpuemuError.one(path, line + 1, "", "no row of units", right)
    _whole(path, *rows[0], head, line)
    units = dict(zip(head, rows[0][1], strict=True))
    launches = []
    for at, row in rows[1:]:
        _whole(path, at, row, head, line)
        cells = dict(zip(head, row, strict=True))
        launch = _launch(path, at, cells)
        launch.figures = {name: (cells[name], units[name], at) for name in head if "__" in name}
        launches.append(launch)
    return _some(path, line, launches)


def _details(
    path: str, line: int, head: list[str], rows: Sequence[tuple[int, list[str]]]
) -> tuple[ProfiledLaunch, ...]:
    for name in (*_DETAILS, "ID"):
        if name not in head:
            right = "Print the details page without --print-summary"
            raise GpuemuError.one(path, line, name, "no such column", right)
    launches: dict[str, ProfiledLaunch] = {}
    rules = head.index("Rule Name") if "Rule Name" in head else len(head)
    for at, row in rows:
        if len(row) == rules + 1 and not row[-1]:  # A metric's row ends where the columns of a rule begin.
            row += [""] * (len(head) - len(row))
        _whole(path, at, row, head, line)
        cells = dict(zip(head, row, strict=True))
        launch = launches.setdefault(cells["ID"], _launch(path, at, cells))
        if cells["Metric Name"]:  # otherwise a rule's row
            launch.figures[cells["Metric Name"]] = (cells["Metric Value"], cells["Metric Unit"], at)
    return _some(path, line, [*launches.values()])


def _source(path: str, rows: Sequence[tuple[int, list[str]]]) -> tuple[ProfiledLaunch, ...]:
    launches: list[ProfiledLaunch] = []
    head, head_line = list[str](), 0
    for line, row in rows:
        if row[0] == "Kernel Name" and len(row) >= 2 and not _is_listing(row):
            launches.append(ProfiledLaunch(str(len(launches)), row[1], line))
            head = []
        elif _is_listing(row):
            if "Address" not in row:
                right = "Print machine code: --print-source sass"
                raise GpuemuError.one(path, line, "Address", "no such column", right)
            head, head_line = row, line
        elif head:
            _whole(path, line, row, head, head_line)
            # The first of two columns with one name counts.
            cells = dict(reversed(list(zip(head, row, strict=True))))
            launches[-1].code.append(Instruction(cells["Source"], line, cells))
    return _some(path, rows[0][0], launches)


def _some(path: str, line: int, launches: list[ProfiledLaunch]) -> tuple[ProfiledLaunch, ...]:
    if not launches:
        raise GpuemuError.one(path, line, "", "there is no launch below the header", RIGHT)
    return tuple(launches)


def _read_extent(path: str, line: int, name: str, text: str) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    match = re.fullmatch(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?", text.strip())
    if match is None:
        raise GpuemuError.one(path, line, name, f"'{text[:40]}'", "expected three sizes such as (128, 1, 1)")
    return tuple(map(int, match.groups()))


def _same(measured: tuple[int, ...] | None, emulated: Sequence[int]) -> bool:
    return measured is None or measured == tuple(emulated)


def _is(measured: tuple[int, ...] | None, given: Sequence[int] | None) -> bool:
    return given is None or measured == tuple(given)


def _extent(sizes: Sequence[int] | None) -> str:
    return "unknown" if sizes is None else f"({', '.join(map(str, sizes))})"
