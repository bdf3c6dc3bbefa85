"""Special registers, LEPC and NOP."""

import numpy as np
import pytest
from harness import execute, surroundings

from gpuemu.sass.machine.lanes import WARP
from gpuemu.sass.machine.memory.storage import SHARED_WINDOW
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.semantics import build

BLOCK = (10, 3, 4)  # 120 threads: the last warp is partial
THREADS = 120


def read(name, environment=None):
    environment = environment or surroundings(f"S2R R3, {name}", lanes=THREADS, block=BLOCK, grid=(7, 5, 3))
    return execute("", environment=environment).registers[3]


def test_thread_indices_run_fastest_in_x():
    found = np.array([read(f"SR_TID.{axis}") for axis in "XYZ"])[:, :THREADS]
    expected = [(x, y, z) for z in range(4) for y in range(3) for x in range(10)]
    assert found.T.tolist() == [list(place) for place in expected]


def test_the_place_of_the_cta_is_that_of_the_moment():
    environment = surroundings("S2R R3, SR_CTAID.Y", lanes=32)
    step = build(Site(environment.code[0], environment))
    for cta in [(0, 0, 0), (1, 4, 2)]:
        environment.cta = cta
        step(None)
        assert (environment.lanes.registers[3] == cta[1]).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SR_NTID.X", 10),
        ("SR_NTID.Z", 4),
        ("SR_NCTAID.Y", 5),
        ("SR_CgaCtaId", 0),
        ("SR_VIRTUALSMID", 0),
        ("SRZ", 0),
        ("SR_LMEMHIOFF", 0),
        ("SR_SWINHI", SHARED_WINDOW >> 32),
        ("SR_VIRTCFG", 64 << 8),
    ],
)
def test_a_register_that_is_the_same_for_all_lanes(name, value):
    assert (read(name)[:THREADS] == value).all()


LANE_MASKS = {
    "SR_EQMASK": lambda own, other: own == other,
    "SR_LTMASK": lambda own, other: other < own,
    "SR_LEMASK": lambda own, other: other <= own,
    "SR_GTMASK": lambda own, other: other > own,
    "SR_GEMASK": lambda own, other: other >= own,
}


@pytest.mark.parametrize("name", LANE_MASKS)
def test_a_lane_mask_compares_lane_numbers(name):
    found = read(name)
    for n in range(THREADS):
        assert found[n] == sum(1 << m for m in range(32) if LANE_MASKS[name](n % 32, m))


def test_lane_and_warp_numbers():
    count = np.arange(THREADS)
    assert read("SR_LANEID")[:THREADS].tolist() == (count % WARP).tolist()
    assert read("SR_WARPID")[:THREADS].tolist() == (count // WARP).tolist()
    assert (read("SR_VIRTID")[:THREADS] >> 8 & 0x7F).tolist() == (count // WARP).tolist()


@pytest.mark.parametrize("clock", ["SR_CLOCK", "SR_GLOBALTIMER"])
def test_clock_reads_give_the_words_of_the_clock(clock):
    sass = f"CS2R R2, {clock}LO\nCS2R.32 R4, {clock}LO\nCS2R.32 R5, {clock}HI\nS2R R6, {clock}LO"
    environment = surroundings(sass)
    environment.clock = (5 << 32) + 0xFFFFFFF0
    after = execute("", environment=environment)
    assert after.registers[2:7, 0].tolist() == [0xFFFFFFF1, 5, 0xFFFFFFF2, 5, 0xFFFFFFF4]


def test_a_pair_is_cleared_where_the_lanes_take_part():
    mask = np.arange(64) % 3 == 0
    after = execute("CS2R R2, SRZ", {1: 8, 2: 9, 3: 10, 4: 11}, mask=mask)
    assert (after.registers[[2, 3]][:, mask] == 0).all()
    assert (after.registers[2, ~mask] == 9).all()
    assert (after.registers[3, ~mask] == 10).all()
    assert (after.registers[1] == 8).all()
    assert (after.registers[4] == 11).all()
    assert not execute("CS2R RZ, SR_CLOCKLO").registers[255].any()
    assert (execute("CS2R.32 R2, SRZ", {2: 9, 3: 9}).registers[2:4, 0] == [0, 9]).all()


def test_a_special_register_may_go_to_a_uniform_register():
    after = execute("S2UR UR4, SR_CTAID.X", uniform={4: 6}, mask=np.arange(64) == 40)
    assert after.uniform_registers[4, [31, 32, 63]].tolist() == [6, 0, 0]


def test_lepc_gives_its_own_address_or_that_of_a_target():
    after = execute("NOP\nLEPC R2\nLEPC R4, 0x170", {3: 1, 5: 1})
    assert after.registers[2:6, 0].tolist() == [0x10, 0, 0x170, 0]


def test_the_size_of_shared_memory_is_that_of_the_launch():
    environment = surroundings("S2R R3, SR_SMEMSZ")
    environment.shared_memory_size = 0x1234
    assert (read("SR_SMEMSZ", environment) == 0x1234).all()


def test_nop_and_pmtrig_change_nothing():
    values = np.arange(64, dtype=np.uint32)
    after = execute("NOP\nPMTRIG 0x80", {2: values})
    assert (after.registers[2] == values).all()
    assert np.count_nonzero(after.registers) == 63


@pytest.mark.parametrize(
    "sass",
    [
        "S2R R2, SR_PM0",
        "S2R R2, SR_CTAID.W",
        "S2UR R2, SR_CTAID.X",
        "S2UR UR2, SR_TID.X",
        "S2UR UR2, SR_LANEID",
        "NOP.X",
        "CS2R R2, SR_TID.X",
        "CS2R R2, SR_CLOCKHI",
        "CS2R.64 R2, SRZ",
        "LEPC R2, R3",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=sass.split(" ", maxsplit=1)[0]):
        execute(sass)
