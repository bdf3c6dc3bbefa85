"""Addresses as a base and a pattern: whatever a kernel adds up, lanes reach the bytes that the sum names."""

from array import array

import numpy as np
import pytest

from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.addresses import address32
from gpuemu.sass.machine.memory.storage import Buffer, Memory
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording import patterns
from gpuemu.sass.machine.recording.patterns import Pattern, Patterns, Place
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.semantics import build
from gpuemu.trace.listing import parse_listing
from tests.sass.harness import execute, surroundings

LANES = 64
LANE = np.arange(LANES)
RNG = np.random.default_rng(11)


def shared(size=4096):
    memory = Memory(size, 0, 0, Lanes(LANES))
    memory.shared[1][:] = RNG.integers(0, 256, size)
    memory.written[1][:] = 255
    return memory


@pytest.mark.parametrize(
    ("text", "register", "uniform", "expected"),
    [
        ("[R2]", 4 * LANE, 0, 4 * LANE),
        ("[R2+0x10]", 4 * LANE[::-1], 0, 4 * LANE[::-1] + 16),
        ("[R2+-0x100]", 4 * LANE + 256, 0, 4 * LANE),
        ("[R2+0x8]", (4 * LANE - 8) % (1 << 32), 0, 4 * LANE),  # the register wraps between two lanes, the sum does not
        ("[R2+UR4]", 4 * LANE, 64, 4 * LANE + 64),
        ("[R2+UR4]", 4 * LANE, np.repeat([64, 128], 32), 4 * LANE + np.repeat([64, 128], 32)),
        ("[R2.X8+UR4+0x4]", LANE, 256, 8 * LANE + 260),
        ("[UR4+0x20]", 0, np.repeat([0, 32], 32), np.repeat([32, 64], 32)),
        ("[0x40]", 0, 0, np.full(LANES, 64)),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_shared_addresses_are_sums_of_32_bits_that_wrap(text, register, uniform, expected, masked):
    memory = shared()
    mask = RNG.random(LANES) < 0.5 if masked else None
    environment = surroundings(f"LDS R8, {text}", memory=memory)
    after = execute("", {2: register}, uniform={4: uniform}, mask=mask, environment=environment)
    values = memory.shared[4][expected // 4]
    assert np.array_equal(after.registers[8], values if mask is None else np.where(mask, values, 0))


@pytest.mark.parametrize("low_word", [0xFFFFFF80, 0x1000])
@pytest.mark.parametrize(
    ("text", "register", "uniform"),
    [
        ("[R2.64+0x10]", "pair", 0),
        ("desc[UR8][R2.64]", "pair", 0),
        ("[R2.U32+UR4]", "offset", "pair"),
        ("[R2.64+UR4]", "pair", "offset"),
    ],
)
def test_global_addresses_carry_into_the_high_word(text, register, uniform, low_word):
    """A buffer that lies across a multiple of 2^32, where the low words of lanes wrap."""
    memory = Memory(0, 0, 0, Lanes(LANES))
    start = (0x7F01 << 32) + low_word
    data = RNG.integers(0, 256, 1024, dtype=np.uint8)
    memory.buffers.append(Buffer("argument 0", start, data))
    number = 16 if "+0x10" in text else 0
    offsets = 4 * RNG.permutation(LANES)
    environment = surroundings(f"LDG.E R8, {text}", memory=memory)
    wide = {"pair": np.uint64(start) + offsets.astype(np.uint64), "offset": offsets.astype(np.uint64)}
    if (register, uniform) == ("pair", "offset"):
        expected, scalar = offsets + 64, np.uint64(64)
    else:
        expected, scalar = offsets + number, np.uint64(start)
    vector = wide[register]
    registers = {2: vector & np.uint64(0xFFFFFFFF), 3: vector >> np.uint64(32)}
    uniforms = {4: scalar & np.uint64(0xFFFFFFFF), 5: scalar >> np.uint64(32)} if uniform else {}
    after = execute("", registers, uniform=uniforms, environment=environment)
    assert np.array_equal(after.registers[8], data.view(np.uint32)[expected // 4])


def test_an_instruction_meets_other_patterns_and_masks_and_knows_them_apart():
    memory = shared()
    environment = surroundings("LDS R8, [R2]", memory=memory)
    lanes = environment.lanes
    step = build(Site(environment.code[0], environment))
    some = LANE % 3 == 0
    for offsets in (4 * LANE, 8 * LANE, 4 * LANE + 512, 4 * RNG.permutation(LANES), np.full(LANES, 12)):
        for mask in (None, some, None, ~some, some):
            lanes.registers[2] = offsets
            lanes.registers[8] = 7
            step(mask)
            expected = memory.shared[4][offsets // 4]
            assert np.array_equal(lanes.registers[8], expected if mask is None else np.where(mask, expected, 7))


def test_a_pattern_is_found_again_and_the_place_tells_the_address():
    environment = surroundings("LDS R8, [R2+0x4]", memory=shared())
    addresses = address32(Site(environment.code[0], environment), 1)
    environment.lanes.registers[2] = 4 * LANE
    first = addresses.of(None)
    environment.lanes.registers[2] += 96
    second = addresses.of(None)
    assert first.pattern is second.pattern
    assert (first.base, second.base) == (4, 100)
    assert second.addresses(32).tolist() == (4 * LANE + 100).tolist()
    assert second.pattern.units(2) == (LANES, None)
    assert second.pattern.units(1)[0] == 2 * LANES - 1


def test_part_of_a_pattern_counts_from_its_own_first_lane():
    pattern = Patterns().place((8 * LANE[::-1]).astype(np.uint32), None, b"").pattern
    delta, part = pattern.part(LANE >= 40)
    assert delta == -320
    assert part.lanes.tolist() == LANE[40:].tolist()
    assert Place(504 + delta, part).addresses(32).tolist() == (8 * LANE[::-1])[40:].tolist()


def test_addresses_of_no_lane_are_no_access():
    memory = shared()
    execute("", {2: 1 << 31}, mask=np.zeros(LANES, np.bool_), environment=surroundings("STS [R2], R8", memory=memory))
    place = Patterns().place(np.zeros(0, np.uint64), np.zeros(0, np.int64), b"none")
    assert (place.pattern.count, place.addresses(64).tolist()) == (0, [])


@pytest.mark.parametrize("most", [1, 1000])
def test_equal_accesses_are_recorded_once_even_if_their_pattern_was_forgotten(monkeypatch, most):
    monkeypatch.setattr(patterns, "MOST_PATTERNS", most)
    lanes, known = Lanes(LANES), Patterns()
    code = parse_listing("[B------:R-:W-:-:S01] LDS R8, [R2]", "test", None)
    recorder = Recorder(lanes, code)
    which = (1, 2, 1, 3, 2, 1)
    for stride in which:
        recorder.steps.append(0)
        recorder.sets.append(recorder.set_of(None))
        recorder.access(known.place((4 * stride * LANE).astype(np.uint32), None, b""), None)
    warps, (addresses, active, _, _) = recorder.trace_parts(0, 0, 0)
    assert len(addresses) == 3 * lanes.warps
    assert active.all()
    found = [addresses[row].tolist() for row in warps[1].rows]
    assert found == [(4 * stride * LANE[32:]).tolist() for stride in which]


def test_patterns_are_forgotten_before_there_are_too_many(monkeypatch):
    monkeypatch.setattr(patterns, "MOST_PATTERNS", 8)
    known = Patterns()
    for stride in range(1, 50):
        known.place((stride * LANE).astype(np.uint32), None, b"")
        mask = np.roll(np.arange(LANES) < 5, stride)
        known.lanes(mask, mask.tobytes())
    assert len(known._known) <= 8
    assert len(known._lanes) <= 8


def test_queues_keep_the_order_of_the_lanes():
    offsets = 4 * RNG.integers(0, 5, LANES)
    found = Pattern((b"", b""), None, offsets).queues(2)
    assert found is not None
    for number, first in enumerate(found.first):
        members = found.order[found.queue == number]
        assert members.tolist() == np.flatnonzero(offsets == offsets[first]).tolist()
    assert found.longest == np.bincount(offsets // 4).max()
    assert Pattern((b"", b""), None, 4 * RNG.permutation(LANES)).queues(2) is None
    assert array("i", found.rank.tolist())[0] == 0
