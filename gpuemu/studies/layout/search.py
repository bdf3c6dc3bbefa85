"""The search: count every layout of a tile under every access, exactly, and rank them.

Layouts rank by the wavefronts of all accesses, then by their wasted bytes, then by the operations of their index
arithmetic. Nothing is sampled or guessed: the counts are those of `gpuemu.banks`. The first of the list is therefore
the best of its families, and a layout that reaches the lower bound is the best of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry, BoolArray, HasSharedMemory, IntArray, count
from gpuemu.base.errors import GpuemuError
from gpuemu.base.html import paragraph
from gpuemu.base.table import Table
from gpuemu.isa.warp import LANES
from gpuemu.studies.elsewhere import Workers
from gpuemu.studies.layout.accesses import TileAccess, as_warps, parse_access
from gpuemu.studies.layout.bound import fewest_wavefronts, granules
from gpuemu.studies.layout.layouts import Layout, Plain, VirtualThreads, every_layout
from gpuemu.studies.layout.tile import Tile

MOST_THREADS = 1024
"""The most threads of a CUDA block."""
SHOWN = 10
"""The number of layouts in a notebook."""
LANES_AT_ONCE = 1 << 20
"""The number of lane addresses that are counted at once, which bounds memory."""
TOGETHER = 64
"""The number of layouts that are counted together."""


@dataclass(frozen=True)
class Candidate:
    """A layout and its cost.

    `wavefronts` has a number for each access, including its `times`. `operations`: of the index arithmetic.
    `lower_bound`: the fewest wavefronts of any layout while threads do the work that they do here. `rank` counts from
    1, and candidates of equal cost share it.
    """

    layout: Layout
    label: str
    wavefronts: tuple[int, ...]
    total_wavefronts: int
    allocated_bytes: int
    bytes_lost: int
    operations: int
    lower_bound: int
    rank: int = 0

    @property
    def cost(self) -> tuple[int, int, int]:
        return self.total_wavefronts, self.bytes_lost, self.operations


@dataclass(frozen=True, repr=False)
class SearchResult:
    """All layouts that fit, from the best on.

    `fewest`: for each access, the fewest wavefronts of any layout unless threads change places, including its `times`.
    `refused`: the number of layouts by family that do not fit, because they split or misalign a vector, or because the
    tile would not fit into shared memory. `threads` is the block of the virtual threads, 0 without.
    """

    tile: Tile
    accesses: tuple[TileAccess, ...]
    geometry: BankGeometry
    threads: int
    fewest: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    refused: Mapping[str, int]

    def __repr__(self) -> str:
        best = f"best {self.best.label}, {self.best.total_wavefronts} wavefronts"
        return f"<SearchResult {self.tile}: {best}, no fewer than {self.lower_bound}; {len(self.candidates)} layouts>"

    def records(self) -> list[dict[str, str | int]]:
        """A flat record for each layout, from the best on, for pandas.DataFrame and polars.DataFrame."""
        names = _distinct([access.text for access in self.accesses])
        return [
            {
                "rank": c.rank, "layout": c.label, "family": c.layout.family, "wavefronts": c.total_wavefronts,
                **dict(zip(names, c.wavefronts, strict=True)),
                "bytes lost": c.bytes_lost, "operations": c.operations, "lower bound": c.lower_bound,
            }
            for c in self.candidates
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        shown = self.records()[:SHOWN]
        rest = len(self.candidates) - len(shown)
        return (
            paragraph(f"{self.tile}: no layout has fewer than {self.lower_bound} wavefronts", strong=True)
            + Table.of(shown).html()
            + paragraph(f"and {rest} layouts more") * bool(rest)
        )

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def plain(self) -> Candidate | None:
        """The candidate with plain rows; None if they do not fit."""
        return self.best_of(Plain.family)

    @cached_property
    def tried(self) -> Mapping[str, int]:
        return Counter(c.layout.family for c in self.candidates)

    @property
    def lower_bound(self) -> int:
        """The fewest wavefronts of any layout, unless threads change places."""
        return sum(self.fewest)

    @cached_property
    def reaching(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.total_wavefronts <= self.lower_bound)

    def best_of(self, family: str) -> Candidate | None:
        """The first candidate of a family, None if none of it fits."""
        return next((c for c in self.candidates if c.layout.family == family), None)


def search(
    arch: HasSharedMemory | BankGeometry,
    tile: Tile | str,
    accesses: Iterable[TileAccess | str],
    *,
    threads: int | None = None,
    jobs: int = 1,
    where: str = "search",
) -> SearchResult:
    """Rank every layout of `tile` under `accesses`.

    `tile` is a text such as "128x64:f16", or a Tile. `accesses` are texts such as "ldmatrix.x4", all of which
    docs/layouts.md lists, or TileAccess records. `threads`: the block of the virtual threads, a multiple of 32; by
    default that of the access with the most work for threads, at most 1024. `jobs`: the number of processes for a long
    search. Raises GpuemuError; `where` is its file.
    """
    geometry = BankGeometry.of(arch)
    tile = tile if isinstance(tile, Tile) else Tile.parse(tile, where=(where, None, "tile"))
    limit = None if isinstance(arch, BankGeometry) else int(arch.shared_memory.max_bytes_per_cta)
    if limit is not None and tile.bytes > limit:
        right = f"expected at most {limit} bytes, the shared memory of a CTA"
        raise GpuemuError.one(where, None, "tile", f"{tile}, {tile.bytes} bytes", right)
    parsed = tuple(
        a if isinstance(a, TileAccess) else parse_access(a, tile, geometry, where=(where, None, "access"))
        for a in accesses
    )
    if not parsed:
        raise GpuemuError.one(where, None, "access", "there is no access", "Give at least one, such as copy-in:128")
    counting = _Counting(geometry, tile, parsed, limit)
    threads = _block(parsed, threads, where)
    layouts = list(every_layout(tile, geometry, threads))
    batches = [layouts[n : n + TOGETHER] for n in range(0, len(layouts), TOGETHER)]
    with Workers(counting, jobs) as workers:
        found = [candidate for batch in workers.outcomes(batches) for candidate in batch]
    if not found:
        right = "Let vectors start at multiples of their width"
        raise GpuemuError.one(where, None, "access", "no layout keeps its vectors whole and aligned", right)
    found.sort(key=lambda c: (c.cost, c.layout.preference()))
    rank: dict[tuple[int, int, int], int] = {}
    for place, candidate in enumerate(found, 1):
        rank.setdefault(candidate.cost, place)
    ranked = tuple(replace(c, rank=rank[c.cost]) for c in found)
    refused = Counter(layout.family for layout in layouts)
    refused.subtract(candidate.layout.family for candidate in found)
    return SearchResult(tile, parsed, geometry, threads, counting.least, ranked, dict(refused))


def _distinct(names: Sequence[str]) -> list[str]:
    """The names. Repeated ones get a number: copy-in, copy-in #2."""
    return [f"{n} #{names[:i].count(n) + 1}" if n in names[:i] else n for i, n in enumerate(names)]


def _block(accesses: Sequence[TileAccess], threads: int | None, where: str) -> int:
    """The threads of the virtual threads' block; 0 if no access may change its threads."""
    work = max((LANES * a.instructions for a in accesses if a.any_thread), default=0)
    if threads is None:
        return min(work, MOST_THREADS)
    if not 0 < threads <= MOST_THREADS or threads % LANES:
        right = f"expected a multiple of {LANES} up to {MOST_THREADS}"
        raise GpuemuError.one(where, None, "threads", str(threads), right)
    return threads if work else 0


def _candidate(tile: Tile, layout: Layout, wavefronts: tuple[int, ...], bound: int) -> Candidate:
    allocated, total = layout.allocated(tile) * tile.element_bytes, sum(wavefronts)
    return Candidate(
        layout, layout.label(tile), wavefronts, total, allocated, allocated - tile.bytes,
        layout.index(tile).operations, bound,
    )  # fmt: skip


class _Counting:
    """The job of the workers: it counts layouts under accesses. Equal accesses are counted once."""

    def __init__(self, geometry: BankGeometry, tile: Tile, accesses: Sequence[TileAccess], limit: int | None):
        self.geometry = geometry
        self.tile = tile
        self.accesses = accesses
        self.limit = limit
        self._whole = granules(geometry, tile, accesses)
        self._key = [(a.kind, a.width, a.any_thread, a.first.tobytes(), a.active.tobytes()) for a in accesses]
        self._distinct = dict(zip(self._key, accesses, strict=True))
        self.least = self.fewest()
        # the starts of the vectors, and their lengths
        self._vectors = [
            (np.unique(a.first[a.active]), a.vector_elements(geometry, tile)) for a in self._distinct.values()
        ]

    def run(self, layouts: Sequence[Layout]) -> list[Candidate]:
        """The costs of the layouts that fit."""
        fitting = [layout for layout in layouts if self.fits(layout)]
        bounds = [self.fewest(layout) if isinstance(layout, VirtualThreads) else self.least for layout in fitting]
        wavefronts = self.wavefronts(fitting) if fitting else []
        return [
            _candidate(self.tile, layout, counted, sum(bound))
            for layout, counted, bound in zip(fitting, wavefronts, bounds, strict=True)
        ]

    def fits(self, layout: Layout) -> bool:
        """Whether the tile has room, and every vector stays contiguous and aligned."""
        tile = self.tile
        if self.limit is not None and layout.allocated(tile) * tile.element_bytes > self.limit:
            return False
        places = layout.places(tile)
        return all(
            not np.any(places[starts] % size)
            and all(np.array_equal(places[starts + i], places[starts] + i) for i in range(1, size))
            for starts, size in self._vectors
        )

    def _lanes(self, layout: Layout | None, access: TileAccess) -> tuple[IntArray, BoolArray]:
        """The vector of each thread: in the access's own order, or in that of virtual threads."""
        if not isinstance(layout, VirtualThreads) or not access.any_thread:
            return access.first, access.active
        thread = np.arange(-(-access.first.size // layout.threads) * layout.threads)
        works_as = layout.works_as(thread)
        there = works_as < access.first.size
        works_as = np.where(there, works_as, 0)
        return as_warps(access.first.ravel()[works_as])[0], (access.active.ravel()[works_as] & there).reshape(-1, LANES)

    def fewest(self, layout: Layout | None = None) -> tuple[int, ...]:
        """The lower bound for each access, with threads as they are or in the order of virtual threads."""
        of = {
            key: fewest_wavefronts(self.geometry, self.tile, self._whole, a, *self._lanes(layout, a))
            for key, a in self._distinct.items()
        }
        return tuple(a.times * of[key] for key, a in zip(self._key, self.accesses, strict=True))

    def wavefronts(self, layouts: Sequence[Layout]) -> list[tuple[int, ...]]:
        of = {key: self._of_access(layouts, access) for key, access in self._distinct.items()}
        columns = [a.times * of[key] for key, a in zip(self._key, self.accesses, strict=True)]
        return [tuple(row) for row in np.stack(columns, axis=1).tolist()]

    def _of_access(self, layouts: Sequence[Layout], access: TileAccess) -> IntArray:
        found = np.zeros(len(layouts), dtype=np.int64)
        together = max(1, LANES_AT_ONCE // access.first.size)
        straight = [n for n, layout in enumerate(layouts) if not isinstance(layout, VirtualThreads)]
        for start in range(0, len(straight), together):
            batch = straight[start : start + together]
            places = np.stack([layouts[n].places(self.tile)[access.first] for n in batch])
            active = np.broadcast_to(access.active, places.shape)
            found[batch] = self._count(access, places, active).reshape(len(batch), -1).sum(axis=1)
        for n, layout in enumerate(layouts):
            if isinstance(layout, VirtualThreads):
                found[n] = self._count(access, *self._lanes(layout, access)).sum()
        return found

    def _count(self, access: TileAccess, places: IntArray, active: BoolArray) -> IntArray:
        addresses = places * self.tile.element_bytes
        return count(self.geometry, access.kind, access.width, addresses, active, where="search").wavefronts
