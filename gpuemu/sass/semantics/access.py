"""Loads and stores with global, shared, local and generic addresses, and copies from global to shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import COPY, LOAD, OP, SOURCE, STORE, TRUTH, TRUTHS
from gpuemu.sass.machine.lanes import Mask, every_lane
from gpuemu.sass.machine.memory.addresses import Addresses, address32, address64
from gpuemu.sass.machine.memory.generic import GenericSpace
from gpuemu.sass.machine.memory.spaces import EVERY, GlobalSpace, LocalSpace, Purpose, SharedSpace, Space
from gpuemu.sass.machine.memory.storage import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.recording.patterns import Indices, Place
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.encoded_access import encoded_access
from gpuemu.sass.semantics.lanewise import Columns, EncodedStep, truth
from gpuemu.trace.model import GLOBAL, ZEROS

ORDER = ("STRONG", "WEAK", "CONSTANT", "CTA", "SM", "GPU", "SYS", "VC", "MMIO", "PRIVATE")
"""Modifiers of memory ordering, which have no effect here, because every access is visible at once."""
CACHING = ("EF", "EL", "EU", "EN", "LU", "NA", "ENL2", "LTC64B", "LTC128B", "LTC256B")
"""Modifiers of how long caches keep the line."""
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
TWICE = "256"
"""The width of sm_100 that moves two times four registers, which two operands name."""
_TWICE_BYTES = 32
_SPACES: dict[str, type[Space]] = {
    "LDG": GlobalSpace, "STG": GlobalSpace, "LD": GenericSpace, "ST": GenericSpace,
    "LDS": SharedSpace, "STS": SharedSpace, "LDL": LocalSpace, "STL": LocalSpace,
}  # fmt: skip
_WIDE_ADDRESS = ("E", *ORDER, *CACHING)
_MODIFIERS: dict[str, tuple[str, ...]] = {
    "LDG": ("U", *_WIDE_ADDRESS), "STG": _WIDE_ADDRESS, "LD": _WIDE_ADDRESS, "ST": _WIDE_ADDRESS,
    "LDS": ("U",), "STS": (), "LDL": CACHING, "STL": CACHING,
}  # fmt: skip
"""Modifiers other than the width. The .U of sm_75's LDS and LDG does not change the value."""


def size_of(site: Site, *known: str) -> int:
    """Return the bytes that one lane moves; refuse modifiers other than widths and those in `known`."""
    site.only(*known, *WIDTHS)
    widths = [WIDTHS[m] for m in site.modifiers if m in WIDTHS]
    if len(widths) > 1:
        raise site.unsupported("more than one width")
    return widths[0] if widths else 4


def expect_operands(site: Site, *numbers: int) -> None:
    """Refuse the instruction if it has another number of operands."""
    if len(site.operands) not in numbers:
        raise site.unsupported(f"{len(site.operands)} operands are not understood")


def addresses_of(site: Site, k: int, space: Space) -> Addresses:
    """Return the addresses of operand k in the form that the space expects."""
    if isinstance(space, GlobalSpace | GenericSpace):
        return address64(site, k)
    return address32(site, k, site.environment.memory.shared_base if isinstance(space, SharedSpace) else 0)


PutUnits = Callable[[Any, Indices | None], None]
"""Accepts a unit for each of the given lanes, or for all lanes if they are None."""


def put_units(site: Site, k: int, size: int) -> PutUnits:
    """Return a function that stores units of 4, 8 or 16 bytes in the registers from operand k on."""
    file, number = site.register(k)
    count = size // 4
    if number == len(file) - 1:
        return lambda values, lanes: None
    if file is site.lanes.uniform_registers:
        raise site.unsupported("a uniform register cannot be the destination of a load")
    rows = file[number : number + count]
    if count == 1:
        row = rows[0]

        def put_one(values: Any, lanes: Indices | None) -> None:
            row[EVERY if lanes is None else lanes] = values

        return put_one

    def put(values: Any, lanes: Indices | None) -> None:
        words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, count).T
        if lanes is None:
            rows[...] = words
        else:
            rows[:, lanes] = words

    return put


GetUnits = Callable[..., NDArray[Any]]
"""Returns a unit for each of the given lanes, or for all lanes by default. The units are valid until the next call."""


def get_units(site: Site, k: int, size: int) -> GetUnits:
    """Return the registers from operand k on as units of `size` bytes."""
    every = _every_unit(site, k, size)
    return lambda lanes=None: every() if lanes is None else every()[lanes]


def _every_unit(site: Site, k: int, size: int) -> Callable[[], NDArray[Any]]:
    file, number = site.register(k)
    lanes = site.lanes.count
    if number == len(file) - 1:
        zero = np.zeros(lanes, dtype=UNITS[size])
        return lambda: zero
    row = file[number]
    if size == 4:
        return lambda: row
    if size < 4:
        low = row.view(UNITS[size])[:: 4 // size]  # little-endian, as all views here
        return lambda: low
    count = size // 4
    rows = file[number : number + count]
    words = np.empty((lanes, count), dtype=np.uint32)
    units = words.view(UNITS[size])[:, 0]
    columns = words.T

    def get() -> NDArray[Any]:
        columns[...] = rows
        return units

    return get


def extended(site: Site, size: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the extension of loaded units narrower than a register: S8 and S16 extend the sign, U8 and U16 zeros."""
    if size >= 4:
        return lambda values: values
    if site.has("S8", "S16"):
        signed = np.int8 if size == 1 else np.int16
        return lambda values: values.view(signed).astype(np.int32).view(np.uint32)
    return lambda values: values.astype(np.uint32)


@semantics("LDG", "LD", "LDS", "LDL")
def load(site: Site) -> Step:
    """Rd = memory at the address of operand 2; .64 and .128 fill two and four registers."""
    if site.mnemonic == "LDG" and site.has(TWICE):
        return _load_twice(site)
    expect_operands(site, 2)
    size = size_of(site, *_MODIFIERS[site.mnemonic])
    space = _SPACES[site.mnemonic](site, size, Purpose.LOAD)
    addresses = addresses_of(site, 1, space)
    extend = extended(site, size)
    put = put_units(site, 0, max(size, 4))

    def step(mask: Mask) -> None:
        place = addresses.of(mask)
        values = space.load(place)
        space.record(place, mask)
        put(extend(values), place.pattern.lanes)

    return EncodedStep(step, encoded_access(site, LOAD, 1, 0, space, int(site.has("S8", "S16"))))


@semantics("STG", "ST", "STS", "STL")
def store(site: Site) -> Step:
    """Memory at the address of operand 1 = Rs; .U8 and .U16 store its low bits."""
    if site.mnemonic == "STG" and site.has(TWICE):
        return _store_twice(site)
    expect_operands(site, 2)
    size = size_of(site, *_MODIFIERS[site.mnemonic])
    space = _SPACES[site.mnemonic](site, size, Purpose.STORE)
    addresses = addresses_of(site, 0, space)
    values = get_units(site, 1, size)

    def step(mask: Mask) -> None:
        place = addresses.of(mask)
        lanes = place.pattern.lanes
        space.store(place, values(lanes))
        space.record(place, mask)

    return EncodedStep(step, encoded_access(site, STORE, 0, 1, space))


def _load_twice(site: Site) -> Step:
    """LDG.E.ENL2.256 Rd, Re, [address]: the upper half to the registers from Rd on, the lower half to those from Re."""
    expect_operands(site, 3)
    site.only(TWICE, *_MODIFIERS["LDG"])
    space = GlobalSpace(site, _TWICE_BYTES, Purpose.LOAD)
    addresses, half = address64(site, 2), _TWICE_BYTES // 2
    puts = [put_units(site, k, half) for k in (1, 0)]

    def step(mask: Mask) -> None:
        place = addresses.of(mask)
        values = np.ascontiguousarray(space.load(place)).view(UNITS[half]).reshape(-1, len(puts))
        space.record(place, mask)
        for k, put in enumerate(puts):
            put(values[:, k], place.pattern.lanes)

    return step


def _store_twice(site: Site) -> Step:
    """STG.E.ENL2.256 [address], Rs, Rt: the lower half from Rs on, the upper half from Rt on."""
    expect_operands(site, 3)
    site.only(TWICE, *_MODIFIERS["STG"])
    space = GlobalSpace(site, _TWICE_BYTES, Purpose.STORE)
    addresses, half = address64(site, 0), _TWICE_BYTES // 2
    gets = [get_units(site, k, half) for k in (1, 2)]

    def step(mask: Mask) -> None:
        place = addresses.of(mask)
        lanes = place.pattern.lanes
        values = np.stack([get(lanes) for get in gets], axis=1).reshape(-1).view(UNITS[_TWICE_BYTES])
        space.store(place, values)
        space.record(place, mask)

    return step


@semantics("LDGSTS")
def copy(site: Site) -> Step:
    """LDGSTS [shared], [global] {, Pz}: copy immediately, so later LDGDEPBAR and DEPBAR need not wait.

    Lanes whose Pz is false receive zeros and do not read. With .ZFILL, the low bits of the global address are not part
    of it. They give the number of bytes at the end that become zero. (The compiler converts the byte count of cp.async
    to these bits, and a count of 0 to a false Pz.)
    """
    expect_operands(site, 2, 3)
    size = size_of(site, "E", "BYPASS", "ACCESS", "ZFILL", *ORDER, *CACHING)
    if size < 4:
        raise site.unsupported("copies of less than 4 bytes are not understood")
    source = GlobalSpace(site, size, Purpose.LOAD)
    target = SharedSpace(site, size, Purpose.STORE)
    at_source, at_target = addresses_of(site, 1, source), addresses_of(site, 0, target)
    reads = site.predicate(2) if len(site.operands) == 3 else None
    partial = _PartialLoad(site, size) if site.has("ZFILL") else None
    words = np.zeros((site.lanes.count, size // 4), dtype=np.uint32)
    values = words.view(UNITS[size])[:, 0]

    def step(mask: Mask) -> None:
        place = at_target.of(mask)
        lanes = place.pattern.lanes
        reading = mask
        if reads is not None:
            reading = reads() if mask is None else reads() & mask
            if every_lane(reading if mask is None else reading == mask):
                reading = mask
        read = at_source.of(reading)
        if partial is not None and (read.base | read.pattern.bits) & (size - 1):
            loaded = partial.load(read)
        else:
            loaded = source.load(read)
        if reading is mask:
            target.store(place, loaded)
            site.environment.record(place, mask, 0, read)
            return
        words.fill(0)
        values[read.pattern.lanes] = loaded
        target.store(place, values if lanes is None else values[lanes])
        zeros = np.full(site.lanes.count, ZEROS, np.uint8)
        zeros[read.pattern.lanes] = GLOBAL
        site.environment.record(place, mask, zeros if lanes is None else zeros[lanes], at_source.of(mask))

    encoded = _encoded_copy(site, target, source)
    return step if encoded is None else EncodedStep(step, encoded)


def _encoded_copy(site: Site, target: SharedSpace, source: GlobalSpace) -> Columns | None:
    """A copy as numbers; None if those cannot say which lanes read."""
    found = encoded_access(site, COPY, 0, 0, target)
    for column, value in encoded_access(site, COPY, 1, 1, source).items():
        if column != OP:
            found[column + SOURCE] = value
    if len(site.operands) == 3:
        place = truth(site, 2).place
        if place is None:
            return None
        found |= {TRUTHS: 1, TRUTH: 4 * place.row + place.decorations}
    return found


class _PartialLoad:
    """Loads units whose last bytes may be zeros instead; the low bits of the address give their number."""

    def __init__(self, site: Site, size: int):
        self.size = size
        self.lanes = site.lanes.count
        self.patterns = site.environment.patterns
        self.byte = GlobalSpace(site, 1, Purpose.LOAD)

    def load(self, place: Place) -> NDArray[Any]:
        """Return the unit at each address, in the order of the place's lanes."""
        addresses = place.addresses(64)
        lanes = np.arange(self.lanes) if place.pattern.lanes is None else place.pattern.lanes
        zeros = addresses & np.uint64(self.size - 1)
        starts = addresses - zeros
        # Only copied bytes may be read, because the rest may be outside the buffer.
        read = np.zeros((len(addresses), self.size), dtype=np.uint8)
        for byte in range(self.size):
            here = np.flatnonzero(zeros < self.size - byte)
            mask = np.zeros(self.lanes, dtype=np.bool_)
            mask[lanes[here]] = True
            bytes_at = self.patterns.place(starts[here] + np.uint64(byte), lanes[here], mask.tobytes())
            read[here, byte] = self.byte.load(bytes_at)
        return read.view(UNITS[self.size])[:, 0]
