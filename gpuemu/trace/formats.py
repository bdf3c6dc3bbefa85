"""Formats of trace files other than gpuemu's YAML. The end of a file's name determines its format.

A format registers itself with `trace.files.FORMATS`; no other code needs to know that it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuemu.base.errors import GpuemuError
from gpuemu.trace.model import Trace


@dataclass(frozen=True)
class Format:
    """A format of trace files. `name`: its name in messages. `endings`, `list_endings`: how the names of its files end.

    `read` takes a file, its name in messages, and the kernel to select from a list; it raises GpuemuError. `write`
    returns sentences that readers of the file should know; it raises GpuemuError and OSError.
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
        """Whether a file of that name is a trace of this format, or a list of them."""
        return name.endswith(self.endings) or self.is_list(name)


def one_alone(label: str, kernel: str) -> GpuemuError:
    """Return the error for a kernel requested from a file that has only one."""
    right = "Remove --kernel, or give a list of kernels such as kernelslist.g"
    return GpuemuError.one(
        label, None, "", f"a single trace has no kernel to choose, but --kernel is '{kernel}'", right
    )
