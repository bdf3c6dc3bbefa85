"""The architectures that somebody chose: by name, or by the products of their chips."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gpuemu.arch.build import product
from gpuemu.arch.files import as_architecture, load_arch
from gpuemu.arch.model import Architecture
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError

Arch = str | os.PathLike[str] | Architecture


def hardware(arch: Arch | Sequence[Arch] | None, chips: str | Iterable[str]) -> tuple[Architecture, ...]:
    """The architectures, each with a chip. Raises GpuemuError."""
    wanted = [chips] if isinstance(chips, str) else list(chips)
    given = [arch] if isinstance(arch, str | os.PathLike | Architecture) else list(arch or ())
    loaded = [as_architecture(one, where="rank()") for one in given]
    if not wanted:
        return tuple(loaded) or (load_arch("sm_90"),)
    among = loaded or [load_arch(name) for name in resources.names("configs")]
    found = []
    for chip in wanted:
        having = [one for one in among if product(chip, one.chips)]
        if not having:
            known = ", ".join(sorted(name for one in among for name in one.chips))
            raise GpuemuError.one("--chip", None, "", f"unknown chip '{chip}'", f"Known: {known}")
        found.append(having[0].with_overrides({"chip": chip}))
    return tuple(found)


def without_profiler(arch: Architecture) -> Architecture:
    """The chip as programs and benchmarks use it: a launch finds in L2 what is left there of the launches before.

    Between the passes of a profiler, other work evicts most of it. `l2_kept_kibibytes` is for that. A value that the
    user has set stays.
    """
    name = f"chips.{arch.chip}.l2_kept_kibibytes"
    if name not in arch.flat() or arch.provenance[name].status == "override":
        return arch
    return arch.with_overrides({name: None})
