import numpy as np
import pytest

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, Memory
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.semantics import build
from tests.sass.harness import execute, surroundings

LANES = 64
LANE = np.arange(LANES)
RNG = np.random.default_rng(3)


def frames(memory):
    """The local memory of each lane [lane, byte]."""
    return memory.local[1].reshape(LANES, -1)[:, : memory.local_bytes]


class World:
    """A CTA of 64 lanes with memory, and a list of what was recorded."""

    def __init__(self, shared_bytes=4096, shared_base=0, local_bytes=256, arch="sm_90", constants=None):
        self.memory = Memory(shared_bytes, shared_base, local_bytes, Lanes(LANES))
        self.arch = arch
        self.constants = constants
        self.recorded = []
        self.sources = []

    def fill_shared(self, data):
        self.memory.shared[1][: len(data)] = data
        self.memory.written[1][: len(data)] = 255

    def run(self, sass, registers=None, pairs=None, mask=None, uniform=None, predicates=None):
        """Execute; `pairs` are 64-bit values for two registers each."""
        environment = surroundings(sass, memory=self.memory, arch=self.arch, constants=self.constants)

        def record(place, mask, spaces=0, source=None):
            self.sources.append(None if source is None else source.addresses(64).tolist())
            lanes = LANE if mask is None else np.flatnonzero(mask)
            at = dict(zip(lanes, place.addresses(64).tolist(), strict=True))
            self.recorded.append([at.get(lane) for lane in LANE])

        environment.record = record
        given = dict(registers or {})
        for number, value in (pairs or {}).items():
            wide = np.broadcast_to(np.asarray(value, dtype=np.uint64), LANES)
            given[number] = wide & np.uint64(0xFFFFFFFF)
            given[number + 1] = wide >> np.uint64(32)
        return execute(sass, given, predicates or {}, uniform or {}, mask, environment=environment).registers


def words_of(registers, first, count):
    """Registers first.. of each lane as bytes."""
    return [registers[first : first + count, lane].astype("<u4").tobytes() for lane in range(LANES)]


def random_bytes(n):
    return RNG.integers(0, 256, n, dtype=np.uint8)


def random_mask():
    return RNG.random(LANES) < 0.5


WIDTHS = [("", 4), (".64", 8), (".128", 16)]
NARROW = [(".U8", 1, False), (".S8", 1, True), (".U16", 2, False), (".S16", 2, True)]


@pytest.mark.parametrize(("width", "size"), WIDTHS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["LDG", "LD", "LDS", "LDL"])
def test_a_load_brings_the_bytes_at_each_lane_s_address(kind, width, size, masked):
    world = World()
    data = random_bytes(4096)
    mask = random_mask() if masked else None
    count = size // 4
    if kind == "LDL":
        offsets = RNG.integers(0, 256 // size, LANES) * size
        frames(world.memory)[:] = data[:256]
    else:
        offsets = RNG.integers(0, 4096 // size, LANES) * size
    if kind in ("LDG", "LD"):
        start = world.memory.add_buffer("argument 0", data)
        after = world.run(f"{kind}.E{width} R8, desc[UR4][R2.64]", pairs={2: start + offsets}, mask=mask)
        recorded = start + offsets
    else:
        world.fill_shared(data)
        after = world.run(f"{kind}{width} R8, [R2]", {2: offsets}, mask=mask)
        recorded = offsets
    for lane in LANE:
        expected = bytes(size) if masked and not mask[lane] else data[offsets[lane] :][:size].tobytes()
        assert words_of(after, 8, count)[lane] == expected
        on = not masked or mask[lane]
        assert world.recorded[0][lane] == (recorded[lane] if on else None)
    assert not after[8 + count].any()
    assert len(world.recorded) == 1


def test_a_load_of_sm_75_may_say_u():
    world = World()
    start = world.memory.add_buffer("argument 0", random_bytes(1024))
    plain, same = (
        world.run(f"LDG.E{modifier}.128.CONSTANT.SYS R8, [R2]", pairs={2: start + LANE * 16})[8:12]
        for modifier in ("", ".U")
    )
    assert (plain == same).all()


@pytest.mark.parametrize(("modifier", "size", "signed"), NARROW)
@pytest.mark.parametrize("kind", ["LDG", "LDS", "LDL"])
def test_narrow_loads_extend_zeros_or_the_sign(kind, modifier, size, signed):
    world = World(local_bytes=64)
    data = random_bytes(64)
    offsets = RNG.integers(0, 64 // size, LANES) * size
    world.fill_shared(data)
    frames(world.memory)[:] = data
    start = world.memory.add_buffer("argument 0", data)
    wide = kind == "LDG"
    sass = f"{kind}.E{modifier} R8, [R2.64]" if wide else f"{kind}{modifier} R8, [R2]"
    after = world.run(sass, {2: offsets}, {2: start + offsets} if wide else None)
    for lane in LANE:
        value = int.from_bytes(data[offsets[lane] :][:size].tobytes(), "little", signed=signed)
        assert int(after[8, lane]) == value % (1 << 32)


@pytest.mark.parametrize(("width", "size"), [*WIDTHS, (".U8", 1), (".U16", 2)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["STG", "ST", "STS", "STL"])
def test_a_store_changes_the_bytes_at_its_addresses_and_no_others(kind, width, size, masked):
    world = World()
    before = random_bytes(4096)
    mask = random_mask() if masked else None
    values = {8 + i: RNG.integers(0, 1 << 32, LANES) for i in range(4)}
    slots = 256 // size if kind == "STL" else 4096 // size
    offsets = (RNG.integers(0, slots, LANES) if kind == "STL" else RNG.permutation(slots)[:LANES]) * size
    expected = [before[:256].copy() for _ in LANE] if kind == "STL" else [before.copy()]
    for lane in LANE:
        if not masked or mask[lane]:
            row = b"".join(int(values[8 + i][lane]).to_bytes(4, "little") for i in range(4))[:size]
            target = expected[lane if kind == "STL" else 0]
            target[offsets[lane] : offsets[lane] + size] = np.frombuffer(row, np.uint8)
    if kind in ("STG", "ST"):
        buffer = before.copy()
        start = world.memory.add_buffer("argument 0", buffer)
        world.run(f"{kind}.E{width} [R2.64], R8", values, {2: start + offsets}, mask)
        assert np.array_equal(buffer, expected[0])
    elif kind == "STS":
        world.fill_shared(before)
        world.run(f"STS{width} [R2], R8", {**values, 2: offsets}, mask=mask)
        assert np.array_equal(world.memory.shared[1], expected[0])
    else:
        frames(world.memory)[:] = before[:256]
        world.run(f"STL{width} [R2], R8", {**values, 2: offsets}, mask=mask)
        assert np.array_equal(frames(world.memory), np.stack(expected))


@pytest.mark.parametrize(("width", "size"), [*WIDTHS, (".U8", 1), (".U16", 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_lanes_have_their_own_variable_at_the_same_local_address(masked, width, size):
    world = World(local_bytes=64)
    mask = random_mask() if masked else None
    values = {8 + i: RNG.integers(0, 1 << 32, LANES, dtype=np.uint32) for i in range(max(size // 4, 1))}
    frames(world.memory)[:] = 7
    world.run(f"STL{width} [R2+0x10], R8", {**values, 2: 16}, mask=mask)
    words = np.stack([values[8 + i] for i in range(len(values))], axis=1)
    written = (
        words.view(np.uint8)[:, :size] if mask is None else np.where(mask[:, None], words.view(np.uint8)[:, :size], 7)
    )
    assert np.array_equal(frames(world.memory)[:, 32 : 32 + size], written)
    assert np.count_nonzero(frames(world.memory) == 7) >= LANES * (64 - size)
    after = world.run(f"LDL{width} R12, [R2+0x10]", {2: 16}, mask=mask)
    for i in range(len(values)):
        expected = written[:, 4 * i : 4 * i + 4]
        expected = np.pad(expected, ((0, 0), (0, 4 - expected.shape[1]))).copy().view(np.uint32)[:, 0]
        assert np.array_equal(after[12 + i], expected if mask is None else np.where(mask, expected, 0))


def test_rz_stores_zeros_and_takes_nothing():
    world = World()
    world.fill_shared(np.full(64, 7))
    world.run("STS.128 [R2], RZ", {2: 16})
    assert world.memory.shared[1][:64].reshape(4, 16).any(axis=1).tolist() == [True, False, True, True]
    assert not world.run("LDS RZ, [R2]", {2: 0})[255].any()


def test_the_last_lane_wins_where_stores_meet():
    world = World()
    world.run("STS [R2], R8", {2: 8, 8: LANE})
    assert world.memory.shared[4][2] == 63


def test_copying_bits_through_memory_keeps_signalling_nans():
    world = World()
    world.run(
        "STS.128 [R2], R8\nLDS.128 R12, [R2]", {2: LANE * 16, 8: 0x7F800001, 9: 0x7FF00000, 10: 1, 11: 0xFFF00000}
    )
    after = world.run("LDS.128 R12, [R2]", {2: LANE * 16})
    assert [hex(x) for x in after[12:16, 5]] == ["0x7f800001", "0x7ff00000", "0x1", "0xfff00000"]


@pytest.mark.parametrize(
    ("address", "offset"),
    [
        ("[R2]", LANE * 4),
        ("[R2+0x10]", LANE * 4 + 16),
        ("[R3+-0x10]", LANE * 4),
        ("[R4.X4]", LANE * 4),
        ("[R4.X8+0x8]", LANE * 8 + 8),
        ("[R4.X16+UR4]", LANE * 16 + 32),
        ("[R2+UR4+0x4]", LANE * 4 + 36),
        ("[UR4]", LANE * 0 + 32),
        ("[UR4+0x4]", LANE * 0 + 36),
        ("[RZ]", LANE * 0),
        ("[0x28]", LANE * 0 + 40),
        ("[R2+URZ]", LANE * 4),
        ("[R5+0x20]", LANE * 4),
    ],
)
@pytest.mark.parametrize("base", [0, 0x400])
def test_shared_addresses_are_sums_that_wrap_and_are_recorded_from_the_cta_s_first_byte(address, offset, base):
    world = World(shared_base=base)
    data = random_bytes(4096)
    world.fill_shared(data)
    at = address if not base else address.replace("]", "+0x400]")
    registers = {2: LANE * 4, 3: LANE * 4 + 16, 4: LANE, 5: (LANE * 4 - 32) % (1 << 32)}
    after = world.run(f"LDS R8, {at}", registers, uniform={4: 32})
    assert np.array_equal(after[8], data.view(np.uint32)[offset // 4])
    assert world.recorded == [offset.tolist()]


@pytest.mark.parametrize(
    "address",
    [
        "[R2]",
        "[R2.64]",
        "[R4.64+0x20]",
        "[R4+0x20]",
        "[R6.64+-0x20]",
        "desc[UR8][R2.64]",
        "desc[UR8][R4.64+0x20]",
        "[R10.U32+UR4]",
        "[R11.U32+UR4+0x20]",
        "[R12.64+UR4]",
        "[R2.64+URZ]",
    ],
)
def test_global_addresses_are_64_bit_sums(address):
    world = World()
    data = np.arange(LANES, dtype=np.uint32)
    start = world.memory.add_buffer("argument 0", data)
    at = start + LANE * 4
    uniform = {4: start & 0xFFFFFFFF, 5: start >> 32}
    pairs = {2: at, 4: at - 32, 6: at + 32, 12: LANE * 4}
    after = world.run(
        f"LDG.E R20, {address}", {10: LANE * 4, 11: LANE * 4 - 32}, pairs, uniform=uniform, mask=LANE >= 8
    )
    assert after[20].tolist() == [0] * 8 + list(range(8, 64))


def test_a_uniform_global_address_is_one_for_all_lanes():
    world = World()
    start = world.memory.add_buffer("argument 0", np.array([3, 9], np.uint32))
    after = world.run("LDG.E.SYS R8, [UR4+0x4]", uniform={4: start & 0xFFFFFFFF, 5: start >> 32})
    assert set(after[8]) == {9}


@pytest.mark.parametrize(
    "sass",
    [
        "LDG R8, [R2]",
        "LDG.E R8, [R2+UR4]",
        "LDG.E R8, [R2.X4]",
        "LDG.E.GUESS R8, [R2.64]",
        "LDS R8, [R2.64]",
        "LDS.64.128 R8, [R2]",
        "LDS R8, [R2+R3]",
        "LDS.U16.H1 R8, [R2]",
        "LDG.E R8, P0, [R2.64]",
        "LDSM.16.M816.4 R8, [R2]",
        "LDC.128 R8, c[0x0][R2]",
        "LDC R8, c[0x9][0x10]",
        "LDC.IL R8, c[0x0][R2]",
        "MEMBAR.NEW.GPU",
        "QSPC.E.X P0, RZ, [R2]",
    ],
)
def test_forms_that_are_not_known_are_refused(sass):
    with pytest.raises(UnsupportedError):
        World().run(sass)


def test_modifiers_of_caching_and_order_change_nothing():
    world = World()
    start = world.memory.add_buffer("argument 0", np.array([5], np.uint32))
    for modifiers in (
        "CONSTANT",
        "CONSTANT.SYS",
        "EF",
        "STRONG.GPU",
        "EL.LTC128B.CONSTANT",
        "NA",
        "LU",
        "EU",
        "STRONG.SM",
    ):
        assert world.run(f"LDG.E.{modifiers} R8, [R2.64]", pairs={2: start})[8, 0] == 5


# -- several buffers ----------------------------------------------------------------------------------------


def test_lanes_may_reach_different_buffers_in_one_instruction():
    world = World()
    arrays = [RNG.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(3)]
    starts = np.array([world.memory.add_buffer(f"argument {i}", a) for i, a in enumerate(arrays)])
    which = RNG.integers(0, 3, LANES)
    mask = LANE % 5 != 0
    after = world.run("LDG.E R8, [R2.64]", pairs={2: starts[which] + LANE * 4}, mask=mask)
    expected = np.array([arrays[w][lane] for lane, w in enumerate(which)])
    assert np.array_equal(after[8], np.where(mask, expected, 0))
    world.run("STG.E [R2.64], R9", {9: LANE + 1}, {2: starts[which] + LANE * 4}, mask)
    for lane, w in enumerate(which):
        assert arrays[w][lane] == (lane + 1 if mask[lane] else expected[lane])


# -- generic addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [0, 0x400])
def test_generic_addresses_reach_shared_local_and_global_memory(base):
    world = World(shared_base=base)
    data = random_bytes(1024)
    world.fill_shared(data)
    frames(world.memory)[:] = data[:256][::-1]
    buffer = random_bytes(1024)
    start = world.memory.add_buffer("argument 0", buffer)
    third = LANE % 3
    address = np.choose(third, [start + LANE * 8, SHARED_WINDOW + base + LANE * 8, LOCAL_WINDOW + (LANE % 32) * 8])
    relative = np.choose(third, [start + LANE * 8, LANE * 8, LANE % 32 * 8])
    mask = LANE != 7
    after = world.run("LD.E.64 R8, [R2.64]", pairs={2: address}, mask=mask)
    for lane in LANE:
        source = (buffer, data, data[:256][::-1])[third[lane]]
        offset = (lane % 32 if third[lane] == 2 else lane) * 8
        expected = source[offset : offset + 8].tobytes() if mask[lane] else bytes(8)
        assert words_of(after, 8, 2)[lane] == expected
    assert world.recorded == [[int(a) if on else None for a, on in zip(relative, mask, strict=True)]]


def test_a_generic_store_marks_shared_memory_as_written():
    world = World()
    world.run("ST.E [R2.64], R8", {8: LANE}, {2: SHARED_WINDOW + LANE * 4})
    assert world.run("LDS R9, [R2]", {2: LANE * 4})[9].tolist() == LANE.tolist()


def test_qspc_tells_the_address_spaces_apart():
    world = World()
    address = np.choose(LANE % 3, [0x7F0000000000, SHARED_WINDOW + 4, LOCAL_WINDOW + 4])
    for letter, expected in (("S", LANE % 3 == 1), ("L", LANE % 3 == 2), ("G", LANE % 3 == 0), ("D", LANE % 3 == 1)):
        environment = surroundings(f"QSPC.E.{letter} P1, RZ, [R2]", memory=world.memory)
        registers = {2: address & 0xFFFFFFFF, 3: address >> 32}
        files = execute("", registers, environment=environment)
        assert files.predicates[1].tolist() == expected.tolist()


# -- what kernels must not do -------------------------------------------------------------------------------


def refused(world, *arguments, **more):
    with pytest.raises(ExecutionError) as caught:
        world.run(*arguments, **more)
    assert world.recorded == []
    return caught.value


def test_a_load_past_the_end_names_the_buffer_and_the_distance():
    world = World()
    start = world.memory.add_buffer("argument 1", np.zeros(1040, np.uint8))
    world.memory.add_buffer("argument 2", np.zeros(1040, np.uint8))
    error = refused(world, "LDG.E.128 R8, [R2.64]", pairs={2: start + LANE * 16 + 32})
    # Lane 63 would be the first past the end: 63 * 16 + 32 = 1040.
    assert error.lane == 63
    assert error.found == "a 16-byte load at 0x7f0000000410, 1 byte past the end of argument 1 (1040 bytes)"
    assert error.right == "Use an address up to 0x7f0000000400"


def test_an_access_may_not_cross_the_end_of_a_buffer():
    world = World()
    start = world.memory.add_buffer("argument 0", np.zeros(10, np.uint8))
    error = refused(world, "STG.E [R2.64], R8", pairs={2: start + 8})
    assert (error.lane, error.found) == (
        0,
        "a 4-byte store at 0x7f0000000008, 2 of its bytes past the end of argument 0 (10 bytes)",
    )


def test_an_access_before_a_buffer_is_refused_even_after_good_ones():
    world = World()
    world.memory.add_buffer("argument 0", np.zeros(8, np.uint8))
    start = world.memory.add_buffer("argument 1", np.zeros(64, np.uint8))
    sass = "LDG.E R8, [R2.64]"
    environment = surroundings(f"{sass}\nLDG.E R8, [R2.64+-0x40]", memory=world.memory)
    with pytest.raises(ExecutionError) as caught:
        execute("", {2: start & 0xFFFFFFFF, 3: start >> 32}, environment=environment)
    assert caught.value.found == f"a 4-byte load at {start - 64:#x}, 64 bytes before the start of argument 1 (64 bytes)"
    assert caught.value.right == f"Use an address from {start:#x} on"


def test_an_inactive_lane_may_hold_any_address():
    world = World()
    start = world.memory.add_buffer("argument 0", np.ones(4, np.uint32))
    address = np.where(LANE < 4, start + LANE * 4, 3)
    assert world.run("LDG.E R8, [R2.64]", pairs={2: address}, mask=LANE < 4)[8].tolist() == [1] * 4 + [0] * 60
    assert refused(World(), "LDG.E R8, [R2.64]", pairs={2: address}, mask=LANE == 4).lane == 4


def test_null_pointers_are_called_so():
    world = World()
    world.memory.add_buffer("argument 0", np.zeros(4))
    error = refused(world, "LDG.E R8, [R2.64+0x8]", pairs={2: 0})
    assert error.found == "a 4-byte load at 0x8, a null pointer plus 8 bytes"
    assert error.right == "Use an address in a buffer of the launch (argument 0)"


@pytest.mark.parametrize("address", [1 << 63, (1 << 63) + (1 << 40), (1 << 64) - (1 << 25), (1 << 64) - 256])
@pytest.mark.parametrize(
    "sass",
    ["LDG.E R8, [R2.64]", "STG.E [R2.64], R8", "LD.E R8, [R2.64]", "ATOMG.E.ADD.STRONG.GPU PT, R8, [R2.64], R8"],
)
def test_addresses_of_2_to_the_63_and_more_are_outside(sass, address):
    world = World()
    world.memory.add_buffer("argument 0", np.zeros(4))
    error = refused(world, sass, pairs={2: address + np.where(LANE == 7, np.uint64(0), np.uint64(4))})
    assert error.found.split(", ")[0].endswith(f" at {address + 4:#x}")
    assert error.fault.kind == "outside"


def test_an_offset_before_a_null_pointer_is_called_so():
    world = World()
    world.memory.add_buffer("argument 0", np.zeros(4))
    error = refused(world, "LDG.E R8, [R2.64]", pairs={2: (1 << 64) - 256})
    assert error.found == "a 4-byte load at 0xffffffffffffff00, a null pointer minus 256 bytes"


def test_a_launch_without_buffers_has_no_global_addresses():
    assert "(none)" in refused(World(), "STG.E [R2.64], R8", pairs={2: 1 << 40}).right


@pytest.mark.parametrize(("name", "window"), [("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)])
def test_ldg_does_not_take_generic_addresses_of_other_memory(name, window):
    error = refused(World(), "LDG.E R8, [R2.64]", pairs={2: window + 4})
    assert error.found == f"a 4-byte load at {window + 4:#x}, an address in {name} memory"


@pytest.mark.parametrize(
    ("sass", "found"),
    [
        ("LDG.E.64 R8, [R2.64+0x4]", "an 8-byte load at 0x7f0000000004 in argument 0"),
        ("STG.E.128 [R2.64+0x8], R8", "a 16-byte store at 0x7f0000000008 in argument 0"),
        ("LDG.E.U16 R8, [R2.64+0x1]", "a 2-byte load at 0x7f0000000001 in argument 0"),
        ("LDS.128 R8, [R4+0x4]", "a 16-byte load at byte 4 of shared memory"),
        ("STS.64 [R4+0x4], R8", "an 8-byte store at byte 4 of shared memory"),
        ("LDL R8, [R4+0x2]", "a 4-byte load at byte 2 of local memory"),
        ("LDSM.16.M88.4 R8, [R4+0x8]", "a 16-byte load at byte 8 of shared memory"),
    ],
)
def test_a_misaligned_access_is_refused(sass, found):
    world = World()
    world.fill_shared(np.zeros(4096))
    start = world.memory.add_buffer("argument 0", np.zeros(64, np.uint8))
    error = refused(world, sass, pairs={2: start})
    assert error.found == found
    assert error.right.startswith("expected a multiple of ")


@pytest.mark.parametrize(
    ("offset", "found", "right"),
    [
        (4096, "a 4-byte load at byte 4096 of shared memory, 1 byte past its end", "up to byte 4092"),
        (4093, "a 4-byte load at byte 4093 of shared memory, 1 of its bytes past its end", "up to byte 4092"),
        (-8, "a 4-byte load at 8 bytes before the start of shared memory, which starts at 0x400", "the 4096 bytes"),
    ],
)
def test_shared_accesses_stay_in_the_cta_s_shared_memory(offset, found, right):
    world = World(shared_base=0x400)
    world.fill_shared(np.zeros(4096))
    error = refused(world, "LDS R8, [R2]", {2: np.where(LANE == 9, 0x400 + offset, 0x400)})
    assert (error.lane, error.found) == (9, found)
    assert right in error.right


def test_a_kernel_without_shared_memory_has_none():
    error = refused(World(shared_bytes=0), "STS [R2], R8", {2: 0})
    assert "--dynamic-shared" in error.right


def test_reading_shared_memory_that_nobody_wrote_names_the_byte():
    world = World()
    world.run("STS.U16 [R2], R8", {2: LANE * 16}, mask=LANE != 3)
    world.run("STS.64 [R2+0x8], R8", {2: LANE * 16}, mask=(LANE != 5) & (LANE != 3))
    world.recorded.clear()
    error = refused(world, "LDS.128 R8, [R2]", {2: LANE * 16})
    assert (error.lane, error.found) == (
        3,
        "a 16-byte load at byte 48 of shared memory, which was never written by the CTA",
    )
    error = refused(world, "LDS.64 R8, [R2+0x8]", {2: LANE * 16}, mask=LANE != 3)
    assert (error.lane, error.found[-48:]) == (5, "shared memory, which was never written by the CTA"[-48:])
    world.run("STS.U16 [R2], R8", {2: LANE * 16})
    world.recorded.clear()
    error = refused(world, "LDS.U8 R8, [R2]", {2: 2})
    assert error.found == "a 1-byte load at byte 2 of shared memory, which was never written by the CTA"
    assert error.right == "Store to it first"
    assert world.run("LDS.U16 R8, [R2]", {2: LANE * 16}).shape == (256, LANES)


def test_the_bytes_between_the_members_of_a_structure_may_be_read_along():
    world = World()
    world.run("STS.U8 [R2], R8", {2: LANE * 16})
    for _ in range(2):  # which does not make them written
        assert world.run("LDS.128 R8, [R2]", {2: LANE * 16}).shape == (256, LANES)
    world.recorded.clear()
    assert "byte 1 of shared memory, which was never" in refused(world, "LDS.U8 R8, [R2+0x1]", {2: LANE * 16}).found
    world.run("STS.128 [R2], R8", {2: LANE * 16})
    assert world.run("LDS.U8 R8, [R2+0x1]", {2: LANE * 16}).shape == (256, LANES)


def test_local_memory_ends_where_the_frame_ends():
    world = World(local_bytes=20)
    world.run("STL [R2], R8", {2: 16})
    error = refused_after(world, "LDL R8, [R2]", {2: np.where(LANE == 3, 20, 0)})
    assert (error.lane, error.found) == (3, "a 4-byte load at byte 20 of local memory")
    assert error.right == "a lane has 20 bytes of local memory"


def refused_after(world, *arguments, **more):
    world.recorded.clear()
    return refused(world, *arguments, **more)


def test_a_store_that_is_refused_changes_nothing():
    world = World()
    array = np.zeros(4, np.uint32)
    start = world.memory.add_buffer("argument 0", array)
    refused(world, "STG.E [R2.64], R8", {8: 1}, {2: start + LANE * 4})
    assert not array.any()


# -- copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "size"), WIDTHS)
def test_ldgsts_copies_from_global_to_shared_memory(width, size):
    world = World(shared_base=0x400)
    data = random_bytes(1024)
    start = world.memory.add_buffer("argument 0", data)
    order = RNG.permutation(LANES)
    mask = random_mask()
    sass = f"LDGSTS.E.BYPASS.LTC128B{width} [R4+0x10], desc[UR4][R2.64]"
    world.run(sass, {4: 0x400 + order * size}, {2: start + LANE * size}, mask)
    for lane in LANE[mask]:
        at = order[lane] * size + 16
        assert world.memory.shared[1][at : at + size].tobytes() == data[lane * size :][:size].tobytes()
    assert world.memory.written[1].sum(dtype=int) == 255 * size * mask.sum()
    assert world.recorded == [[int(order[i]) * size + 16 if mask[i] else None for i in LANE]]
    assert world.sources == [(start + LANE[mask] * size).tolist()]


def test_lanes_whose_predicate_is_false_copy_zeros_and_do_not_read():
    world = World()
    data = np.arange(1, 33, dtype=np.uint32)
    start = world.memory.add_buffer("argument 0", data)
    world.run("LDGSTS.E [R4], [R2.64], !P0", {4: LANE * 4}, {2: start + LANE * 4}, predicates={0: LANE >= 32})
    assert world.memory.shared[4][:64].tolist() == [*range(1, 33), *[0] * 32]
    assert world.sources == [(start + LANE * 4).tolist()]
    world.run("LDGSTS.E [R4], [R2.64], P0", {4: LANE * 4}, {2: 0}, predicates={0: False})
    assert not world.memory.shared[4].any()


def test_a_copy_that_is_repeated_copies_zeros_where_it_no_longer_reads():
    """In a loop, with another predicate each time: nothing is left of the turn before."""
    world = World()
    start = world.memory.add_buffer("argument 0", np.arange(1, 65, dtype=np.uint32))
    environment = surroundings("LDGSTS.E [R4], [R2.64], P0", memory=world.memory)
    environment.record = lambda *_: None
    files = environment.lanes
    files.registers[4] = LANE * 4
    files.registers[2], files.registers[3] = (start + LANE * 4) & 0xFFFFFFFF, start >> 32
    copy = build(Site(environment.code[0], environment))
    for reads in (LANE % 2 == 0, LANE % 2 == 1):
        files.predicates[0] = reads
        copy(None)
        assert world.memory.shared[4][:64].tolist() == np.where(reads, LANE + 1, 0).tolist()


@pytest.mark.parametrize(("width", "size"), WIDTHS)
def test_zfill_takes_the_number_of_zero_bytes_from_the_low_address_bits(width, size):
    world = World()
    data = random_bytes(size * LANES)
    kept = RNG.integers(0, size + 1, LANES)
    kept[-1] = size - 1
    start = world.memory.add_buffer("argument 0", data[: size * LANES - 1])
    # The compiler adds (size - kept) mod size to the address, and asks whether any byte is kept.
    address = start + LANE * size + (size - kept) % size
    world.run(f"LDGSTS.E{width}.ZFILL [R4], [R2.64], P1", {4: LANE * size}, {2: address}, predicates={1: kept > 0})
    for lane in LANE:
        expected = data[lane * size :][: kept[lane]].tobytes() + bytes(size - kept[lane])
        assert world.memory.shared[1][lane * size :][:size].tobytes() == expected


def test_fences_and_waits_for_copies_do_nothing():
    world = World()
    for sass in (
        *("LDGDEPBAR", "DEPBAR.LE SB0, 0x1", "MEMBAR.SC.GPU", "MEMBAR.ALL.SYS", "ERRBAR"),
        *(
            "CCTL.IVALL",
            "CCTL.E.C.LDCU.IV.DEEP [UR8]",
            "CCTL.E.PF2 [R2+-0x80]",
            "CCTL.E.PML2 [R2]",
            "FENCE.VIEW.ASYNC.S",
        ),
    ):
        assert not world.run(sass).any()
    assert world.recorded == []


# -- matrices -----------------------------------------------------------------------------------------------


def matrix_offsets(count):
    rows = RNG.permutation(256)[:LANES].reshape(2, 32) * 16
    rows[:, 8 * count :] = 7  # not looked at
    return rows.reshape(-1)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldsm_gives_each_lane_its_elements_of_each_matrix(count, transposed):
    world = World(shared_base=0x400)
    data = random_bytes(4096)
    world.fill_shared(data)
    offsets = matrix_offsets(count)
    number = "" if count == 1 else f".{count}"
    after = world.run(f"LDSM.16.{'MT88' if transposed else 'M88'}{number} R8, [R2]", {2: offsets + 0x400})
    halves = data.view(np.uint16)
    for lane in LANE:
        warp, place = lane // 32 * 32, lane % 32
        for i in range(count):
            pair = []
            for j in range(2):
                row, column = place // 4, 2 * (place % 4) + j
                if transposed:
                    row, column = column, row
                pair.append(int(halves[offsets[warp + 8 * i + row] // 2 + column]))
            assert int(after[8 + i, lane]) == pair[0] | pair[1] << 16
    assert not after[8 + count].any()
    assert world.recorded == [offsets.tolist()]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_stsm_is_the_reverse_of_ldsm(count, transposed):
    world = World()
    offsets = matrix_offsets(count)
    values = {8 + i: RNG.integers(0, 1 << 32, LANES) for i in range(count)}
    form = f"16.{'MT88' if transposed else 'M88'}" + ("" if count == 1 else f".{count}")
    world.run(f"STSM.{form} [R2], R8", {2: offsets, **values})
    assert world.memory.written[1].sum(dtype=int) == 255 * 2 * count * 128
    after = world.run(f"LDSM.{form} R8, [R2]", {2: offsets})
    for number, value in values.items():
        assert np.array_equal(after[number], value)


def test_one_warp_alone_may_load_matrices():
    world = World()
    world.fill_shared(random_bytes(4096))
    offsets = matrix_offsets(4)
    whole = world.run("LDSM.16.M88.4 R8, [R2]", {2: offsets})
    half = world.run("LDSM.16.M88.4 R8, [R2]", {2: np.where(LANE < 32, 9999, offsets)}, mask=LANE >= 32)
    assert np.array_equal(half[8:12], np.where(LANE >= 32, whole[8:12], 0))


def test_a_matrix_access_needs_every_lane_of_the_warp():
    error = refused(World(), "LDSM.16.M88.4 R8, [R2]", {2: 0}, mask=LANE != 40)
    assert (error.lane, error.right) == (40, "Execute it with all 32 lanes of the warp")
    assert error.found == "a matrix access of warp 1 without its lane 8"


# -- constants ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("modifier", "size", "signed"), [*NARROW, ("", 4, False), (".64", 8, False)])
def test_ldc_reads_a_bank_at_a_register_s_offset(modifier, size, signed):
    data = random_bytes(256)
    world = World(constants={3: data})
    index = RNG.integers(0, (256 - 16) // size, LANES) * size
    after = world.run(f"LDC{modifier} R8, c[0x3][R2+0x10]", {2: index})
    again = world.run(f"LDC{modifier} R8, c[0x3][R2+-0x10]", {2: index + 32})
    fixed = world.run(f"LDC{modifier} R8, c[0x3][0x20]")
    for lane in LANE:
        value = int.from_bytes(data[index[lane] + 16 :][:size].tobytes(), "little", signed=signed) % (
            1 << max(32, 8 * size)
        )
        for result in (after, again):
            assert int(result[8, lane]) | int(result[9, lane]) << 32 == value
        value = int.from_bytes(data[32:][:size].tobytes(), "little", signed=signed) % (1 << max(32, 8 * size))
        assert int(fixed[8, lane]) | int(fixed[9, lane]) << 32 == value


def test_uldc_fills_uniform_registers():
    world = World(constants={0: np.arange(64, dtype=np.uint8)})
    environment = surroundings(
        "ULDC.64 UR4, c[0x0][0x8]\nULDC UR6, c[0x0][UR8]", memory=world.memory, constants=world.constants
    )
    uniform = execute("", uniform={8: 4}, environment=environment).uniform_registers
    assert [hex(x) for x in uniform[4:7, 33]] == ["0xb0a0908", "0xf0e0d0c", "0x7060504"]


@pytest.mark.parametrize(
    ("sass", "offset", "right"),
    [
        ("LDC R8, c[0x0][R2]", 64, "Stay within the 64 bytes of constant bank 0"),
        ("LDC.64 R8, c[0x0][R2]", 4, "expected a multiple of 8"),
    ],
)
def test_a_constant_outside_its_bank_is_refused(sass, offset, right):
    world = World(constants={0: np.zeros(64, np.uint8)})
    error = refused(world, sass, {2: np.where(LANE == 2, offset, 0)})
    assert (error.lane, error.right) == (2, right)
    world.run(sass, {2: np.where(LANE == 2, offset, 0)}, mask=LANE != 2)


def test_arrays_that_start_at_an_odd_host_address_work_too():
    world = World()
    host = np.zeros(1 + 16 * LANES, np.uint8)[1:]
    start = world.memory.add_buffer("argument 0", host)
    values = {8 + i: RNG.integers(0, 1 << 32, LANES) for i in range(4)}
    world.run("STG.E.128 [R2.64], R8", values, {2: start + LANE * 16})
    world.run("RED.E.ADD.STRONG.GPU [R2.64], R8", {8: 1}, {2: start + LANE * 16})
    after = world.run("LDG.E.64 R20, [R2.64]", pairs={2: start + LANE * 16})
    assert np.array_equal(after[20], (values[8] + 1).astype(np.uint32))
    assert np.array_equal(after[21], values[9])
