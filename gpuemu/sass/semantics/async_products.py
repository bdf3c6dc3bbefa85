"""Products of sm_100 in tensor memory (PTX: tcgen05.mma), and the barriers that learn of their end (tcgen05.commit).

    UTCHMMA[.2CTA] gdesc[UR6], gdesc[UR8], tmem[UR11], tmem[UR4], idesc[UR5], UP0 [, 0x3]
    UTCQMMA tmem[UR10], gdesc[UR8], tmem[UR11], tmem[UR4], idesc[UR5], tmem[UR12], UPT
    UTCBAR[.2CTA][.MULTICAST] [UR4], URZ [, UR6]

The operands are A, B, D, metadata of a sparse A, the instruction descriptor, either scales (UR12 those of A, UR13 those
of B) or a mask of lanes that keep their D, and whether D counts as an addend. A number after it scales that addend by
2^-n. UTCHMMA multiplies f16, bf16 and tf32, UTCQMMA narrow floats, UTCIMMA bytes, UTCOMMA packed floats of 4 bits.

A product multiplies 32 bytes of each row. It reads when it executes, so the barrier of a UTCBAR learns of its end at
once. Without .2CTA, row r of 128 is in lane r, and row r of 64 in lane r % 16 + 32 (r / 16). With .2CTA, each CTA of
the pair has half of the rows of A and half of the columns of B. With 128 rows, lanes 64 to 127 have the upper half of
the columns. Packed scales are bytes of tensor memory: row r has lane r % 32, column r / 32.

The sums are those of mma.sync with the same types. Source: the PTX manual, chapter tcgen05; MMA-Sim for the sums.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa import instruction_descriptor
from gpuemu.isa.fragments import MmaMode, float_mode, mma_mode
from gpuemu.isa.instruction_descriptor import A_BYTES, BITS, InstructionDescriptor
from gpuemu.sass.machine import clusters
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.machine.shared_matrices import Matrix, shared_matrix, unpacked
from gpuemu.sass.machine.tensor_memory import LANES, TensorMemory, tell, tensor_memory_of
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import Uniform
from gpuemu.sass.semantics.mbarriers import arrived_90
from gpuemu.tensor.mma import mma_registers
from gpuemu.tensor.scaled import decode_scales, scaled_product
from gpuemu.trace.events import ELSEWHERE

_ROWS, _COLUMNS = 16, 8
_HINTS = {"A_REUSE", "A_KEEP", "B_REUSE", "B_KEEP", "BUFFER1", "BUFFER2", "BUFFER3"}
_NARROW_BITS = {"e2m1": 4, "e3m2": 6, "e2m3": 6}
_SCALE = re.compile(r"0x[0-9a-f]\Z")
Words = NDArray[np.uint32]
Index = NDArray[np.int64]


class _Operand(NamedTuple):
    """A uniform register that an operand names in brackets, and the word before them: gdesc, tmem or idesc."""

    prefix: str
    register: int


def _operand(site: Site, k: int) -> _Operand:
    operand = site.operands[k]
    inside = operand.brackets[0] if len(operand.brackets) == 1 else None
    register = None if inside is None else inside.of("UR")
    if inside is None or register is None or inside.number or inside.unknown or set(operand.suffixes) - _HINTS:
        raise site.unsupported(f"the operand {operand.text}")
    return _Operand(operand.prefix, register.number)


class _Product:
    """One instruction: where its operands are."""

    def __init__(self, site: Site):
        site.only("2CTA", "4X")
        self.site, self.uniform, self.pair = site, Uniform(site), site.has("2CTA")
        operands = [_operand(site, k) for k in range(5)]
        if [o.prefix for o in operands[1:]] != ["gdesc", "tmem", "tmem", "idesc"] or operands[0].prefix == "idesc":
            raise site.unsupported("the order of its operands")
        self.a, self.b, self.d, _, self.descriptor = operands
        rest = list(range(5, len(site.operands)))
        self.scales = self.mask = -1
        if rest and site.operands[rest[0]].prefix == "tmem":
            self.scales = _operand(site, rest.pop(0)).register
        elif rest and not site.is_predicate(rest[0]):
            named = site.operands[rest.pop(0)].register
            if named is None or named.file != "UR":
                raise site.unsupported("the mask of its lanes")
            self.mask = -1 if named.is_constant else named.number
        if not rest or not site.is_predicate(rest[0]):
            raise site.unsupported("the predicate of its addend is missing")
        self.adds: Getter = site.predicate(rest.pop(0))
        self.shift = 0
        if rest and _SCALE.match(site.operands[rest[0]].text):
            self.shift = int(site.operands[rest.pop(0)].text, 16)
        if rest or (site.mnemonic == "UTCOMMA" and self.scales < 0):
            raise site.unsupported("its operands")

    def step(self, mask: Mask) -> None:
        """Multiply once for each warp of the mask."""
        adds = np.broadcast_to(self.adds(), (self.site.lanes.count,))
        for lane in self.uniform.lanes(mask):
            self._multiply(lane, bool(adds[lane]))

    def _multiply(self, lane: int, adds: bool) -> None:
        site, memory = self.site, self.site.environment.memory
        word = self.uniform.word(self.descriptor.register, lane)
        site.environment.event(lane // WARP, descriptor=word)
        said = instruction_descriptor.decode(word, site.mnemonic, self.scales >= 0)
        ranks = [memory.rank & ~1, memory.rank | 1] if self.pair else [memory.rank]
        if said is None or not _exists(said, len(ranks), self.scales >= 0):
            found = f"the instruction descriptor {word:#010x}"
            raise ExecutionError(site.instruction, lane, found, "Use a shape and types that tcgen05.mma has")
        if said.sparse:
            raise site.unsupported("a sparse product")
        if self.pair and memory.cluster is None:
            raise clusters.refusal(site, 1)
        rows, columns = said.m // len(ranks), said.n // len(ranks)
        b = np.concatenate([self._shared(said, 1, lane, rank, columns) for rank in ranks])
        lanes, places = layout(rows, said.n, self.pair)
        for number, rank in enumerate(ranks):
            tensor = tensor_memory_of(site, rank)
            at = self.uniform.word(self.d.register, lane)
            first, found_columns = tensor.places(site, lane, at, places)
            where = first + lanes, found_columns
            if adds or self.mask >= 0:
                tell(site, lane, rank, "load", *where)
            c = tensor.cells[where] if adds else np.zeros((rows, said.n), np.uint32)
            if self.shift:
                c = _scaled_addend(c, said.accumulator, self.shift)
            a = self._a(said, lane, rank, rows, tensor)
            scales = self._scales(said, lane, rank, (rows, said.n)) if self.scales >= 0 else None
            d = _sums(site, said, a, b, c, scales)
            if self.mask >= 0:
                d = np.where(self._disabled(lane, number)[where[0]], tensor.cells[where], d)
            tell(site, lane, rank, "store", *where)
            tensor.cells[where] = d

    def _disabled(self, lane: int, number: int) -> NDArray[np.bool_]:
        """Return the lanes of a CTA of the pair whose D stays."""
        words = [self.uniform.word(self.mask + 4 * number + k, lane) for k in range(LANES // WARP)]
        return np.array([words[one // WARP] >> one % WARP & 1 for one in range(LANES)], np.bool_)

    def _shared(self, said: InstructionDescriptor, side: int, lane: int, rank: int, count: int) -> Matrix:
        """Return rows of A (side 0) or columns of B (side 1), [count, k], from the shared memory of a CTA."""
        kind, across = said.types[side], said.transposed[side]
        narrow = _NARROW_BITS.get(kind, 8) if self.site.mnemonic == "UTCQMMA" else 8
        if across and (narrow < 8 or self.site.mnemonic == "UTCOMMA"):
            raise self.site.unsupported("a transposed matrix of floats of 4 or 6 bits")
        size = BITS.get(kind, 8) // 8
        descriptor = self.uniform.wide((self.a, self.b)[side].register, lane)
        found = shared_matrix(self.site, lane, rank, descriptor, (count, A_BYTES // size), size, across)
        if narrow < 8:
            found = unpacked(found.astype(np.uint8, copy=False), narrow)
        return self._signed(said, side, found)

    def _a(self, said: InstructionDescriptor, lane: int, rank: int, rows: int, tensor: TensorMemory) -> Matrix:
        """Return A [rows, k] of a CTA, from shared memory or from tensor memory."""
        if self.a.prefix == "gdesc":
            return self._shared(said, 0, lane, rank, rows)
        if said.transposed[0]:
            raise self.site.unsupported("a transposed A in tensor memory")
        address = self.uniform.word(self.a.register, lane)
        first, columns = tensor.places(self.site, lane, address, np.arange(A_BYTES // 4))
        lanes, _ = layout(rows, 1, False) if not self.pair else (np.arange(rows)[:, None], columns)
        tell(self.site, lane, rank, "load", first + lanes, columns[None])
        words = np.ascontiguousarray(tensor.cells[first + lanes, columns[None]])
        found: Matrix = words.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[BITS.get(said.types[0], 8) // 8])
        return self._signed(said, 0, found)

    def _signed(self, said: InstructionDescriptor, side: int, found: Matrix) -> Matrix:
        """Return the elements with their sign changed, if the descriptor says so."""
        if not said.negative[side]:
            return found
        if said.accumulator == "s32":
            raise self.site.unsupported("a negative matrix of integers")
        if self.site.mnemonic == "UTCOMMA":
            return found ^ np.uint8(0x88)
        sign = {"e2m1": 0x20, "e3m2": 0x20, "e2m3": 0x20}.get(said.types[side], 1 << BITS.get(said.types[side], 8) - 1)
        return found ^ found.dtype.type(sign)

    def _scales(
        self, said: InstructionDescriptor, lane: int, rank: int, shape: tuple[int, int]
    ) -> tuple[Matrix, Matrix]:
        """Return the bytes of the scales of the rows of A and of the columns of B: [rows, parts] and [n, parts]."""
        parts = 1 if self.site.mnemonic == "UTCQMMA" else 4 if self.site.has("4X") else 2
        tensor = tensor_memory_of(self.site, rank)
        found = []
        for side, count in enumerate(shape):
            byte = said.scale_bytes[side] if parts < 4 else 0
            if byte % parts:
                told = f"the byte {byte} as the first of {parts} scales"
                raise ExecutionError(self.site.instruction, lane, told, f"expected a multiple of {parts}")
            address, line = self.uniform.word(self.scales + side, lane), np.arange(count)
            first, columns = tensor.places(self.site, lane, address, line // WARP)
            tell(self.site, lane, rank, "load", first + line % WARP, columns)
            words = tensor.cells[first + line % WARP, columns]
            found.append((words[:, None] >> (8 * (byte + np.arange(parts))).astype(np.uint32)).astype(np.uint8))
        return found[0], found[1]


def _exists(said: InstructionDescriptor, ctas: int, scaled: bool) -> bool:
    """Whether there is a product of this shape."""
    shapes = {1: (64, 128), 2: (128, 256)}[ctas]
    step = 8 if ctas == 1 and said.m == 64 else 16
    return said.m in shapes and not (scaled and said.m < 128) and 0 < said.n <= 256 and said.n % step == 0


@lru_cache(maxsize=64)
def layout(rows: int, columns: int, pair: bool) -> tuple[Index, Index]:
    """Return the lanes and the columns of D of one CTA, each [rows, columns]; see the head of the file."""
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if pair and rows == LANES // 2:
        half = columns // 2
        found = row + rows * (column // half), column % half + 0 * row
    elif rows == LANES // 2:
        found = row % 16 + WARP * (row // 16) + 0 * column, column + 0 * row
    else:
        found = row + 0 * column, column + 0 * row
    return found[0], found[1]


def _scaled_addend(c: Words, accumulator: str, shift: int) -> Words:
    """Return C x 2^-shift, rounded to nearest."""
    if accumulator == "f32":
        return np.ldexp(c.view(np.float32), -shift).view(np.uint32)
    halves = np.ldexp(c.astype(np.uint16).view(np.float16), -shift)
    return halves.astype(np.float16).view(np.uint16).astype(np.uint32)


def _mode(said: InstructionDescriptor) -> MmaMode:
    """Return the mma.sync that does the same with 16 rows and 8 columns."""
    k = A_BYTES * 8 // BITS.get(said.types[0], 8)
    if said.accumulator == "s32":
        return mma_mode(f"m16n8k{k}.s32.{said.types[0]}.{said.types[1]}" + ".sat" * said.saturates)
    return float_mode(k, said.accumulator, said.types)


def _sums(
    site: Site, said: InstructionDescriptor, a: Matrix, b: Matrix, c: Words, scales: tuple[Matrix, Matrix] | None
) -> Words:
    """Return D [rows, n] as cells of tensor memory, from A [rows, k], B [n, k] and the cells of C."""
    numerics, high, wide = site.environment.arch.tensor_core.numerics, len(a) // _ROWS, len(b) // _COLUMNS
    tiles = c.reshape(high, _ROWS, wide, _COLUMNS).swapaxes(1, 2)
    left, right = a.reshape(high, _ROWS, -1), b.reshape(wide, _COLUMNS, -1).swapaxes(1, 2)
    if scales is None:
        mode = _mode(said)
        of_a = np.broadcast_to(mode.a.scatter(left)[:, None], (high, wide, mode.a.registers, WARP))
        of_b = np.broadcast_to(mode.b.scatter(right)[None], (high, wide, mode.b.registers, WARP))
        words = mma_registers(numerics, mode, of_a, of_b, mode.c.scatter(tiles))
        d: Any = mode.c.gather(words).astype(np.uint32)
    else:
        packed = site.mnemonic == "UTCOMMA"
        if packed:
            left, right = _nibbles(left), _nibbles(right.swapaxes(1, 2)).swapaxes(1, 2)
        kind = "ue8m0" if said.powers_of_two else "ue4m3"
        scales_a = scales[0].reshape(high, _ROWS, -1).transpose(2, 0, 1)[..., None]
        scales_b = scales[1].reshape(wide, _COLUMNS, -1).transpose(2, 0, 1)[:, :, None]
        d = np.empty(tiles.shape, np.uint32)
        for i in range(high):
            here = np.repeat(left[i : i + 1], wide, axis=0), right, np.ascontiguousarray(tiles[i])
            factors = (
                decode_scales(kind, np.repeat(scales_a[:, i : i + 1], wide, axis=1)),
                decode_scales(kind, scales_b),
            )
            d[i] = scaled_product(numerics, said.types, *here, factors, packed)
    result: Words = d.swapaxes(1, 2).reshape(c.shape)
    return result


def _nibbles(packed: Matrix) -> Matrix:
    """Return two numbers of 4 bits for each byte of the last axis, lower one first, at their position in a byte."""
    both = np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1).astype(np.uint8)
    return (both << np.uint8(2)).reshape(*packed.shape[:-1], -1)


@semantics("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA")
def product(site: Site) -> Step:
    """Multiply matrices in shared or tensor memory; see the head of the file."""
    return _Product(site).step


@semantics("UTCBAR")
def commit(site: Site) -> Step:
    """UTCBAR[.2CTA][.MULTICAST] [UR], URZ [, UR]: arrive once at an mbarrier when all products so far have ended.

    .MULTICAST: at the mbarriers at the same place in the CTAs of a mask.
    """
    site.only("2CTA", "MULTICAST")
    many = site.has("MULTICAST")
    barrier = _operand(site, 0)
    if barrier.prefix or len(site.operands) != 2 + many or site.operands[1].core != "URZ":
        raise site.unsupported("this form of UTCBAR")
    mask_of = site.raw(2) if many else None
    uniform, memory = Uniform(site), site.environment.memory

    def step(mask: Mask) -> None:
        masks = None if mask_of is None else np.broadcast_to(mask_of(), (site.lanes.count,))
        for lane in uniform.lanes(mask):
            address = uniform.word(barrier.register, lane)
            ranks = [clusters.whose(address)] if masks is None else list(clusters.ranks_of(int(masks[lane])))
            if memory.cluster is None:
                ranks = [memory.rank if rank == 0 else rank for rank in ranks]
            place = (address & clusters.INSIDE) - memory.shared_base
            for rank in ranks:
                _arrive(site, lane, rank, place)
            site.environment.event(lane // WARP, **(
                {"barrier": place, "arrivals": 1} if memory.rank in ranks else {"barrier": ELSEWHERE}
            ))  # fmt: skip

    return step


def _arrive(site: Site, lane: int, rank: int, place: int) -> None:
    """Arrive once at the mbarrier at this byte of a CTA's shared memory."""
    memory = site.environment.memory
    if place < 0 or place % 8 or place + 8 > memory.shared_bytes:
        found = f"an mbarrier at byte {place} of shared memory"
        raise ExecutionError(site.instruction, lane, found, "Use 8 bytes of shared memory, at a multiple of 8")
    words = memory.shared[8]
    if rank != memory.rank:
        if memory.cluster is None:
            raise clusters.refusal(site, rank)
        words = clusters.part_of(memory.cluster.shared, rank, site)[0][8]
        memory.cluster.changes += 1
        site.environment.told(lane // WARP, rank, place, 1, 0)
    after = arrived_90(int(words[place // 8]), 1, 0)
    if after is None:
        found = "more arrivals than the phase of the mbarrier expects"
        right = "Arrive as many times as the mbarrier was initialized for"
        raise ExecutionError(site.instruction, lane, found, right)
    words[place // 8] = after
    if site.environment.observer is not None:
        site.environment.observer.completes(site, place, lane, rank)
