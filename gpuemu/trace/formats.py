"""Forms of trace files other than our own YAML: a file's name tells which, by how it ends.

A form registers itself with `trace.files.FORMATS`; nobody else needs to know that it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuemu.base.errors import GpuemuError
from gpuemu.trace.model import Trace


@dataclass(frozen=True)
class Format:
    """A form of trace files; `name` is what messages call one, `endings` and `list_endings` end its files' names.

    `read` takes a file, what messages call it, and which kernel of a list is meant; it raises GpuemuError. `write`
    gives back what whoever reads the file should know of it, in sentences; it raises GpuemuError and OSError.
    """

    name: str
    endings: tuple[str, ...]
    list_endings: tuple[str, ...]
    read: Callable[[Path, str, str | None], Trace]
    write: Callable[[Trace, str], list[str]]

    def is_list(self, name: str) -> bool:
        """Whether a file of that name lists traces of several kernels."""
        return name.endswith(self.list_endings)

    def takes(self, name: str) -> bool:
        """Whether a file of that name is a trace of this form, or a list of them."""
        return name.endswith(self.endings) or self.is_list(name)


def one_alone(label: str, kernel: str) -> GpuemuError:
    """The error of a kernel asked for of a file that has one."""
    right = "Remove --kernel, or give a list of kernels such as kernelslist.g"
    return GpuemuError.one(
        label, None, "", f"a single trace has no kernel to choose, but --kernel is '{kernel}'", right
    )
