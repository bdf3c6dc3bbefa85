"""Find the work that a solution leaves to torch's operators, which has no time on an emulated GPU.

Inside `watched`, operators that only allocate memory or view it do what they always do. Every other operator is
recorded by its name, and returns tensors of the right shape without values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from gpuemu.base.errors import GpuemuError

_EMPTY = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
_ZEROS = ("zeros", "zeros_like", "new_zeros")
_VIEWS = ("_reshape_alias", "_unsafe_view", "alias", "detach", "detach_")
_SHOWN = {"_local_scalar_dense": "item", "_to_copy": "to", "lift_fresh": "tensor", "lift_fresh_copy": "tensor"}
"""An operator that programs know by another name."""
Allocate = Callable[[Any, bool], Any]


class LeftToTorchError(Exception):
    """No tensor can stand for an operator's result. The text is its name."""


_names: list[str] = []
"""The operators that did work in the active context."""


def left_to_torch(name: str) -> None:
    """Record an operator whose result nothing can stand for. Raises LeftToTorchError."""
    if name not in _names:
        _names.append(name)
    raise LeftToTorchError(name)


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, allocate: Allocate, zeroed: Callable[[Any], bool]):
        super().__init__()
        self._allocate, self._zeroed = allocate, zeroed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        name = func.overloadpacket.__name__
        if name in _VIEWS or _is_view(func):
            return func(*args, **named)
        if name in _EMPTY or name in _ZEROS:
            return self._allocate(_meta(func, args, named), name in _ZEROS)
        if name == "zero_" and self._zeroed(args[0]):
            return args[0]
        shown = _SHOWN.get(name, name)
        if shown not in _names:
            _names.append(shown)
        try:
            return self._without_values(func, args, named)
        except Exception:
            raise LeftToTorchError(shown) from None

    def _without_values(self, func: Any, args: Any, named: dict[str, Any]) -> Any:
        known: dict[int, Any] = {}

        def as_meta(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                found = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
                known[id(found)] = value
                return found
            return torch.device("meta") if isinstance(value, torch.device) else value

        moved, others = tree_map(as_meta, args), tree_map(as_meta, named)
        return tree_map(
            lambda one: known.get(id(one), self._allocate(one, False)) if isinstance(one, torch.Tensor) else one,
            func(*moved, **others),
        )


def _is_view(func: Any) -> bool:
    """Whether an operator only returns other views of its arguments."""
    results, given = func._schema.returns, func._schema.arguments
    aliases = [one.alias_info for one in results]
    writes = any(one.alias_info is not None and one.alias_info.is_write for one in given)
    return bool(aliases) and all(one is not None for one in aliases) and not writes


def _meta(func: Any, args: Any, named: dict[str, Any]) -> Any:
    """The shape of an allocation."""
    named = {**named, "device": torch.device("meta"), "pin_memory": False}
    if named.get("layout") is None:
        named.pop("layout", None)
    return func(*args, **named)


@contextmanager
def watched(file: str, allocate: Allocate, zeroed: Callable[[Any], bool]) -> Iterator[None]:
    """A context that raises GpuemuError at its end if torch's operators did work in it.

    `allocate` returns a tensor like one without memory, filled with zeros or not. `zeroed` gets a tensor to fill with
    zeros, and returns whether its memory is zeros now.
    """
    _names.clear()
    try:
        with _Watch(allocate, zeroed):
            yield
    except GpuemuError:
        raise
    except Exception:  # perhaps because a result has no values
        if not _names:
            raise
    if _names:
        found = f"found that it leaves work to torch's operators, which have no time here: {', '.join(_names)}"
        raise GpuemuError.one(file, None, "", found, "Do this work in kernels of its own")
