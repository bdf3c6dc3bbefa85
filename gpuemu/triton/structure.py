"""Tensors as a judge and a confined process exchange them: memory by number, and a tree of views into it.

A tree is a TensorView, a plain value (a number, a string, None), a list, a tuple or a dict of trees. This module does
not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any
ELEMENT_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""torch's types of elements that an output may have, and their sizes."""


@dataclass(frozen=True)
class TensorView:
    """A tensor in memory `memory`. `offset` and `strides` are in elements; `dtype` is torch's name, such as float32."""

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def end(self) -> int:
        """The elements from the start of the memory to the end of the tensor."""
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True)
class Solution:
    """The description of a solution for a confined process, which calls it.

    `call`: "custom_kernel", a function, or "ModelNew", a class whose object is called. `init`: its arguments.
    `modules`: the problem's files that a solution may import, by module name. `seed` is for its initial weights.
    """

    call: str
    init: Sequence[Any] = ()
    modules: tuple[tuple[str, str], ...] = ()
    seed: int = 0


def mapped(tree: Tree, act: Callable[[Any], Any]) -> Tree:
    """The tree with `act(leaf)` in place of each leaf."""
    if isinstance(tree, dict):
        return {name: mapped(one, act) for name, one in tree.items()}
    if isinstance(tree, list | tuple):
        return [mapped(one, act) for one in tree] if isinstance(tree, list) else tuple(mapped(one, act) for one in tree)
    return act(tree)


def leaves(tree: Tree) -> Iterator[Any]:
    """The leaves, in order."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        for one in tree:
            yield from leaves(one)
    else:
        yield tree
