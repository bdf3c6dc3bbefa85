"""The data of a saved result, or of a trace that gpuemu runs."""

from __future__ import annotations

import json
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.reading import read_whole
from gpuemu.cli.loading import run_trace


def result_data(name: str, arch_name: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    """The data of a saved result, or of a trace that gpuemu runs first. Raises GpuemuError."""
    from gpuemu.base.file_kinds import is_machine_code
    from gpuemu.views.json_result import as_data

    if is_machine_code(name):
        right = "Give a trace of it (gpuemu trace), or a result (gpuemu run --format json -o FILE)"
        raise GpuemuError.one(name, None, "", "machine code has no launch to compare", right)
    if not name.endswith(".json"):
        return as_data(run_trace(name, arch_name, settings))
    return read_result(name)


def read_result(path: str) -> dict[str, Any]:
    """A saved result. Raises GpuemuError if the file is not one."""
    from gpuemu.views.json_result import VERSION

    right = "Give a file that gpuemu run --format json wrote"
    try:
        data = json.loads(read_whole(path).decode())
    except FileNotFoundError:
        raise GpuemuError.one(path, None, "", "no such file", right) from None
    except json.JSONDecodeError as error:
        raise GpuemuError.one(path, error.lineno, "", f"invalid JSON ({error.msg})", right) from None
    except (OSError, UnicodeDecodeError):
        raise GpuemuError.one(path, None, "", "the file cannot be read", right) from None
    if not isinstance(data, dict) or data.get("gpuemu_result") != VERSION:
        found = data.get("gpuemu_result", "nothing") if isinstance(data, dict) else "no mapping"
        raise GpuemuError.one(path, None, "gpuemu_result", str(found), f"expected {VERSION}. {right}")
    needed = (
        "kernel",
        "arch",
        "overrides",
        "cycles",
        "resident_ctas",
        "shared_memory",
        "counters",
        "stalls",
        "bounds",
    )
    missing = [field for field in needed if field not in data]
    if missing:
        raise GpuemuError.one(path, None, missing[0], "the field is missing", right)
    return data
