"""Events as a trace form has them: their valid fields, and the JSON Schema (see `trace.events`)."""

from __future__ import annotations

from typing import Any

from gpuemu.base.strict_yaml import describe
from gpuemu.trace.events import FIELDS
from gpuemu.trace.ranges import MAX_ADDRESS, is_int, refuse


def check(value: Any) -> Any:
    """Refuse anything but an event: names with numbers or expressions, null, or `each` with a list of these."""
    if isinstance(value, dict) and set(value) == {"each"}:
        if not isinstance(value["each"], list):
            raise refuse(f"each: {describe(value['each'])}", "expected a list with one entry for every execution")
        for one in value["each"]:
            _check_one(one)
    else:
        _check_one(value)
    return value


def _check_one(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, dict) or not set(value) <= set(FIELDS):
        found = describe(value) if not isinstance(value, dict) else f"the names {', '.join(map(str, value))}"
        raise refuse(found, f"expected names of {', '.join(FIELDS)}")
    for name, number in value.items():
        if not isinstance(number, str) and not (is_int(number) and abs(number) <= MAX_ADDRESS):
            raise refuse(f"{name}: {describe(number)}", "expected a whole number or an expression in warp, cta and i")


_ONE: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {name: {"anyOf": [{"type": "integer"}, {"type": "string"}]} for name in FIELDS},
            "additionalProperties": False,
        },
    ]
}
SCHEMA: dict[str, Any] = {
    "description": "Effect of an asynchronous instruction: numbers or expressions in warp, cta, i and names of layout.",
    "anyOf": [
        _ONE,
        {
            "type": "object",
            "properties": {"each": {"type": "array", "items": _ONE}},
            "required": ["each"],
            "additionalProperties": False,
        },
    ],
}
