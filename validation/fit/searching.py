"""Parameters without a closed form: least squares of emulated against measured cycles.

A search tries whole values of one parameter on a few microbenchmarks and keeps the value with the least squared
relative errors. Searches take turns until none changes anything. The file's value wins a tie, so a parameter that its
kernels do not depend on keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuemu.arch import Architecture
from validation.fit.experiments import Experiment, Fitted
from validation.records import CODE_FILE, Measurement
from validation.replay import replay

MOST_ROUNDS = 3


@dataclass(frozen=True)
class Search:
    """A parameter, the microbenchmarks that tell, and the values to try.

    `by_clocks`: every clock that was read is compared, not the last alone.
    """

    parameter: tuple[str, ...]
    kernels: tuple[str, ...]
    candidates: tuple[int, ...]
    by_clocks: bool = False


def kernel_error(job: tuple[str, Measurement, Architecture, bool]) -> float:
    """The squared relative error of one kernel; a kernel that does not run counts as wholly wrong.

    By clocks it is the mean over all reads, those of each turn in the order in which warps came to them.
    """
    folder, m, arch, by_clocks = job
    got = replay(Path(folder) / CODE_FILE, m.launch, arch)
    if got.error:
        return 1.0
    if not by_clocks:
        return ((got.cycles - m.cycles_min) / m.cycles_min) ** 2
    apart = np.sort(np.array(got.clocks), axis=0) - np.sort(np.array(m.clocks), axis=0)
    return float(np.mean((apart / m.cycles_min) ** 2))


def search_all(
    searches: Sequence[Search], seen: Mapping[str, Measurement], folder: Path, arch: Architecture, pool: Executor,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[list[Fitted], list[str]]:  # fmt: skip
    """The found values, from `arch` on, and a line for each search that could not run. Reads only from `seen`."""
    left_out = []
    ready = []
    names = {".".join(path) for path in arch.paths()}
    for search in searches:
        missing = [name for name in search.kernels if name not in seen]
        if ".".join(search.parameter) not in names:
            left_out.append(f"{'.'.join(search.parameter)}: not in the architecture file")
        elif missing:
            left_out.append(f"{'.'.join(search.parameter)}: {missing[0]} was not measured")
        else:
            ready.append(search)
    found: dict[tuple[str, ...], Fitted] = {}
    for round_number in range(1, MOST_ROUNDS + 1):
        changed = False
        for search in ready:
            kernels = [seen[name] for name in search.kernels]
            one, errors = _best(search, kernels, folder, arch, pool)
            changed |= one != arch.paths()[search.parameter]
            arch = arch.with_overrides({".".join(search.parameter): one})
            found[search.parameter] = _fitted(search, one, errors)
            report(f"round {round_number}: {'.'.join(search.parameter)} {one}")
        if not changed:
            break
    return list(found.values()), left_out


def _best(
    search: Search, kernels: Sequence[Measurement], folder: Path, arch: Architecture, pool: Executor
) -> tuple[int, dict[int, float]]:  # fmt: skip
    """The best value, and the root mean square error of each."""
    now = arch.paths()[search.parameter]
    values = list(dict.fromkeys([now, *search.candidates]))
    dotted = ".".join(search.parameter)
    archs = [arch.with_overrides({dotted: value}) for value in values]
    jobs = [(str(folder), m, one, search.by_clocks) for m in kernels for one in archs]
    # Kernel by kernel, so that a process traces a kernel once and runs it with every value.
    errors = iter(pool.map(kernel_error, jobs, chunksize=len(values)))
    sums = dict.fromkeys(values, 0.0)
    for _ in kernels:
        for value in values:
            sums[value] += next(errors)
    best = min(values, key=lambda value: (round(sums[value], 9), value != now, value))
    return best, {value: (total / len(kernels)) ** 0.5 for value, total in sums.items()}


def _fitted(search: Search, value: int, errors: Mapping[int, float]) -> Fitted:
    others = sorted(v for v in errors if v != value)
    beside = [v for v in (max((o for o in others if o < value), default=None),
                          min((o for o in others if o > value), default=None)) if v is not None]  # fmt: skip
    shown = ", ".join(f"{errors[v]:.1%} with {v}" for v in beside)
    what = "clocks" if search.by_clocks else "cycles"
    about = f"least squares of emulated against measured {what}, {errors[value]:.1%} rms ({shown}); best value"
    return Fitted(Experiment(search.parameter, search.kernels, lambda _: float(value), about), float(value))
