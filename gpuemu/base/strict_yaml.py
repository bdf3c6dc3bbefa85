"""Read YAML strictly, and remember the line of each value.

    document = strict_yaml.load("my.yaml")
    document.value                                   # dict, list, str, int, float, bool, None
    document.line(("shared_memory", "banks"))        # the line of that key, counted from 1
    document.text_line(("warps", 0, "text"), 3)      # the line of the fourth line of a `|` block

Strict reading has these rules. A key occurs once in its mapping, and is a word or a whole number. Only `true` and
`false` are booleans; `no`, `on` and `yes` stay words. Dates, `1:30`, `010` and `1_000` stay words, too. `0x40` is a
whole number and `1e3` a number. Aliases, merge keys, tags and a second document are refused, so that each value has one
line to which messages can point.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.reading import read_whole

Key = str | int
PathToValue = tuple[Key, ...]
DEEPEST = 100
"""Maximum depth of nested values. Deeper nesting is a mistake and would exhaust the parser's stack."""
_TOO_DEEP = "values nested too deeply"
_DEPTH_RIGHT = f"expected at most {DEEPEST} levels"

# With libyaml's parser, if PyYAML was built with it, a long block scalar takes no Python time at all.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WITH_LIBYAML = _Base is not yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
    r"|(?:0|[1-9][0-9]*)[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
)
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")


class _TooDeep(Exception):
    """Values nested deeper than DEEPEST; the argument is the line."""


class _Loader(_Base):  # type: ignore[misc]
    """Composes nodes, and knows only the plain words that the module's docstring lists.

    The loader refuses deep nesting while it composes, because the composer recurses on the C stack. Then it raises
    _TooDeep with the line.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    _around = 0

    def descend_resolver(self, parent: Any, index: Any) -> None:
        """Count a level; both composers call this before each node, with the list or mapping that contains it."""
        self._around += 1
        if self._around > DEEPEST + 1:
            raise _TooDeep(_line(parent))

    def ascend_resolver(self) -> None:
        """Leave a level; both composers call this after each node."""
        self._around -= 1


_Loader.add_implicit_resolver(_TAG + "bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(_TAG + "null", _NULL, ["~", "n", "N", ""])


@dataclass(frozen=True)
class Document:
    """A document's plain `value`, its `name` in messages, and the lines of its parts."""

    name: str
    value: Any
    _root: Any

    def line(self, path: PathToValue = ()) -> int:
        """Return the line, from 1, of the key or list item at `path`, or of the nearest one around it."""
        return self._place(path)[0]

    def text_line(self, path: PathToValue, index: int) -> int:
        """Return the line of line `index` (from 0) of the text at `path`; it is exact for a `|` block."""
        _, node = self._place(path)
        if node is None or node.style not in ("|", ">"):
            return _line(node)
        return _line(node) + 1 + (index if node.style == "|" else 0)

    def problem(self, path: PathToValue, found: str, right: str) -> Problem:
        return Problem(self.name, self.line(path), dotted(path), found, right)

    def _place(self, path: PathToValue) -> tuple[int, Any]:
        node = self._root
        line = _line(node)
        for key in path:
            for candidate, child, its_line in _children(node):
                if candidate == key and isinstance(candidate, type(key)):
                    node, line = child, its_line
                    break
            else:
                break
        return line, node


def load(path: str | os.PathLike[str], name: str | None = None) -> Document:
    """Read a file (UTF-8). `name` is its name in messages, by default the path. Raises GpuemuError."""
    name = os.fspath(path) if name is None else name
    try:
        data = read_whole(path)
    except (OSError, ValueError) as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else "a file that cannot be read"
        raise GpuemuError.one(name, None, "", found, "Give the path of a YAML file") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise GpuemuError.one(name, line, "", f"the byte 0x{data[error.start]:02x}", "expected text in UTF-8") from None
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    """Read YAML text. `name` is its name in messages. Raises GpuemuError with every problem found."""
    try:
        root = _compose(text)
    except _TooDeep as error:
        raise GpuemuError.one(name, error.args[0], "", _TOO_DEEP, _DEPTH_RIGHT) from None
    except yaml.MarkedYAMLError as error:
        raise GpuemuError([_syntax_problem(error, text, name)]) from None
    except yaml.reader.ReaderError as error:
        # libyaml counts bytes, and PyYAML's own reader counts characters.
        start = text.encode(errors="replace")[: error.position].decode(errors="replace")
        line = (start if _WITH_LIBYAML else text[: error.position]).count("\n") + 1
        raise GpuemuError.one(name, line, "", "a control character", "expected printable text") from None
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise GpuemuError.one(name, line, "", "half a character", "expected text in UTF-8") from None
    reader = _Reader(name)
    value = None if root is None else reader.read(root, ())
    if reader.alias_seen:
        reader.problems += _alias_problems(text, name)
    if reader.problems:
        raise GpuemuError(sorted(reader.problems, key=lambda p: p.line or 0))
    return Document(name, value, root)


def dotted(path: PathToValue) -> str:
    """Write `("warps", 0, "text")` as messages do: `warps[0].text`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def describe(value: object) -> str:
    """Describe a value as the `found` of a problem: `32`, `the text '32'`, `true`, `nothing`, `a list`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:57]!r}..."
        case int() | float():
            return str(value)
        case list() | tuple():
            inside = ", ".join(map(str, value))
            return f"the list [{inside}]" if len(inside) <= 60 else f"a list of {len(value)} items"
        case dict():
            return "a mapping"
        case _:
            return f"a value of type {type(value).__name__}"


def path_text(given: object, where: str, right: str) -> str:
    """Return a path argument as text. Raises GpuemuError, which names `where`, for any other type."""
    if not isinstance(given, str | os.PathLike):
        raise GpuemuError.one(where, None, "", describe(given), right)
    return os.fsdecode(given)


def _compose(text: str) -> Any:
    try:
        return _composed(text)
    except yaml.MarkedYAMLError as error:
        # The scanner reads ahead of the composer, and newer scanners stop at their own depth limit. The text before
        # that point can be scanned, so the composer can count its levels.
        if error.problem_mark is not None:
            with contextlib.suppress(yaml.YAMLError):
                _composed(text[: error.problem_mark.index])
        raise


def _composed(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _line(node: Any) -> int:
    # Events have marks, too. An empty document has no node.
    return 1 if node is None else int(node.start_mark.line) + 1


def _children(node: Any) -> Iterator[tuple[Key, Any, int]]:
    """Yield key, value node and line of each entry of a mapping or list node that was read without a problem."""
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            yield (int(key.value, 0) if key.tag == _TAG + "int" else key.value), child, _line(key)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield index, child, _line(child)


class _Reader:
    """Turns nodes into plain values and collects the problems in them."""

    def __init__(self, name: str):
        self.name = name
        self.problems: list[Problem] = []
        self.alias_seen = False
        self._collections: set[int] = set()
        self._scalars: set[int] = set()

    def read(self, node: Any, path: PathToValue) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._collections:
            self.alias_seen = True
            return None
        self._collections.add(id(node))
        if len(path) >= DEEPEST:
            return self._refuse(node, (), _TOO_DEEP, _DEPTH_RIGHT)
        if isinstance(node, yaml.SequenceNode):
            if node.tag != _TAG + "seq":
                return self._refuse_tag(node, path)
            return [self.read(child, (*path, index)) for index, child in enumerate(node.value)]
        if node.tag != _TAG + "map":
            return self._refuse_tag(node, path)
        return self._mapping(node, path)

    def _mapping(self, node: Any, path: PathToValue) -> dict[Key, Any]:
        value: dict[Key, Any] = {}
        first_line: dict[Key, int] = {}
        for key_node, child in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.value == "<<" and not key_node.style:
                self._refuse(key_node, path, "a merge key", "Write the keys out")
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, path, "a list or mapping as a key", "expected a word")
                continue
            key = self._scalar(key_node, path)
            if not isinstance(key, str) and (not isinstance(key, int) or isinstance(key, bool)):
                if not self.problems or self.problems[-1].line != _line(key_node):
                    self._refuse(key_node, path, f"{describe(key)} as a key", "expected a word")
                continue
            if key in first_line:
                where = f"Keep one: the first is on line {first_line[key]}"
                self._refuse(key_node, (*path, key), "the key appears twice", where)
                continue
            first_line[key] = _line(key_node)
            value[key] = self.read(child, (*path, key))
        return value

    def _scalar(self, node: Any, path: PathToValue) -> Any:
        if id(node) in self._scalars:
            self.alias_seen = True
            return None
        self._scalars.add(id(node))
        tag, text = node.tag, node.value
        if tag == _TAG + "str":
            return text
        if tag == _TAG + "int" and _INT.match(text):
            if len(text) > 1000:
                return self._refuse(node, path, f"a number of {len(text)} digits", "expected a shorter one")
            return int(text, 0)
        if tag == _TAG + "float" and (_FLOAT.match(text) or _INT.match(text)):
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if tag == _TAG + "bool" and _BOOL.match(text):
            return text.lower() == "true"
        if tag == _TAG + "null" and _NULL.match(text):
            return None
        return self._refuse_tag(node, path)

    def _refuse_tag(self, node: Any, path: PathToValue) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._refuse(node, path, f"the tag {tag}", "Write the value without a tag")

    def _refuse(self, node: Any, path: PathToValue, found: str, right: str) -> None:
        self.problems.append(Problem(self.name, _line(node), dotted(path), found, right))


def _alias_problems(text: str, name: str) -> list[Problem]:
    # Nodes do not show where an alias is, but events do.
    right = "Write the value out"
    return [
        Problem(name, _line(event), "", f"the alias *{event.anchor}", right)
        for event in yaml.parse(text, Loader=_Loader)
        if isinstance(event, yaml.AliasEvent)
    ]


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = 1 if mark is None else mark.line + 1
    what = (error.problem or error.context or "it cannot be read").strip()
    if "another document" in what:
        return Problem(name, line, "", "a second document begins here", "Keep one document per file")
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return Problem(name, line, "", "a tab in the indentation", "Indent with spaces")
    return Problem(name, line, "", f"invalid YAML ({what})", "Fix the syntax")
