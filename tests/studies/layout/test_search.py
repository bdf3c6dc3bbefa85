"""The search finds what is known to be best, counts as the hardware does, and its bound is a bound."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

import gpuemu
from gpuemu.banks.access import shared_access
from gpuemu.banks.wavefronts import BankGeometry, count
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Row
from gpuemu.studies import elsewhere
from gpuemu.studies.layout.accesses import parse_access
from gpuemu.studies.layout.bound import fewest_wavefronts, granules
from gpuemu.studies.layout.layouts import BlockPadding, Diagonal, Padding, Plain, Swizzle, VirtualThreads
from gpuemu.studies.layout.search import Candidate, SearchResult, search
from gpuemu.studies.layout.tile import Tile

GEOMETRY = BankGeometry()
V5 = ("16x16:f16", ["2*copy-in", "ldmatrix.x4", "ldmatrix.x4.trans", "store", "copy-out"])


def of(result: SearchResult, layout) -> Candidate:
    return next(c for c in result.candidates if c.layout == layout)


def wavefronts(trace: str) -> dict[Row, int]:
    result = gpuemu.run(gpuemu.load_trace(trace), gpuemu.load_arch("sm_89"))
    return {row: counts.wavefronts for row, counts in result.shared_memory.items() if counts.wavefronts}


# --- what is known ------------------------------------------------------------------------------------------


def test_the_swizzle_of_example_v5_is_among_the_best_and_nothing_can_be_better():
    result = search(GEOMETRY, *V5, threads=32)
    swizzle = of(result, Swizzle(bits=1, base=3, shift=3))  # swizzle<S=3,B=1,M=3>
    assert swizzle.rank == 1
    assert result.best == swizzle
    assert swizzle.total_wavefronts == result.lower_bound == 24
    assert result.plain.total_wavefronts == 36


@pytest.mark.parametrize(
    ("trace", "layout"), [("v4_ldmatrix", Plain()), ("v5_swizzle", Swizzle(1, 3, 3)), ("v2_shared_memory", Plain())]
)
def test_the_counts_are_those_of_the_example_kernels(trace, layout):
    a, b, c, d, e = of(search(GEOMETRY, *V5, threads=32), layout).wavefronts
    assert wavefronts(trace) == {Row.STORE: a + d, Row.LOAD_MATRIX: b + c, Row.LOAD: e}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "padded", "swizzled"])
def test_eight_halves_of_padding_mend_the_loads_of_the_gemm_tile_and_spoil_its_stores(name):
    accesses = ["copy-in", "4*ldmatrix.x4"]  # four warps load each part of A, two each part of B
    a = search(GEOMETRY, "128x32:f16", accesses)
    b = search(GEOMETRY, "256x32:f16", ["copy-in", "2*ldmatrix.x4"])
    layout = {"plain": Plain(), "padded": Padding(8, 32), "swizzled": Swizzle(2, 3, 3)}[name]
    stores, loads = np.sum([of(a, layout).wavefronts, of(b, layout).wavefronts], axis=0).tolist()
    assert wavefronts(f"gemm_tile_{name}") == {Row.STORE: stores, Row.LOAD_MATRIX: loads}
    times = {"plain": (1, 4), "padded": (2, 1), "swizzled": (1, 1)}[name]
    assert (stores, loads) == (times[0] * (a.fewest[0] + b.fewest[0]), times[1] * (a.fewest[1] + b.fewest[1]))


def test_there_is_a_layout_for_the_transpose_without_conflicts_and_without_waste():
    result = search(GEOMETRY, "32x32:f32", ["copy-in:32", "column"])
    assert result.best.layout == Swizzle(5, 0, 5)
    assert (result.best.total_wavefronts, result.best.bytes_lost) == (64, 0)
    assert result.best_of("padding of rows").layout == Padding(1, 32)
    assert result.best_of("padding of rows").bytes_lost == 128
    # All odd paddings and diagonals, and this one swizzle: no other reaches the bound.
    odd = range(1, 32, 2)
    expected = {Swizzle(5, 0, 5), *(Padding(p, 32) for p in odd), *(Diagonal(p, 1) for p in odd)}
    assert {c.layout for c in result.reaching} == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "layout"),
    [
        ("transpose_plain", Plain()),
        ("transpose_padded", Padding(1, 32)),
        *((f"transpose_v{n}", VirtualThreads(n, 1024)) for n in (2, 4, 8, 16)),
    ],
)
def test_virtual_threads_cost_what_the_transposes_cost(trace, layout):
    stores, loads = of(search(GEOMETRY, "32x32:f32", ["copy-in:32", "column"]), layout).wavefronts
    assert wavefronts(trace) == {Row.STORE: stores, Row.LOAD: loads}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tile", "swizzle"),
    [
        ("128x32:f16", Swizzle(2, 3, 3)), ("64x64:f16", Swizzle(3, 3, 3)), ("128x64:f16", Swizzle(3, 3, 3)),
        ("128x128:f16", Swizzle(3, 3, 4)), ("64x32:f32", Swizzle(3, 2, 3)), ("64x128:i8", Swizzle(3, 4, 3)),
    ],
)  # fmt: skip
def test_the_swizzles_that_people_ask_for(tile, swizzle):
    """64 halves a row are the 128 bytes for which Swizzle<3,4,3> of bytes is made, as are 32 floats and 128 bytes."""
    result = search(GEOMETRY, tile, ["copy-in", "ldmatrix.x4"])
    assert result.best.layout == swizzle
    assert result.best.total_wavefronts == result.lower_bound


@pytest.mark.slow
def test_four_floats_of_padding_do_for_128_columns_what_a_swizzle_does_without_them():
    result = search(GEOMETRY, "64x128:f32", ["copy-in", "column:128"])
    padded = of(result, Padding(4, 128))
    assert padded.total_wavefronts == result.lower_bound == result.best.total_wavefronts
    assert (padded.bytes_lost, result.best.bytes_lost) == (64 * 4 * 4, 0)
    # 8 columns of padding leave every other group of four banks idle.
    assert of(result, Padding(8, 128)).wavefronts[1] == 2 * padded.wavefronts[1]


# --- counting and ranking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", ["16x16:f16", "8x24:f16"])
@pytest.mark.parametrize("geometry", [GEOMETRY, BankGeometry(banks=16), BankGeometry(banks=64, bank_width_bytes=8)])
def test_every_candidate_is_counted_as_one_access_after_another(tile, geometry):
    texts = ["copy-in:64", "3*column:32", "ldmatrix.x1", "LDS.64: row = lane % 8; column = 8*(lane//16)"]
    result = search(geometry, tile, texts, threads=32)
    shape = result.tile
    accesses = [parse_access(t, shape, geometry) for t in texts]
    for candidate in result.candidates[::7]:
        counted = []
        for a in accesses:
            first, active = a.first, a.active
            if isinstance(candidate.layout, VirtualThreads) and a.any_thread:
                thread = np.arange(first.size)
                works_as = candidate.layout.works_as(thread)
                first, active = first.ravel()[works_as].reshape(-1, 32), active.ravel()[works_as].reshape(-1, 32)
            total = 0
            for row, mask in zip(candidate.layout.places(shape)[first] * shape.element_bytes, active, strict=True):
                bits = int((mask.astype(np.int64) << np.arange(32)).sum())
                total += shared_access(geometry, a.op, row, bits).wavefronts
            counted.append(a.times * total)
        assert candidate.wavefronts == tuple(counted), candidate.label


def test_candidates_rank_by_wavefronts_then_bytes_then_operations():
    result = search(GEOMETRY, *V5, threads=32)
    costs = [(c.total_wavefronts, c.bytes_lost, c.operations) for c in result.candidates]
    assert costs == sorted(costs)
    assert [c.rank for c in result.candidates] == [costs.index(cost) + 1 for cost in costs]
    assert all(c.bytes_lost == c.allocated_bytes - 512 for c in result.candidates)
    assert of(result, Padding(8, 16)).bytes_lost == 16 * 8 * 2
    assert of(result, BlockPadding(8, 64)).bytes_lost == 4 * 8 * 2


def test_layouts_that_tear_a_vector_or_misalign_it_are_refused_and_the_rest_is_all_there():
    result = search(GEOMETRY, "16x16:f16", ["copy-in"], threads=32)
    for c in result.candidates:
        places = c.layout.places(result.tile).reshape(-1, 8)
        assert (places[:, 0] % 8 == 0).all()
        assert (np.diff(places, axis=1) == 1).all()
    everything = search(GEOMETRY, "16x16:f16", ["copy-in:16"], threads=32)
    assert not sum(everything.refused.values())
    tried, refused = Counter(result.tried), Counter(result.refused)
    assert tried + refused == Counter(everything.tried)


def test_a_layout_that_needs_more_shared_memory_than_there_is_does_not_fit():
    arch = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.max_bytes_per_cta": 1200})
    result = search(arch, "16x16:f32", ["copy-in:32"])
    assert max(c.allocated_bytes for c in result.candidates) <= 1200
    assert of(result, Padding(2, 16)).allocated_bytes == 1152
    with pytest.raises(GpuemuError, match="32x32:f32, 4096 bytes"):
        search(arch, "32x32:f32", ["copy-in:32"])


@pytest.mark.parametrize("accesses", [["copy-in", "ldmatrix.x4"], ["copy-in:32", "column:32"], ["store", "column"]])
def test_more_padding_than_a_line_of_banks_never_helps(accesses):
    tile = Tile.parse("16x16:f16")
    parsed = [parse_access(t, tile, GEOMETRY) for t in accesses]

    def cost(layout) -> int:
        return sum(
            count(GEOMETRY, a.kind, a.width, layout.places(tile)[a.first] * 2, a.active).wavefronts.sum()
            for a in parsed
        )

    fitting = [c.layout for c in search(GEOMETRY, tile, accesses).candidates if isinstance(c.layout, Padding)]
    for layout in fitting:
        assert cost(type(layout)(layout.elements + 64, layout.every)) >= cost(layout)


@pytest.mark.slow
def test_other_hardware_has_other_winners():
    wide = search(BankGeometry(banks=64), "128x64:f16", ["copy-in", "ldmatrix.x4"])
    assert wide.best.layout == Swizzle(2, 4, 3)  # two rows fill the banks of 256 bytes
    assert search(BankGeometry(banks=64), *V5).plain.total_wavefronts == search(BankGeometry(banks=64), *V5).lower_bound
    four_lanes = ["STS.32: row = step; column = lane % 4; steps = 4; active = lane < 4",
                  "LDS.32: row = lane % 4; column = step; steps = 4; active = lane < 4"]  # fmt: skip
    few = search(BankGeometry(banks=4), "4x4:f32", four_lanes)
    assert few.best.layout == Swizzle(2, 0, 2)
    assert (few.plain.wavefronts, few.best.wavefronts) == ((4, 16), (4, 4))


@pytest.mark.slow
def test_worker_processes_find_the_same_and_lose_no_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "HERE_S", 0.0)
    assert search(GEOMETRY, *V5, jobs=2).candidates == search(GEOMETRY, *V5).candidates


def test_two_searches_are_equal():
    assert search(GEOMETRY, *V5).candidates == search(GEOMETRY, *V5).candidates


# --- the bound ----------------------------------------------------------------------------------------------


def bound_of(tile: Tile, texts: list[str], geometry: BankGeometry = GEOMETRY) -> list[int]:
    accesses = [parse_access(t, tile, geometry) for t in texts]
    whole = granules(geometry, tile, accesses)
    return [fewest_wavefronts(geometry, tile, whole, a, a.first, a.active) for a in accesses]


def test_the_bound_of_a_column_of_halves_knows_that_16_bytes_stay_together():
    assert bound_of(Tile.parse("128x64:f16"), ["copy-in:16", "column"]) == [256, 256]
    assert bound_of(Tile.parse("128x64:f16"), ["copy-in", "column"]) == [128, 256 * 4]
    assert bound_of(Tile.parse("128x64:f16"), ["copy-in:64", "column:32"]) == [128, 128 * 2]


def test_the_bound_joins_groups_where_loads_merge_and_counts_shared_vectors_once():
    tile = Tile.parse("16x16:f32")
    one = "LDS.128: row = 0; column = 0"
    assert bound_of(tile, [one, one.replace("LDS", "STS")]) == [2, 4]
    assert bound_of(tile, ["LDS.32: row = 0; column = 0", "ATOMS.ADD: row = 0; column = 0"]) == [1, 1]
    assert bound_of(tile, ["ATOMS.ADD: row = 0; column = 0"], BankGeometry(banks=16)) == [2]


TEXTS = ["copy-in:128", "copy-in:64", "copy-in:32", "column", "column:32", "ldmatrix.x1", "ldmatrix.x4", "store", "copy-out",
         "LDS.128: row = lane // 2 % 16; column = 0", "LDS.U16: row = lane*5 % 16; column = lane*3 % 16",
         "STS.64: row = lane % 16; column = 4*(lane // 16); active = lane % 3 < 2"]  # fmt: skip


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
    st.sampled_from([GEOMETRY, BankGeometry(banks=16), BankGeometry(banks=8, bank_width_bytes=8)]),
    st.randoms(use_true_random=False),
)
def test_no_placement_of_whole_vectors_undercuts_the_bound(texts, geometry, random):
    tile = Tile.parse("16x16:f16")
    accesses = [parse_access(t, tile, geometry) for t in texts]
    bounds = bound_of(tile, texts, geometry)
    # Any permutation of pieces as large as the largest vector keeps every vector whole.
    size = max(a.vector_elements(geometry, tile) for a in accesses)
    order = list(range(2 * 256 // size))
    random.shuffle(order)
    places = (np.array(order[: 256 // size])[:, None] * size + np.arange(size)).ravel()
    for a, bound in zip(accesses, bounds, strict=True):
        counted = count(geometry, a.kind, a.width, places[a.first] * 2, a.active).wavefronts.sum()
        assert counted >= bound


@pytest.mark.slow
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3), st.sampled_from([GEOMETRY, BankGeometry(banks=16)]))
def test_no_candidate_undercuts_the_bound(texts, geometry):
    result = search(geometry, "16x16:f16", texts)
    for c in result.candidates:
        if not isinstance(c.layout, VirtualThreads):
            assert all(w >= fewest for w, fewest in zip(c.wavefronts, result.fewest, strict=True))
        assert c.total_wavefronts >= c.lower_bound


# --- what is refused ----------------------------------------------------------------------------------------


def refusal(**arguments) -> str:
    with pytest.raises(GpuemuError) as caught:
        search(GEOMETRY, **{"tile": "16x16:f16", "accesses": ["copy-in"], **arguments})
    return "\n".join(brief(caught.value))


@pytest.mark.parametrize("threads", [-32, 0, 33, 2048])
def test_a_block_that_is_none_is_refused(threads):
    assert refusal(threads=threads) == f"search: threads: {threads}"


def test_no_access_is_refused_and_so_is_one_that_is_never_aligned():
    assert refusal(accesses=[]) == "search: access: there is no access"
    message = refusal(accesses=["LDS.32: row = 0; column = 1"])
    assert message.startswith("search: access: no layout keeps its vectors whole and aligned")


def test_without_work_for_any_thread_there_are_no_virtual_threads():
    result = search(GEOMETRY, "16x16:f16", ["ldmatrix.x4", "store"], threads=128)
    assert result.threads == 0
    assert result.best_of("virtual threads") is None


def test_gpuemu_search_is_the_search():
    assert gpuemu.search.__wrapped__ is search
    assert gpuemu.search is gpuemu.search
    result = gpuemu.search(gpuemu.load_arch("sm_90"), "64x64:f16", ["copy-in", "ldmatrix.x4"])
    assert result.best.layout == Swizzle(3, 3, 3)


@pytest.mark.slow
def test_the_diagonal_placement_mends_the_transpose_without_waste_in_rows_of_any_length():
    for tile in ("32x32:f32", "32x24:f32"):
        result = search(BankGeometry(), tile, ["copy-in:32", "column"])
        best = result.best_of("diagonal")
        assert best is not None
        assert best.bytes_lost == 0
        assert (best in result.reaching) == (tile == "32x32:f32")
    assert result.best_of("diagonal").total_wavefronts < result.plain.total_wavefronts  # type: ignore[union-attr]
