"""Reads the published figures: validation/published/<architecture>.yaml.

    entries:
      latency.lds64:
        published: {value: {merged: 23, distinct: 25}, unit: cyc, source: "HUERTA; DERIVED", grade: C}
        checks:
        - {of: merged, probe: shared_chain, with: {op: LDS.64, lanes: "8*(lane//2)", address: R0}}
        - {of: distinct, probe: shared_chain, with: {op: LDS.64, lanes: "8*lane", address: R0}}
      latency.ldg_l2_hit:
        published: {value: 214, unit: cyc, source: "TICK; YKT", grade: A}
        not_modelled: cache

An entry is one published quantity. It has checks, or a reason why it has none. A check runs a probe, `with` its
parameters. The result is compared with the value's part `of` (a key, a list index, or both: `uniform_addr.1`), with
`published`, a number that the source gives in words, or with `taken`, another source's number if sources disagree;
`why` has the reason. `label` names the row if `of` does not. `rule` replaces the probe's own rule of judgment. `gap`
names what the emulator lacks to pass. Two numbers without an `of` are the ends of a range. Sources are keys of
configs/*.yaml and of sources.yaml, and the letters of `grade` are those of configs/*.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpuemu
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError, Problem
from validation import published_limits, published_probes, published_sequences  # noqa: F401  (they enter their probes)
from validation.published_bench import PROBES, RULE_OF

FOLDER = Path(__file__).resolve().parent / "published"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
REASONS = {
    "bound": "the assembler's table, bounds that it keeps and not times of the hardware; machine code brings its own "
    "stall counts",
    "cache": "of the caches the model has the lines of L1 and the latencies; L2 has no size, its far half and copies "
    "to shared memory no time of their own",
    "chip": "a whole chip's figure; one SM is emulated",
    "clock": "the emulator counts cycles of the SM's clock and knows no frequency",
    "cluster": "clusters and the copy engine between SMs are left out",
    "const": "there are no constant caches in the model",
    "fence": "a fence takes the time of a special register, whatever it waits for; the figures are settings of a "
    "simulator",
    "icache": "instruction fetch and its caches are left out",
    "near_line": "waits for a load of L2, where lines differ by how far they are, or a result that is read before "
    "the DEPBAR in front has begun to wait, which no compiler writes",
    "no_figure": "no figure was found",
    "emulated_by_compiler": "the compiler makes dozens of other instructions of it; their number is not published",
    "other_product": "products that compute f32 sums at the full rate; the file has the GeForce's interval of 16, and "
    "--set gives it theirs of 8",
    "partial_result": "the registers of a result are ready together in the model",
    "simulator": "a setting of another simulator, not a figure of hardware",
    "stages": "fetch, decode and operand stages are part of the latencies",
    "static_limit": "the compiler's limit for arrays without opt-in, which it enforces itself",
    "store_completion": "no instruction waits for a shared store to end; what is modelled is when its sources are free "
    "(sts_war)",
    "tlb": "the figure has misses of the address translation in it, and there is none in the model (the same code "
    "reads 882 cycles on an RTX 3060, whose DRAM takes 410 to 443)",
    "unordered": "sparse products without ordered metadata are many instructions on sm_120, as ptxas warns",
    "wgmma": "wgmma is left out",
}  # fmt: skip
"""Why an entry, or a part of one, has no check."""
RULES = ("cycles", "rate", "exact", "at_most")
_CHECK = {"of", "label", "published", "probe", "rule", "with", "taken", "why", "gap", "not_modelled"}


@dataclass(frozen=True)
class Check:
    """One microbenchmark of an entry, or the reason for having none of that part of it."""

    part: str
    expected: float | tuple[float, float] | None
    probe: str = ""
    rule: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    taken_from: str = ""
    why: str = ""
    gap: str = ""
    not_modelled: str = ""


@dataclass(frozen=True)
class Entry:
    """A published quantity. `value` is as published: a number, a text, or several of them in a list or mapping."""

    name: str
    value: Any
    unit: str
    source: str
    grade: str
    taken_over: str
    checks: tuple[Check, ...]
    not_modelled: str

    @property
    def modelled(self) -> bool:
        """Whether anything of it is checked."""
        return not self.not_modelled


def load(architecture: str, folder: Path = FOLDER) -> list[Entry]:
    """The entries of one architecture, in the file's order. Raises GpuemuError with everything that is wrong."""
    document = strict_yaml.load(folder / f"{architecture}.yaml")
    problems: list[Problem] = []
    entries = [
        _entry(document, name, body, problems) for name, body in (document.value or {}).get("entries", {}).items()
    ]
    if problems:
        raise GpuemuError(problems)
    return entries


def sources(architectures: list[gpuemu.Architecture], folder: Path = FOLDER) -> dict[str, str]:
    """The meaning of each key of a source: keys of the architecture files and of sources.yaml."""
    known: dict[str, str] = dict(strict_yaml.load(folder / "sources.yaml").value)
    for arch in architectures:
        known.update(arch.sources)
    return known


def _entry(document: strict_yaml.Document, name: str, body: dict[str, Any], problems: list[Problem]) -> Entry:
    place = ("entries", name)
    published = body["published"]
    reason = body.get("not_modelled", "")
    if ("checks" in body) == bool(reason):
        problems.append(document.problem(place, "both or neither", "expected one of checks and not_modelled"))
    if reason and reason not in REASONS:
        problems.append(
            document.problem((*place, "not_modelled"), repr(reason), f"expected one of {', '.join(REASONS)}")
        )
    checks = []
    for i, raw in enumerate(body.get("checks", [])):
        found = _wrong(raw)
        if found:
            problems.append(document.problem((*place, "checks", i), *found))
            continue
        try:
            checks.append(_check(raw, published["value"]))
        except (KeyError, IndexError, TypeError):
            problems.append(
                document.problem((*place, "checks", i), f"of {raw.get('of')}", "expected a part of the value")
            )
    return Entry(
        name, published["value"], published["unit"], published["source"], published["grade"],
        published.get("taken_over", ""), tuple(checks), reason,
    )  # fmt: skip


def _wrong(raw: dict[str, Any]) -> tuple[str, str] | None:
    """The fault of a check, and what to write instead."""
    if set(raw) - _CHECK:
        return f"{', '.join(sorted(set(raw) - _CHECK))}", f"expected {', '.join(sorted(_CHECK))}"
    if "not_modelled" in raw:
        known = raw["not_modelled"] in REASONS
        return None if known else (repr(raw["not_modelled"]), f"expected one of {', '.join(REASONS)}")
    if raw.get("probe") not in PROBES:
        return repr(raw.get("probe")), f"expected one of {', '.join(sorted(PROBES))}"
    if raw.get("rule", "rate") not in RULES:
        return repr(raw["rule"]), f"expected one of {', '.join(RULES)}"
    return None


def part_of(value: Any, path: Any) -> Any:
    """The part of a value that `of` names."""
    if path is None:
        return value
    for step in str(path).split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _check(raw: dict[str, Any], value: Any) -> Check:
    part = part_of(value, raw.get("of"))
    taken = raw.get("taken", {})
    expected = taken.get("value", raw.get("published", part))
    if isinstance(expected, list):
        low, high = expected
        expected = (float(low), float(high))
    elif "not_modelled" in raw:
        expected = None
    else:
        expected = float(expected)
    return Check(
        part=str(raw.get("label", raw.get("of", ""))),
        expected=expected,
        probe=raw.get("probe", ""),
        rule=raw.get("rule", RULE_OF.get(raw.get("probe", ""), "")),
        parameters=raw.get("with", {}),
        taken_from=taken.get("source", ""),
        why=raw.get("why", ""),
        gap=raw.get("gap", ""),
        not_modelled=raw.get("not_modelled", ""),
    )
