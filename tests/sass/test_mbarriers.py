"""mbarrier: the words that arrivals leave behind, phase after phase."""

import numpy as np
import pytest
from harness import execute, surroundings

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import UnsupportedError

PHASE = 1 << 63


def word_80(takes, missing, phase=0):
    """As compiled code initialises it on sm_80 to sm_89."""
    return (1 << 30) - takes | ((1 << 31) - missing | phase << 31) << 32


def word_90(takes, missing, phase=0, tx=0):
    """As compiled code initialises it on sm_90; tx is this executor's own."""
    return ((1 << 20) - takes) << 1 | tx % (1 << 22) << 21 | ((1 << 20) - missing) % (1 << 20) << 43 | phase << 63


class World:
    """64 lanes and two barriers at 0x10 and 0x18 of shared memory."""

    def __init__(self, *words):
        self.memory = Memory(64, 0, 0, Lanes(64))
        self.memory.shared[8][2 : 2 + len(words)] = words
        self.memory.written[1][:] = 255

    def run(self, sass, registers=None, mask=None, uniform=None):
        """R2 holds the address 0x10 unless given; the lanes afterwards."""
        environment = surroundings(sass, memory=self.memory)
        given = {2: 0x10} | (registers or {})
        return execute("", given, mask=mask, uniform=uniform or {}, environment=environment)

    def word(self, k=0):
        return int(self.memory.shared[8][2 + k])


FIRST = np.arange(64) < 3


@pytest.mark.parametrize(
    ("sass", "word"),
    [("ATOMS.ARRIVE.64 R4, [R2]", word_80), ("SYNCS.ARRIVE.TRANS64.A1T0 R4, [R2+URZ], RZ", word_90)],
)
def test_arrivals_count_down_and_the_last_one_turns_the_phase(sass, word):
    world = World(word(5, 5))
    found = world.run(sass, mask=FIRST).registers
    tokens = (found[4].astype(np.uint64) | found[5].astype(np.uint64) << np.uint64(32)).tolist()
    assert tokens[:3] == [word(5, 5), word(5, 4), word(5, 3)]
    assert world.word() == word(5, 2)
    world.run(sass, mask=FIRST)  # two end the phase, one begins the next
    assert world.word() == word(5, 4, 1)
    world.run(sass, mask=np.arange(64) < 4)
    assert world.word() == word(5, 5)


def test_lanes_may_arrive_at_different_barriers():
    world = World(word_90(4, 4), word_90(8, 8))
    world.run("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ", {2: 0x10 + 8 * (np.arange(64) % 2)}, np.arange(64) < 7)
    assert (world.word(), world.word(1)) == (word_90(4, 4, 1), word_90(8, 5))


@pytest.mark.parametrize(
    ("how", "amount", "after"),
    [
        ("ART0", 2, word_90(5, 3)),
        ("A0TR", 100, word_90(5, 5, tx=100)),
        ("A0TX", 100, word_90(5, 5, tx=-100)),
        ("A0T1", 9, word_90(5, 5, tx=1)),
        ("", 64, word_90(5, 4, tx=64)),
        ("OPTOUT.A1T0", 9, word_90(4, 4)),
        ("OPTOUT.ART0", 3, word_90(2, 2)),
        ("OPTOUT", 16, word_90(4, 4, tx=16)),
    ],
)
def test_arrivals_may_be_many_and_may_announce_bytes(how, amount, after):
    world = World(word_90(5, 5))
    world.run(f"SYNCS.ARRIVE.TRANS64{'.' * bool(how)}{how} R4, [R2+URZ], R6", {6: amount}, np.arange(64) == 7)
    assert world.word() == after


def test_a_phase_ends_when_neither_arrivals_nor_bytes_are_missing():
    world = World(word_90(1, 1))
    one = np.arange(64) == 0
    world.run("SYNCS.ARRIVE.TRANS64 R4, [R2+URZ], R6", {6: 16}, one)
    assert world.word() == word_90(1, 0, tx=16)
    world.run("SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [R2+URZ], R6", {6: 12}, one)
    assert world.word() >> 63 == 0
    world.run("SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [R2+URZ], R6", {6: 4}, one)
    assert world.word() == word_90(1, 1, 1)


@pytest.mark.parametrize(
    ("sass", "before", "after"),
    [
        ("ARRIVES.LDGSTSBAR.64 [R2]", word_80(4, 4), word_80(4, 1)),
        ("ARRIVES.LDGSTSBAR.64.ARVCNT [R2]", word_90(4, 4), word_90(4, 1)),
        ("ARRIVES.LDGSTSBAR.64.TRANSCNT [R2]", word_90(4, 2, tx=3), word_90(4, 2)),
    ],
)
def test_copies_that_are_done_arrive(sass, before, after):
    world = World(before)
    world.run(sass, mask=FIRST)
    assert world.word() == after


def test_lanes_that_arrive_together_learn_who_they_were():
    world = World(word_90(100, 100), word_90(50, 50))
    addresses = 0x10 + 8 * (np.arange(64) % 2)
    mask = np.arange(64) < 5
    found = world.run("SYNCS.ARRIVE.TRANS64.TMASK.ART0 R4, [R2+URZ], R6", {2: addresses, 6: 2}, mask).registers
    assert found[4, :5].tolist() == [0b10101, 0b01010, 0b10101, 0b01010, 0b10101]
    high = [word_90(100, 100) >> 32, word_90(50, 50) >> 32]
    assert found[5, :5].tolist() == [high[0], high[1], high[0], high[1], high[0]]
    assert (world.word(), world.word(1)) == (word_90(100, 94), word_90(50, 46))


@pytest.mark.parametrize("suffix", ["", ".TRYWAIT"])
@pytest.mark.parametrize("phase", [0, 1])
def test_a_phase_is_over_when_the_parity_has_turned(suffix, phase):
    world = World(word_90(5, 2, phase))
    parity = np.arange(64, dtype=np.uint32) % 2 << 31
    after = world.run(f"SYNCS.PHASECHK.TRANS64{suffix} P1, [R2+URZ], R5", {5: parity})
    assert after.predicates[1].tolist() == [lane % 2 != phase for lane in range(64)]


def test_a_barrier_is_initialised_from_uniform_registers_and_given_up():
    world = World()
    world.memory.written[1][:] = 0
    word = word_90(32, 32)
    world.run(
        "SYNCS.EXCH.64 URZ, [UR8], UR4\nSYNCS.CCTL.IV [UR8]", uniform={4: word & 0xFFFFFFFF, 5: word >> 32, 8: 0x18}
    )
    assert world.word(1) == word
    assert world.memory.written[8][3] == (1 << 64) - 1


def test_more_arrivals_than_the_phase_takes_are_an_error():
    with pytest.raises(ExecutionError, match="more arrivals than the phase of the mbarrier expects") as caught:
        World(word_90(3, 2)).run("SYNCS.ARRIVE.TRANS64.ART0 R4, [R2+URZ], R6", {6: 3}, np.arange(64) == 9)
    assert caught.value.lane == 9


@pytest.mark.parametrize(
    "sass",
    [
        "SYNCS.ARRIVE.TRANS64.A2T0 R4, [R2], RZ",
        "SYNCS.ARRIVE.A1T0 R4, [R2], RZ",
        "SYNCS.ARRIVE.TRANS64.RED.A1T0 R4, [R2], RZ",
        "SYNCS.PHASECHK P0, [R2], R4",
        "SYNCS.EXCH.64 UR4, [UR8], UR4",
        "SYNCS.CCTL.WB [R2]",
        "SYNCS.LD R2, [R2]",
        "ARRIVES.LDGSTSBAR.64.X [R2]",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError):
        World(word_90(1, 1)).run(sass)
