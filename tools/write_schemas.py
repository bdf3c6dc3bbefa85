"""Writes the JSON Schema of trace files into the package: python tools/write_schemas.py"""

from __future__ import annotations

import json
from pathlib import Path

from gpuemu.trace import form

SCHEMA = Path(form.__file__).with_name("trace.schema.json")


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(form.json_schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    SCHEMA.write_text(schema_text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
