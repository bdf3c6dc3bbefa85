"""Operands of integer instructions: their allowed decorations, and the values that are known in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import immediate32
from gpuemu.sass.machine.operands import Getter, Site


def check(site: Site, k: int, decorations: str = "") -> None:
    """Refuse operand k if it has a decoration (- or ~) that is not in `decorations`."""
    o = site.operands[k]
    found = "-" * o.negative + "~" * o.inverted + "|" * o.absolute + "!" * o.negated
    if o.suffixes or any(d not in decorations for d in found):
        raise site.unsupported(f"the operand {o.text}")


def integer(site: Site, k: int, decorations: str = "") -> Getter:
    """Return operand k as uint32 lanes or scalar; refuse a decoration that is not in `decorations`."""
    check(site, k, decorations)
    return site.source(k)


def pair(site: Site, k: int, decorations: str = "") -> Getter:
    """Return operand k as uint64 lanes or scalar, from a register pair or a constant.

    The returned array is valid until the next call.
    """
    check(site, k, decorations)
    if immediate(site, k) not in (None, 0) and not site.has("64", "S64", "U64"):
        raise site.unsupported("an immediate of 64 bits")
    return site.source64(k)


def immediate(site: Site, k: int) -> int | None:
    """Return the value of operand k, 0 for RZ, if it is known in advance; decorations are not applied."""
    operand = site.operands[k]
    if operand.register is not None or operand.brackets:
        return 0 if operand.core in ("RZ", "URZ") else None
    value = immediate32(operand.core)
    return None if value is None else int(value)


def is_zero(site: Site, k: int) -> bool:
    """Whether operand k is a plain 0: neither -RZ, which carries, nor ~RZ."""
    o = site.operands[k]
    return immediate(site, k) == 0 and not (o.negative or o.inverted)


def fixed_predicate(site: Site, k: int) -> bool | None:
    """Return the value of the predicate operand k if it is PT or !PT, otherwise None."""
    o = site.operands[k]
    return None if o.core not in ("PT", "UPT") else not o.negated


def operand_count(site: Site, *counts: int) -> None:
    """Refuse the instruction if it has another number of operands."""
    if len(site.operands) not in counts:
        raise site.unsupported("this number of operands")


def parts(values: Any, kind: type[np.generic]) -> NDArray[Any]:
    """Return 32-bit lanes (or one scalar) as [lane, part] of a narrower type, lowest part first."""
    narrow = np.atleast_1d(np.asarray(values)).view(kind)
    return narrow.reshape(-1, 4 // np.dtype(kind).itemsize)
