"""Shell completion of the names of architectures, traces, and values for --set and --vary.

    eval "$(_GPUEMU_COMPLETE=bash_source gpuemu)"     # zsh_source, fish_source for these shells

Wherever a file may be given, files complete as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import click
from click.shell_completion import CompletionItem

VARIABLE = "_GPUEMU_COMPLETE"
Complete = Callable[[click.Context, str], list[CompletionItem]]
_SETTINGS = {"settings", "settings_b", "varied"}
_ARCHITECTURES = {"arch_name", "archs"}


def _shipped(kind: Literal["configs", "traces"], incomplete: str) -> list[CompletionItem]:
    from gpuemu.base import resources

    names = resources.names(kind)
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found if found else [CompletionItem(incomplete, type="file")]


def architectures(_: click.Context, incomplete: str) -> list[CompletionItem]:
    """Shipped architectures, and files if none fits."""
    return _shipped("configs", incomplete)


def traces(_: click.Context, incomplete: str) -> list[CompletionItem]:
    """Shipped traces, and files if none fits."""
    return _shipped("traces", incomplete)


def settings(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The values of the given architecture, each followed by `=`."""
    from gpuemu.arch import load_arch
    from gpuemu.base.errors import GpuemuError

    given = next((context.params[name] for name in ("arch_name", "archs", "name") if context.params.get(name)), "sm_89")
    try:
        arch = load_arch(given[0] if isinstance(given, tuple) else given)
    except GpuemuError:
        return []
    # A shell would take the text after a space for a separate word.
    return [CompletionItem(f"{name}=") for name in arch.flat() if name.startswith(incomplete) and " " not in name]


def _of(command: click.Command, parameter: click.Parameter) -> Complete | None:
    if parameter.name in _SETTINGS:
        return settings
    if parameter.name in _ARCHITECTURES:
        return architectures
    if isinstance(parameter, click.Argument):
        metavar = parameter.metavar or str(parameter.name)
        if parameter.name in ("name", "a", "b") and getattr(command, "of_architectures", False):
            return architectures
        if "TRACE" in metavar.upper() or parameter.name in ("a", "b"):
            return traces
    return None


def attach(command: click.Command) -> None:
    """Attach completions to the parameters of a command and of its subcommands. They change nothing else."""
    if VARIABLE not in os.environ:
        return
    for parameter in command.params:
        complete = _of(command, parameter)
        if complete is not None:
            parameter.shell_complete = complete  # type: ignore[method-assign, assignment]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            inner.of_architectures = True  # type: ignore[attr-defined]
            attach(inner)
