"""What an extra of the distribution brings, and the error where it is not installed."""

from __future__ import annotations

from gpuemu.base.errors import GpuemuError

INSTALL = 'pip install "gpuemu-sm[sass]"'


class MissingToolError(GpuemuError):
    """A tool that is not installed; the text says what brings it."""


def missing(what: str, right: str) -> GpuemuError:
    """The error for a tool that is not installed."""
    return MissingToolError.one(what, None, "", "no such tool", right)
