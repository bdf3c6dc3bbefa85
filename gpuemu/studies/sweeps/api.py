"""The Python form of a sweep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.build import plain
from gpuemu.base.errors import GpuemuError
from gpuemu.base.strict_yaml import describe
from gpuemu.studies.sweeps.plan import plan
from gpuemu.studies.sweeps.results import Record, records
from gpuemu.studies.sweeps.running import Progress, run_points
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Axis, Setting, Study, axis, named
from gpuemu.trace.model import Trace

Traces = str | os.PathLike[str] | Trace
Archs = str | os.PathLike[str] | Architecture
_WHERE = "sweep()"


def sweep(
    traces: Traces | Iterable[Traces],
    vary: Mapping[str, Iterable[Any]] | None = None,
    *,
    points: Iterable[Mapping[str, Any]] | None = None,
    arch: Archs | Iterable[Archs] | None = None,
    settings: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """Run traces at every point of a grid, or at listed points, and return a flat dict for each.

        records = gpuemu.sweep("v2_shared_memory", {"shared_memory.banks": [16, 32, 64]}, arch="sm_89")
        pandas.DataFrame(records)

    `vary` maps dotted names to values; the last name changes fastest. `points` lists mappings instead. `settings` hold
    at every point. Names that begin with "layout." are numbers of the trace's layout. `arch` is one or several; by
    default each trace runs on the architecture that its code is for. `store` is a file that keeps results as they come:
    points that it has do not run again, and while another sweep writes to it, this one waits. `jobs` is the number of
    worker processes, by default one per core; `cluster` is "tcp://HOST:PORT" or "local:N" (docs/what_if.md).
    `progress(done, points)` is called during the work.

    The records are in the order of the grid, whatever order they came in; `gpuemu.studies.sweeps.results.records`
    describes them. A point that cannot run has status "failed" and the reason under "error". Raises GpuemuError, before
    anything runs, with every wrong name or value.
    """
    study = Study(
        named(traces, Trace), () if arch is None else named(arch, Architecture),
        _settings(settings or {}, "settings"), _axes(vary or {}),
        tuple(_settings(point, f"points[{n}]") for n, point in enumerate(points or ())),
    )  # fmt: skip
    if vary and points is not None:
        raise GpuemuError.one(_WHERE, None, "points", "both vary and points are given", "Give one of the two")
    check_places(jobs, cluster)
    planned = plan(study)
    with Store(store) as results:
        outcomes = run_points(planned, results.read(planned.points), results, jobs, cluster, progress)
    return records(planned, outcomes)


def check_places(jobs: int | None, cluster: str | None) -> None:
    """Raise GpuemuError if points cannot run in these places."""
    if jobs is not None and jobs < 1:
        raise GpuemuError.one("--jobs", None, "", str(jobs), "expected a whole number of at least 1")
    if jobs is not None and cluster is not None:
        raise GpuemuError.one("--jobs", None, "", "--cluster is given as well", "Use one of the two")
    if cluster is not None:
        from gpuemu.studies.dask_cluster import check_cluster

        check_cluster(cluster)


def _settings(values: Mapping[str, Any], where: str) -> tuple[Setting, ...]:
    if not isinstance(values, Mapping):
        right = "expected a mapping of dotted names to values"
        raise GpuemuError.one(_WHERE, None, where, describe(values), right)
    return tuple(Setting(str(n), plain(value), _WHERE, None, f"{where}.{n}") for n, value in values.items())


def _axes(vary: Mapping[str, Iterable[Any]]) -> tuple[Axis, ...]:
    axes = []
    for setting in _settings(vary, "vary"):
        values = setting.value.tolist() if hasattr(setting.value, "tolist") else setting.value
        listed = [plain(value) for value in values] if not isinstance(values, str | int | float) else values
        axes.append(axis(setting.name, listed, setting))
    return tuple(axes)
