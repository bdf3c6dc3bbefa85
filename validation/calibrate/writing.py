"""The architecture file that a calibration writes, and the table of differences.

value shipped measured fits sure by operations.mufu.latency_cycles 17 17 A closed form mio.pool_entries 11 15 14 to 15 B
walk differs
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.values import quoted, yaml_value
from gpuemu.base.table import Table, number, words
from validation.calibrate.estimating import Found
from validation.calibrate.plan import Plan

SOURCE = "CALIBRATE"
WIDTH = 100


def card_of(device: Mapping[str, Any]) -> str:
    """A GPU's name without its maker's, as a chip may be called."""
    name = str(device.get("name", "GPU")).removeprefix("NVIDIA ").removeprefix("GeForce ")
    return re.sub(r"[^A-Za-z0-9 -]+", " ", name).strip()[:40]


def source_line(device: Mapping[str, Any], date: str = "") -> str:
    """The origin of the values, in a line."""
    when = f", {date}" if date else ""
    forms = {"driver": "driver {}", "sm_clock_max_mhz": "SM clock up to {} MHz", "compiler": "{}"}
    told = ", ".join(form.format(device[name]) for name, form in forms.items() if name in device)
    return f"measured on one {device.get('name', 'GPU')} by gpuemu calibrate{when}" + (f": {told}" if told else "")


def file_text(
    found: Sequence[Found], base: str, arch: Architecture, device: Mapping[str, Any], output: Path, date: str = ""
) -> str:  # fmt: skip
    """The file: its base, its source, and each value with status, confidence, note and range.

    `base` is a shipped name, or the path of a file, which is named relative to `output`.
    """
    if base.endswith((".yaml", ".yml")):
        base = Path(os.path.relpath(base, output.parent)).as_posix()
    card = card_of(device)
    lines = [
        f"# {arch.name} as measured on one {card}, without the values that no measurement determines.",
        f"description: {quoted(f'{arch.name} as measured on one {card}')}",
        f"extends: {quoted(base)}",
        "sources:",
        f"  {SOURCE}: {quoted(source_line(device, date))}",
    ]
    lines += chip_lines(arch, device)
    section: tuple[str, ...] = ()
    order = {path: number for number, path in enumerate(arch.paths())}
    for one in sorted(found, key=lambda one: order[one.step.path]):
        path = one.step.path
        common = next((i for i, (a, b) in enumerate(zip(section, path[:-1], strict=False)) if a != b), len(section))
        common = min(common, len(path) - 1)
        lines += ["  " * depth + f"{quoted(path[depth])}:" for depth in range(common, len(path) - 1)]
        section = path[:-1]
        lines.append("  " * len(section) + f"{path[-1]}: {_entry(one)}")
    return "\n".join(lines) + "\n"


def chip_lines(arch: Architecture, device: Mapping[str, Any]) -> list[str]:
    """The chip: a chip of the file with whose name the card's begins, or a new one from the driver's facts."""
    card, sms = card_of(device), device.get("multiprocessors")
    known = [name for name, chip in arch.chips.items() if f"{card} ".startswith(f"{name} ") and chip.sms == sms]
    if sms is None:
        return []
    if known:
        return [f"chip: {_driver(max(known, key=len))}"]
    facts = {"sms": sms, "clock_mhz": device.get("sm_clock_mhz"), "l2_kibibytes": device.get("l2_kibibytes")}
    inside = ", ".join(f"{name}: {_driver(int(value))}" for name, value in facts.items() if value)
    return [f"chip: {_driver(card)}", "chips:", f"  {quoted(card)}: {{{inside}}}"] if facts["clock_mhz"] else []


def _driver(value: str | int) -> str:
    told = f"status: measured, source: {SOURCE}, confidence: A"
    return f'{{value: {yaml_value(value)}, {told}, note: "as the driver says"}}'


def _entry(one: Found) -> str:
    entry = f"{{value: {yaml_value(one.value)}, status: measured, source: {SOURCE}, confidence: {one.confidence}"
    between = f", range: [{yaml_value(one.low)}, {yaml_value(one.high)}]" if one.low < one.high else ""
    return f"{entry}, note: {quoted(one.note)}{between}}}"


def table(found: Sequence[Found], reasons: Mapping[str, str], arch: Architecture) -> Iterator[str]:
    """The measured values beside the file's, then the values that were not measured, with the reasons."""
    rows = [
        (
            one.step.name, f"{one.step.value:g}", f"{one.value:g}",
            f"{one.low:g} to {one.high:g}" if one.low < one.high else "", one.confidence, one.step.how,
            "differs" if one.differs else "",
        )
        for one in found
    ]  # fmt: skip
    if rows:
        heads = [
            words("value"), number(arch.name), number("measured"), words("fits"), number("sure"), words("by"), words("")
        ]  # fmt: skip
        yield from (line for _, line in Table(heads, rows).lines(WIDTH))
        yield ""
    yield from not_measured(reasons)
    differing = sum(one.differs for one in found)
    yield f"{_count(found, 'value')} measured, {differing} differing; {len(reasons)} not measured"


def _count(things: Sized, what: str) -> str:
    return f"{len(things)} {what}" + "s" * (len(things) != 1)


def not_measured(reasons: Mapping[str, str]) -> Iterator[str]:
    """The values that are not measured, by reason."""
    if not reasons:
        return
    yield "not measured"
    for reason in dict.fromkeys(reasons.values()):
        yield f"  {reason}"
        names = ", ".join(name for name, why in reasons.items() if why == reason)
        yield from textwrap.wrap(names, WIDTH, initial_indent="      ", subsequent_indent="      ")
    yield ""


def listing(plan: Plan, arch: Architecture) -> Iterator[str]:
    """The values that would be measured: name, method, kernels and time."""
    rows = []
    for step in plan.steps:
        first, *more = step.all_kernels
        kernels = first + (f" and {len(more)} more" if more else "")
        rows.append((step.name, f"{step.value:g}", step.confidence, step.how, kernels))
    heads = [words("value"), number(arch.name), words("sure"), words("by"), words("kernels")]
    yield from (line for _, line in Table(heads, rows).lines(WIDTH))
    yield ""
    yield from not_measured(plan.reasons)
    todo = f"{_count(plan.steps, 'value')} on {_count(plan.kernels, 'kernel')}"
    yield f"{todo}, about {plan.seconds / 60:.1f} minutes of one core; {len(plan.reasons)} cannot be measured"
