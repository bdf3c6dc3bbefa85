"""Options that have an effect only together with others. gpuemu refuses them by name where they have none.

A rule lists, for one option of a command, the values of other options that it works with. An option without a rule
always has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gpuemu.base.errors import GpuemuError
from gpuemu.base.unaided import advice

Values = Mapping[str, Any]
GIVEN, ABSENT = ("given",), ("absent",)
"""Stand-ins for values: the other option must be given, or must not be."""


Beside = Mapping[str, tuple[str, ...]]


class Rule:
    """An option and its companions: for each of several parameters its values, or GIVEN or ABSENT.

    One of several such ways is enough. `right`: what the user should do, where the rule alone does not say it.
    """

    def __init__(self, option: str, *ways: Beside, right: str = ""):
        self.option, self.ways, self.right = option, ways, right

    def holds(self, values: Values) -> bool:
        """Whether the option has an effect with these values of the command's parameters."""
        return any(all(_fits(values[name], wanted) for name, wanted in way.items()) for way in self.ways)


def _fits(value: Any, wanted: tuple[str, ...]) -> bool:
    if wanted is GIVEN or wanted is ABSENT:
        return (value not in (None, False, ())) is (wanted is GIVEN)
    return any(one in wanted for one in value) if isinstance(value, tuple) else value in wanted


_TIMELINE = {"page": ("timeline",), "form": ("text", "json", "csv")}
_WITH_SOURCES = ("html", "sarif", "github")
_ONE_RUN = {"only": ABSENT}
_TEXT = {"form": ("text",)}
_EXPECTED = Rule("tolerance", {"expect": GIVEN})
_SAVED = "Run the trace with it: the saved result has run already"
_FOLDERS = "Leave it out, or compare two folders of cubins"
_PITCH = "Add --pitch with the elements of a row"
RULES: Mapping[str, tuple[Rule, ...]] = {
    "run": (
        Rule("by", {"page": ("source",), "form": ("csv", "json")}),
        Rule("hottest", {"page": ("source",), "form": ("text",)}),
        Rule("everything", {"page": ("summary",), "form": ("text",)}),
        *(Rule(name, _TIMELINE) for name in ("warps", "start", "cycles")),
        Rule("sources", {"page": ("source",)}, {"form": _WITH_SOURCES}, {"also": _WITH_SOURCES}),
        Rule("ranked", {"form": ("html",)}, right="--format html has the ranking; gpuemu why prints it"),
        Rule("against", {"form": ("html",)}, right="--format html has it; gpuemu diff prints two runs side by side"),
        _EXPECTED,
    ),
    "why": (*(Rule(name, _ONE_RUN) for name in ("everything", "pairs", "jobs")), _EXPECTED),
    "check": (Rule("everything", _TEXT),),
    "trace": (_EXPECTED,),
    "exec": (Rule("error_exitcode", {"checked": GIVEN}, right="Add --check"),),
    "compare": (Rule("everything", _TEXT),),
    "diff": (
        Rule("arch_name", {"a": ("run", "folder")}, {"b": ("run", "folder")}, right=_SAVED),
        Rule("settings", {"a": ("run", "folder")}, {"b": ("run", "folder")}, right=_SAVED),
        Rule("settings_b", {"b": ("run",)}, right=_SAVED),
        *(Rule(name, {"a": ("folder",), "b": ("folder",)}, right=_FOLDERS) for name in ("launches", "jobs")),
    ),
    "sweep": (Rule("everything", {"form": ("text",)}), Rule("store", {"no_store": ABSENT})),
    "layout": (Rule("binary", {**_TEXT, "picture_alone": ABSENT}), Rule("picture_alone", _TEXT)),
    "fragment": tuple(Rule(name, {"pitch": GIVEN}, right=_PITCH) for name in ("name", "settings", "arch_name")),
    "banks": (Rule("wide", _TEXT),),
    "search": (Rule("top", _TEXT),),
    "arch diff": (Rule("notes", _TEXT),),
    "calibrate": (
        Rule("keep", {"folder": ABSENT, "dry_run": ABSENT}),
        *(Rule(name, {"dry_run": ABSENT}) for name in ("date", "jobs", "output")),
    ),
}
"""The rules of each command that has some."""


class _Looking:
    """Run a command after checking its options together. At the end, say if Numba was missed."""

    def __init__(self, callback: Callable[..., Any]):
        self._callback = callback

    def __call__(self, *words: Any, **options: Any) -> Any:
        refuse_idle(click.get_current_context())
        try:
            return self._callback(*words, **options)
        finally:
            told = advice()
            if told:
                click.echo(told, err=True)


def attach(command: click.Command) -> None:
    """Make a command, or each command of a group, check its options: GpuemuError for one without an effect."""
    for one in command.commands.values() if isinstance(command, click.Group) else (command,):
        if one.callback is not None and not isinstance(one.callback, _Looking):
            one.callback = _Looking(one.callback)


def refuse_idle(ctx: click.Context) -> None:
    """Raise GpuemuError for an option that was given and has no effect with the others."""
    name = _name(ctx)
    values = _resolved(name, ctx.params)
    for rule in RULES.get(name, ()):
        if ctx.get_parameter_source(rule.option) is ParameterSource.COMMANDLINE and not rule.holds(values):
            raise _idle(rule, values, {p.name or "": max(p.opts, key=len) for p in ctx.command.params})


def _name(ctx: click.Context) -> str:
    """The command's name below `gpuemu`."""
    names = [str(ctx.command.name)]
    while (parent := ctx.parent) is not None and parent.parent is not None:
        names.insert(0, str(parent.command.name))
        ctx = parent
    return " ".join(names)


def _resolved(name: str, values: dict[str, Any]) -> Values:
    """The values in the terms of the rules: the format of a file by its name, and the kind of input."""
    if name == "sweep":
        return {**values, "form": form_of(values["form"], values["output"])}
    if name == "diff":
        return {**values, **{k: _kind(values[k]) for k in "ab"}}
    if name == "run":
        return {**values, "also": tuple(text.partition("=")[0] for text in values["also"])}
    return values


def _kind(compared: str) -> str:
    """The kind of a subject of `diff`: a folder of cubins, a saved result, or a trace."""
    if Path(compared).is_dir():
        return "folder"
    return "saved" if compared.endswith(".json") else "run"


def form_of(form: str | None, output: str | None) -> str:
    """The format of a sweep: the requested one, or the one of the file's name, or text."""
    ending = Path(output).suffix.removeprefix(".") if output else ""
    return form or (ending if ending in ("csv", "json", "parquet") else "text")


def _idle(rule: Rule, values: Values, options: Mapping[str, str]) -> GpuemuError:
    way = rule.ways[0]
    off = [name for name, wanted in way.items() if not _fits(values[name], wanted)]
    found = [_told(options[name], values[name], GIVEN if way[name] is ABSENT else way[name]) for name in off]
    takes = " or ".join(
        " and ".join(_told(options[name], " or ".join(wanted), wanted, right=True) for name, wanted in one.items())
        for one in rule.ways
    )
    right = rule.right or f"Use it with {takes}"
    return GpuemuError.one(options[rule.option], None, "", f"it has no effect here ({' and '.join(found)})", right)


def _told(option: str, value: Any, wanted: tuple[str, ...], right: bool = False) -> str:
    """An option as given, or as it should be given: `no --expect`, `--page summary`."""
    if wanted is ABSENT or (wanted is GIVEN and not right and value in (None, False, ())):
        return f"no {option}"
    if not option.startswith("-"):
        return f"a saved result for {option.upper()}"
    return option if wanted is GIVEN else f"{option} {value}"
