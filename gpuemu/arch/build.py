"""Build an Architecture from located values: pydantic checks each value, and rules check them together.

Pydantic's errors become problems with the file and line of the value, or of the section that lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral
from typing import Any, TypeVar

from pydantic import ValidationError

from gpuemu.arch.derived import DERIVED, derived, is_derived
from gpuemu.arch.schema import FrozenMapping, Leaf, Section, Table, node_at, tree
from gpuemu.arch.values import Labelled, Located, Names, Provenance
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError, Problem

A = TypeVar("A", bound=Labelled)


@dataclass(frozen=True)
class Rule:
    """A condition on several values; `right` completes "found X, with other Y; ..."."""

    names: tuple[str, ...]
    holds: Callable[..., bool]
    right: str


RULES = (
    Rule(("sm.max_warps", "sm.sub_cores"), lambda w, s: w >= s, "expected at least one warp per sub-core"),
    Rule(("sm.max_threads_per_cta",), lambda t: t % 32 == 0, "expected a multiple of the 32 lanes of a warp"),
    Rule(
        ("sm.max_threads_per_cta", "sm.max_warps"),
        lambda t, w: t <= 32 * w,
        "expected at most 32 threads for each of sm.max_warps",
    ),
    Rule(
        ("sm.max_registers_per_thread", "sm.registers"),
        lambda m, r: 32 * m <= r,
        "expected enough sm.registers for 32 such threads",
    ),
    Rule(
        ("sm.register_allocation_unit", "sm.registers"),
        lambda unit, r: unit <= r,
        "expected a unit no larger than sm.registers",
    ),
    Rule(
        (
            "shared_memory.max_bytes_per_cta",
            "shared_memory.reserved_bytes_per_cta",
            "shared_memory.capacity_bytes",
        ),
        lambda most, reserved, capacity: most + reserved <= capacity,
        "expected a sum of max_bytes_per_cta and reserved_bytes_per_cta of at most capacity_bytes",
    ),
    Rule(
        ("global_memory.sector_bytes", "global_memory.l1.line_bytes"),
        lambda sector, line: sector <= line,
        "expected sectors no larger than a line",
    ),
    *(
        Rule(
            (name, "mio.queue_latency_cycles"),
            lambda latency, queue: latency > queue,
            f"expected a {name} above mio.queue_latency_cycles",
        )
        for name in (
            "shared_memory.latency_cycles",
            "shared_memory.atomic_latency_cycles",
            "mio.shuffle_latency_cycles",
            "mio.lane_register_latency_cycles",
        )
    ),
    *(
        Rule(
            (name, "address_divergence.queue_latency_cycles"),
            lambda latency, queue: latency > queue,
            f"expected a {name} above address_divergence.queue_latency_cycles",
        )
        for name in (
            "operations.special_register.latency_cycles",
            "operations.uniform_special_register.latency_cycles",
            "operations.reduction.latency_cycles",
            "operations.match.latency_cycles",
            "operations.constant_load.latency_cycles",
        )
    ),
    Rule(
        ("operations.indexed_constant_load.latency_cycles", "operations.constant_load.latency_cycles"),
        lambda indexed, plain: indexed > plain,
        "expected an operations.indexed_constant_load.latency_cycles above operations.constant_load.latency_cycles",
    ),
)


def build(
    model: type[A],
    labels: Mapping[str, str],
    values: Mapping[Names, Located],
    sources: Mapping[str, str],
    section_place: Callable[[Names], tuple[str, int | None]],
) -> A:
    """Check the values, add those that are derived from them, and make the architecture.

    `values`: the values that someone set. Derived values among them are replaced. `section_place`: returns the file and
    line of a section. Raises GpuemuError with every problem.
    """
    given = {path: located for path, located in values.items() if not is_derived(located.provenance)}
    name_of = {path: ".".join(path) for path in given}
    known = {name_of[path]: located.value for path, located in given.items()}
    follows = {
        tuple(name.split(".")): Located(value, Provenance(DERIVED, "", note, "", DERIVED, None))
        for name, (value, note) in derived(known).items()
    }
    name_of |= {path: ".".join(path) for path in follows}
    values = {**follows, **given}
    nested: dict[str, Any] = dict(labels)
    for path, located in values.items():
        section = nested
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = located.value
    problems: list[Problem] = []
    wrong: set[str] = set()
    root = tree(model)
    arch: A | None = None
    try:
        arch = model.model_validate(nested)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            path = _known_names(root, item["loc"])
            name = ".".join(path)
            if name not in wrong:
                wrong.add(name)
                problems.append(_value_problem(root, path, values, section_place))
    problems += _missing_entries(root, nested, section_place)
    by_name = {name_of[path]: located for path, located in values.items()}
    problems += _broken_rules(by_name, wrong)
    problems += _unknown_chip(by_name, wrong, [*nested.get("chips", ())])
    if arch is None or problems:
        raise GpuemuError(sorted(problems, key=lambda p: (p.file, p.line or 0)))
    arch._provenance = FrozenMapping({name_of[path]: values[path].provenance for path in arch.paths()})
    arch._sources = FrozenMapping(sources)
    return arch


def plain(value: Any) -> Any:
    """Convert lists to tuples and NumPy integers to Python integers, so that strict checks accept them."""
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return value


def suggestion(name: str, known: list[str], otherwise: str) -> str:
    """Return `Did you mean 'banks'?`, or another sentence."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else otherwise


def product(chip: str, chips: Iterable[str]) -> str:
    """Return the name in `chips` that is equal except for case, spaces and hyphens (`rtx3080`), or ""."""
    alike = [one for one in chips if _bare(one) == _bare(chip)]
    return chip if chip in alike else next(iter(alike), "")


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _known_names(root: Section, location: tuple[int | str, ...]) -> Names:
    """Return the part of pydantic's location that names a value or section, without list indices and "[key]"."""
    names: list[str] = []
    for part in location:
        if not isinstance(part, str) or node_at(root, (*names, part)) is None:
            break
        names.append(part)
    return tuple(names)


def _value_problem(
    root: Section,
    path: Names,
    values: Mapping[Names, Located],
    section_place: Callable[[Names], tuple[str, int | None]],
) -> Problem:
    node = node_at(root, path)
    name = ".".join(path)
    if path in values and isinstance(node, Leaf):
        where = values[path].provenance
        return Problem(where.file, where.line, name, strict_yaml.describe(values[path].value), node.right)
    file, line = section_place(path)
    if isinstance(node, Leaf):
        return Problem(file, line, name, "nothing", node.right)
    inside = "entries" if isinstance(node, Table) else ", ".join(node.fields) if node else ""
    return Problem(file, line, name, "nothing", f"expected a section with {inside}")


def _missing_entries(
    root: Section, nested: Mapping[str, Any], section_place: Callable[[Names], tuple[str, int | None]]
) -> list[Problem]:
    """Return a problem for each entry that a table must have but lacks."""
    problems = []
    for section, node in root.fields.items():
        present = nested.get(section)
        if isinstance(node, Table) and isinstance(present, dict):
            file, line = section_place((section,))
            *first, last = node.entry.fields
            right = f"expected {', '.join(first)} and {last} for the class"
            missing = (name for name in node.required if name not in present)
            problems += [Problem(file, line, f"{section}.{name}", "nothing", right) for name in missing]
    return problems


def _unknown_chip(values: Mapping[str, Located], wrong: set[str], chips: list[str]) -> list[Problem]:
    if "chip" in wrong or "chip" not in values or values["chip"].value in chips:
        return []
    chip, where = values["chip"].value, values["chip"].provenance
    right = suggestion(chip, chips, f"Known chips: {', '.join(chips)}" if chips else "Add it under chips")
    return [Problem(where.file, where.line, "chip", f"unknown chip {chip!r}", right)]


def _broken_rules(values: Mapping[str, Located], wrong: set[str]) -> list[Problem]:
    problems = []
    for rule in RULES:
        if any(name in wrong or name not in values for name in rule.names):
            continue
        if rule.holds(*(values[name].value for name in rule.names)):
            continue
        # Blame the value that the user set if several values do not fit together.
        culprit = next((n for n in rule.names if values[n].provenance.status == "override"), rule.names[0])
        others = " and ".join(f"{n} {values[n].value}" for n in rule.names if n != culprit)
        found = f"{values[culprit].value}, with {others}" if others else str(values[culprit].value)
        where = values[culprit].provenance
        problems.append(Problem(where.file, where.line, culprit, found, rule.right))
    return problems
