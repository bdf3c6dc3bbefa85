"""Options that belong together reach a command as one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Command = Callable[..., Any]


def grouped(name: str, group: type[DataclassInstance]) -> Callable[[Command], Command]:
    """A decorator: the command gets the options that are fields of `group` as one object in its parameter `name`.

    Put it below the options. A field without an option keeps its default.
    """
    names = [field.name for field in fields(group)]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_group(*given: Any, **options: Any) -> Any:
            made = group(**{one: options.pop(one) for one in names if one in options})
            return command(*given, **options, **{name: made})

        return with_group

    return decorate
