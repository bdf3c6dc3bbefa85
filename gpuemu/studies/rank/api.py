"""`gpuemu.rank`: estimate every configuration, and put them in order.

ranking = gpuemu.rank("03-matrix-multiplication.py", chips=["RTX 4090", "H100"])
ranking = gpuemu.rank([gpuemu.Configuration("a.cubin", grid=64, block=128, args=[x, y]), ...], "sm_90")
ranking.best.label, ranking.best.nanoseconds, ranking.best.why
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.hardware import Arch, hardware, without_profiler
from gpuemu.base.cores import cores
from gpuemu.base.errors import GpuemuError
from gpuemu.base.strict_yaml import describe
from gpuemu.engine import compiling
from gpuemu.engine.building import WORTH_COMPILING
from gpuemu.studies.elsewhere import Lost, Workers
from gpuemu.studies.rank.certainty import PROBABILITY
from gpuemu.studies.rank.configuration import as_configuration
from gpuemu.studies.rank.estimate import EstimateJob
from gpuemu.studies.rank.ranking import Ranking, limit, ordered
from gpuemu.studies.rank.spaces import Listed, Space, TritonProgram

Progress = Callable[[int, int], None]


def rank(
    configurations: Any,
    arch: Arch | Sequence[Arch] | None = None,
    *,
    chips: str | Iterable[str] = (),
    jobs: int | None = None,
    cluster: str | None = None,
    kept: bool = True,
    progress: Progress | None = None,
    top: int | None = None,
    probability: float = PROBABILITY,
) -> Ranking:
    """Configurations of a kernel from the fastest to the slowest, by the estimated duration of the whole launch.

    `configurations`: several `Configuration`, or mappings of their fields (`path`, `kernel`, `grid`, `block`,
    `dynamic_shared_bytes`, `args`, `options`, `values`, `name`); or the path of a Triton program that tunes a kernel.
    `arch`: one architecture or several. `chips`: names of products, each with its architecture. Each gets a ranking of
    its own. `jobs`: the number of processes, by default one per core; or `cluster`: a dask cluster. `kept`: reuse
    earlier estimates, also of other processes. `progress(done, all)` is called during the work. `top`: the number of
    wanted rows per chip. A configuration that needs longer than the last of them for one resource alone is refused
    without timing. `probability`: with this probability, `Ranking.measure` holds a configuration within 1% of the best.

    Raises GpuemuError for input that is wrong as a whole. A configuration that cannot run is in `refused`.
    """
    return rank_space(as_space(configurations), hardware(arch, chips), jobs, cluster, kept, progress, top, probability)


def as_space(configurations: Any) -> Space:
    """The space of these configurations. Raises GpuemuError."""
    if isinstance(configurations, Listed | TritonProgram):
        return configurations
    if isinstance(configurations, str | os.PathLike):
        return TritonProgram(os.fspath(configurations))
    if not isinstance(configurations, Iterable):
        right = "expected configurations, or the path of a Triton program"
        raise GpuemuError.one("rank()", None, "configurations", describe(configurations), right)
    listed = tuple(as_configuration(one, number) for number, one in enumerate(configurations))
    if not listed:
        raise GpuemuError.one("rank()", None, "configurations", "there is none", "Give at least one configuration")
    return Listed(listed)


def rank_space(
    space: Space, archs: tuple[Architecture, ...], jobs: int | None = None, cluster: str | None = None,
    kept: bool = True, progress: Progress | None = None, top: int | None = None, probability: float = PROBABILITY,
) -> Ranking:  # fmt: skip
    """The ranking of a space; see `rank`."""
    if not 0 < probability < 1:
        right = "expected a number between 0 and 1"
        raise GpuemuError.one("rank()", None, "probability", str(probability), right)
    archs = tuple(map(without_profiler, archs))
    chips = [one.chip for one in archs]
    if len(set(chips)) < len(chips):
        raise GpuemuError.one("rank()", None, "chips", "a chip is given twice", "Give each once")
    labels = [space.values(arch) for arch in archs]
    # Tasks share the list of limits, so each sees the limits that are known when it begins.
    limits = [math.inf] * len(archs)
    tasks = [(number, at, limits) for at, known in enumerate(labels) for number in range(len(known))]
    outcomes: dict[tuple[int, int], Mapping[str, Any]] = {}
    told = progress or (lambda done, total: None)
    told(0, len(tasks))
    job = EstimateJob(space, archs, kept)
    with (
        compiling(WORTH_COMPILING),
        Workers(job, min(jobs or cores(), len(tasks)) or 1, cluster) as workers,
    ):
        for place, outcome in workers.run(tasks):
            number, at, _ = tasks[place]
            outcomes[number, at] = {"refused": str(outcome)} if isinstance(outcome, Lost) else outcome
            limits[at] = limit([one for (_, chip), one in outcomes.items() if chip == at], top)
            told(len(outcomes), len(tasks))
    return ordered(labels, chips, outcomes, top, probability)
