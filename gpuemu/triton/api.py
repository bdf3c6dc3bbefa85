"""`with gpuemu.triton.device("sm_89", chip="RTX 4090") as gpu:`, the device that a Triton program uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpuemu.arch import Architecture, as_architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.triton.emulated import Device
from gpuemu.triton.wheel import check_triton

KEPT = 32
"""The number of last launches whose results a device keeps."""


@contextmanager
def device(
    arch: str | os.PathLike[str] | Architecture = "sm_90",
    *,
    chip: str | None = None,
    timed: bool = True,
    checked: bool = False,
    keep: int = KEPT,
) -> Iterator[Device]:
    """A context in which Triton compiles for `arch` and launches on this device.

    `arch` and `chip` are names, paths or objects, as everywhere. `timed`: time every launch; without it, launches are
    only executed, which is faster, except for those of a benchmark. `checked`: check every launch with all tools of
    `gpuemu.check` first. `keep`: the number of last launches that keep their `result`.

    Raises GpuemuError if Triton is not installed, and for an unknown architecture or chip.
    """
    check_triton()
    from gpuemu.triton.driver import active

    hardware = as_architecture(arch, where="gpuemu.triton.device()")
    if chip is not None:
        hardware = hardware.with_overrides({"chip": chip}, where="gpuemu.triton.device()")
    if keep < 1:
        raise GpuemuError.one("device()", None, "keep", str(keep), "expected at least 1")
    made = Device(hardware, timed, checked, keep)
    with active(made):
        yield made
