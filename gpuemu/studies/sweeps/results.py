"""From outcomes to records: a flat dict for each point, in the order of the grid, and the Pareto-optimal points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuemu.studies.sweeps.plan import PlannedSweep
from gpuemu.studies.sweeps.work import Outcome

Record = dict[str, Any]
OK, FAILED = "ok", "failed"


def records(plan: PlannedSweep, outcomes: Mapping[int, Outcome]) -> list[Record]:
    """A record for each point that has an outcome.

    It has `trace`, `arch` and every varied name first, then `status`, `error`, `on_front` and the numbers of the run.
    All records have the same keys. A number that a failed point does not have is None, and the bound of an unused
    resource is 0. `guessed` exists if a trace has instructions without a timing rule, and names them.
    """
    done = [(point, outcomes[point.number]) for point in plan.points if point.number in outcomes]
    guessed = any(source.guessed for source in plan.sources)
    names = list(dict.fromkeys(name for _, outcome in done for name in outcome.numbers))
    found = []
    for point, outcome in done:
        record: Record = dict(point.columns)
        record |= {"status": FAILED if outcome.error else OK, "error": outcome.error, "on_front": False}
        record |= {name: outcome.numbers.get(name, None if outcome.error else 0) for name in names}
        if guessed:
            record["guessed"] = ", ".join(plan.sources[point.source].guessed)
        found.append(record)
    for record in front(found):
        record["on_front"] = True
    return found


def front(found: list[Record]) -> list[Record]:
    """The Pareto-optimal points: no point is faster with the same or less shared memory, or smaller with the same
    cycles.

    They are in the order of their bytes. Points that are equal in both are adjacent.
    """
    best: list[Record] = []
    least = None
    measured = [record for record in found if record["status"] == OK]
    for record in sorted(measured, key=lambda r: (r["shared_bytes"], r["cycles"])):
        place = (record["shared_bytes"], record["cycles"])
        if least is None or record["cycles"] < least[1] or place == least:
            best.append(record)
            least = place
    return best
