"""From outcomes to records: a flat dict for each point, in the order of the grid, and which are on the front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuemu.studies.sweeps.plan import PlannedSweep
from gpuemu.studies.sweeps.work import Outcome

Record = dict[str, Any]
OK, FAILED = "ok", "failed"


def records(plan: PlannedSweep, outcomes: Mapping[int, Outcome]) -> list[Record]:
    """A record for each point that has an outcome.

    First what the point is (`trace`, `arch`, every varied name), then `status`, `error`, `on_front` and the
    numbers of the run. All records have the same keys; a number that a failed point does not have is None, and
    a bound on a resource that a run does not use is 0. `guessed` is there where a trace has instructions that no rule
    times, and names them.
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
    """The points that no other beats: none has fewer cycles with no more shared memory, or less with no more cycles.

    In the order of their bytes; points that are equal in both stand together.
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
