"""One launch of a Triton kernel: its arguments, its durations, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from gpuemu.base.errors import GpuemuError

if TYPE_CHECKING:
    from gpuemu.sass.image.cubin import Cubin
    from gpuemu.sass.launch_config import LaunchConfig
    from gpuemu.views.result import Result


@dataclass(eq=False)
class Launch:
    """A launch. `cycles` of the SM and `nanoseconds` of the whole launch are None if it was only executed.

    `timed_only`: it belongs to a benchmark, whose values are not used, so only the timed CTAs executed. The last
    launches of a device have their `result`.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    cubin: Cubin = field(repr=False)
    timed_only: bool = False
    cycles: int | None = None
    nanoseconds: float | None = None
    limited_by: str = ""
    findings: tuple[Any, ...] = ()
    kept: Result | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, config: LaunchConfig, registers: int, timed_only: bool = False, findings: tuple[Any, ...] = ()
    ) -> Launch:
        """The record of a launch that has not been timed yet."""
        cubin = cast("Cubin", config.code)
        shared_bytes = config.dynamic_shared_bytes
        return cls(
            config.kernel or "", config.grid, config.block, registers, shared_bytes, cubin, timed_only,
            findings=findings,
        )  # fmt: skip

    @property
    def result(self) -> Result:
        """The result, as `gpuemu.run` returns it. Raises GpuemuError if there was none, or if it is no longer kept."""
        if self.kept is None:
            found = "the launch was not timed" if self.cycles is None else "the result of the launch is no longer kept"
            right = "gpuemu keeps the last timed launches: device(keep=N) keeps more"
            raise GpuemuError.one("launch", None, self.kernel, found, right)
        return self.kept

    def data(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel, "grid": list(self.grid), "block": list(self.block), "registers": self.registers,
            "shared_bytes": self.shared_bytes, "timed_only": self.timed_only, "cycles": self.cycles,
            "nanoseconds": self.nanoseconds, "limited_by": self.limited_by, "findings": len(self.findings),
        }  # fmt: skip
