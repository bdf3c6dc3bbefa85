import struct

import numpy as np
import pytest

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, WRITTEN, Memory
from gpuemu.sass.machine.operands import UnsupportedError
from tests.sass.harness import execute, surroundings

LANES = 64
LANE = np.arange(LANES)
RNG = np.random.default_rng(11)
EVERYONE = np.ones(LANES, np.bool_)


def signed(x, bits):
    return x - (1 << bits) if x >> (bits - 1) else x


def integer_step(name, bits, is_signed, old, value):
    """What an integer atomic leaves behind, from the definition of CUDA's atomic functions."""

    def key(x):
        return signed(x, bits) if is_signed else x

    new = {
        "ADD": lambda: old + value,
        "MIN": lambda: min(old, value, key=key),
        "MAX": lambda: max(old, value, key=key),
        "AND": lambda: old & value,
        "OR": lambda: old | value,
        "XOR": lambda: old ^ value,
        "EXCH": lambda: value,
        "INC": lambda: 0 if old >= value else old + 1,
        "DEC": lambda: value if old == 0 or old > value else old - 1,
    }[name]()
    return new % (1 << bits)


class World:
    """A CTA of 64 lanes whose global, shared or local memory starts as 64 units of `size` bytes."""

    def __init__(self, where, size, initial):
        self.memory = Memory(1024, 0x400, 1024, Lanes(LANES))
        self.size = size
        data = np.frombuffer(b"".join(int(x).to_bytes(size, "little") for x in initial), np.uint8)
        self.global_bytes = data.copy()
        start = self.memory.add_buffer("argument 0", self.global_bytes)
        self.memory.shared[1][: len(data)] = data
        self.memory.written[1][: len(data)] = 255
        self.memory.local[1].reshape(LANES, -1)[:, : len(data)] = data
        self.start = {"global": start, "shared": SHARED_WINDOW + 0x400, "local": LOCAL_WINDOW}[where]
        self.where = where

    def unit(self, k):
        source = self.global_bytes if self.where == "global" else self.memory.shared[1]
        return int.from_bytes(source[k * self.size :][: self.size].tobytes(), "little")

    def run(self, sass, slots, values, compare=None, mask=None):
        """Address in R2 (pair), R3 is the shared address; value in R8.., value to compare with in R12.. ."""
        address = self.start + np.asarray(slots) * self.size
        registers = {2: address & 0xFFFFFFFF, 3: address >> 32, 4: 0x400 + np.asarray(slots) * self.size}
        for first, numbers in ((8, values), (12, compare)):
            for i in range(self.size // 4):
                if numbers is not None:
                    registers[first + i] = np.array([int(v) >> 32 * i & 0xFFFFFFFF for v in numbers], np.uint64)
        environment = surroundings(sass, memory=self.memory)
        self.recorded = []
        environment.record = lambda place, mask, spaces=0: self.recorded.append((place.addresses(64), mask))
        self.files = execute("", registers, mask=mask, environment=environment)
        words = self.files.registers
        return [sum(int(words[16 + i, lane]) << 32 * i for i in range(self.size // 4)) for lane in LANE]


def numbers(bits, n=LANES):
    """Random numbers, small ones among them."""
    wide = [int.from_bytes(RNG.bytes(bits // 8), "little") for _ in range(n)]
    return [x if RNG.random() < 0.5 else x % 8 for x in wide]


SLOTS = {
    "all differ": RNG.permutation(LANES),
    "pairs": RNG.permutation(LANES) // 2,
    "a few": RNG.integers(0, 20, LANES),
    "one": np.zeros(LANES, int),
    "two": RNG.integers(0, 2, LANES) * 5,
}
INTEGER = [
    *[(name, 4, False) for name in ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "EXCH", "INC", "DEC")],
    *[(name, 4, True) for name in ("MIN", "MAX")],
    *[(name, 8, False) for name in ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "EXCH")],
    *[(name, 8, True) for name in ("MIN", "MAX")],
    ("EXCH", 16, False),
]
FORMS = {
    "ATOMG": ("ATOMG.E.{op}.STRONG.GPU PT, R16, desc[UR4][R2.64], R8", "global"),
    "ATOM": ("ATOM.E.{op}.STRONG.GPU P1, R16, [R2.64], R8", "global"),
    "ATOM shared": ("ATOM.E.{op}.STRONG.GPU PT, R16, [R2.64], R8", "shared"),
    "ATOMS": ("ATOMS.{op} R16, [R4], R8", "shared"),
    "RED": ("RED.E.{op}.STRONG.SM [R2.64], R8", "global"),
    "REDG": ("REDG.E.{op}.STRONG.GPU desc[UR4][R2.64], R8", "global"),
}


INTEGER_FORMS = [
    (form, *operation)
    for form in FORMS
    for operation in INTEGER
    if (form != "ATOM shared" or operation[1] == 4 or operation[0] == "EXCH")
    and (operation[1] < 16 or form not in ("RED", "REDG"))
]


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
@pytest.mark.parametrize(("form", "name", "size", "is_signed"), INTEGER_FORMS)
def test_integer_atomics_act_in_the_order_of_the_lanes(form, name, size, is_signed, slots):
    sass, where = FORMS[form]
    suffix = {(4, False): "", (4, True): ".S32", (8, False): ".64", (8, True): ".S64", (16, False): ".128"}[
        size, is_signed
    ]
    initial, values = numbers(8 * size), numbers(8 * size)
    mask = None if RNG.random() < 0.5 else RNG.random(LANES) < 0.7
    world = World(where, size, initial)
    found = world.run(sass.format(op=name + suffix), slots, values, mask=mask)
    expected = list(initial)
    for lane in LANE:
        if mask is not None and not mask[lane]:
            assert found[lane] == 0
            continue
        k = slots[lane]
        if form not in ("RED", "REDG"):
            assert found[lane] == expected[k]
        expected[k] = integer_step(name, 8 * size, is_signed, expected[k], values[lane])
    assert [world.unit(k) for k in range(LANES)] == expected
    ((addresses, recorded_mask),) = world.recorded
    active = slice(None) if mask is None else mask
    assert np.array_equal(addresses, slots[active] * size + (world.start if where == "global" else 0))
    assert recorded_mask is mask


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
@pytest.mark.parametrize(
    ("form", "size"),
    [*((form, size) for form in ("ATOMG", "ATOM", "ATOM shared", "ATOMS") for size in (4, 8, 16))],
)
def test_compare_and_exchange_acts_in_the_order_of_the_lanes(form, size, slots):
    sass, where = FORMS[form]
    initial = [int(x) << 8 * size - 3 for x in RNG.integers(0, 3, LANES)]
    values = [int(x) << 8 * size - 3 for x in RNG.integers(0, 3, LANES)]
    compare = [int(x) << 8 * size - 3 for x in RNG.integers(0, 3, LANES)]
    world = World(where, size, initial)
    suffix = {4: "", 8: ".64", 16: ".128"}[size]
    sass = sass.format(op="CAS" + suffix).replace("R8", "R12, R8")
    found = world.run(sass, slots, values, compare)
    expected = list(initial)
    for lane in LANE:
        k = slots[lane]
        assert found[lane] == expected[k]
        if expected[k] == compare[lane]:
            expected[k] = values[lane]
    assert [world.unit(k) for k in range(LANES)] == expected


@pytest.mark.parametrize("size", [4, 8])
def test_cast_tells_in_as_many_bits_as_it_compares_whether_it_exchanged(size):
    world = World("shared", size, [5] * LANES)
    sass = f"ATOMS.CAST.SPIN{'.64' if size == 8 else ''} R16, [R4], R12, R8"
    slots, compare = LANE // 2, [5 if lane % 4 else 6 for lane in LANE]
    found = world.run(sass, slots, [7] * LANES, compare)
    # Of each pair of lanes the first that finds 5 makes it 7; a lane that expects 6 leaves it alone.
    assert found == [0, 1, 1, 0] * 16
    assert [world.unit(k) for k in range(33)] == [7] * 32 + [5]


def test_cast_of_64_bits_clears_the_upper_word():
    world = World("shared", 8, [5] * LANES)
    world.run("MOV R17, 0x7\nATOMS.CAST.SPIN.64 R16, [R4], R12, R8", LANE, [7] * LANES, [5] * LANES)
    assert world.files.registers[16:18, :4].tolist() == [[1] * 4, [0] * 4]


def test_popc_inc_counts_the_lanes():
    world = World("shared", 4, [10] * LANES)
    world.run("ATOMS.POPC.INC.32 RZ, [R4+URZ]", LANE % 3, None, mask=LANE < 32)
    assert [world.unit(k) for k in range(4)] == [21, 21, 20, 10]


# -- floating point -----------------------------------------------------------------------------------------


def f32(bits):
    return np.uint32(bits).view(np.float32)


def flush(x):
    return np.copysign(np.float32(0), x) if abs(x) < np.float32(2.0**-126) else x


def add_f32(old, value):
    with np.errstate(all="ignore"):
        total = flush(flush(f32(old)) + flush(f32(value)))
    return 0x7FFFFFFF if np.isnan(total) else int(total.view(np.uint32))


def add_f64(old, value):
    a, b = (struct.unpack("<d", struct.pack("<Q", x))[0] for x in (old, value))
    return struct.unpack("<Q", struct.pack("<d", a + b))[0]


def add_f16(old, value):
    a, b = (struct.unpack("<e", struct.pack("<H", x))[0] for x in (old, value))
    try:
        return struct.unpack("<H", struct.pack("<e", a + b))[0]
    except OverflowError:
        return 0x7C00 if a + b > 0 else 0xFC00


def add_bf16(old, value):
    """Rounds the sum, exact in float64, to the nearest multiple of the last place, ties to even."""
    a, b = (float(f32(x << 16)) for x in (old, value))
    total = a + b
    if total == 0:
        return int(np.float32(total).view(np.uint32)) >> 16
    last = 2.0 ** (max(int(np.floor(np.log2(abs(total)))), -126) - 7)
    rounded = np.float32(round(total / last) * last)  # Python rounds halves to even
    return int(rounded.view(np.uint32)) >> 16


def packed(add, bits, size):
    def step(old, value):
        lows = range(0, 8 * size, bits)
        field = (1 << bits) - 1
        return sum(add(old >> low & field, value >> low & field) << low for low in lows)

    return step


def float_bits(kind, n):
    """Numbers whose sums round, some subnormal."""
    scale = RNG.choice([1.0, 1.0, 3.0, 1e-3], n)
    values = RNG.standard_normal(n) * scale
    if kind == "f64":
        return values.view(np.uint64).tolist()
    if kind == "f32":
        values = values.astype(np.float32)
        values[RNG.random(n) < 0.1] *= np.float32(1e-41)
        return values.view(np.uint32).tolist()
    if kind == "f16":
        values = values.astype(np.float16)
        values[RNG.random(n) < 0.1] = np.float16(6e-7)
        return values.view(np.uint16).tolist()
    return (values.astype(np.float32).view(np.uint32) >> 16).tolist()


SUMS = [
    ("F32.FTZ.RN", 4, "f32", 32, add_f32),
    ("F64.RN", 8, "f64", 64, add_f64),
    ("F16x2.RN", 4, "f16", 16, add_f16),
    ("BF16x2.RN", 4, "bf16", 16, add_bf16),
    ("F32x2.FTZ.RN", 8, "f32", 32, add_f32),
    ("F32x4.FTZ.RN", 16, "f32", 32, add_f32),
    ("F16x4.RN", 8, "f16", 16, add_f16),
    ("F16x8.RN", 16, "f16", 16, add_f16),
    ("BF16x8.RN", 16, "bf16", 16, add_bf16),
]


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
@pytest.mark.parametrize(("form", "size", "kind", "bits", "add"), SUMS)
@pytest.mark.parametrize("returns", [True, False])
def test_sums_of_floating_point_numbers_are_rounded_lane_by_lane(returns, form, size, kind, bits, add, slots):
    per_unit = 8 * size // bits

    def units():
        parts = [float_bits(kind, per_unit) for _ in range(LANES)]
        return [sum(part << bits * i for i, part in enumerate(p)) for p in parts]

    initial, values = units(), units()
    world = World("global", size, initial)
    sass, _ = FORMS["ATOMG" if returns else "REDG"]
    found = world.run(sass.format(op="ADD." + form), slots, values)
    step = packed(add, bits, size)
    expected = list(initial)
    for lane in LANE:
        k = slots[lane]
        if returns:
            assert found[lane] == expected[k]
        expected[k] = step(expected[k], values[lane])
    assert [world.unit(k) for k in range(LANES)] == expected


# What an H100 left of (in memory, value): REDG.E.MIN.F16x4.RN and REDG.E.MAX.BF16x4.RN.
EXTREMES = {
    ("MIN", "F16"): [
        (0x5DC7, 0x7C01, 0x5DC7), (0xA73C, 0xFFFF, 0xA73C), (0x7E00, 0x8001, 0x8001), (0x7E00, 0xFC01, 0x7FFF),
        (0x8000, 0x0000, 0x8000), (0x0000, 0x8000, 0x8000), (0x8001, 0x99F5, 0x99F5), (0x3C00, 0x028F, 0x028F),
        (0xC002, 0xFC00, 0xFC00), (0x7C00, 0x7BFF, 0x7BFF),
    ],
    ("MAX", "BF16"): [
        (0x7F81, 0xBED0, 0xBED0), (0x0001, 0xFF81, 0x0001), (0xFFC0, 0x7FFF, 0x7FFF), (0x0000, 0x8000, 0x0000),
        (0x8000, 0x0000, 0x0000), (0x8001, 0x6116, 0x6116), (0x8274, 0x0001, 0x0001), (0xFF80, 0xFF7F, 0xFF7F),
    ],
}  # fmt: skip


@pytest.mark.parametrize("times", [2, 4, 8])
@pytest.mark.parametrize(("operation", "kind"), EXTREMES)
def test_extremes_of_halves_are_those_of_an_h100(operation, kind, times):
    """A NaN gives way to a number, of two one is left, 0x7fff; -0 lies below 0, and subnormal numbers stay."""
    rows = EXTREMES[operation, kind]
    initial, values, expected = (
        [sum(rows[(k + i) % len(rows)][part] << 16 * i for i in range(times)) for k in LANE] for part in range(3)
    )
    world = World("global", 2 * times, initial)
    world.run(FORMS["REDG"][0].format(op=f"{operation}.{kind}x{times}.RN"), LANE, values)
    assert [world.unit(k) for k in LANE] == expected


def test_the_other_extreme_of_halves_is_the_lowest_of_all_lanes():
    world = World("global", 4, [0x7E00_7C00] * LANES)
    found = world.run(FORMS["ATOMG"][0].format(op="MIN.BF16x2.RN"), LANE * 0, [0x3F80_4000 - lane for lane in LANE])
    assert world.unit(0) == 0x3F80_4000 - 63
    assert found[1] == 0x3F80_4000


def test_a_sum_on_the_way_that_is_subnormal_counts_as_zero():
    tiny = 0x00C00000  # 1.5 times the least normal number
    values = [0x80800000, tiny, *[0] * 62]
    world = World("global", 4, [tiny] * LANES)
    found = world.run(FORMS["ATOMG"][0].format(op="ADD.F32.FTZ.RN"), LANE * 0, values)
    # 1.5 - 1 is subnormal and becomes 0; 0 + 1.5 is 1.5, where hardware that kept it would give 2.
    assert found == [tiny, 0, *[tiny] * 62]
    assert world.unit(0) == tiny


def test_the_sum_of_infinities_of_both_signs_is_the_nan_that_gpus_write():
    world = World("global", 4, [0x7F800000] * LANES)
    world.run(FORMS["RED"][0].format(op="ADD.F32.FTZ.RN"), LANE // 32, [0xFF800000] * LANES)
    assert world.unit(0) == world.unit(1) == 0x7FFFFFFF
    world = World("global", 4, [0x7C003C00] * LANES)
    world.run(FORMS["RED"][0].format(op="ADD.F16x2.RN"), LANE, [0xFC003C00] * LANES)
    assert world.unit(5) == 0x7FFF4000


# -- where ATOM reaches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "size", "reaches"),
    [
        ("ADD", 4, ("global", "shared", "local")),
        ("MAX.S32", 4, ("global", "shared", "local")),
        ("EXCH.64", 8, ("global", "shared")),
        ("ADD.64", 8, ("global",)),
        ("ADD.F32.FTZ.RN", 4, ("global",)),
        ("ADD.F16x2.RN", 4, ("global",)),
        ("ADD.F64.RN", 8, ("global",)),
    ],
)
@pytest.mark.parametrize("where", ["global", "shared", "local"])
def test_atom_tells_in_its_predicate_whether_it_reached_the_address(op, size, reaches, where):
    world = World(where, size, range(1, 65))
    found = world.run(f"ATOM.E.{op}.STRONG.GPU P1, R16, [R2], R8", LANE, [0] * LANES)
    reached = where in reaches
    assert set(world.files.predicates[1].tolist()) == {reached}
    assert found == ([*range(1, 65)] if reached else [0] * LANES)
    sass = f"ATOM.E.{op}.STRONG.GPU PT, R16, [R2], R8"
    if reached:
        world.run(sass, LANE, [0] * LANES)
    else:
        with pytest.raises(ExecutionError) as caught:
            world.run(sass, LANE, [0] * LANES)
        assert f"an address in {where} memory" in caught.value.found
        assert caught.value.right == "Use an address in global memory"


def test_atom_without_a_predicate_is_refused_if_it_does_not_reach_the_address_of_a_single_lane():
    world = World("global", 8, [1] * LANES)
    slots = np.where(LANE == 5, (SHARED_WINDOW + 0x400 - world.start) // 8, 0)
    with pytest.raises(ExecutionError) as caught:
        world.run("ATOM.E.ADD.64.STRONG.GPU PT, R16, [R2], R8", slots, [1] * LANES)
    assert caught.value.lane == 5
    assert "an address in shared memory" in caught.value.found


def test_atom_may_find_its_lanes_in_several_memories():
    world = World("global", 4, [100] * LANES)
    third = LANE % 3
    address = np.choose(
        third, [world.start + LANE // 3 % 4 * 4, SHARED_WINDOW + 0x400 + LANE // 3 % 4 * 4, LOCAL_WINDOW + 4]
    )
    slots = (address - world.start) // 4
    found = world.run("ATOM.E.ADD.STRONG.GPU PT, R16, [R2], R8", slots, [1] * LANES)
    for lane in LANE:
        earlier = 0 if third[lane] == 2 else lane // 12
        assert found[lane] == 100 + earlier
    ((addresses, _),) = world.recorded
    shared_lanes, local_lanes = LANE[third == 1], LANE[third == 2]
    assert np.array_equal(addresses[shared_lanes], shared_lanes // 3 % 4 * 4)
    assert set(addresses[local_lanes]) == {4}


# -- refusals -----------------------------------------------------------------------------------------------


def test_an_atomic_outside_every_buffer_is_refused():
    world = World("global", 4, range(LANES))
    with pytest.raises(ExecutionError) as caught:
        world.run(FORMS["RED"][0].format(op="ADD"), LANE + 1, [1] * LANES)
    assert (caught.value.lane, caught.value.found) == (
        63,
        "a 4-byte atomic at 0x7f0000000100, 1 byte past the end of argument 0 (256 bytes)",
    )
    assert [world.unit(k) for k in range(LANES)] == list(range(LANES))


def test_an_atomic_reads_shared_memory_that_must_have_been_written():
    world = World("shared", 4, range(LANES))
    with pytest.raises(ExecutionError, match="at byte 256 of shared memory, which was never written"):
        world.run("ATOMS.ADD R16, [R4], R8", LANE + 1, [1] * LANES)
    with pytest.raises(ExecutionError, match="never written"):
        world.run("ATOMS.EXCH R16, [R4], R8", LANE + 1, [1] * LANES)
    world.run("ATOMS.EXCH RZ, [R4], R8", LANE + 1, [1] * LANES)
    assert world.run("ATOMS.ADD R16, [R4], R8", LANE + 1, [1] * LANES) == [1] * LANES


@pytest.mark.parametrize(
    "sass",
    [
        "ATOMS.POPC.INC.32 R16, [R4+URZ]",
        "ATOMS.ADD.SPIN R16, [R4], R8",
        "ATOMS.ADD.MAX R16, [R4], R8",
        "ATOMS R16, [R4], R8",
        "ATOMS.CAS R16, [R4], R8",
        "ATOMG.E.ADD.F32.RN.STRONG.GPU PT, R16, [R2], R8",
        "REDG.E.AND.BF16x8.RN.STRONG.GPU desc[UR4][R2.64], R8",
        "REDG.E.MAX.BF16x8.STRONG.GPU desc[UR4][R2.64], R8",
        "REDG.E.MAX.F64.RN.STRONG.GPU desc[UR4][R2.64], R8",
        "ATOMG.E.INC.64.STRONG.GPU PT, R16, [R2], R8",
        "ATOMG.E.ADD.STRONG.GPU R16, [R2], R8, R9",
        "RED.E.CAS.STRONG.GPU [R2], R8",
    ],
)
def test_atomics_that_are_not_known_are_refused(sass):
    with pytest.raises(UnsupportedError):
        World("global", 4, range(LANES)).run(sass, LANE, [0] * LANES)


def test_an_atomic_writes_the_whole_word_of_which_a_byte_was_written():
    world = World("shared", 4, [0] * LANES)
    world.memory.written[1][:] = 0
    world.memory.written[1][::4] = WRITTEN
    world.memory.all_written = False
    world.memory.places_written.clear()
    assert world.run("ATOMS.ADD R16, [R4], R8", LANE, [1] * LANES) == [0] * LANES
    assert (world.memory.written[1][: 4 * LANES] == WRITTEN).all()
