"""Files of sequences: YAML, a mapping from names to launches.

    two_warps:
      warps: 8                  # of the one CTA; warp w runs on sub-core w % 4
      setup: |                  # optional; once, ahead of both passes
        [B------:R-:W-:-:S08] MOV R2, 0x7
      before: |                 # optional; in each pass between the barrier and the first clock
        [B------:R-:W-:Y:S15] NOP
      body: |                   # between the clocks
        [B------:R-:W-:-:S02] LOP3.LUT R14, R2, RZ, R15, 0xaa, !PT
        [B------:R-:W-:-:S05] BRA +0x10     # by a distance in bytes from the next instruction
        [B------:R-:W-:-:S02] CS2R.32 R5, SR_CLOCKLO    # a clock in between, kept as well
      prefixes: true            # optional; two_warps/1, two_warps/2 ... with the body's first 1, 2 ... instructions

Instructions are written as in a trace's listing, and every one of them has a control word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import Document, describe, load
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Instruction

MOST_WARPS = 16
_PARTS = ("setup", "before", "body")
_KEYS = ("warps", *_PARTS, "prefixes")


@dataclass(frozen=True)
class Snippet:
    """A sequence with its launch; `whole` is False for a prefix of another."""

    name: str
    warps: int
    body: tuple[Instruction, ...]
    setup: tuple[Instruction, ...] = ()
    before: tuple[Instruction, ...] = ()
    whole: bool = True


def read_sequences(path: str | os.PathLike[str]) -> list[Snippet]:
    """The sequences of a file, prefixes written out. Raises GpuemuError with everything that is wrong."""
    document = load(path)
    problems: list[Problem] = []
    found: list[Snippet] = []
    if not isinstance(document.value, dict) or not document.value:
        raise GpuemuError([document.problem((), describe(document.value), "expected a mapping of named sequences")])
    for name, entry in document.value.items():
        wrong = list(_wrong(document, name, entry))
        problems += wrong
        if wrong:
            continue
        try:
            setup, before, body = (_listing(document, name, entry, part) for part in _PARTS)
        except GpuemuError as error:
            problems += error.problems
            continue
        whole = Snippet(name, entry["warps"], body, setup, before)
        if entry.get("prefixes"):
            found += [replace(whole, name=f"{name}/{k}", body=whole.body[:k], whole=k == len(whole.body))
                      for k in range(1, len(whole.body) + 1)]  # fmt: skip
        else:
            found.append(whole)
    if problems:
        raise GpuemuError(problems)
    return found


def _wrong(document: Document, name: str, entry: Any) -> Iterator[Problem]:
    """The faults of an entry before its instructions are read."""
    if not isinstance(entry, dict):
        yield document.problem((name,), describe(entry), "expected a mapping with warps and body")
        return
    for key in entry:
        if key not in _KEYS:
            yield document.problem((name, key), f"the key '{key}'", f"expected one of {', '.join(_KEYS)}")
    warps = entry.get("warps")
    if type(warps) is not int or not 1 <= warps <= MOST_WARPS:
        yield document.problem((name, "warps"), describe(warps), f"expected a number from 1 to {MOST_WARPS}")
    for part in _PARTS:
        text = entry.get(part, "" if part != "body" else None)
        if not isinstance(text, str):
            yield document.problem((name, part), describe(text), "expected a block of instructions behind '|'")
    if type(entry.get("prefixes", False)) is not bool:
        yield document.problem((name, "prefixes"), describe(entry["prefixes"]), "expected true or false")


def _listing(document: Document, name: str, entry: dict[str, Any], part: str) -> tuple[Instruction, ...]:
    if part not in entry:
        return ()
    line = document.text_line((name, part), 0)
    return parse_listing(entry[part], document.name, line, f"{name}.{part}")
