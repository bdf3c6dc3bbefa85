"""`--name`: record a kernel several times with different values of a number, and name that number in the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.launching import LaunchOptions, execute
from gpuemu.trace.model import Trace
from gpuemu.trace.naming import Naming, find_swizzle, linear, swizzled

RIGHT = (
    "expected NAME=MACRO:VALUES with three values or more such as pitch=PITCH:24,40,56, or swizzle=MACRO:VALUE with "
    "the value that turns the swizzle off"
)
SWIZZLE = "swizzle"
"""The name that means the three numbers of a swizzle."""
_FORM = re.compile(r"([A-Za-z_]\w*)=([A-Za-z_]\w*|\d+):(.*)")


@dataclass(frozen=True)
class NameOption:
    """A name, what changes with it (a macro, or the number of an argument), and the values to record.

    Each value comes with the bytes of dynamic shared memory, None where they do not change.
    """

    name: str
    changes: str
    values: tuple[tuple[int, int | None], ...]

    @classmethod
    def parse(cls, text: str) -> NameOption:
        """`pitch=PITCH:24,40,56`, `pitch=2:24,40,56` or `pitch=PITCH:24/6144,40/10240,56/14336`. Raises GpuemuError."""
        match = _FORM.fullmatch(text)
        parts = (
            [re.fullmatch(r"(-?\d{1,9})(?:/(\d{1,9}))?", part.strip()) for part in match[3].split(",")] if match else []
        )
        values = tuple((int(p[1]), int(p[2]) if p[2] else None) for p in parts if p)
        enough = 1 if match and match[1] == SWIZZLE else 3
        alone = len({value for value, _ in values}) == len(values)
        if not match or len(values) != len(parts) or len(values) < enough or not alone or (enough == 1 != len(values)):
            raise GpuemuError.one("--name", None, "", f"'{text}'", RIGHT)
        return cls(match[1], match[2], values)

    def options(self, given: LaunchOptions, value: int, dynamic_shared: int | None) -> LaunchOptions:
        """The launch with this value. Raises GpuemuError."""
        if dynamic_shared is not None:
            given = replace(given, dynamic_shared=dynamic_shared)
        if not self.changes.isdigit():
            return replace(given, define=(*given.define, f"{self.changes}={value}"))
        number = int(self.changes)
        if number >= len(given.args):
            found = f"there is no argument {number}: --arg gives {len(given.args)}"
            raise GpuemuError.one("--name", None, "", found, "Arguments are counted from 0")
        return replace(given, args=(*given.args[:number], str(value), *given.args[number + 1 :]))


def record_named(path: str, option: NameOption, given: LaunchOptions, arch: str | None) -> tuple[Trace, Naming]:
    """Execute the kernel once for each value. Returns the trace of the first, and its names. Raises GpuemuError.

    The recording without a swizzle comes after the kernel as it is.
    """
    if option.name == SWIZZLE:
        trace = execute(path, given, arch)
        plain = execute(path, option.options(_of_the_same_ctas(given, trace), *option.values[0]), arch)
        return trace, swizzled(trace, plain, *find_swizzle(trace, plain))
    recordings: dict[int, Trace] = {}
    for value, dynamic_shared in option.values:
        launch = option.options(given, value, dynamic_shared)
        if recordings:
            launch = _of_the_same_ctas(launch, next(iter(recordings.values())))
        recordings[value] = execute(path, launch, arch)
    naming = linear(option.name, recordings)
    return naming.trace, naming


def _of_the_same_ctas(given: LaunchOptions, trace: Trace) -> LaunchOptions:
    """Another launch that records the same CTAs. Its results are neither saved nor compared."""
    ctas = ",".join(str(cta) for cta in sorted({warp.cta for warp in trace.warps}))
    return replace(given, cta=ctas, save=(), expect=())
