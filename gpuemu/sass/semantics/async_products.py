"""Products of sm_100 in tensor memory (PTX: tcgen05.mma), and the barriers that learn of their end (tcgen05.commit).

    UTCHMMA[.2CTA] gdesc[UR6], gdesc[UR8], tmem[UR11], tmem[UR4], idesc[UR5], UP0 [, 0x3]
    UTCQMMA tmem[UR10], gdesc[UR8], tmem[UR11], tmem[UR4], idesc[UR5], tmem[UR12], UPT
    UTCHMMA.WS gdesc[UR6], gdesc[UR8].B_KEEP.BUFFER1, tmem[UR11], tmem[UR4], idesc[UR5], UR12, UP0
    UTCBAR[.2CTA][.MULTICAST] [UR4], URZ [, UR6]

The operands are A, B, D, metadata of a sparse A, the instruction descriptor, either scales (UR12 those of A, UR13 those
of B) or a mask of lanes that keep their D, and whether D counts as an addend. A number after it scales that addend by
2^-n. UTCHMMA multiplies f16, bf16 and tf32, UTCQMMA narrow floats, UTCIMMA bytes, UTCOMMA packed floats of 4 bits.
With .WS (weight-stationary) the mask is that of columns of B which count as zero (`isa.column_mask`).

A product multiplies 32 bytes of each stored row. It reads when it executes, so the barrier of a UTCBAR learns of its
end at once, and buffers that keep A or B have its current values. With .2CTA, each CTA of the pair has half of the rows
of A and half of the columns of B. `isa.tensor_layouts` has the lanes of D, of A and of metadata. Packed scales are
bytes of tensor memory: row r has lane r % 32, column r / 32.

.ASHIFT moves A in tensor memory one row down when it was multiplied: row r gets row r + 1, but the last of each 32
lanes stays.

The sums are those of mma.sync with the same types. Source: the PTX manual, chapter tcgen05; MMA-Sim for the sums; an
example of CUTLASS, tested on a B200 by its authors, for .ASHIFT.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa import column_mask, instruction_descriptor
from gpuemu.isa.column_mask import ColumnMask
from gpuemu.isa.fragments import Index
from gpuemu.isa.instruction_descriptor import A_BYTES, BITS, InstructionDescriptor
from gpuemu.isa.tensor_layouts import METADATA_COLUMNS, TensorLayout, layout_of, metadata_lanes, result_places
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.shared_matrices import Matrix, shared_matrix, unpacked
from gpuemu.sass.machine.memory.tensor_memory import LANES, TensorMemory, shift_down, tell, tensor_memory_of
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.async_sums import Factors, scaled_addend, sums
from gpuemu.sass.semantics.bulk import Uniform
from gpuemu.sass.semantics.mbarriers import arrived_90
from gpuemu.tensor.sparse import chosen_by
from gpuemu.trace.events import ELSEWHERE

_HINTS = {"A_REUSE", "A_KEEP", "B_REUSE", "B_KEEP", "BUFFER1", "BUFFER2", "BUFFER3"}
_NARROW_BITS = {"e2m1": 4, "e3m2": 6, "e2m3": 6}
_SCALE = re.compile(r"0x[0-9a-f]\Z")


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
        site.only("2CTA", "4X", "BLOCK16", "WS", "ASHIFT")
        self.site, self.uniform, self.pair = site, Uniform(site), site.has("2CTA")
        self.stationary = site.has("WS")
        operands = [_operand(site, k) for k in range(5)]
        if [o.prefix for o in operands[1:]] != ["gdesc", "tmem", "tmem", "idesc"] or operands[0].prefix == "idesc":
            raise site.unsupported("the order of its operands")
        self.a, self.b, self.d, self.metadata, self.descriptor = operands
        if site.has("ASHIFT") and (self.a.prefix != "tmem" or self.stationary):
            raise site.unsupported("a shift of this A")
        rest = list(range(5, len(site.operands)))
        self.scales = self.mask = -1
        if rest and site.operands[rest[0]].prefix == "tmem":
            self.scales = _operand(site, rest.pop(0)).register
        elif rest and not site.is_predicate(rest[0]):
            named = site.operands[rest.pop(0)].register
            if named is None or named.file != "UR":
                raise site.unsupported("the mask of its columns" if self.stationary else "the mask of its lanes")
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
        ranks = [memory.rank & ~1, memory.rank | 1] if self.pair else [memory.rank]
        said = self._described(lane, word, len(ranks))
        if self.pair and memory.cluster is None:
            raise clusters.refusal(site, 1)
        layout = layout_of(said.m, len(ranks), self.stationary, said.sparse)
        zero = self._zero_columns(said, lane, layout)
        b = np.concatenate([self._b(said, lane, rank, said.n // len(ranks), zero) for rank in ranks])
        lanes, places = result_places(layout, said.n)
        for number, rank in enumerate(ranks):
            tensor = tensor_memory_of(site, rank)
            at = self.uniform.word(self.d.register, lane)
            first, found_columns = tensor.places(site, lane, at, places)
            self._starts(lane, layout, first, "D")
            where = first + lanes, found_columns
            changed = self._changed(lane, number)[where[0]]
            if adds:
                tell(site, lane, rank, "load", where[0][changed], where[1][changed])
            c = tensor.cells[where] if adds else np.zeros(lanes.shape, np.uint32)
            if self.shift:
                c = scaled_addend(c, said.accumulator, self.shift)
            a = self._a(said, lane, rank, layout, first)
            chosen = self._chosen(said, lane, rank, layout, first) if said.sparse else None
            scales = self._scales(said, lane, rank, (layout.rows, said.n)) if self.scales >= 0 else None
            factors = Factors(a, b, chosen, scales, site.mnemonic == "UTCOMMA")
            d = sums(site.environment.arch.tensor_core.numerics, said, factors, c)
            tell(site, lane, rank, "store", where[0][changed], where[1][changed])
            tensor.cells[where] = np.where(changed, d, tensor.cells[where])
            if site.has("ASHIFT"):
                shift_down(site, lane, rank, self.uniform.word(self.a.register, lane), LANES)

    def _described(self, lane: int, word: int, ctas: int) -> InstructionDescriptor:
        """Return what the instruction descriptor says, if there is such a product, and it is not refused by name."""
        site = self.site
        said = instruction_descriptor.decode(word, site.mnemonic, self.scales >= 0)
        shape = said is not None and instruction_descriptor.exists(said, ctas, self.stationary, self.scales >= 0)
        shifts = site.has("ASHIFT")
        if said is None or not shape or (shifts and said.m < LANES * ctas):
            found = f"the instruction descriptor {word:#010x}"
            raise ExecutionError(site.instruction, lane, found, "Use a shape and types that tcgen05.mma has")
        if said.longer:
            raise site.unsupported("a product with a K of 96")
        if said.sparse and shifts:
            raise site.unsupported("a shift of a sparse A, whose metadata may shift, too")
        if said.sparse and self.scales < 0 and said.selector > (1 if said.halves else 0):
            if said.halves:
                raise site.unsupported(f"the sparsity selector {said.selector}")
            found = f"the sparsity selector {said.selector} for {said.types[0]}"
            raise ExecutionError(site.instruction, lane, found, "Use 0: these types have no selector")
        return said

    def _starts(self, lane: int, layout: TensorLayout, first: int, what: str, same: int | None = None) -> None:
        """Refuse a matrix in tensor memory that starts in another lane than it may."""
        if layout.starts_at(first) and same in (None, first):
            return
        right = "Use lane 0" if not layout.spread else "Use lane 0 or lane 16, the same for A, D and metadata"
        found = f"{what} from lane {first} of tensor memory on"
        raise ExecutionError(self.site.instruction, lane, found, right)

    def _changed(self, lane: int, number: int) -> NDArray[np.bool_]:
        """Return the lanes of a CTA of the pair whose D changes."""
        if self.mask < 0 or self.stationary:
            return np.ones(LANES, np.bool_)
        words = [self.uniform.word(self.mask + 4 * number + k, lane) for k in range(LANES // WARP)]
        return np.array([not words[one // WARP] >> one % WARP & 1 for one in range(LANES)], np.bool_)

    def _zero_columns(self, said: InstructionDescriptor, lane: int, layout: TensorLayout) -> ColumnMask | None:
        """Return the columns of B that count as zero, and its first one."""
        if self.mask < 0 or not self.stationary:
            return None
        found = column_mask.decode(self.uniform.wide(self.mask, lane), said.n, layout.banks)
        most = min(said.most_shift, 16 if said.m == WARP else WARP)
        if found.shift > most:
            told = f"a zero-column mask that shifts by {found.shift} columns"
            right = f"Shift by {most} columns at most, as the instruction descriptor and M allow"
            raise ExecutionError(self.site.instruction, lane, told, right)
        return found

    def _b(self, said: InstructionDescriptor, lane: int, rank: int, columns: int, mask: ColumnMask | None) -> Matrix:
        """Return the columns of B of a CTA: [columns, k]."""
        if mask is None:
            return self._shared(said, 1, lane, rank, columns)
        used = np.flatnonzero(~mask.zero)
        read = self._shared(said, 1, lane, rank, columns + mask.shift, used + mask.shift)
        found = np.zeros((columns, read.shape[1]), read.dtype)
        found[used] = read
        return found

    def _shared(
        self, said: InstructionDescriptor, side: int, lane: int, rank: int, count: int, lines: Index | None = None
    ) -> Matrix:
        """Return rows of A (side 0) or columns of B (side 1), [count, k], from the shared memory of a CTA."""
        kind, across = said.types[side], said.transposed[side]
        narrow = _NARROW_BITS.get(kind, 8) if self.site.mnemonic == "UTCQMMA" else 8
        if across and (narrow < 8 or self.site.mnemonic == "UTCOMMA"):
            raise self.site.unsupported("a transposed matrix of floats of 4 or 6 bits")
        size = BITS.get(kind, 8) // 8
        k = A_BYTES * (2 if side and said.sparse else 1) // size
        descriptor = self.uniform.wide((self.a, self.b)[side].register, lane)
        found = shared_matrix(self.site, lane, rank, descriptor, (count, k), size, across, lines)
        if narrow < 8:
            found = unpacked(found.astype(np.uint8, copy=False), narrow)
        return self._signed(said, side, found)

    def _a(self, said: InstructionDescriptor, lane: int, rank: int, layout: TensorLayout, first_of_d: int) -> Matrix:
        """Return A [banks, rows, k] of a CTA, from shared memory or from tensor memory."""
        if self.a.prefix == "gdesc":
            return self._shared(said, 0, lane, rank, layout.rows)[None]
        if said.transposed[0]:
            raise self.site.unsupported("a transposed A in tensor memory")
        tensor, address = tensor_memory_of(self.site, rank), self.uniform.word(self.a.register, lane)
        first, columns = tensor.places(self.site, lane, address, np.arange(A_BYTES // 4))
        self._starts(lane, layout, first, "A", first_of_d)
        words = self._words(tensor, lane, rank, first + layout.lanes()[..., None], columns)
        size = {1: np.uint8, 2: np.uint16, 4: np.uint32}[BITS.get(said.types[0], 8) // 8]
        return self._signed(said, 0, np.ascontiguousarray(words).view(size))

    def _words(self, tensor: TensorMemory, lane: int, rank: int, lanes: Index, columns: Index) -> NDArray[np.uint32]:
        """Read cells of the tensor memory of a CTA."""
        tell(self.site, lane, rank, "load", lanes, columns)
        found: NDArray[np.uint32] = tensor.cells[lanes, columns]
        return found

    def _chosen(
        self, said: InstructionDescriptor, lane: int, rank: int, layout: TensorLayout, first_of_d: int
    ) -> Index:
        """Return the place along K of each element of a sparse A: [banks, rows, stored k]."""
        tensor, address = tensor_memory_of(self.site, rank), self.uniform.word(self.metadata.register, lane)
        first, columns = tensor.places(self.site, lane, address, np.arange(METADATA_COLUMNS))
        self._starts(lane, layout, first, "metadata", first_of_d)
        if columns[0] % METADATA_COLUMNS:
            raise self.site.unsupported("metadata from an odd column on")
        lanes, bits = metadata_lanes(layout, said.halves)
        parts = columns[said.selector : said.selector + 1] if said.halves else columns
        words = self._words(tensor, lane, rank, first + lanes, parts) >> bits.astype(np.uint32)
        packed = self.site.mnemonic == "UTCOMMA"
        return chosen_by(words, 16 if said.halves else 32, 2 if said.types[0] == "tf32" else 8 if packed else 4)

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
        parts = 1 if self.site.mnemonic == "UTCQMMA" else 4 if self.site.has("4X", "BLOCK16") else 2
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
