"""What a claim is, and what helps to judge one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gpuemu
from gpuemu.isa.opcodes import Row
from gpuemu.trace.files import locate

HOLDS, PARTLY, REFUTED, OPEN = "holds", "holds in part", "refuted", "cannot be judged on one SM"
VERDICTS = (HOLDS, PARTLY, REFUTED, OPEN)
SAME_RATIO = 0.20
"""Two ratios are the same if they differ by no more than this part."""
NO_CHANGE = 0.05
"""A ratio of cycles that lies so near to 1 means no change."""


@dataclass(frozen=True)
class Finding:
    """What was found: by gpuemu, on hardware where there is something, and the verdict."""

    emulator: str
    verdict: str
    hardware: str = ""


@dataclass(frozen=True)
class Claim:
    """`text` as it was claimed, in short; `check` finds; `commands` show what it looked at."""

    number: str
    text: str
    check: Callable[[], Finding]
    commands: tuple[str, ...] = ()


CLAIMS: list[Claim] = []


def claim(number: str, text: str, *commands: str) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    """Registers the function that checks a claim."""

    def register(check: Callable[[], Finding]) -> Callable[[], Finding]:
        CLAIMS.append(Claim(number, text, check, commands))
        return check

    return register


def judge(*parts: bool) -> str:
    """Holds if all parts of a claim do, in part if some do, else refuted."""
    return HOLDS if all(parts) else PARTLY if any(parts) else REFUTED


def same_ratio(found: float, claimed: float) -> bool:
    """Whether two ratios are the same, as far as the model can tell."""
    return abs(found / claimed - 1) <= SAME_RATIO


@cache
def loaded(file: Path) -> gpuemu.Trace:
    """The trace of a file, which most architectures share."""
    return gpuemu.load_trace(file)


@cache
def ran(kernel: str, arch: str = "sm_89", **settings: object) -> gpuemu.Result:
    """The run of a shipped trace; in the names of settings two underscores stand for a dot."""
    hardware = gpuemu.load_arch(arch)
    if settings:
        hardware = hardware.with_overrides({name.replace("__", "."): value for name, value in settings.items()})
    return gpuemu.run(loaded(locate(kernel, arch)[0]), hardware)


def conflicts(kernel: str, row: Row, **settings: object) -> int:
    """Bank conflicts in a row of the profiler's table."""
    return ran(kernel, **settings).shared_memory[row].bank_conflicts


def wavefronts(kernel: str, row: Row, **settings: object) -> int:
    """Wavefronts in a row of the profiler's table."""
    return ran(kernel, **settings).shared_memory[row].wavefronts


def faster(slow: str, fast: str, arch: str = "sm_89") -> float:
    """How many times the cycles of one kernel are those of the other."""
    return ran(slow, arch).cycles / ran(fast, arch).cycles


def percent(part: float) -> str:
    """For example 6.25 %."""
    return f"{100 * part:.4g} %"
