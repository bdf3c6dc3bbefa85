"""The launch of a trace, with its shared-memory sizes computed from the numbers of the layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import compile_expression
from gpuemu.trace.form import LaunchForm
from gpuemu.trace.launch_limits import beyond
from gpuemu.trace.mistakes import Place
from gpuemu.trace.model import Launch

SIZES = ("static_shared_bytes", "dynamic_shared_bytes")
_RIGHT = "expected a whole number of at least 0, or an expression in names of the layout that gives one"


def launch_of(form: LaunchForm, layout: Mapping[str, int], refuse: Callable[[Place, str, str], None]) -> Launch:
    """Return the launch for these numbers of the layout; call `refuse(place, found, right)` for each problem."""
    values = form.model_dump()
    for name in SIZES:
        text = values[name]
        if not isinstance(text, str):
            continue
        values[name] = 0
        try:
            size = int(compile_expression(text, layout, where=("", None, "")).evaluate(layout))
        except GpuemuError as error:
            for problem in error.problems:
                refuse(("launch", name), problem.found, _RIGHT)
            continue
        if size < 0:
            refuse(("launch", name), f"{size} from '{text}'", _RIGHT)
        else:
            values[name] = size
    for name in ("grid", "block"):
        right = beyond(name, values[name])
        if right is not None:
            refuse(("launch", name), str(list(values[name])), right)
    return Launch(**values)
