"""Ranges and selections as people write them in traces: 0x0000-0x0040, 3, 0-3, all."""

from __future__ import annotations

import re

from pydantic_core import PydanticCustomError

from gpuemu.base.strict_yaml import describe

RANGE_PATTERN = r"\s*(0x[0-9a-fA-F]{1,8})\s*(?:-\s*(0x[0-9a-fA-F]{1,8})\s*)?"
NUMBERS_PATTERN = r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?"
_RANGE = re.compile(RANGE_PATTERN + r"\Z")
_NUMBERS = re.compile(NUMBERS_PATTERN + r"\Z")
MAX_CTAS = 65_536
"""Maximum number of CTAs in the entries of a trace; one SM replays a larger launch in parts."""
MAX_REPEAT = 1_000_000_000
MAX_ADDRESS = (1 << 63) - 1
MAX_OFFSET = (1 << 32) - 1


def is_int(value: object) -> bool:
    """Whether a value is an integer; Python also counts True as one."""
    return isinstance(value, int) and not isinstance(value, bool)


def refuse(found: str, right: str, field: str = "") -> PydanticCustomError:
    """Return an error that already has the two parts of gpuemu's message, and the field if pydantic cannot know it."""
    return PydanticCustomError("gpuemu", "{found}; {right}", {"found": found, "right": right, "field": field})


def parse_selection(value: object) -> list[int] | None:
    """Parse `all` (None), `3`, `0-3` or a list of these to sorted numbers. Raises the error of a field."""
    if value == "all":
        return None
    numbers: set[int] = set()
    for item in value if isinstance(value, list) else [value]:
        match = _NUMBERS.match(item) if isinstance(item, str) else None
        if isinstance(item, int) and is_int(item) and item >= 0:
            more = range(item, item + 1)
        elif match is not None:
            more = range(int(match[1]), int(match[2] or match[1]) + 1)
            if not 0 < len(more) <= 1 << 16:
                raise refuse(f"the range {item}", "expected a range such as 0-3")
        else:
            raise refuse(describe(item), "expected all, a number, a range such as 0-3, or a list of these")
        twice = numbers.intersection(more)
        if twice:
            raise refuse(f"{min(twice)} appears twice", "Give each number once")
        numbers.update(more)
        if len(numbers) > MAX_CTAS:
            raise refuse(f"more than {MAX_CTAS} numbers", f"expected at most {MAX_CTAS}")
    if not numbers:
        raise refuse("an empty list", "expected a list of at least one number")
    return sorted(numbers)


def parse_range(item: object) -> tuple[int, int]:
    """Return the first and last byte offset of a part of the path."""
    if isinstance(item, int) and is_int(item) and 0 <= item <= MAX_OFFSET:
        return item, item
    match = _RANGE.match(item) if isinstance(item, str) else None
    if match is None:
        right = "expected an offset such as 0x0040 or a range such as 0x0000-0x0040"
        raise refuse(f"{describe(item)} in a path", right)
    first, last = int(match[1], 16), int(match[2] or match[1], 16)
    if last < first:
        raise refuse(f"the range {item} runs backwards", "Give the lower offset first")
    return first, last
