"""The waits at mbarriers, and bounds on what a deeper pipeline would save, without another simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu.views.pipeline import Told, table, tensor_core_idle
from gpuemu.views.result import Result


@dataclass(frozen=True)
class Waits:
    """A row for each ring of mbarriers, and sentences with bounds on the savings of other changes."""

    rings: tuple[Told, ...] = ()
    bounds: tuple[str, ...] = ()


def waits_of(result: Result) -> Waits:
    """The waits of a run, empty if there are no mbarriers."""
    rings = tuple(table(result.pipeline, result.program))
    return Waits(rings, tuple(_bounds(result, rings)) if rings else ())


def _bounds(result: Result, rings: tuple[Told, ...]) -> Iterator[str]:
    largest = max((copy.bytes for copy in result.pipeline.copies), default=0)
    if any(ring.by_copies for ring in rings) and largest:
        sooner = int(largest / result.arch.copy_engine.load_bytes_per_cycle / 2)
        yield f"A box of half the {largest:,} bytes arrives up to {sooner} cycles sooner (a bound, no simulation)."
    idle, ready = tensor_core_idle(result.pipeline)
    if result.pipeline.products:
        most = f"another consumer saves at most {ready:,} cycles" if ready else "another consumer saves nothing"
        idles = f"The tensor core idles for {idle:,} cycles between products"
        yield f"{idles}, {ready:,} of them with a full stage: {most}."
        yield "A wgmma takes the same wavefronts with every swizzle, so another swizzle saves nothing."
