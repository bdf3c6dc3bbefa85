"""Writes the files of the package that follow from declarations: python tools/write_schemas.py

The JSON Schema of trace files follows from the trace's form. The record of the values that the engine reads follows
from the fields of an architecture, because the engine does not import pydantic. Tests compare both files.
"""

from __future__ import annotations

import json
from pathlib import Path

from gpuemu.arch.numbers import whole_numbers
from gpuemu.trace import form

SCHEMA = Path(form.__file__).with_name("trace.schema.json")
VALUES = Path(form.__file__).parents[1] / "engine" / "values.py"
_VALUES_HEAD = '''"""The whole numbers of the architecture file. Written by python tools/write_schemas.py."""

from __future__ import annotations

from gpuemu.engine.records import Record


class Values(Record):
    """Each value under its dotted name with _ for the dots."""

'''


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(form.json_schema(), indent=2, ensure_ascii=False) + "\n"


def values_text() -> str:
    """The module of the values as the file holds it."""
    return _VALUES_HEAD + "".join(f"    {name.replace('.', '_')}: int\n" for name in whole_numbers())


def main() -> None:
    """Write the files."""
    SCHEMA.write_text(schema_text(), encoding="utf-8", newline="\n")
    VALUES.write_text(values_text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
