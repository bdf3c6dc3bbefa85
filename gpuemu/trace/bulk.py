"""The side file of a recorded trace: warps, paths and addresses as arrays, which nobody would read as text.

The file is a NumPy .npz with these arrays:

    addresses      uint16, uint32 or int64 [rows, 32]   lane byte addresses
    active         uint32 [rows]                        bit l is set if lane l takes part
    shared, local  uint32 [rows]                        the same for lanes whose generic address is in that memory;
                                                        omitted if there are none
    zeros          uint32 [rows]                        the same for lanes that an asynchronous copy fills with zeros
    cluster        uint32 [rows]                        the same for lanes that access another CTA's shared memory
    sources        int64 [rows, 32]                     addresses that the lanes of asynchronous copies read, -1 if
                                                        unknown; omitted if all are unknown
    path_lengths   int64 [paths]                        instructions of each path
    paths          int32 [all of them]                  indices into the code's instructions, path after path
    cta, warp      int32 [warps]                        the warp that the following arrays describe
    path           int32 [warps]                        the number of the warp's path
    row_lengths    int64 [warps]                        memory instructions that the warp executes
    rows           int32 [all of them]                  the row of each, in order, warp after warp
    events         int64 [events, 22]                   effects of asynchronous instructions, see `trace.events`;
    event_lengths  int64 [warps]                        number of asynchronous instructions that each warp executes
    event_numbers  int32 [all of them]                  the event of each, -1 for none; without events, all three
                                                        arrays are omitted

Equal traces give equal bytes: rows are in the order of their first use, and the archive has no date.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gpuemu.base.array_files import read_header
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.warp import LANES
from gpuemu.trace.events import DEFAULTS, NONE
from gpuemu.trace.events import FIELDS as EVENT_FIELDS
from gpuemu.trace.model import CLUSTER, LOCAL, SHARED, ZEROS, Instruction, Launch, Trace, WarpTrace

Arrays = dict[str, NDArray[np.generic]]
Content = tuple[
    tuple[WarpTrace, ...], NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint8] | None, NDArray[np.int64] | None,
    NDArray[np.int64] | None,
]  # fmt: skip
"""(warps, addresses, active, spaces, sources, events) as in a trace."""

FIELDS: dict[str, tuple[tuple[str, ...], str]] = {
    "addresses": (("uint16", "uint32", "int64"), "[rows, 32]"),
    "active": (("uint32",), "[rows]"),
    "path_lengths": (("int64",), "[paths]"),
    "paths": (("int32",), "[instructions]"),
    "cta": (("int32",), "[warps]"),
    "warp": (("int32",), "[warps]"),
    "path": (("int32",), "[warps]"),
    "row_lengths": (("int64",), "[warps]"),
    "rows": (("int32",), "[memory instructions]"),
    "shared": (("uint32",), "[rows]"),
    "local": (("uint32",), "[rows]"),
    "zeros": (("uint32",), "[rows]"),
    "cluster": (("uint32",), "[rows]"),
    "sources": (("int64",), "[rows, 32]"),
    "events": (("int64",), f"[events, {len(EVENT_FIELDS)}]"),
    "event_lengths": (("int64",), "[warps]"),
    "event_numbers": (("int32",), "[asynchronous instructions]"),
}
"""The arrays: their allowed types, and their shape."""
_SPACES = {"shared": SHARED, "local": LOCAL, "zeros": ZEROS, "cluster": CLUSTER}
_EVENTS = ("events", "event_lengths", "event_numbers")
_WITHOUT_SLEEPS = 20
"""Number of event columns in files that were written before NANOSLEEP had its own."""
_OLDER = (_WITHOUT_SLEEPS, _WITHOUT_SLEEPS + 1)
"""Number of event columns in files that were written before the last ones existed."""
_OPTIONAL = (*_SPACES, "sources", *_EVENTS)
THE_SIDE_FILE = "Use the side file that was written with the trace"
_DATE = (1980, 1, 1, 0, 0, 0)


_MASKS = ("active", *_SPACES)

MOST_BYTES = 1 << 30
"""Maximum size of a side file, unpacked."""
MOST_ROWS = 8_000_000
"""Maximum number of address rows, which take 2 GiB of memory."""


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the content of a member, up to the size in its entry. Raises the errors of zipfile."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile  # other methods unpack everything before they stop
    with archive.open(member) as file:
        return file.read(member.file_size)


def _lanes(masks: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return the lanes of each mask, [masks, 32]."""
    return (masks.astype(np.int64)[:, None] >> np.arange(LANES) & 1).astype(np.bool_)


def is_side_file(path: Path) -> bool:
    """Whether `write_bulk` wrote this file."""
    try:
        with zipfile.ZipFile(path) as archive:
            there = [name.removesuffix(".npy") for name in archive.namelist()]
            left = [name for name in FIELDS if name not in there]
            return there == [name for name in FIELDS if name in there] and set(left) <= set(_OPTIONAL)
    except (OSError, zipfile.BadZipFile):
        return False


def write_bulk(trace: Trace, file: BinaryIO, name: str) -> None:
    """Write the side file of a trace to an open file, which messages call `name`.

    Raises GpuemuError if it is too large to be read again.
    """
    arrays = _arrays(trace)
    size, rows = sum(array.nbytes for array in arrays.values()) + 128 * len(arrays), len(arrays["addresses"])
    if size > MOST_BYTES or rows > MOST_ROWS:
        found = f"{size:,} bytes of paths and {rows:,} rows of addresses"
        right = f"Record fewer CTAs with --cta: {MOST_BYTES:,} bytes and {MOST_ROWS:,} rows are the most"
        raise GpuemuError.one(name, None, "", found, right)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in (name for name in FIELDS if name in arrays):
            member = zipfile.ZipInfo(f"{name}.npy", _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # the same byte on every host
            member.external_attr = 0o600 << 16
            content = BytesIO()
            array = arrays[name]
            npy.write_array(content, array.astype(array.dtype.newbyteorder("<")), (1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())


def _arrays(trace: Trace) -> Arrays:
    warps = sorted(trace.warps, key=lambda w: (w.cta, w.warp))
    numbers: dict[bytes, int] = {}
    path_of = [numbers.setdefault(w.path.astype(np.int32).tobytes(), len(numbers)) for w in warps]
    paths = [np.frombuffer(content, dtype=np.int32) for content in numbers]
    rows = np.concatenate([np.zeros(0, np.int32), *(w.rows for w in warps)])
    rows, addresses, masks, sources = _distinct(rows, trace)
    greatest = int(addresses.max(initial=0))
    kind = np.uint16 if greatest < 1 << 16 else np.uint32 if greatest < 1 << 32 else np.int64
    return (
        {
            "addresses": addresses.astype(kind),
            "active": masks[:, 0],
            "path_lengths": np.array([len(p) for p in paths], dtype=np.int64),
            "paths": np.concatenate([np.zeros(0, np.int32), *paths]),
            "cta": np.array([w.cta for w in warps], dtype=np.int32),
            "warp": np.array([w.warp for w in warps], dtype=np.int32),
            "path": np.array(path_of, dtype=np.int32),
            "row_lengths": np.array([len(w.rows) for w in warps], dtype=np.int64),
            "rows": rows,
        }
        | {
            name: masks[:, number]
            for name, number in _SPACES.items()
            if trace.spaces is not None and (number != ZEROS or masks[:, ZEROS].any())
        }
        | ({} if sources is None else {"sources": sources})
        | ({} if trace.events is None else _of_events(trace.events, warps))
    )


def _of_events(events: NDArray[np.int64], warps: list[WarpTrace]) -> Arrays:
    mine = [np.zeros(0, np.int32) if w.events is None else w.events.astype(np.int32) for w in warps]
    return {
        "events": events,
        "event_lengths": np.array([len(numbers) for numbers in mine], np.int64),
        "event_numbers": np.concatenate([np.zeros(0, np.int32), *mine]),
    }


def _distinct(
    rows: NDArray[np.int32], trace: Trace
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64] | None]:
    """Return (rows, addresses, masks, sources) with each row once, in the order of first use; inactive lanes are at 0.

    The five masks of a row mark lanes that are active, access shared memory, access local memory, receive zeros, and
    access another CTA's shared memory.
    """
    used, at = np.unique(rows, return_inverse=True)
    active = trace.active[used]
    bits = np.int64(1) << np.arange(LANES, dtype=np.int64)
    last = LANES + 1 + len(_SPACES)
    table = np.zeros((len(used), last if trace.sources is None else last + LANES), dtype=np.int64)
    table[:, :LANES] = np.where(active, trace.addresses[used], 0)
    table[:, LANES] = active @ bits
    if trace.spaces is not None:
        for space in _SPACES.values():
            table[:, LANES + space] = (active & (trace.spaces[used] == space)) @ bits
    if trace.sources is not None:
        table[:, last:] = np.where(active, trace.sources[used], np.minimum(trace.sources[used], 0))
    whole = table.view(np.dtype((np.void, table.shape[1] * table.itemsize))).ravel()
    _, content = np.unique(whole, return_inverse=True)
    by_use = content[at]
    _, first, number = np.unique(by_use, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    kept = table[at[first[order]]]
    sources = None if trace.sources is None else np.ascontiguousarray(kept[:, last:])
    return place[number], kept[:, :LANES], kept[:, LANES:last].astype(np.uint32), sources


def read_bulk(path: Path, name: str, launch: Launch, code: tuple[Instruction, ...]) -> Content:
    """Read a side file and check it against the launch and code of its trace.

    Messages call the file `name`. Raises GpuemuError.
    """
    return _Reader(path, name, launch, code).content()


class _Reader:
    """Reads one side file."""

    def __init__(self, path: Path, name: str, launch: Launch, code: tuple[Instruction, ...]):
        self.path = path
        self.name = name
        self.launch = launch
        self.memory = np.array([i.accesses_memory for i in code], dtype=np.bool_)
        self.has_events = np.array([i.has_events for i in code], dtype=np.bool_)
        self.sleeps = np.array([i.mnemonic == "NANOSLEEP" for i in code], dtype=np.bool_)

    def content(self) -> Content:
        arrays = self._load()
        sizes: dict[str, int] = {}
        for name, (_, shape) in FIELDS.items():
            if name not in arrays:
                continue
            size = sizes.setdefault(shape.strip("[]").split(",")[0], len(arrays[name]))
            if size != len(arrays[name]):
                found = f"{len(arrays[name])} {'masks' if name in _MASKS else 'entries'}"
                other = "addresses" if name in _MASKS else "cta"
                raise self._refusal(name, found, f"expected one for each of the {size} in {other}")
        self._check_warps(arrays["cta"].astype(np.int64), arrays["warp"].astype(np.int64))
        paths = self._parts(arrays, "paths", "path_lengths", len(self.memory), "instructions in the code")
        for number, path in enumerate(paths):
            if not len(path):
                raise self._refusal("path_lengths", f"path {number} is empty", THE_SIDE_FILE)
        self._check_range("path", arrays["path"], len(paths), "paths")
        rows = self._parts(arrays, "rows", "row_lengths", len(arrays["addresses"]), "rows of addresses")
        executed = [int(self.memory[path].sum()) for path in paths]
        addresses = arrays["addresses"].astype(np.int64)
        masks = arrays["active"].astype("<u4").view(np.uint8).reshape(-1, LANES // 8)
        active = np.unpackbits(masks, axis=1, bitorder="little").view(np.bool_)
        spaces = np.zeros(active.shape, dtype=np.uint8)
        for name, number in _SPACES.items():
            if name in arrays:
                spaces[_lanes(arrays[name])] = number
        below = np.argwhere(active & (addresses < 0))
        if len(below):
            row, lane = below[0].tolist()
            found = f"{addresses[row, lane]} in lane {lane} of row {row}"
            raise self._refusal("addresses", found, "expected an address of at least 0")
        warps = []
        lanes_in_last = self.launch.threads_per_cta - LANES * (self.launch.warps_per_cta - 1)
        whose = zip(arrays["cta"].tolist(), arrays["warp"].tolist(), arrays["path"].tolist(), rows, strict=True)
        events = self._events(arrays)
        for place, (cta, warp, path_number, mine) in enumerate(whose):
            if len(mine) != executed[path_number]:
                found = f"{len(mine)} rows for warp {warp} of CTA {cta}"
                right = f"expected {executed[path_number]}, as its path has memory instructions"
                raise self._refusal("row_lengths", found, right)
            if warp == self.launch.warps_per_cta - 1 and active[mine][:, lanes_in_last:].any():
                found = f"lanes beyond the last thread in warp {warp} of CTA {cta}"
                raise self._refusal("active", found, f"expected lanes 0 to {lanes_in_last - 1} of this warp only")
            its_events = None
            if events is not None:
                its_events = self._of_path(events[place], paths[path_number], arrays, f"warp {warp} of CTA {cta}")
            warps.append(WarpTrace(cta, warp, paths[path_number], mine, its_events))
        in_order = tuple(sorted(warps, key=lambda w: (w.cta, w.warp)))
        sources = arrays["sources"].astype(np.int64) if "sources" in arrays else None
        if sources is not None and (sources < -1).any():
            right = "expected addresses of at least 0, or -1"
            raise self._refusal("sources", f"{int(sources.min())}", right)
        known = None if events is None else arrays["events"].astype(np.int64)
        if known is not None:
            later = EVENT_FIELDS[known.shape[1] :]
            known = np.column_stack([known, *(np.full(len(known), DEFAULTS[name]) for name in later)])
        return in_order, addresses, active, spaces if spaces.any() else None, sources, known

    def _events(self, arrays: Arrays) -> list[NDArray[np.int32]] | None:
        """Return the events of each warp, or None if the file has none."""
        there = [name for name in _EVENTS if name in arrays]
        if not there:
            return None
        if len(there) < len(_EVENTS):
            raise self._refusal(there[0], "the file lacks its companions", f"Give {', '.join(_EVENTS)} together")
        return self._parts(arrays, "event_numbers", "event_lengths", len(arrays["events"]), "events", least=-1)

    def _of_path(
        self, numbers: NDArray[np.int32], path: NDArray[np.int32], arrays: Arrays, who: str
    ) -> NDArray[np.int32]:
        """Return the event number of each asynchronous instruction of a path; in an old file, sleeps have none."""
        has, counts = self.has_events[path], np.ones(len(path), np.bool_)
        if arrays["events"].shape[1] == _WITHOUT_SLEEPS:
            counts = ~self.sleeps[path]
        if len(numbers) != int((has & counts).sum()):
            found = f"{len(numbers)} events for {who}"
            raise self._refusal("event_lengths", found, "expected one for each asynchronous instruction of its path")
        found_of = np.full(int(has.sum()), NONE, np.int32)
        found_of[counts[has]] = numbers
        return found_of

    def _refusal(self, field: str, found: str, right: str) -> GpuemuError:
        return GpuemuError.one(self.name, None, field, found, right)

    def _load(self) -> Arrays:
        arrays: Arrays = {}
        try:
            with zipfile.ZipFile(self.path) as archive:
                members = {member.filename: member for member in archive.infolist()}
                size = sum(member.file_size for member in members.values())
                if size > MOST_BYTES:
                    raise self._refusal("", f"{size:,} bytes when unpacked", f"expected at most {MOST_BYTES:,}")
                for name in FIELDS:
                    member = members.get(f"{name}.npy")
                    if name in _OPTIONAL and member is None:
                        continue
                    arrays[name] = self._array(name, None if member is None else _unpacked(archive, member))
        # zipfile reports each kind of damage with its own exception, including RuntimeError for an archive with a
        # password.
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError, NotImplementedError, RuntimeError):
            raise self._refusal("", "a damaged file, or not a NumPy .npz", THE_SIDE_FILE) from None
        return arrays

    def _array(self, name: str, content: bytes | None) -> NDArray[np.generic]:
        """Return an array of the archive; its header is trusted only if it fits the content."""
        kinds, shape = FIELDS[name]
        right = f"expected {' or '.join(', '.join(kinds).rsplit(', ', 1))} {shape}"
        if content is None:
            raise self._refusal(name, "nothing", right)
        stream = BytesIO(content)
        try:
            dimensions, by_columns, kind = read_header(stream)
            if any(dimension >= 1 << 63 for dimension in dimensions):
                raise ValueError
        except ValueError:
            raise self._refusal(name, "no array", right) from None
        columns = tuple(int(word) for word in shape.strip("[]").split(",")[1:])
        if name == "events" and dimensions[1:] in [(count,) for count in _OLDER]:
            columns = dimensions[1:]
        if kind not in [np.dtype(k) for k in kinds] or dimensions[1:] != columns or len(dimensions) != 1 + len(columns):
            raise self._refusal(name, f"{kind} {list(dimensions)}", right)
        if columns and dimensions[0] > MOST_ROWS:
            raise self._refusal(name, f"{dimensions[0]:,} rows", f"expected at most {MOST_ROWS:,}")
        start = stream.tell()
        if len(content) - start != math.prod(dimensions) * kind.itemsize:
            found = f"{len(content) - start} bytes for {kind} {list(dimensions)}"
            raise self._refusal(name, found, "expected as many bytes as the header says")
        array: NDArray[np.generic] = np.frombuffer(content, dtype=kind, offset=start)
        return array.reshape(dimensions, order="F" if by_columns else "C")

    def _check_range(self, name: str, numbers: NDArray[np.generic], count: int, of_what: str, least: int = 0) -> None:
        if len(numbers) and (numbers.min() < least or numbers.max() >= count):
            wrong = next(n for n in numbers.tolist() if not least <= n < count)
            raise self._refusal(name, str(wrong), f"expected a number below {count}, the {of_what}")

    def _parts(
        self, arrays: Arrays, name: str, lengths_name: str, count: int, of_what: str, least: int = 0
    ) -> list[NDArray[np.int32]]:
        """Return the parts of an array of indices below `count`, cut by their lengths."""
        numbers, lengths = arrays[name].astype(np.int32), arrays[lengths_name].astype(np.int64)
        if (lengths < 0).any() or (lengths > len(numbers)).any() or sum(lengths.tolist()) != len(numbers):
            found = f"{len(numbers)} numbers"
            raise self._refusal(name, found, f"expected {sum(lengths.tolist())}, the sum of {lengths_name}")
        self._check_range(name, numbers, count, of_what, least)
        return np.split(numbers, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def _check_warps(self, ctas: NDArray[np.int64], warps: NDArray[np.int64]) -> None:
        """Check that every warp of every CTA in the file occurs once."""
        per_cta = self.launch.warps_per_cta
        if not len(ctas):
            raise self._refusal("cta", "the file has no warps", THE_SIDE_FILE)
        self._check_range("cta", ctas, self.launch.ctas, "CTAs of the grid")
        self._check_range("warp", warps, per_cta, "warps of the block")
        places, times = np.unique(ctas * per_cta + warps, return_counts=True)
        if (times > 1).any():
            cta, warp = divmod(int(places[times > 1][0]), per_cta)
            raise self._refusal("warp", f"warp {warp} of CTA {cta} appears twice", THE_SIDE_FILE)
        there = np.unique(ctas)
        if len(places) != len(there) * per_cta:
            expected = (there[:, None] * per_cta + np.arange(per_cta)).ravel()
            cta, warp = divmod(int(np.setdiff1d(expected, places)[0]), per_cta)
            raise self._refusal("warp", f"warp {warp} of CTA {cta} is missing", THE_SIDE_FILE)
