"""The smallest or largest of many words, as sm_100 finds it over lanes (CREDUX) and sm_103 over columns (LDTM.STAT)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.operands import Site

Words = NDArray[np.uint32]
_NAN = 0x7FFFFFFF
_SIGN = np.uint32(0x80000000)
MODIFIERS = ("MIN", "MAX", "MINABS", "MAXABS", "S32", "F32", "NAN")


class Extreme:
    """MIN|MAX[.S32|.F32], MINABS|MAXABS.F32, and .NAN, of an instruction.

    A float that is NaN does not count, unless all are or .NAN is given. -0 is smaller than +0.
    """

    def __init__(self, site: Site):
        self._site = site
        self.kind = next((m for m in site.modifiers if m in MODIFIERS), "")
        self.is_float = site.has("F32")
        if not self.kind.startswith(("MIN", "MAX")) or (self.kind.endswith("ABS") and not self.is_float):
            raise site.unsupported("this form of reduction")

    def of(self, words: Words, present: NDArray[np.bool_]) -> Words:
        """Return the extreme along the last axis of those that are present."""
        smallest, counts = self.kind.startswith("MIN"), present
        if self.is_float:
            words = words & ~_SIGN if self.kind.endswith("ABS") else words
            no_number = np.isnan(words.view(np.float32))
            counts = present & ~no_number
            keys = np.where(words & _SIGN, ~words, words | _SIGN)
        else:
            keys = words ^ _SIGN if self._site.has("S32") else words
        keys = np.where(counts, keys, np.uint32(0xFFFFFFFF if smallest else 0))
        best = keys.min(axis=-1) if smallest else keys.max(axis=-1)
        if self.is_float:
            best = np.where(best & _SIGN, best ^ _SIGN, ~best)
            some = counts.any(axis=-1)
            if self._site.has("NAN"):
                some = some & ~(present & no_number).any(axis=-1)
            best = np.where(some, best, np.uint32(_NAN))
        elif self._site.has("S32"):
            best = best ^ _SIGN
        found: Words = best.astype(np.uint32)
        return found
