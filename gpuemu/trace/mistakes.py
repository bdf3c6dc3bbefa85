"""Translate pydantic's errors about a trace form to gpuemu's terms: the field, its value, and valid values."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import describe
from gpuemu.trace.form import LaunchForm, TraceForm, WarpsForm

Place = tuple[str | int, ...]
"""Place of a value in the form: ("warps", 0, "addresses", 16)."""

_TOP = {
    "gpuemu_trace": "expected 1, the version of this form",
    "kernel": "expected the kernel's name",
    "arch": "expected the architecture that the code was compiled for, such as sm_89",
    "about": "expected a sentence about the trace",
    "launch": "expected a mapping with grid, block, registers_per_thread, static_ and dynamic_shared_bytes",
    "layout": "expected a mapping of names to whole numbers",
    "code": "expected a listing, one instruction per line under `code: |`",
    "warps": "expected a list with an entry for each kind of warp",
}


def field_name(place: Place) -> str:
    """Write `("warps", 0, "addresses", 16)` as messages do: `warps[0].addresses.0x0010`."""
    text = ""
    for i, part in enumerate(place):
        if isinstance(part, int):
            text += f".{part:#06x}" if i and place[i - 1] == "addresses" else f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def refusal(
    error: ValidationError, file: str, line_of: Callable[[Place], int | None], around: Place = ()
) -> GpuemuError:
    """Return one error with all errors of pydantic.

    `line_of` gives the line of `file` for a place; the value that pydantic validated is at `around`.
    """
    problems = []
    for item in error.errors(include_url=False):
        place = (*around, *item["loc"])
        is_key = bool(place) and place[-1] == "[key]"
        where = place[:-1] if is_key else place
        if item["type"] == "gpuemu" and item["ctx"]["field"]:
            where = (*where, item["ctx"]["field"])
        found, right = _found_and_right(where, item, is_key)
        problems.append(Problem(file, line_of(where), field_name(where), found, right))
    return GpuemuError(sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0))


def _found_and_right(place: Place, error: Any, is_key: bool) -> tuple[str, str]:
    if error["type"] == "gpuemu":
        return error["ctx"]["found"], error["ctx"]["right"]
    if error["type"] in ("extra_forbidden", "invalid_key"):
        known = list(_form_around(place).model_fields)
        close = get_close_matches(str(place[-1]), known, 1)
        return (
            "unknown key",
            f"Did you mean '{close[0]}'?" if close else f"Keys here: {', '.join(known)}",
        )
    if is_key:
        right = "expected a byte offset such as 0x0040" if "addresses" in place[:-1] else "expected a name"
        return f"{describe(error['input'])} as a key", right
    return "nothing" if error["type"] == "missing" else describe(error["input"]), _right(place)


def _form_around(place: Place) -> type[BaseModel]:
    match place:
        case ("launch", _):
            return LaunchForm
        case ("warps", _, _):
            return WarpsForm
    return TraceForm


def _right(place: Place) -> str:
    match place:
        case ("launch", "grid", *_):
            return "expected three numbers of at least 1, such as [1, 1, 1]"
        case ("launch", "block", *_):
            return "expected three numbers of at least 1, such as [32, 1, 1]"
        case ("launch", name):
            return f"expected a whole number of at least {1 if name == 'registers_per_thread' else 0}"
        case ("layout", _):
            return "expected a whole number of at most 63 bits"
        case ("warps", _):
            return "expected a mapping with cta, warp, path and addresses"
        case ("warps", _, "addresses"):
            return "expected byte offsets of memory instructions, such as 0x0040, with their lane addresses"
        case (str() as name,) if name in _TOP:
            return _TOP[name]
    return "expected a mapping with gpuemu_trace"
