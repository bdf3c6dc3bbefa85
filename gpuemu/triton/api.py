"""`with gpuemu.triton.device("sm_89", chip="RTX 4090") as gpu:`, the device that a Triton program runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpuemu.arch import Architecture, as_architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.triton.emulated import Device
from gpuemu.triton.wheel import check_triton

KEPT = 32
"""Runs that a device keeps, those of its last launches."""


@contextmanager
def device(
    arch: str | os.PathLike[str] | Architecture = "sm_90",
    *,
    chip: str | None = None,
    timed: bool = True,
    checked: bool = False,
    keep: int = KEPT,
) -> Iterator[Device]:
    """Within it Triton compiles for `arch` and launches here.

    `arch` and `chip` are as everywhere: a name, a path, the thing itself. `timed`: launches are emulated, too; without
    it they are only executed, which is faster, but for those of a benchmark. `checked`: each is looked at by all tools
    of `gpuemu.check` first. `keep`: so many of the last launches keep their `result`.

    Raises GpuemuError where Triton is not installed, and for an architecture or a chip that is not known.
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
