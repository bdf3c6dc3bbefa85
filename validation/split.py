"""Which kernels a fit may see. Decided by name alone, so that no figure can move a kernel across.

Microbenchmarks are for fitting. Of the other families, which are what people's kernels look like, a third is
held out. A fit reads through FitView, which never even parses the rows of the held-out kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from validation import records
from validation.records import Measurement

JUDGED_FAMILIES = frozenset(
    (
        "mix_shared", "mix_alu", "mix_tensor", "mix_shuffle", "mix_barrier", "mix_shared_alu", "mix_all", "mix_roles",
        "tile", "transpose", "reduction", "matmul", "classics", "examples", "residents",
    )
)  # fmt: skip
"""Families of whole kernels; the rest are microbenchmarks."""


class HeldOutError(Exception):
    """Somebody asked a FitView for a kernel that is held out."""


def held_out(name: str, family: str) -> bool:
    """Whether a kernel is kept from every fit: one in three of the judged families, by a hash of its name."""
    return family in JUDGED_FAMILIES and hashlib.sha256(name.encode()).digest()[0] % 3 == 0


class FitView(Mapping[str, Measurement]):
    """The measurements that a fit may use, by name. Asking for a held-out one raises HeldOutError."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.device = records.read_device(folder / records.DEVICE_FILE)
        path = folder / records.MEASUREMENTS_FILE
        self._seen = {
            m.name: m for m in records.read_measurements(path, lambda name, family: not held_out(name, family))
        }
        self._hidden = frozenset(name for name, family in records.read_names(path) if held_out(name, family))

    def __getitem__(self, name: str) -> Measurement:
        if name in self._hidden:
            raise HeldOutError(f"{name} is held out: a fit must not see it")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)
