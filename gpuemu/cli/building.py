"""The options for compiling a kernel, and for the results that it must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from gpuemu.base.errors import GpuemuError

Command = Callable[..., Any]


def source_options(command: Command) -> Command:
    """Add -D, -I and --nvcc-flag."""
    macro = click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
    folder = click.option(
        "-I", "include", multiple=True, metavar="FOLDER", help="Search this folder for included files."
    )
    told = "Pass this flag to the compiler."
    return macro(
        folder(click.option("--nvcc-flag", "compiler_flags", multiple=True, metavar="FLAG", help=told)(command))
    )


def build_options(command: Command) -> Command:
    """Add the options; the command receives their values under the names of LaunchOptions."""
    for option in reversed(
        [
            click.option(
                "--execute",
                type=click.Choice(["all", "timed"]),
                default="all",
                show_default=True,
                help="Execute the whole grid, or only the CTAs that are timed.",
            ),
            click.option(
                "--expect",
                multiple=True,
                metavar="K=FILE",
                help="Exit with 1 if argument K differs from this .npy file.",
            ),
            click.option(
                "--tolerance",
                type=float,
                default=0.0,
                metavar="X",
                help="Allow this error of a value, as a fraction of the largest value.",
            ),
        ]
    ):
        command = option(command)
    return source_options(command)


def compiler_options(define: Sequence[str], include: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The options in the form that nvcc and NVRTC take."""
    return (*(f"-D{text}" for text in define), *(f"-I{folder}" for folder in include), *flags)


class Expected:
    """The values that an argument must have after the launch: the contents of a .npy file."""

    def __init__(self, text: str, arguments: Sequence[Any], tolerance: float):
        from gpuemu.cli.kernel_arguments import buffers, parse_argument

        number, _, self.file = text.partition("=")
        arrays = dict(buffers(arguments))
        if number not in arrays or not self.file:
            right = f"expected K=FILE.npy with K one of {', '.join(arrays) or 'no arguments'}"
            raise GpuemuError.one("--expect", None, "", f"'{text}'", right)
        if not tolerance >= 0:
            raise GpuemuError.one("--tolerance", None, "", str(tolerance), "expected a number of at least 0")
        self.number = number
        self.tolerance = tolerance
        self.wanted = parse_argument(f"file:{self.file}")
        self._given = arrays[number]
        if self._given.size != self.wanted.size:
            found = f"{self.wanted.size} numbers for the {self._given.size} of argument {number}"
            raise GpuemuError.one(self.file, None, "", found, "Give an array of that many elements")

    @property
    def holds(self) -> str:
        """The sentence for equal values."""
        within = "" if self.tolerance == 0 else f" within {self.tolerance:g} of the largest"
        same = f"all {self.wanted.size} numbers are the same{within}; gpuemu check looks for races"
        return f"--expect {self.number}={self.file}: {same}"

    def verdict(self) -> str | None:
        """The difference as a sentence, or None if there is none."""
        import numpy as np

        found, expected = self._given, self.wanted
        narrow = getattr(found, "narrow", None)
        if narrow is not None:
            from gpuemu.sass.numbers.narrow import decode

            # Arrays of narrow types hold bits. The file holds numbers, or bits as well.
            found = decode(narrow, np.asarray(found))
            expected = expected if expected.dtype.kind == "f" else decode(narrow, expected)
        there, wanted = found.reshape(-1), expected.reshape(-1)
        a, b = there.astype(np.float64), wanted.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        off = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= self.tolerance * finite.max(initial=0)))
        if self.tolerance == 0 and found.dtype == expected.dtype:
            off = (there != wanted) & ~(np.isnan(a) & np.isnan(b))
        if not off.any():
            return None
        k = int(off.argmax())
        share = f"{int(off.sum())} of {len(a)} numbers"
        return f"--expect {self.number}={self.file}: {share} differ, the first at {k}: {there[k]} for {wanted[k]}"
