"""Sources of configurations: a list, or a Triton program that tunes a kernel. Workers get a space as a pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.studies.rank.configuration import Configuration, RefusedError


class Space(Protocol):
    """Configurations by number. Their count may depend on the hardware."""

    def values(self, arch: Architecture) -> list[tuple[str, Mapping[str, Any]]]:
        """The label and the values of each configuration."""

    def prepare(self, number: int, arch: Architecture) -> Configuration:
        """A configuration, ready to execute. Raises RefusedError or GpuemuError for one that cannot run."""


@dataclass(frozen=True)
class Listed:
    """A list of configurations."""

    configurations: tuple[Configuration, ...]

    def values(self, arch: Architecture) -> list[tuple[str, Mapping[str, Any]]]:
        return [(one.label, one.values or {"configuration": one.label}) for one in self.configurations]

    def prepare(self, number: int, arch: Architecture) -> Configuration:
        """A configuration; the worker compiles its source."""
        return self.configurations[number]


@dataclass(frozen=True)
class TritonProgram:
    """The configurations over which a Triton program tunes a kernel, or those that `varied` spans.

    `call` is Python code that launches the kernel with other sizes. It runs with the program's names, after the program
    has reached its first tuned launch. `kernel`: the name of the kernel to tune.
    """

    path: str
    words: tuple[str, ...] = ()
    call: str | None = None
    kernel: str | None = None
    varied: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    _found: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def values(self, arch: Architecture) -> list[tuple[str, Mapping[str, Any]]]:
        """The label and the values of each configuration; the program runs up to the launch."""
        return [
            (" ".join(f"{name}={value}" for name, value in one.items()), one)
            for one in self._tuned(arch).configurations
        ]

    def prepare(self, number: int, arch: Architecture) -> Configuration:
        """A configuration, compiled."""
        from gpuemu.triton.tuned import LeftOutError

        try:
            made = self._tuned(arch).compile(number)
        except LeftOutError as error:
            raise RefusedError(str(error)) from None
        return Configuration(
            made.code, made.kernel, made.grid, made.block, made.dynamic_shared_bytes, made.args, zero_shared=True,
            values=self._tuned(arch).configurations[number],
        )  # fmt: skip

    def _tuned(self, arch: Architecture) -> Any:
        from gpuemu.triton.tuned import tuned

        key = f"{arch.code_name} {arch.chip}"
        if key not in self._found:
            self._found[key] = tuned(self.path, arch, self.words, self.call, self.kernel, spanned(self.varied))
        return self._found[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": {}}


def spanned(varied: Sequence[tuple[str, Sequence[Any]]]) -> list[dict[str, Any]]:
    """Every combination of values; the last name changes fastest. Empty without names."""
    names = [name for name, _ in varied]
    if len(set(names)) < len(names):
        raise GpuemuError.one("--vary", None, "", "a name is given twice", "Give each name once")
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*(v for _, v in varied))] if varied else []
