"""Logic on predicates, and moves between predicates and registers."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.compiled.columns import PACK, UNIFORM_TRUTH, UNPACK
from gpuemu.sass.lane import integers
from gpuemu.sass.machine.lanes import Mask, whole_warps, write
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import check, immediate, operand_count
from gpuemu.sass.semantics.lanewise import (
    EncodedStep,
    LaneStep,
    Read,
    encoded_values,
    plain_word,
    raw_word,
    row_written,
    sign,
    truth,
)


@semantics("PLOP3", "UPLOP3")
def plop3(site: Site) -> Step:
    """PLOP3.LUT Pu, Pv, a, b, c, table of Pu, table of Pv: bit 4a + 2b + c of each table.

    An input is a predicate, or the sign of a register (.SIGN).
    """
    site.only("LUT")
    operand_count(site, 7)
    tables = [immediate(site, k) for k in (5, 6)]
    inputs = []
    for k in (2, 3, 4):
        suffixes = site.operands[k].suffixes
        if suffixes not in ((), ("SIGN",)):
            raise site.unsupported(f"the operand {site.operands[k].text}")
        inputs.append(sign(site, k) if suffixes else truth(site, k))
    reads: list[Read] = [*inputs]
    for table in tables:
        if table is None or not 0 <= table < 256:
            raise site.unsupported("this truth table")
        reads.append(table)
    return LaneStep(site, integers.predicate_logic, reads, [0, 1])


def _mask(site: Site, k: int) -> int:
    selected = immediate(site, k)
    if selected is None:
        raise site.unsupported("a mask in a register")
    return selected & 0xFF


def _named(mask: int) -> list[int]:
    """Return the predicates that a mask names, P0 to P6; bit 7 names none."""
    return [p for p in range(7) if mask >> p & 1]


@semantics("P2R", "UP2UR")
def p2r(site: Site) -> Step:
    """P2R[.Bk] Rd, PR, a, mask: a, with the predicates of the mask in byte k (0) and P0 in its bit 0."""
    site.only("B0", "B1", "B2", "B3")
    operand_count(site, 4)
    uniform = site.mnemonic == "UP2UR"
    if len(site.modifiers) > 1 or site.operands[1].text != ("UPR" if uniform else "PR"):
        raise site.unsupported("this form of P2R")
    check(site, 2)
    shift = 8 * int(site.modifiers[0][1]) if site.modifiers else 0
    selected = _mask(site, 3)
    file = site.lanes.uniform_predicates if uniform else site.lanes.predicates
    rows = file.view(np.uint8)[:7]
    bits = np.array([1 << p if p in _named(selected) else 0 for p in range(7)], dtype=np.uint8)[:, None]
    kept, up = np.array(0xFFFFFFFF & ~(selected << shift), dtype=np.uint32), np.array(shift, dtype=np.uint32)
    store, get = site.destination(0), site.source(2)

    def step(mask: Mask) -> None:
        value = np.bitwise_or.reduce(rows * bits, axis=0).astype(np.uint32)
        value <<= up
        store(value | get() & kept, mask)

    numbers = [selected & 0x7F, UNIFORM_TRUTH * uniform, shift]
    reads = [plain_word(site, 2, get)]
    encoded = encoded_values(PACK, "u", reads, numbers, "u", [row_written(site, 0)])
    return step if encoded is None or selected & 0x80 else EncodedStep(step, encoded)


@semantics("R2P", "UR2UP")
def r2p(site: Site) -> Step:
    """R2P PR, a[.Bk], mask: set the predicates of the mask from byte k (0) of a, P0 from its bit 0."""
    site.only()
    operand_count(site, 3)
    uniform = site.mnemonic == "UR2UP"
    operand = site.operands[1]
    if (
        site.operands[0].text != ("UPR" if uniform else "PR")
        or operand.suffixes not in ((), ("B0",), ("B1",), ("B2",), ("B3",))
        or operand.negative
        or operand.inverted
        or operand.absolute
    ):
        raise site.unsupported("this form of R2P")
    byte = int(operand.suffixes[0][1]) if operand.suffixes else 0
    file = site.lanes.uniform_predicates if uniform else site.lanes.predicates
    chosen = [(file[p], np.array(1 << 8 * byte + p, dtype=np.uint32)) for p in _named(_mask(site, 2))]
    get = site.raw(1)
    # The common case of all predicates: the bits of a byte are their rows.
    rows = file.view(np.uint8)[:7] if len(chosen) == 7 else None
    of_lanes = (len(file[0]), 4)

    def step(mask: Mask) -> None:
        values = get()
        if uniform:
            mask = whole_warps(mask)
        if rows is not None and mask is None and values.ndim:
            bits = np.unpackbits(values.view(np.uint8).reshape(of_lanes)[:, byte, None], axis=1, bitorder="little")
            rows[...] = bits.T[:7]
            return
        for predicate, bit in chosen:
            write(predicate, (values & bit).astype(np.bool_), mask)

    numbers = [_mask(site, 2) & 0x7F, UNIFORM_TRUTH * uniform, 8 * byte]
    encoded = encoded_values(UNPACK, "u", [raw_word(site, 1)], numbers, "", [])
    return step if encoded is None else EncodedStep(step, encoded)
