"""How many instructions each CTA of a grid executes, from the CTAs that were executed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.table import parse_opcode
from gpuemu.trace.model import Instruction, Trace

GOLDEN = (5**0.5 - 1) / 2
"""The fractional parts of its multiples are spread evenly between 0 and 1."""
SECTOR_BYTES = 32
COPIES = ("UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG")
"""Instructions that copy blocks to or from global memory."""
EVEN = 0.02
"""CTAs whose instruction counts differ by at most this fraction count as equal."""


def copies_in(instruction: Instruction) -> bool:
    """Whether the instruction is a bulk or tensor copy from global memory."""
    if instruction.mnemonic == "UBLKCP":
        return parse_opcode(instruction.opcode).modifiers[:1] == ("S",)
    return instruction.mnemonic == "UTMALDG"


def executed(trace: Trace) -> dict[int, int]:
    """Warp instructions of each CTA that was executed, whether it is timed or not."""
    known: dict[int, int] = {}
    for warp in [*trace.warps, *(trace.sample.others.warps if trace.sample else ())]:
        known[warp.cta] = known.get(warp.cta, 0) + len(warp.path)
    return known


def work_of(trace: Trace) -> NDArray[np.float64]:
    """Warp instructions of each CTA of the launch."""
    known, sample = executed(trace), trace.sample
    if sample is None or sample.work is None:
        found = regular(trace.launch.grid, known)
        found = as_often(trace.launch.ctas, known) if found is None else found
    else:
        found = sample.work
    if sample is not None and sample.hands_out:  # a CTA that is done takes more work
        return np.full(len(found), found.mean())
    return found


def parts(trace: Trace, work: NDArray[np.float64], reference: int, stores: bool) -> NDArray[np.float64]:
    """The traffic of each CTA with global memory as a fraction of that of the reference CTA.

    `stores`: whether stores or loads count. Traffic is close to a linear function of the number of instructions.
    """
    memory = np.array([i.accesses_memory for i in trace.code])
    wanted = np.array([
        i.operation.kind is Kind.GLOBAL and (i.operation.store and i.mnemonic != "LDGSTS") == stores for i in trace.code
    ])  # fmt: skip
    known, sectors = executed(trace), dict.fromkeys(executed(trace), 0)
    for of in (trace, *([trace.sample.others] if trace.sample else [])):
        asked = np.sort(np.where(of.active, of.global_addresses // SECTOR_BYTES, -1), axis=1)
        each_row = (asked[:, 0] >= 0).astype(int) + (np.diff(asked, axis=1) > 0).sum(axis=1)
        for warp in of.warps:
            sectors[warp.cta] += int(each_row[warp.rows[wanted[warp.path[memory[warp.path]]]]].sum())
    counts, touched = np.array(list(known.values()), float), np.array([sectors[cta] for cta in known], float)
    if is_even(counts):
        return work / known[reference]
    each, fixed = np.polyfit(counts, touched, 1)
    if fixed + each * known[reference] <= 0:
        each, fixed = 1.0, 0.0
    return np.asarray(np.maximum(0.0, (fixed + each * work) / (fixed + each * known[reference])))


def regular(
    grid: tuple[int, int, int], known: dict[int, int], left: NDArray[np.bool_] | None = None
) -> NDArray[np.float64] | None:
    """Warp instructions of each CTA, from the `known` ones.

    None unless these are all equal, linear along the axes of the grid, or monotonic along one axis. `left`: CTAs that
    exit at once, all after the same number of instructions.
    """
    if left is not None:
        stay, leave = ({cta: n for cta, n in known.items() if left[cta] == gone} for gone in (False, True))
        if stay and leave and is_even(np.array(list(leave.values()))):
            of_others = regular(grid, stay)
            return None if of_others is None else np.where(left, float(max(leave.values())), of_others)
    x, y, z = grid
    ctas = np.arange(x * y * z)
    numbers, values = np.array(list(known)), np.array(list(known.values()), float)
    if values.max() - values.min() <= EVEN * values.max():
        return np.full(len(ctas), values.mean())

    def axes(at: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([np.ones(len(at)), at % x, at // x % y, at // (x * y)], axis=1).astype(float)

    if len(known) >= 5:
        found, *_ = np.linalg.lstsq(axes(numbers), values, rcond=None)
        off = np.abs(axes(numbers) @ found - values)
        if off.max() <= 0.05 * values.max():
            return np.asarray(np.maximum(values.min() * 0.5, axes(ctas) @ found))
    for along, where in (
        (ctas % x, numbers % x),
        (ctas // x % y, numbers // x % y),
        (ctas // (x * y), numbers // (x * y)),
    ):
        steps = np.unique(where)
        each = [values[where == step] for step in steps]
        means = np.array([some.mean() for some in each])
        alike = all(some.max() - some.min() <= 0.05 * values.max() for some in each)
        rises = np.diff(means) if means[-1] >= means[0] else -np.diff(means)
        if len(steps) > 2 and alike and (rises >= -EVEN * values.max()).all():
            return np.asarray(np.interp(along, steps, means))
    return None


def as_often(ctas: int, known: dict[int, int], sms: int = 1) -> NDArray[np.float64]:
    """Warp instructions of each CTA, drawn from the distribution of the known ones.

    The distribution leaves out CTAs whose number is a multiple of `sms`, if there are others.
    """
    numbers, values = np.array(list(known)), np.array(list(known.values()), float)
    fair = np.sort(values[numbers % sms != 0] if (numbers % sms != 0).any() else values)
    found = fair[(np.arange(ctas) * GOLDEN % 1.0 * len(fair)).astype(int)]
    found[numbers] = values
    return np.asarray(found)


def is_even(work: NDArray[np.float64]) -> bool:
    """Whether all CTAs execute about as many instructions. A few may execute fewer, as the last CTA of a grid."""
    usual = float(np.median(work))
    less = float(np.maximum(0.0, usual - work).sum())
    return bool(work.max() <= (1 + EVEN) * usual and less <= EVEN * work.sum())
