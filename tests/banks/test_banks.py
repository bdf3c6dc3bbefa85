"""Wavefront counts: the hardware's own, a plainly written reference, and what must hold of any geometry."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import brief

from gpuemu.arch import load_arch
from gpuemu.banks.access import shared_access
from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.banks.wavefronts import BankGeometry, Counts, count, merges
from gpuemu.base.errors import GpuemuError

HARDWARE = BankGeometry()
LANE = np.arange(32)
ALL = 0xFFFFFFFF
PATTERNS = Path(__file__).parents[1] / "data" / "h200" / "patterns.csv"


def bits(mask: int) -> list[bool]:
    return [bool(mask >> lane & 1) for lane in range(32)]


def one(kind, width, addresses, mask=ALL, geometry=HARDWARE) -> tuple[int, int, int]:
    """Wavefronts, ideal, data-stage cycles."""
    counts = count(geometry, kind, width, [np.broadcast_to(addresses, 32)], [bits(mask)])
    return tuple(int(column[0]) for column in counts[:3])


def wavefronts(op: str, addresses, mask: int = ALL, geometry: BankGeometry = HARDWARE) -> int:
    return shared_access(geometry, op, np.broadcast_to(addresses, 32), mask).wavefronts


# --- the hardware ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured() -> list[tuple[dict[str, str], tuple[int, int, int]]]:
    """Every row of the H200's patterns with our (wavefronts, ideal, data-stage cycles), counted in bulk."""
    by_op = defaultdict(list)
    with open(PATTERNS, newline="") as file:
        for row in csv.DictReader(file):
            by_op[row["op"]].append(row)
    counted = []
    for op, rows in by_op.items():
        addresses = np.array([row["lane_byte_addresses"].split() for row in rows], dtype=np.int64)
        active = [bits(int(row["active_mask"], 16)) for row in rows]
        counts = count(HARDWARE, *parse_op(op), addresses, active)
        counted += list(zip(rows, np.stack(counts[:3], axis=1).tolist(), strict=True))
    assert len(counted) == 1198
    return counted


def test_wavefronts_equal_the_hardware_counter_in_every_measured_pattern(measured):
    wrong = [(row["id"], row["op"], ours) for row, ours in measured if ours[0] != int(row["wavefronts"])]
    assert not wrong


def test_excess_wavefronts_equal_the_hardware_bank_conflicts_in_every_measured_pattern(measured):
    wrong = [(row["id"], row["op"], ours) for row, ours in measured if ours[0] - ours[1] != int(row["bank_conflicts"])]
    assert not wrong


def test_data_stage_cycles_equal_the_cycles_per_access_of_eight_warps_in_every_measured_pattern(measured):
    wrong = [
        (row["id"], row["op"], row["cycles_per_op_8_warps"], ours)
        for row, ours in measured
        if ours[2] != round(float(row["cycles_per_op_8_warps"]))
    ]
    assert not wrong


def test_a_group_without_active_lanes_costs_a_data_stage_cycle_only_if_other_groups_leave_it_free():
    # Hardware: 40212800 is lanes 11, 13 | 16, 21 | 30 and nothing in lanes 0-7: 5 wavefronts took 5.02
    # cycles, not 6, while a single active lane of an STS.128 takes 4.
    assert one(AccessKind.STORE, 128, 128 * LANE, 0x40212800) == (5, 3, 5)
    assert one(AccessKind.STORE, 128, 16 * LANE, 0x1) == (1, 1, 4)


# --- the rules, one by one ------------------------------------------------------------------------------


def test_a_load_costs_the_largest_number_of_words_in_one_bank():
    assert wavefronts("LDS.32", 4 * LANE) == 1
    assert wavefronts("LDS.32", 8 * LANE) == 2
    assert wavefronts("LDS.32", 128 * LANE) == 32
    assert wavefronts("LDS.32", 132 * LANE) == 1


def test_lanes_on_one_word_share_it_in_loads_and_in_stores():
    assert wavefronts("LDS.32", 0) == wavefronts("STS.32", 0) == 1
    assert wavefronts("LDS.U8", LANE) == wavefronts("STS.U16", 2 * LANE) == 1


def test_inactive_lanes_are_not_counted():
    assert wavefronts("LDS.32", 128 * LANE, 0x0000FFFF) == 16
    assert wavefronts("LDS.32", np.where(LANE < 2, 4 * LANE, 7), 0x3) == 1


def test_an_access_of_no_active_lane_has_no_wavefront():
    assert one(AccessKind.LOAD, 32, 4 * LANE, 0) == (0, 0, 1)


def test_64_bit_accesses_are_counted_in_two_groups_and_128_bit_ones_in_four():
    assert one(AccessKind.LOAD, 64, 8 * LANE) == (2, 2, 2)
    assert one(AccessKind.LOAD, 128, 16 * LANE) == (4, 4, 4)
    assert [p.lanes[0] for p in shared_access(HARDWARE, "STS.128", 16 * LANE).phases] == [0, 8, 16, 24]


def test_loads_merge_when_every_lane_agrees_with_its_neighbour_at_distance_one_or_two():
    assert wavefronts("LDS.64", 8 * (LANE // 2)) == 1
    assert wavefronts("LDS.64", 8 * (LANE // 4 * 2 + LANE % 2)) == 1
    assert wavefronts("LDS.128", 16 * (LANE // 2)) == 2
    assert wavefronts("LDS.128", 0) == 2


def test_loads_do_not_merge_at_distance_four_nor_when_a_single_pair_disagrees():
    assert wavefronts("LDS.64", 8 * (LANE // 8 * 4 + LANE % 4)) == 2
    assert wavefronts("LDS.64", np.where(LANE == 31, 128, 8 * (LANE // 2))) == 2


def test_a_lane_whose_partner_is_inactive_does_not_hinder_a_merge():
    assert one(AccessKind.LOAD, 64, 4 * LANE, 0x55555555) == (1, 1, 1)


def test_stores_never_merge():
    assert wavefronts("STS.64", 8 * (LANE // 2)) == 2
    assert wavefronts("STS.128", 0) == 4


def test_matrix_loads_count_eight_rows_a_phase_and_ignore_the_other_lanes():
    assert wavefronts("LDSM.1", np.where(LANE < 8, 16 * LANE, -5)) == 1
    assert wavefronts("LDSM.2", 16 * LANE) == 2
    assert wavefronts("LDSM.4", 2 * (16 * (LANE % 16) + 8 * (LANE // 16))) == 8
    assert wavefronts("STSM.4", 128 * LANE) == 32


def test_transposing_a_matrix_changes_nothing():
    rows = 48 * (LANE % 16) + 16 * (LANE // 16)
    assert wavefronts("LDSM.T.4", rows) == wavefronts("LDSM.4", rows) == 4


def test_atomics_on_one_word_do_not_share():
    assert one(AccessKind.ATOMIC, 32, 0) == (32, 1, 32)
    assert one(AccessKind.ATOMIC, 32, 4 * (LANE // 4)) == (4, 1, 4)
    assert wavefronts("ATOMS.ADD", 0, geometry=BankGeometry(atomic_same_word_shares=True)) == 1


def test_lanes_that_try_to_swap_one_word_fail_together():
    """An H200 counts 104,000 to 112,000 wavefronts for 24 CTAs of 256 sums, each with about 1,500 loads and attempts."""
    assert wavefronts("ATOMS.CAST.SPIN", 0) == 2
    assert wavefronts("ATOMS.CAST.SPIN", 4 * LANE) == 2
    assert wavefronts("ATOMS.CAST.SPIN", 128 * LANE) == 64


# --- other geometries -----------------------------------------------------------------------------------


def test_wider_banks_serve_two_neighbouring_words_as_one():
    wide = BankGeometry(bank_width_bytes=8)
    assert wavefronts("LDS.32", 8 * LANE, geometry=wide) == 1
    assert wavefronts("LDS.32", 4 * LANE, geometry=wide) == 1
    assert wavefronts("LDS.32", 256 * LANE, geometry=wide) == 32


def test_half_the_banks_need_twice_the_wavefronts_and_that_is_no_conflict():
    assert one(AccessKind.LOAD, 32, 4 * LANE, geometry=BankGeometry(banks=16)) == (2, 2, 2)


def test_an_access_touches_every_word_that_it_overlaps():
    # 12-byte words in 3 banks: the 16 bytes at 16 lie in words 1 and 2, those at 32 in 2 and 3 (one word is
    # shared), those at 48 in 4 and 5, which are other words of the banks of 1 and 2.
    odd = BankGeometry(banks=3, bank_width_bytes=12)
    assert wavefronts("STS.128", np.where(LANE, 48, 16), 0b11, odd) == 2
    assert wavefronts("STS.128", np.where(LANE, 32, 16), 0b11, odd) == 1


def test_a_geometry_is_read_from_an_architecture():
    memory = SimpleNamespace(
        banks=64,
        bank_width_bytes=8,
        lanes_per_group=SimpleNamespace(bits_32=30, bits_64=12, bits_128=6),
        load_merge_distances=[1, 4],
        matrix_rows_per_phase=16,
        matrix_row_bytes=32,
        atomic_same_word_shares=True,
    )
    l1 = SimpleNamespace(line_bytes=256, tag_bank_masks=[3, 5])
    beyond = SimpleNamespace(l1=l1, sector_bytes=64)
    expected = BankGeometry(64, 8, 30, 12, 6, (1, 4), 16, 32, True, 256, 64, (3, 5))
    assert BankGeometry.of(SimpleNamespace(shared_memory=memory, global_memory=beyond)) == expected
    assert BankGeometry.of(expected) is expected


@pytest.mark.parametrize("name", ["sm_80", "sm_89", "sm_90"])
def test_the_shipped_architectures_have_the_measured_geometry(name):
    assert BankGeometry.of(load_arch(name)) == HARDWARE


def test_a_what_if_changes_the_count_of_an_access():
    arch = load_arch("sm_90").with_overrides({"shared_memory.banks": 64, "shared_memory.lanes_per_group.bits_64": 32})
    assert shared_access(arch, "STS.64", 8 * LANE).wavefronts == 1
    assert shared_access(load_arch("sm_90"), "STS.64", 8 * LANE).wavefronts == 2


def test_thousands_of_accesses_are_counted_in_pieces_with_the_same_result(monkeypatch):
    addresses = np.random.default_rng(1).integers(0, 4096, (100, 32)) * 4
    active = np.ones((100, 32), dtype=bool)
    whole = count(HARDWARE, AccessKind.STORE, 32, addresses, active)
    monkeypatch.setattr("gpuemu.banks.wavefronts.TABLE_ENTRIES", 7 * 32)
    pieces = count(HARDWARE, AccessKind.STORE, 32, addresses, active)
    assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))


def test_counting_no_access_gives_empty_counts():
    counts = count(HARDWARE, AccessKind.LOAD, 32, np.zeros((0, 32)), np.zeros((0, 32)))
    assert [len(column) for column in counts] == [0] * 5


# --- against a reference, and what must always hold -----------------------------------------------------


def reference(
    geometry: BankGeometry, kind: AccessKind, width: int, addresses: list[int], active: list[bool]
) -> tuple[int, int, int, int, int]:
    """(wavefronts, ideal, data-stage cycles, groups, words) of one access, written as plainly as the rules are."""
    matrix = kind in (AccessKind.LOAD_MATRIX, AccessKind.STORE_MATRIX)
    lanes = list(range(8 * width if matrix else 32))
    size = geometry.matrix_row_bytes if matrix else width // 8
    if matrix:
        per_group = geometry.matrix_rows_per_phase
    elif width <= 32:
        per_group = geometry.lanes_per_group_32
    elif width == 64:
        per_group = geometry.lanes_per_group_64
    else:
        per_group = geometry.lanes_per_group_128
    groups = [lanes[i : i + per_group] for i in range(0, len(lanes), per_group)]
    if kind is AccessKind.LOAD and len(groups) > 1:
        for distance in geometry.load_merge_distances:
            if all(
                addresses[lane] == addresses[lane ^ distance]
                for lane in lanes
                if active[lane] and active[lane ^ distance]
            ):
                groups = [lanes[i : i + 2 * per_group] for i in range(0, len(lanes), 2 * per_group)]
                break
    total = ideal = of_all = 0
    for group in groups:
        requests = [
            (lane, word)
            for lane in group
            if active[lane]
            for word in sorted({(addresses[lane] + i) // geometry.bank_width_bytes for i in range(size)})
        ]
        if kind is AccessKind.COPY:
            # Lanes on the same bytes take turns; in one turn a word is asked for once.
            turn = {
                lane: sum(addresses[e] == addresses[lane] for e in group if active[e] and e < lane) for lane in group
            }
            words = [word for word, _ in {(word, turn[lane]) for lane, word in requests}]
        elif kind is AccessKind.ATOMIC and not geometry.atomic_same_word_shares:
            words = [word for _, word in requests]
        else:
            words = sorted({word for _, word in requests})
        of_bank = Counter(word % geometry.banks for word in words)
        times = 2 if kind is AccessKind.TRY else 1  # reads the words, then writes them
        total += times * max(of_bank.values(), default=0)
        ideal += times * -(-len(words) // geometry.banks)
        of_all += len(words)
    return total, ideal, max(total, len(groups)), len(groups), of_all


geometries = st.builds(
    BankGeometry,
    banks=st.integers(1, 70),
    bank_width_bytes=st.integers(1, 40),
    lanes_per_group_32=st.integers(1, 40),
    lanes_per_group_64=st.integers(1, 40),
    lanes_per_group_128=st.integers(1, 40),
    load_merge_distances=st.lists(st.integers(1, 31), max_size=3).map(tuple),
    matrix_rows_per_phase=st.integers(1, 32),
    matrix_row_bytes=st.sampled_from([8, 12, 16, 32]),
    atomic_same_word_shares=st.booleans(),
)
some_geometry = st.one_of(st.just(HARDWARE), geometries)
operations = st.one_of(
    st.tuples(st.sampled_from([AccessKind.LOAD, AccessKind.STORE]), st.sampled_from([8, 16, 32, 64, 128])),
    st.tuples(st.sampled_from([AccessKind.LOAD_MATRIX, AccessKind.STORE_MATRIX]), st.sampled_from([1, 2, 4])),
    st.tuples(st.sampled_from([AccessKind.ATOMIC, AccessKind.TRY]), st.sampled_from([32, 64])),
    st.tuples(st.just(AccessKind.COPY), st.sampled_from([32, 64, 128])),
)
# Few distinct places make shared words, conflicts and merges common; repeated pairs make merges likely.
places = st.integers(0, 200).flatmap(
    lambda most: st.one_of(
        st.lists(st.integers(0, most), min_size=32, max_size=32),
        st.lists(st.integers(0, most), min_size=16, max_size=16).map(lambda v: [x for x in v for _ in "ab"]),
    )
)
masks = st.one_of(st.just(ALL), st.sampled_from([0x55555555, 0x0F0F0F0F, 1]), st.integers(0, ALL))


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(some_geometry, operations, st.lists(st.tuples(places, masks), min_size=1, max_size=4))
def test_the_bulk_count_equals_a_plain_reference(geometry, operation, accesses):
    size = geometry.access_bytes(*operation)
    addresses = [[size * place for place in lanes] for lanes, _ in accesses]
    active = [bits(mask) for _, mask in accesses]
    counts = count(geometry, *operation, addresses, active)
    expected = [reference(geometry, *operation, row, used) for row, used in zip(addresses, active, strict=True)]
    assert list(zip(*(column.tolist() for column in counts), strict=True)) == expected


@pytest.mark.slow
@settings(deadline=None)
@given(some_geometry, operations, places, masks)
def test_wavefronts_are_never_fewer_than_the_ideal_nor_more_than_the_data_stage_cycles(
    geometry, operation, lanes, mask
):
    size = geometry.access_bytes(*operation)
    total, ideal, cycles = one(*operation, size * np.array(lanes), mask, geometry)
    assert ideal <= total <= cycles


@pytest.mark.slow
@settings(deadline=None)
@given(some_geometry, operations, places, masks, st.integers(0, 31))
def test_one_more_active_lane_never_makes_an_access_cheaper(geometry, operation, lanes, mask, lane):
    addresses = geometry.access_bytes(*operation) * np.array(lanes)
    fewer = one(*operation, addresses, mask & ~(1 << lane), geometry)
    more = one(*operation, addresses, mask | 1 << lane, geometry)
    assert all(a <= b for a, b in zip(fewer, more, strict=True))


@pytest.mark.slow
@settings(deadline=None)
@given(some_geometry, operations, places, masks, st.randoms(use_true_random=False))
def test_permuting_the_lanes_of_a_group_changes_nothing_unless_it_makes_or_breaks_a_merge(
    geometry, operation, lanes, mask, random
):
    addresses = geometry.access_bytes(*operation) * np.array(lanes)
    active = np.array(bits(mask))
    group = geometry.group_of_lane(*operation)
    order = LANE.copy()
    for index in range(group.max() + 1):
        members = np.flatnonzero(group == index)
        order[members] = random.sample(members.tolist(), len(members))
    both = np.stack([addresses, addresses[order]]), np.stack([active, active[order]])
    counts = count(geometry, *operation, *both)
    first, second = merges(geometry, *operation, *both)
    if first == second:
        assert all(column[0] == column[1] for column in counts)


@pytest.mark.slow
@settings(deadline=None)
@given(some_geometry, operations, places, masks, st.integers(0, 1000))
def test_moving_an_access_by_whole_rows_of_all_banks_changes_nothing(geometry, operation, lanes, mask, rows):
    size = geometry.access_bytes(*operation)
    addresses = size * np.array(lanes)
    step = np.lcm(size, geometry.banks * geometry.bank_width_bytes)
    assert one(*operation, addresses, mask, geometry) == one(*operation, addresses + rows * step, mask, geometry)


@pytest.mark.slow
@settings(deadline=None)
@given(operations, places, masks)
def test_doubling_addresses_accesses_and_bank_width_together_changes_nothing(operation, lanes, mask):
    kind, width = operation
    same_groups = {"lanes_per_group_32": 8, "lanes_per_group_64": 8, "lanes_per_group_128": 8}
    small = BankGeometry(**same_groups)
    large = BankGeometry(bank_width_bytes=8, matrix_row_bytes=32, **same_groups)
    addresses = small.access_bytes(*operation) * np.array(lanes)
    doubled = width if kind.is_matrix else 2 * width
    assert one(kind, width, addresses, mask, small) == one(kind, doubled, 2 * addresses, mask, large)


@pytest.mark.slow
@settings(deadline=None)
@given(some_geometry, operations, places, masks)
def test_the_phases_serve_every_requested_word_once_in_as_many_wavefronts_as_counted(geometry, operation, lanes, mask):
    kind, width = operation
    # As in an architecture file: no lane of a copy has a word in part and the rest in the next.
    assume(kind is not AccessKind.COPY or geometry.bank_width_bytes.bit_count() == 1)
    base = {
        "load": "LDS",
        "store": "STS",
        "matrix load": "LDSM",
        "matrix store": "STSM",
        "atomic": "ATOMS.ADD",
        "asynchronous copy": "LDGSTS",
        "compare and swap in a loop": "ATOMS.CAST.SPIN",
    }
    suffix = {8: "U8", 16: "U16"}.get(width, str(width))
    size = geometry.access_bytes(kind, width)
    access = shared_access(geometry, f"{base[kind.value]}.{suffix}", size * np.array(lanes), mask)
    assert (access.kind, access.width) == operation
    assert sum(phase.wavefronts for phase in access.phases) == access.wavefronts
    if kind is not AccessKind.COPY:  # whose bytes are counted, in whatever phase they are
        assert sum(phase.ideal_wavefronts for phase in access.phases) == access.ideal_wavefronts
    asked = sorted(
        (lane, word)
        for phase in access.phases
        for lane in phase.lanes
        if mask >> lane & 1
        for word in range(
            access.lane_byte_addresses[lane] // geometry.bank_width_bytes,
            (access.lane_byte_addresses[lane] + size - 1) // geometry.bank_width_bytes + 1,
        )
    )
    served = [s for phase in access.phases for wavefront in phase.served for s in wavefront]
    assert sorted((s.lane, s.word) for s in served) == sorted(asked * (2 if kind is AccessKind.TRY else 1))
    for phase in access.phases:
        for wavefront in phase.served:
            words = {(s.bank, s.word) for s in wavefront}
            assert len(words) == len({bank for bank, _ in words}), "one word a bank in each wavefront"


@pytest.mark.parametrize(("banks", "wavefronts_of_each"), [(1, 4), (3, 2), (4, 1), (32, 1)])
def test_a_lane_of_a_copy_takes_as_many_wavefronts_as_its_words_need(banks, wavefronts_of_each):
    access = shared_access(BankGeometry(banks=banks), "LDGSTS.128", 16 * LANE, 0b11 << 8)
    assert access.wavefronts == sum(phase.wavefronts for phase in access.phases)
    assert access.wavefronts == (1 if banks == 32 else 2 * wavefronts_of_each)


# --- names and refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "kind", "width"),
    [
        ("LDS", AccessKind.LOAD, 32),
        ("LDS.U8", AccessKind.LOAD, 8),
        ("LDS.S16", AccessKind.LOAD, 16),
        ("LDS.U.128", AccessKind.LOAD, 128),
        ("lds.64", AccessKind.LOAD, 64),
        ("STS.S8", AccessKind.STORE, 8),
        ("STS.128", AccessKind.STORE, 128),
        ("LDSM.16.M88", AccessKind.LOAD_MATRIX, 1),
        ("LDSM.16.MT88.2", AccessKind.LOAD_MATRIX, 2),
        ("LDSM.T.4", AccessKind.LOAD_MATRIX, 4),
        ("STSM.16.MT88.4", AccessKind.STORE_MATRIX, 4),
        ("STSM.1", AccessKind.STORE_MATRIX, 1),
        ("ATOMS.ADD", AccessKind.ATOMIC, 32),
        ("ATOMS.POPC.INC.32", AccessKind.COUNT, 32),
        ("ATOMS.CAST.SPIN.64", AccessKind.TRY, 64),
        ("ATOMS.MAX.S32", AccessKind.ATOMIC, 32),
        ("ATOMS.CAS.64", AccessKind.ATOMIC, 64),
    ],
)
def test_short_names_and_machine_code_names_are_read(op, kind, width):
    assert parse_op(op) == (kind, width)


@pytest.mark.parametrize("op", ["LDG.128", "LDS.256", "LDS.64.128", "LDSM.3", "ATOMS", "ATOMS.U8", "", "STSM.M816"])
def test_an_unknown_op_is_refused_with_the_known_ones(op):
    with pytest.raises(GpuemuError) as caught:
        shared_access(HARDWARE, op, 4 * LANE)
    assert "\n".join(brief(caught.value)) == (f"shared_access: op: '{op}'")


@pytest.mark.parametrize(
    ("op", "addresses", "mask", "sentence"),
    [
        (
            "LDS",
            [0] * 31,
            ALL,
            "lane_byte_addresses: 31 addresses",
        ),
        (
            "LDS",
            [[0] * 32],
            ALL,
            "lane_byte_addresses: an array of shape (1, 32)",
        ),
        (
            "LDS",
            [0.5] * 32,
            ALL,
            "lane_byte_addresses: values of type float64",
        ),
        (
            "LDS.64",
            8 * LANE + 4 * (LANE == 3),
            ALL,
            "lane_byte_addresses: byte address 28 in lane 3",
        ),
        (
            "LDSM.4",
            8 * LANE,
            ALL,
            "lane_byte_addresses: byte address 8 in lane 1 (and 15 more)",
        ),
        (
            "STS",
            4 * LANE - 4,
            ALL,
            "lane_byte_addresses: byte address -4 in lane 0",
        ),
        ("LDS", 4 * LANE, 1 << 32, "active_mask: 0x100000000"),
    ],
)
def test_a_bad_access_is_refused_in_one_sentence(op, addresses, mask, sentence):
    with pytest.raises(GpuemuError) as caught:
        shared_access(HARDWARE, op, addresses, mask)
    assert "\n".join(brief(caught.value)) == f"shared_access: {sentence}"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"banks": 0}, "banks: 0"),
        (
            {"load_merge_distances": (1, 32)},
            "load_merge_distances: (1, 32)",
        ),
        (
            {"load_merge_distances": (0, 2)},
            "load_merge_distances: (0, 2)",
        ),
    ],
)
def test_an_impossible_geometry_is_refused(values, sentence):
    with pytest.raises(GpuemuError) as caught:
        BankGeometry(**values)
    assert "\n".join(brief(caught.value)) == f"BankGeometry: {sentence}"


def test_counts_of_a_single_access_are_those_of_the_bulk_form():
    access = shared_access(HARDWARE, "LDS.32", 8 * LANE)
    counts = count(HARDWARE, AccessKind.LOAD, 32, [8 * LANE], [bits(ALL)])
    assert isinstance(counts, Counts)
    found = (access.wavefronts, access.ideal_wavefronts, access.data_stage_cycles, access.excess_wavefronts)
    assert found == (*(int(column[0]) for column in counts[:3]), 1)


def test_groups_are_counted_after_merging():
    pairs = 16 * (LANE // 2)
    for width, addresses, groups in [(32, 4 * LANE, 1), (64, 8 * LANE, 2), (128, 16 * LANE, 4), (128, pairs, 2)]:
        assert count(HARDWARE, AccessKind.LOAD, width, [addresses], [bits(ALL)]).groups.tolist() == [groups]


def test_lanes_that_count_into_one_word_are_served_together():
    """H200: eight warps of atomicAdd(&bin, 1), every lane's bin the same, take 430 cycles and not 1,220."""
    arch = load_arch("sm_90")
    assert shared_access(arch, "ATOMS.POPC.INC.32", [0] * 32).wavefronts == 1
    assert shared_access(arch, "ATOMS.ADD", [0] * 32).wavefronts == 32
    assert shared_access(arch, "ATOMS.POPC.INC.32", [128 * lane for lane in range(32)]).wavefronts == 32


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("bank_width_bytes", [4, 8, 16, 32, 128])
def test_a_copy_goes_into_shared_memory_as_a_store_does(bank_width_bytes, width):
    arch = load_arch("sm_90").with_overrides({"shared_memory.bank_width_bytes": bank_width_bytes})
    for addresses in (width // 8 * LANE, 256 * LANE, width // 8 * (LANE ^ 5), 48 * (LANE % 8) * (width // 8)):
        if len(set(addresses.tolist())) == 32:
            store, copy = (shared_access(arch, f"{op}.{width}", addresses) for op in ("STS", "LDGSTS"))
            assert (copy.wavefronts, copy.ideal_wavefronts) == (store.wavefronts, store.ideal_wavefronts)
    assert shared_access(arch, f"LDGSTS.E.LTC128B.{width}", 0 * LANE).wavefronts == 32
    # Past L1 the first lane's bytes count (H100).
    assert shared_access(arch, "LDGSTS.E.BYPASS.LTC128B.128", 0 * LANE).wavefronts == 1
