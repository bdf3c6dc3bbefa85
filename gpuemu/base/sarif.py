"""SARIF 2.1.0, the format in which code hosts and editors read findings: the document, locations, rules and results.

{"$schema": ..., "version": "2.1.0", "runs": [{"tool": {"driver": {...}}, "results": [...]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def rule(name: str, title: str, help_text: str, level: str) -> dict[str, Any]:
    """Return a kind of finding."""
    return {
        "id": name,
        "shortDescription": {"text": title},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": level},
    }


def location(file: str, line: int | None, kernel: str, offset: int | None = None, text: str = "") -> dict[str, Any]:
    """Return a line of a file in a kernel. With `offset`, also an instruction by its byte offset in the kernel."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(file)}}
    if line is not None:
        physical["region"] = {"startLine": line}
    if offset is not None:
        physical["address"] = {
            "relativeAddress": offset,
            "kind": "instruction",
            "fullyQualifiedName": f"{kernel}+{offset:#06x}",
        }
    found: dict[str, Any] = {"physicalLocation": physical}
    if text:
        found["message"] = {"text": text}
    else:
        found["logicalLocations"] = [{"name": kernel, "kind": "function"}]
    return found


def result(
    rule_id: str, level: str, text: str, locations: Sequence[Any], related: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return a finding."""
    found: dict[str, Any] = {"ruleId": rule_id, "level": level, "message": {"text": text}, "locations": [*locations]}
    if related:
        found["relatedLocations"] = [*related]
    return found


def document(
    version: str,
    rules: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    subject: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the whole file. `subject` distinguishes several files, and `notes` are the tool's remarks on its run."""
    index = {one["id"]: number for number, one in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "gpuemu", "version": version, "rules": [*rules]}},
        "automationDetails": {"id": f"gpuemu/{subject}/"},  # its last slash ends the category
        "columnKind": "unicodeCodePoints",
        "results": [{**one, "ruleIndex": index[one["ruleId"]]} for one in results],
    }
    if notes:
        told = [{"level": "note", "message": {"text": note}} for note in notes]
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": told}]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def uri(file: str) -> str:
    """Return a path as SARIF needs it: escaped, with slashes, and relative if it is below the current folder."""
    path = Path(file)
    if path.is_absolute():
        if not path.is_relative_to(Path.cwd()):
            return path.as_uri()
        path = path.relative_to(Path.cwd())
    return quote(path.as_posix(), safe="/")
