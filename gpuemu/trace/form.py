"""The form in which people write a trace: one YAML file, checked field by field.

    gpuemu_trace: 1
    kernel: copy
    arch: sm_89
    launch: {block: [64, 1, 1], static_shared_bytes: 2048}
    layout: {pitch: 16}
    code: |
      0000: [B------:R-:W-:-:S05] MOV R1, R2
      0010: [B------:R0:W-:-:S02] STS.128 [R1], R4
      0020: [B0-----:R-:W-:-:S05] EXIT
    warps:
    - warp: 0-1
      path: [0x0000, {repeat: 4, path: 0x0010}, 0x0020]
      addresses:
        0x0010: 512*warp + pitch*lane

`code` is a listing (see `listing`). Each entry under `warps` describes the CTAs and warps that it names, or all of them
if it names none. `path` lists the executed instructions as ranges of byte offsets that include both ends. Without
`path`, the warps execute the whole code once.

`addresses` gives the lane byte addresses of each memory instruction, by its offset. An entry is an expression in
`lane`, `warp`, `cta`, `i` and the names under `layout`, or a list of 32 numbers. `i` is the number of earlier
executions by this warp. If not all lanes are active, it is `{lanes: ..., active: ...}`, where `active` is a mask or an
expression that is not 0 in active lanes. `{each: [...]}` has one of these for every execution. Lanes beyond the CTA's
last thread are never active.

LD, ST and ATOM have generic addresses. `{lanes: ..., space: shared}` names their memory, which is otherwise global. If
lanes access different memories, `space: {shared: MASK, local: MASK}` has a mask for each. For LDGSTS, `space: zeros` or
`space: {zeros: MASK}` marks lanes that read nothing and receive zeros. `from:` gives the global addresses that LDGSTS
reads, an expression or 32 numbers as under `lanes`. Without it, the lanes are assumed to read contiguous bytes from the
start of a line.

`events` describes the effects of block copies and mbarrier operations in the same way (see `events`). An execution
without an entry had no effect.

`source` has the file and line of instructions, and `source_text` the text of these files. `threads` has the number of
threads that executed each instruction (see `lines`).

The bytes of shared memory under `launch` may also be expressions in the names under `layout`, such as the size of a
padded array.

A recorded trace whose addresses follow no rule has `bulk: NAME.npz` in place of `warps`: a side file next to the YAML
contains them (see `bulk`).

The pydantic models here also define the JSON Schema, `trace.schema.json`.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gpuemu.base.strict_yaml import describe
from gpuemu.trace.event_schema import SCHEMA as EVENT_SCHEMA
from gpuemu.trace.event_schema import check
from gpuemu.trace.lines import PLACE, RIGHT, parse_places
from gpuemu.trace.model import SPACES
from gpuemu.trace.ranges import (
    MAX_ADDRESS,
    MAX_OFFSET,
    MAX_REPEAT,
    NUMBERS_PATTERN,
    RANGE_PATTERN,
    is_int,
    parse_range,
    parse_selection,
    refuse,
)
from gpuemu.trace.spaces import SPACE_SCHEMA, what_is_wrong_with_space


def _check_version(value: Any) -> Any:
    # Python considers true and 1.0 equal to 1, and Literal would accept them.
    if not is_int(value):
        raise ValueError
    return value


def _check_selection(value: Any) -> Any:
    parse_selection(value)
    return value


def _keys(value: dict[Any, Any]) -> str:
    return f"a mapping with {', '.join(sorted(map(str, value))) or 'no keys'}"


def _check_path(value: Any) -> Any:
    if value is None:
        return value
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            parse_range(item)
            continue
        if set(item) != {"repeat", "path"}:
            raise refuse(f"{_keys(item)} in a path", "expected {repeat: N, path: ...}")
        times = item["repeat"]
        if not is_int(times) or not 0 <= times <= MAX_REPEAT:
            raise refuse(f"repeat: {describe(times)}", "expected a whole number of times")
        _check_path(item["path"])
    return value


def _check_lanes(value: Any) -> Any:
    if isinstance(value, list):
        if len(value) != 32:
            raise refuse(f"a list of {len(value)} addresses", "expected 32, one per lane")
        for lane, address in enumerate(value):
            if not is_int(address) or not 0 <= address <= MAX_ADDRESS:
                raise refuse(f"{describe(address)} for lane {lane}", "expected a byte address")
    elif not isinstance(value, str) and not (is_int(value) and 0 <= value <= MAX_ADDRESS):
        raise refuse(describe(value), "expected an expression such as 16*lane or a list of 32 addresses")
    return value


def _check_addresses(value: Any) -> Any:
    if not isinstance(value, dict):
        return _check_lanes(value)
    keys = set(value)
    if keys == {"each"}:
        if not isinstance(value["each"], list):
            right = "expected a list with one entry for every execution"
            raise refuse(f"each: {describe(value['each'])}", right)
        for k, item in enumerate(value["each"]):
            if isinstance(item, dict) and "each" in item:
                raise refuse("each inside each", "Use one level of each")
            try:
                _check_addresses(item)
            except PydanticCustomError as error:
                context: Any = error.context
                raise refuse(f"{context['found']} in entry {k} of each", context["right"]) from None
    elif "lanes" in keys and keys <= {"lanes", "active", "space", "from"}:
        _check_lanes(value["lanes"])
        if "from" in keys:
            _check_lanes(value["from"])
        wrong = what_is_wrong_with_space(value.get("space", SPACES[0]))
        if wrong is not None:
            raise refuse(*wrong)
        active = value.get("active", 0)
        if not isinstance(active, str) and not (is_int(active) and 0 <= active < 1 << 32):
            raise refuse(f"active: {describe(active)}", "expected a mask such as 0x0000ffff or an expression")
    else:
        raise refuse(_keys(value), "expected {lanes, active, space, from} or {each}")
    return value


_FILE_NAME_PATTERN = r"(?!\.{1,2}$)[^/\\\x00-\x1f]+"


def _check_file_name(value: Any) -> Any:
    good = isinstance(value, str) and re.fullmatch(_FILE_NAME_PATTERN, value) and PurePath(value).name == value
    if not good:
        raise refuse(describe(value), "expected the name of a file beside the trace, without folders")
    return value


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


_ADDRESS = {"type": "integer", "minimum": 0, "maximum": MAX_ADDRESS}

# Definitions that pydantic cannot derive from the checks above.
SCHEMA_DEFINITIONS: dict[str, Any] = {
    "Selection": {
        "description": "all, a number, a range such as 0-3, or a list of these.",
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": f"^(all|{NUMBERS_PATTERN})$"},
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "anyOf": [
                        {"type": "integer", "minimum": 0},
                        {"type": "string", "pattern": f"^{NUMBERS_PATTERN}$"},
                    ]
                },
            },
        ],
    },
    "Path": {
        "description": "Executed byte offsets in order: single offsets, ranges that include both ends, repetitions.",
        "anyOf": [
            {"type": "null"},
            _ref("PathItem"),
            {"type": "array", "items": _ref("PathItem")},
        ],
    },
    "PathItem": {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET},
            {"type": "string", "pattern": f"^{RANGE_PATTERN}$"},
            {
                "type": "object",
                "properties": {
                    "repeat": {"type": "integer", "minimum": 0, "maximum": MAX_REPEAT},
                    "path": _ref("Path"),
                },
                "required": ["repeat", "path"],
                "additionalProperties": False,
            },
        ]
    },
    "Lanes": {
        "description": "An expression in lane, warp, cta, i and the names of layout; or 32 byte addresses.",
        "anyOf": [
            _ADDRESS,
            {"type": "string"},
            {"type": "array", "items": _ADDRESS, "minItems": 32, "maxItems": 32},
        ],
    },
    "MaskedLanes": {
        "type": "object",
        "properties": {
            "lanes": _ref("Lanes"),
            "active": {
                "description": "A mask, or an expression.",
                "anyOf": [
                    {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF},
                    {"type": "string"},
                ],
            },
            "space": SPACE_SCHEMA,
            "from": _ref("Lanes"),
        },
        "required": ["lanes"],
        "additionalProperties": False,
    },
    "Event": EVENT_SCHEMA,
    "Addresses": {
        "anyOf": [
            _ref("Lanes"),
            _ref("MaskedLanes"),
            {
                "type": "object",
                "properties": {"each": {"type": "array", "items": {"anyOf": [_ref("Lanes"), _ref("MaskedLanes")]}}},
                "required": ["each"],
                "additionalProperties": False,
            },
        ]
    },
}


def _check_source(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError
    found = {}
    for key, places in value.items():
        span, where = parse_range(key), parse_places(places)
        if where is None:
            raise refuse(f"{describe(places)} at {key}", RIGHT)
        found[span] = where
    return found


_KEY_PATTERN = "^(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})$"
_PLACE_SCHEMA = {"type": "string", "pattern": f"^{PLACE}$"}
_SOURCE_SCHEMA = {
    "description": "Source lines of instructions by ranges of byte offsets; a list for inlined code, innermost first.",
    "type": "object",
    "propertyNames": {"pattern": f"^({RANGE_PATTERN}|[0-9]{{1,10}})$"},
    "additionalProperties": {"anyOf": [_PLACE_SCHEMA, {"type": "array", "minItems": 1, "items": _PLACE_SCHEMA}]},
}
Selection = Annotated[Any, AfterValidator(_check_selection), WithJsonSchema({})]
Path = Annotated[Any, AfterValidator(_check_path), WithJsonSchema({})]
Addresses = Annotated[Any, AfterValidator(_check_addresses), WithJsonSchema({})]
Event = Annotated[Any, AfterValidator(check), WithJsonSchema({})]
Extent = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]


def _check_size(value: Any) -> Any:
    if not isinstance(value, str) and not (is_int(value) and value >= 0):
        raise ValueError
    return value


Size = Annotated[
    Any,
    AfterValidator(_check_size),
    WithJsonSchema(
        {
            "description": "Bytes, or an expression in the names of layout.",
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}],
        }
    ),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LaunchForm(_Strict):
    """The launch: sizes in CTAs, threads, registers and bytes."""

    grid: Annotated[Extent, Field(strict=False)] = (1, 1, 1)
    block: Annotated[Extent, Field(strict=False)] = (32, 1, 1)
    registers_per_thread: Annotated[int, Field(ge=1)] = 32
    static_shared_bytes: Size = 0
    dynamic_shared_bytes: Size = 0


class WarpsForm(_Strict):
    """The path and addresses of the named warps of the named CTAs."""

    cta: Selection = "all"
    warp: Selection = "all"
    path: Path = None
    addresses: dict[Annotated[int, Field(ge=0, le=MAX_OFFSET)], Addresses] = {}
    events: dict[Annotated[int, Field(ge=0, le=MAX_OFFSET)], Event] = {}


class TraceForm(_Strict):
    """A trace file."""

    gpuemu_trace: Annotated[Literal[1], BeforeValidator(_check_version), Field(description="The version of this form.")]
    kernel: Annotated[str, Field(min_length=1)]
    arch: Annotated[str, Field(min_length=1, description="The architecture that the code was compiled for.")]
    about: str = ""
    launch: LaunchForm = LaunchForm()
    layout: Annotated[
        dict[str, Annotated[int, Field(ge=-MAX_ADDRESS, le=MAX_ADDRESS)]],
        Field(description="Numbers that the address expressions may name."),
    ] = {}
    code: Annotated[str, Field(min_length=1, description="The listing, one instruction per line.")]
    threads: Annotated[
        dict[Annotated[int, Field(ge=0, le=MAX_OFFSET)], Annotated[int, Field(ge=0, le=MAX_ADDRESS)]],
        Field(description="Threads that executed an instruction, by its offset, if some threads of its warps did not."),
    ] = {}
    source: Annotated[Any, AfterValidator(_check_source), WithJsonSchema({})] = {}
    source_text: Annotated[
        dict[str, str], Field(description="The text of source files, by their names under source.")
    ] = {}
    warps: Annotated[list[WarpsForm], Field(min_length=1)] = [WarpsForm()]
    bulk: Annotated[
        str | None,
        BeforeValidator(_check_file_name),
        Field(description="A side file next to this one that contains the warps and replaces them here."),
        WithJsonSchema({"type": "string", "pattern": f"^{_FILE_NAME_PATTERN}$"}),
    ] = None

    @model_validator(mode="after")
    def _check_text_is_of_the_source(self) -> Self:
        named = {file for places in self.source.values() for file, _ in places}
        for file in self.source_text:
            if file not in named:
                raise refuse(
                    f"source does not name '{file}'", "Remove its text, or name the file under source", "source_text"
                )
        return self

    @model_validator(mode="after")
    def _check_bulk_stands_alone(self) -> Self:
        for other in ("warps", "layout"):
            if self.bulk is not None and other in self.model_fields_set:
                right = {"warps": "Give one of the two", "layout": "Names have a use only where expressions are"}
                raise refuse(f"both bulk and {other}", right[other], "bulk")
        return self


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a trace file."""
    schema = TraceForm.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "gpuemu trace"
    # pydantic accepts only references to its own definitions, so the others are added here.
    fields = schema["$defs"]["WarpsForm"]["properties"]
    fields["cta"] = fields["warp"] = {**_ref("Selection"), "default": "all"}
    fields["path"] = {**_ref("Path"), "default": None}
    # A byte offset as a key: YAML allows integer keys, but JSON only strings.
    for name, what in (("addresses", "Addresses"), ("events", "Event")):
        fields[name]["additionalProperties"] = _ref(what)
        fields[name]["propertyNames"] = {"pattern": _KEY_PATTERN}
    schema["properties"]["threads"]["propertyNames"] = {"pattern": _KEY_PATTERN}
    schema["properties"]["source"] = _SOURCE_SCHEMA
    schema["$defs"].update(SCHEMA_DEFINITIONS)
    del schema["properties"]["bulk"]["default"]  # null is valid only if the field is absent
    schema["allOf"] = [{"not": {"required": ["bulk", other]}} for other in ("warps", "layout")]
    return schema
