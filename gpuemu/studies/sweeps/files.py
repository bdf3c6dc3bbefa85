"""Records as files: CSV, JSON, Parquet. Equal records give equal bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import install
from gpuemu.base.table import Table
from gpuemu.studies.sweeps.results import Record

EXTRA = f"Install it with {install('sweep')}"


def as_csv(found: list[Record]) -> bytes:
    """A header and a line for each record. The numbers of a failed point are empty."""
    return Table.of(found).csv().encode()


def as_json(found: list[Record]) -> bytes:
    """A list of objects, each on its own line."""
    return ("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n").encode()


def as_parquet(found: list[Record]) -> bytes:
    """A column for each key. Raises GpuemuError without the extra `sweep`."""
    check_parquet()
    import polars

    # If a name has integers and words at different points, its column has words.
    mixed = [
        name for name in (found[0] if found else {}) if len({_kind(record[name]) for record in found} - {None}) > 1
    ]
    rows = [{**record, **{name: str(record[name]) for name in mixed if record[name] is not None}} for record in found]
    data = io.BytesIO()
    polars.DataFrame(rows, infer_schema_length=None).write_parquet(data)
    return data.getvalue()


def check_parquet() -> None:
    """Raise GpuemuError if the extra that writes Parquet is missing."""
    if find_spec("polars") is None:
        raise GpuemuError.one("--format", None, "", "parquet needs polars", EXTRA)


def _kind(value: object) -> type | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None if value is None else type(value)


WRITERS: Mapping[str, Callable[[list[Record]], bytes]] = {"csv": as_csv, "json": as_json, "parquet": as_parquet}
