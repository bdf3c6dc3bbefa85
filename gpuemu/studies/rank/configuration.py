"""A configuration of a kernel: its machine code, or a source with compiler options, and a launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.trace.launch_limits import Extent, extent


class RefusedError(Exception):
    """A configuration that cannot run; the text says why."""


@dataclass(frozen=True)
class Configuration:
    """A launch with the arguments of `trace_kernel`; `path` may also be the bytes of a cubin.

    `values` distinguish it from other configurations, by name; they are columns of the table. A configuration without
    values is known by its `name`. `zero_buffers`: without `args`, each pointer gets a buffer of zeros.
    """

    path: str | os.PathLike[str] | bytes | Cubin
    kernel: str | None = None
    grid: Extent = 1
    block: Extent = 32
    dynamic_shared_bytes: int = 0
    args: Sequence[Any] = ()
    options: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    zero_shared: bool = False
    zero_buffers: bool = False

    @property
    def label(self) -> str:
        """The name, or else the values."""
        if self.name or not self.values:
            return self.name or (os.fspath(self.path) if isinstance(self.path, str | os.PathLike) else "a cubin")
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    def launch(self, arch: Architecture, budget: int) -> LaunchConfig:
        """The launch on `arch`. Only the timed CTAs execute, each at most `budget` warp instructions."""
        where = "rank()"
        return LaunchConfig(
            self.path, self.kernel, extent("grid", self.grid, where), extent("block", self.block, where), None,
            self.dynamic_shared_bytes, self.args, arch, self.options, timed_only=True, budget=budget,
            zero_shared=self.zero_shared,
        )  # fmt: skip


def as_configuration(given: Any, number: int) -> Configuration:
    """A Configuration, or one from a mapping of its fields. Raises GpuemuError for other things and unknown names."""
    if isinstance(given, Configuration):
        return given
    known = [f.name for f in fields(Configuration)]
    if not isinstance(given, Mapping):
        right = f"expected a gpuemu.Configuration, or a mapping of {', '.join(known)}"
        raise GpuemuError.one("rank()", None, f"configuration {number}", type(given).__name__, right)
    words: dict[str, Any] = {("path" if name in ("cubin", "file") else name): value for name, value in given.items()}
    unknown = [name for name in words if name not in known]
    if unknown or "path" not in words:
        found = f"unknown name '{unknown[0]}'" if unknown else "there is no path"
        right = f"Known names: {', '.join(known)}; only path is required"
        raise GpuemuError.one("rank()", None, f"configuration {number}", found, right)
    if isinstance(words["path"], bytearray | memoryview):
        words["path"] = bytes(words["path"])
    return Configuration(**words)
