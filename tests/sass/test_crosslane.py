"""SHFL, VOTE, MATCH, REDUX, MOVM and ELECT against what PTX says of each lane."""

import functools
import operator

import numpy as np
import pytest
from harness import execute
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import UnsupportedError

LANES = 64
OLD = 0xDEAD_BEEF


def random(seed):
    return np.random.default_rng(seed)


def words(seed, lanes=LANES, high=1 << 32):
    return random(seed).integers(0, high, lanes, dtype=np.uint64).astype(np.uint32)


def some_lanes(seed, lanes=LANES):
    """A mask with lanes of each warp, and not all of them."""
    mask = random(seed).random(lanes) < 0.6
    mask[::32], mask[1::32] = True, False
    return mask


def members(mask, warp, lanes=LANES):
    """The lanes of a warp that take part."""
    return [n for n in range(32 * warp, min(32 * warp + 32, lanes)) if mask is None or mask[n]]


def shuffled(kind, lane, b, c):
    """PTX's shfl.sync: the lane that `lane` reads, and the predicate."""
    distance, clamp, segments = b & 31, c & 31, c >> 8 & 31
    top = (lane & segments) | (clamp & ~segments & 31)
    low = lane & segments
    if kind == "UP":
        source = lane - distance
        return (source, True) if source >= top else (lane, False)
    source = {
        "DOWN": lane + distance,
        "BFLY": lane ^ distance,
        "IDX": low | (distance & ~segments & 31),
    }[kind]
    return (source, True) if source <= top else (lane, False)


def check_shuffle(kind, text, b, c, values, mask, extra):
    before = np.full(LANES, OLD, dtype=np.uint32)
    after = execute(f"SHFL.{kind} P1, R2, R3, {text}", {2: before, 3: values, **extra}, mask=mask)
    for n in range(LANES):
        if mask is not None and not mask[n]:
            assert after.registers[2, n] == OLD
            assert not after.predicates[1, n]
            continue
        source, inside = shuffled(kind, n % 32, int(b[n]), int(c[n]))
        assert after.registers[2, n] == values[n // 32 * 32 + source], (n, source)
        assert after.predicates[1, n] == inside


@pytest.mark.slow
@given(
    kind=st.sampled_from(["IDX", "UP", "DOWN", "BFLY"]),
    distance=st.one_of(st.integers(0, 40), st.none()),
    control=st.one_of(
        st.sampled_from([0x1F, 0x0, 0x1800, 0x181F, 0x1E1F, 0x101F, 0x1C00]), st.integers(0, 0x1FFF), st.none()
    ),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=300)
def test_a_shuffle_reads_the_lane_that_ptx_defines(kind, distance, control, masked, seed):
    b = words(seed, high=64) if distance is None else np.full(LANES, distance)
    c = words(seed + 1, high=0x2000) if control is None else np.full(LANES, control)
    text = f"{'R4' if distance is None else hex(distance)}, {'R5' if control is None else hex(control)}"
    extra = {4: b} if distance is None else {}
    extra |= {5: c} if control is None else {}
    check_shuffle(kind, text, b, c, words(seed + 2), some_lanes(seed) if masked else None, extra)


def test_a_shuffle_may_overwrite_its_own_source_and_forget_the_predicate():
    values = words(1)
    after = execute("SHFL.UP PT, R3, R3, 0x1, RZ", {3: values})
    assert after.registers[3, 1:32].tolist() == values[:31].tolist()
    assert after.registers[3, [0, 32]].tolist() == values[[0, 32]].tolist()
    assert after.predicates[7].all()


def test_a_shuffle_from_a_lane_that_takes_no_part_gets_what_its_register_holds():
    values, mask = words(2), np.arange(LANES) % 32 != 5
    after = execute("SHFL.IDX PT, R2, R3, 0x5, 0x1f", {3: values}, mask=mask)
    assert (after.registers[2][mask] == values[5 + np.arange(LANES) // 32 * 32][mask]).all()


def ballot(flags, lanes):
    return sum(1 << n % 32 for n in lanes if flags[n])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("negated", ["", "!"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_vote_counts_the_lanes_that_take_part(share, negated, masked):
    mask = some_lanes(3) if masked else None
    flags = random(4).random(LANES) < share
    seen = ~flags if negated else flags
    outcomes = {"ANY": any, "ALL": all, "EQ": lambda votes: len(set(votes)) == 1}
    for kind, outcome in outcomes.items():
        after = execute(f"VOTE.{kind} P1, {negated}P0", predicates={0: flags, 1: False}, mask=mask)
        for n in range(LANES):
            here = members(mask, n // 32)
            assert after.predicates[1, n] == (n in here and outcome([seen[m] for m in here]))
    after = execute(f"VOTE.ANY R1, P0, {negated}P0", {1: OLD}, {0: flags}, mask=mask)
    for n in range(LANES):
        here = members(mask, n // 32)
        assert after.registers[1, n] == (ballot(seen, here) if n in here else OLD)
        assert after.predicates[0, n] == (any(seen[m] for m in here) if n in here else flags[n])


def test_a_uniform_vote_writes_the_copies_of_all_lanes_of_the_warp():
    mask = np.zeros(LANES, dtype=bool)
    mask[[1, 4]] = True
    after = execute("VOTEU.ANY UR4, UPT, PT", mask=mask)
    assert after.uniform_registers[4].tolist() == [0b10010] * 32 + [0] * 32
    flags = np.arange(LANES) == 4
    after = execute("VOTEU.ALL UP2, P0", predicates={0: flags}, mask=flags)
    assert after.uniform_predicates[2].tolist() == [True] * 32 + [False] * 32


def test_a_vote_of_all_on_true_gives_the_lanes_that_vote():
    mask = some_lanes(5)
    after = execute("VOTE.ALL R1, PT, PT", {1: OLD}, mask=mask)
    assert after.registers[1].tolist() == [
        ballot(mask, range(n // 32 * 32, n // 32 * 32 + 32)) if mask[n] else OLD for n in range(LANES)
    ]


def test_lanes_that_a_partial_warp_lacks_do_not_vote():
    after = execute("VOTE.ANY R1, PT, PT\nVOTE.ALL P1, P0", predicates={0: np.arange(64) < 40}, lanes=40)
    assert after.registers[1, 0] == 0xFFFFFFFF
    assert after.registers[1, 32] == 0xFF
    assert after.predicates[1, [0, 39]].all()
    after = execute("REDUX.SUM UR1, R2", {2: 1}, lanes=40)
    assert after.uniform_registers[1, [0, 32]].tolist() == [32, 8]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_match_any_names_the_lanes_with_the_same_value(wide, masked):
    mask = some_lanes(5) if masked else None
    low, high = words(6, high=4), words(7, high=3)
    after = execute(f"MATCH.ANY{'.U64' if wide else ''} R1, R2", {1: OLD, 2: low, 3: high}, mask=mask)
    value = list(zip(low, high, strict=True)) if wide else list(low)
    for n in range(LANES):
        here = members(mask, n // 32)
        expected = sum(1 << m % 32 for m in here if value[m] == value[n]) if n in here else OLD
        assert after.registers[1, n] == expected


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("odd_lane", [None, 0, 1, 37, 64 + 5])
def test_match_all_asks_whether_all_values_are_the_same(odd_lane, wide, masked):
    mask = some_lanes(8, 96) if masked else None
    low, high = np.full(96, 7, dtype=np.uint32), np.full(96, 9, dtype=np.uint32)
    if odd_lane is not None:
        (high if wide else low)[odd_lane] = 1
    opcode = "MATCH.ALL.U64" if wide else "MATCH.ALL"
    after = execute(f"{opcode} P1, R1, R2", {1: OLD, 2: low, 3: high}, mask=mask, lanes=96)
    for n in range(96):
        here = members(mask, n // 32, 96)
        same = n in here and odd_lane not in here
        assert after.predicates[1, n] == same
        bits = sum(1 << m % 32 for m in here)
        assert after.registers[1, n] == ((bits if same else 0) if n in here else OLD)


def signed(value):
    return (int(value) ^ 1 << 31) - (1 << 31)


REDUCTIONS = {
    "REDUX": lambda values: functools.reduce(operator.and_, values),
    "REDUX.OR": lambda values: functools.reduce(operator.or_, values),
    "REDUX.XOR": lambda values: functools.reduce(operator.xor, values),
    "REDUX.SUM": sum,
    "REDUX.SUM.S32": sum,
    "REDUX.MIN": min,
    "REDUX.MAX": max,
    "REDUX.MIN.S32": lambda values: min(map(signed, values)),
    "REDUX.MAX.S32": lambda values: max(map(signed, values)),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("opcode", REDUCTIONS)
def test_a_reduction_goes_over_the_lanes_that_take_part(opcode, masked):
    mask = some_lanes(9) if masked else None
    values = words(10) | words(11)
    after = execute(f"{opcode} UR5, R2", {2: values}, mask=mask)
    for n in range(LANES):
        here = [int(values[m]) for m in members(mask, n // 32)]
        assert after.uniform_registers[5, n] == REDUCTIONS[opcode](here) % (1 << 32)


def test_a_reduction_leaves_warps_alone_that_take_no_part():
    after = execute("REDUX.SUM UR5, R2", {2: 3}, uniform={5: OLD}, mask=np.arange(LANES) < 7)
    assert after.uniform_registers[5, [0, 31, 32]].tolist() == [21, 21, OLD]


def test_movm_transposes_the_matrix_that_a_warp_holds():
    matrices = words(12, 128, 1 << 16).astype(np.uint16).reshape(2, 8, 8)
    packed = np.zeros(LANES, dtype=np.uint32)
    for n in range(LANES):
        row, column = n % 32 // 4, n % 4 * 2
        packed[n] = int(matrices[n // 32, row, column]) | int(matrices[n // 32, row, column + 1]) << 16
    after = execute("MOVM.16.MT88 R1, R2", {2: packed})
    for n in range(LANES):
        row, column = n % 32 // 4, n % 4 * 2
        assert after.registers[1, n] & 0xFFFF == matrices[n // 32, column, row]
        assert after.registers[1, n] >> 16 == matrices[n // 32, column + 1, row]


def test_movm_of_a_warp_that_is_not_whole_is_an_error_that_names_the_lane():
    mask = np.arange(LANES) != 33
    with pytest.raises(ExecutionError, match="31 active lanes of 32 in warp 1") as caught:
        execute("MOVM.16.MT88 R1, R2", mask=mask)
    assert caught.value.lane == 33
    execute("MOVM.16.MT88 R1, R2", mask=np.arange(LANES) < 32)


def test_elect_chooses_the_lowest_lane_that_takes_part():
    after = execute("ELECT P1, UR3, PT")
    assert np.flatnonzero(after.predicates[1]).tolist() == [0, 32]
    assert not after.uniform_registers[3].any()
    mask = np.isin(np.arange(LANES), [3, 9, 40, 41])
    after = execute("ELECT P1, UR3, PT", mask=mask)
    assert np.flatnonzero(after.predicates[1]).tolist() == [3, 40]
    assert after.uniform_registers[3, [0, 32]].tolist() == [3, 8]


@pytest.mark.parametrize(
    "sass",
    [
        "SHFL.IDX PT, R2, R3, 0x5",
        "SHFL PT, R2, R3, 0x5, 0x1f",
        "SHFL.IDX.U8 PT, R2, R3, 0x5, 0x1f",
        "VOTE.ALL R1, PT, P0",
        "VOTE P1, P0",
        "VOTE.VTG P1, P0",
        "MATCH R1, R2",
        "MATCH.ALL R1, R2",
        "REDUX.OR.S32 UR1, R2",
        "REDUX.ADD UR1, R2",
        "MOVM.16.M832 R1, R2",
        "MOVM.8.MT88 R1, R2",
        "ELECT P1, UR3, P2",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=sass.split(" ", maxsplit=1)[0]):
        execute(sass)
