"""Compares one instruction with plain Python integers, lane by lane.

Before it runs, R0 to R15, P0 to P6, UR0 to UR15 and UP0 to UP6 hold numbers that are hard on carries, signs and
shifts; those of uniform registers are the same within a warp. `check` wants to know what an active lane has
afterwards, by register name, from what it had before; all else must be as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from harness import execute, surroundings

from gpuemu.sass.machine.lanes import WARP

LANES = 96
WORD = 0xFFFFFFFF
HARD = [
    *range(9),
    15,
    16,
    24,
    *range(31, 34),
    47,
    *range(63, 66),
    255,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    WORD - 1,
    WORD,
]
PREFIXES = "R", "P", "UR", "UP"


@dataclass
class Lane:
    """The registers of a lane before the instruction."""

    r: list[int]
    p: list[bool]
    ur: list[int]
    up: list[bool]


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def parts(value: int, bits: int) -> list[int]:
    """The parts of a word, the lowest first."""
    return [value >> at & (1 << bits) - 1 for at in range(0, 32, bits)]


def joined(values, bits: int) -> int:
    return sum((value & (1 << bits) - 1) << (bits * i) for i, value in enumerate(values))


def words(seed: int, count: int) -> np.ndarray:
    """Random words, hard ones often among them."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 1 << 32, count, dtype=np.uint64)
    return np.where(random.random(count) < 0.5, random.choice(np.array(HARD, np.uint64), count), found).astype(
        np.uint32
    )


def _filled(seed: int) -> dict:
    warps = LANES // WARP
    random = np.random.default_rng(seed + 99)
    return {
        "registers": {i: words(100 * seed + i, LANES) for i in range(16)},
        "predicates": {i: random.random(LANES) < 0.5 for i in range(7)},
        "uniform": {i: np.repeat(words(100 * seed + 50 + i, warps), WARP) for i in range(16)},
        "uniform_predicates": {i: np.repeat(random.random(warps) < 0.5, WARP) for i in range(7)},
    }


def _some_lanes(seed: int) -> np.ndarray:
    """A mask with a warp that takes no part."""
    some = np.random.default_rng(seed).random(LANES) < 0.6
    some[:WARP] = False
    some[2 * WARP :: WARP] = True
    return some


def check(
    sass: str, expected: Callable[[Lane], dict[str, int]], *, seeds: int = 2, constants: dict | None = None
) -> None:
    """Run `sass` on all lanes and on some; `expected` tells which registers of a lane it changes, and to what."""
    for seed in range(seeds):
        filled = _filled(seed)
        columns = [np.array(list(values.values())).T.tolist() for values in filled.values()]
        told = [expected(Lane(*row)) for row in zip(*columns, strict=True)]
        changed = set().union(*told)
        for mask in (None, _some_lanes(seed)):
            files = execute(sass, **filled, mask=mask, environment=surroundings(sass, lanes=LANES, constants=constants))
            warps = mask if mask is None else np.repeat(mask.reshape(-1, WARP).any(axis=1), WARP)
            kinds = files.registers, files.predicates, files.uniform_registers, files.uniform_predicates
            for prefix, before, after in zip(PREFIXES, filled.values(), kinds, strict=True):
                active = warps if prefix.startswith("U") else mask
                for i, had in before.items():
                    want = had
                    if (name := f"{prefix}{i}") in changed:
                        want = [lane.get(name, value) for lane, value in zip(told, had.tolist(), strict=True)]
                        want = np.array([bool(v) if "P" in prefix else v & WORD for v in want])
                        want = want if active is None else np.where(active, want, had)
                    wrong = np.flatnonzero(after[i] != want)
                    assert not len(wrong), (
                        f"{sass}: {prefix}{i} {after[i][wrong]}, wanted {want[wrong]} in lanes {wrong}"
                    )
                constant = after[-1]
                assert constant.all() if "P" in prefix else not constant.any()
