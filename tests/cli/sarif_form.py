"""What SARIF 2.1.0 demands of the parts that are written here, as a JSON Schema: required properties, types, closed words."""

from __future__ import annotations

import json
from typing import Any

import jsonschema


def _of(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT, NUMBER = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 1}
MESSAGE = _of(["text"], text=TEXT)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
ADDRESS = _of([], relativeAddress={"type": "integer"}, kind=TEXT, fullyQualifiedName=TEXT)
PHYSICAL = _of(
    ["artifactLocation"],  # artifactLocation or address: the first is always written
    artifactLocation=_of(["uri"], uri={"type": "string", "format": "uri-reference", "pattern": r"^[^\\ ]+$"}),
    region=_of(["startLine"], startLine=NUMBER),
    address=ADDRESS,
)
LOCATION = _of([], physicalLocation=PHYSICAL, message=MESSAGE, logicalLocations=_list(_of([], name=TEXT, kind=TEXT)))
RULE = _of(
    ["id"], id=TEXT, shortDescription=MESSAGE, help=MESSAGE, defaultConfiguration=_of([], level=LEVEL)
)  # fmt: skip
RESULT = _of(
    ["message"], ruleId=TEXT, ruleIndex={"type": "integer", "minimum": 0}, level=LEVEL, message=MESSAGE,
    locations=_list(LOCATION), relatedLocations=_list(LOCATION),
)  # fmt: skip
NOTIFICATION = _of(["message"], message=MESSAGE, level=LEVEL)
INVOCATION = _of(
    ["executionSuccessful"], executionSuccessful={"type": "boolean"}, toolExecutionNotifications=_list(NOTIFICATION)
)  # fmt: skip
RUN = _of(
    ["tool"],
    tool=_of(["driver"], driver=_of(["name"], name=TEXT, version=TEXT, rules=_list(RULE))),
    automationDetails=_of([], id=TEXT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=_list(RESULT),
    invocations=_list(INVOCATION),
)
SCHEMA = _of(
    ["version", "runs"], **{"$schema": {"type": "string", "format": "uri"}, "version": {"const": "2.1.0"}, "runs": _list(RUN)}
)  # fmt: skip


def results_of(text: str) -> list[dict[str, Any]]:
    """The findings of a file that has the form, each of a rule that is listed."""
    log = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for found in run["results"]:
        assert rules[found["ruleIndex"]] == found["ruleId"]
    return run["results"]


def place(location: dict[str, Any]) -> str:
    """`file:line` of a location, or `file+offset`."""
    physical = location["physicalLocation"]
    uri = physical["artifactLocation"]["uri"]
    if "address" in physical:
        return f"{uri}+{physical['address']['relativeAddress']:#x}"
    return f"{uri}:{physical['region']['startLine']}"
