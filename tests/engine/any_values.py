"""Architectures whose every value is drawn from all that an architecture file may say, the least and the most included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from engine.probes import shipped
from hypothesis import strategies as st
from pydantic import BaseModel

from gpuemu.arch import Architecture
from gpuemu.arch.build import RULES
from gpuemu.base.errors import GpuemuError
from gpuemu.engine.drivers import refuse

NAMES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
LISTS = {
    "shared_memory.carveouts_bytes": st.lists(st.integers(0, 1 << 26), max_size=4, unique=True),
    "shared_memory.load_merge_distances": st.lists(st.integers(1, 31), max_size=5, unique=True),
    "global_memory.l1.tag_bank_masks": st.lists(st.integers(1, (1 << 32) - 1), max_size=5, unique=True),
}
LABELS = ("compute_capability", "chip", "name", "description", "untested")
"""What says nothing of the hardware."""


def strategies(arch: Architecture) -> dict[str, st.SearchStrategy[Any]]:
    """What each value may be, by dotted name."""
    return dict(_of(arch, ""))


def _of(part: BaseModel, before: str) -> Iterator[tuple[str, st.SearchStrategy[Any]]]:
    for name, field in type(part).model_fields.items():
        value, place = getattr(part, name), f"{before}{name}"
        if isinstance(value, BaseModel):
            yield from _of(value, f"{place}.")
        elif hasattr(value, "items"):
            for key, entry in value.items():
                yield from _of(entry, f"{place}.{key}.")
        elif place in LISTS:
            yield place, LISTS[place]
        elif name == "pipe":
            yield place, st.sampled_from([value, "alu", "fmaheavy|fmalite", "fmaheavy+fmalite", "tensor", "fp64"])
        elif place not in LABELS and value is not None:
            yield place, _value(field, value)


def _value(field: Any, value: Any) -> st.SearchStrategy[Any]:
    words = [word for word in get_args(field.annotation) if isinstance(word, str)]
    if isinstance(value, bool):
        return st.booleans()
    if words:
        return st.sampled_from(words)
    low, high = (next(getattr(m, bound) for m in field.metadata if hasattr(m, bound)) for bound in ("ge", "le"))
    if isinstance(value, float):
        return st.sampled_from([low, high, value]) | st.floats(low, high).map(lambda rate: round(rate, 3) or low)
    near = sorted({low, min(high, low + 1), min(high, max(low, value // 2)), value, min(high, 2 * value), high})
    if "_power_of_two" in repr(field.metadata):
        powers = [1 << n for n in range(high.bit_length()) if low <= 1 << n <= high]
        return st.sampled_from(powers)
    return st.sampled_from(near) | st.integers(0, (high - low).bit_length()).map(
        lambda n: min(high, low + (1 << n) - 1)
    )


def _without(wrong: set[str], values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that do not fit, or without what those depend on."""
    rules = {name for rule in RULES if wrong & {*rule.names} for name in rule.names}
    before = {name for name in values if name.startswith("mio.")}  # what a request takes until it is there
    for names in (wrong, rules, before):
        if names & {*values}:
            return {name: value for name, value in values.items() if name not in names}
    raise AssertionError(f"{wrong} without any of them in {values}")


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """A shipped architecture with one other value, a few, or all others, as far as they fit together."""
    arch = shipped(draw(st.sampled_from(NAMES)))
    known = strategies(arch)
    many = draw(st.sampled_from([1, 2, 4, 16, len(known)]))
    names = sorted(known) if many == len(known) else draw(
        st.lists(st.sampled_from(sorted(known)), min_size=many, max_size=many, unique=True)
    )  # fmt: skip
    values = {name: draw(known[name]) for name in names}
    while True:
        try:
            made = arch.with_overrides(values)
            refuse(made)
        except GpuemuError as error:
            values = _without({problem.field for problem in error.problems}, values)
        else:
            return made
