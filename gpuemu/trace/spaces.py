"""The memory that generic addresses mean, in the form of a trace: a word, or a mask of lanes for each word."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.strict_yaml import describe
from gpuemu.isa.warp import LANES
from gpuemu.trace.model import SPACES

ALL_LANES = (1 << LANES) - 1

SPACE_SCHEMA: dict[str, Any] = {
    "description": "The memory that generic addresses mean, or a mask of lanes for each.",
    "anyOf": [
        {"enum": list(SPACES)},
        {
            "type": "object",
            "properties": {name: {"type": "integer", "minimum": 0, "maximum": ALL_LANES} for name in SPACES},
            "additionalProperties": False,
        },
    ],
}


def what_is_wrong_with_space(space: Any) -> tuple[str, str] | None:
    """Return the invalid value and a correction, or None."""
    if isinstance(space, dict):
        masks = list(space.values())
        good = all(isinstance(mask, int) and not isinstance(mask, bool) and 0 <= mask <= ALL_LANES for mask in masks)
        if not good or not set(space) <= set(SPACES):
            return f"space: {describe(space)}", f"expected masks of lanes under {', '.join(SPACES)}"
        if sum(masks) != reduce(or_, masks, 0):
            return "a lane is in two masks of space", "Give each lane one memory"
    elif space not in SPACES:
        return f"space: {describe(space)}", f"expected {', '.join(SPACES)}, or masks of lanes under these names"
    return None


def names_a_space(addresses: Any) -> bool:
    """Whether a form of addresses names their memory."""
    return _has("space", addresses)


def says_from(addresses: Any) -> bool:
    """Whether a form of addresses says where a copy reads."""
    return _has("from", addresses)


def _has(key: str, addresses: Any) -> bool:
    entries = addresses["each"] if isinstance(addresses, dict) and "each" in addresses else [addresses]
    return any(isinstance(entry, dict) and key in entry for entry in entries)


def space_numbers(space: Any, count: int) -> NDArray[np.uint8]:
    """Return the number of each lane's memory, [count, 32]; lanes without a mask access global memory."""
    masks = space if isinstance(space, dict) else {space: ALL_LANES}
    lane = np.arange(LANES)
    numbers = sum(SPACES.index(name) * (mask >> lane & 1) for name, mask in masks.items())
    return np.broadcast_to(numbers, (count, LANES)).astype(np.uint8)
