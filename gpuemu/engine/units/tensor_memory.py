"""Tensor memory and the products in it (tcgen05 of sm_100): an asynchronous unit that any warp's thread starts.

Products and copies from shared memory have their turn one after another, `tensor_memory.issue_cycles` after their issue
at the earliest. A product keeps the unit for its interval, the longer of two times:

* its columns of 128 rows at `columns_per_cycle` (64 rows take as long, but a pair of CTAs splits the columns of 128);
* the bytes of A and B in shared memory at `shared_bytes_per_cycle`. Each CTA of a pair reads half of both.

A pair takes at least `pair_interval_cycles`. If it waits for shared memory, it loses `pair_shared_cycles` per 128 rows
of a CTA. A product ends after its fill with A from shared memory, its columns, and `latency_cycles`; two CTAs, split
columns, integers and scales change that. UTCBAR arrives at its mbarriers when all products and copies before it have
ended.

Nobody has published times of sparse and weight-stationary products (.ws), and of shifts. A sparse A has the same bytes
for twice the K. So B has twice the bytes, and a pair does not split its columns. With .ws, 64 and 32 rows split the
columns in two and four parts. UTCSHIFT takes its turn as a copy of 31 rows of 32 bytes.

LDTM and STTM occupy a port of their sub-core for `load_register_cycles` or `store_register_cycles` per register.
Products do not wait for that port, nor for other accesses to shared memory: nobody has published how they share them.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op, each_sub_core
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.mbarriers import comes, event_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.operands import parse_operand
from gpuemu.isa.table import parse_opcode

OTHER, PRODUCT, COMMIT, COPY, LOAD, STORE, ALLOCATE = range(7)
ROWS = 128
"""Rows of D that a CTA's tensor memory holds side by side."""
FEWEST_ROWS = 32
"""Rows of the smallest weight-stationary product."""
LINE_BYTES = 32
"""Bytes of a stored row of A, and of a column of a dense B, that a product reads."""
_WHAT = {
    "UTCHMMA": PRODUCT, "UTCQMMA": PRODUCT, "UTCIMMA": PRODUCT, "UTCOMMA": PRODUCT, "UTCBAR": COMMIT, "UTCCP": COPY,
    "UTCSHIFT": COPY, "LDTM": LOAD, "STTM": STORE, "UTCATOMSWS": ALLOCATE,
}  # fmt: skip
_COPIED_BYTES = {
    "128dp128bit": 2048, "4dp256bit": 128, "2x64dp128bit_lw02_lw13": 1024, "2x64dp128bit_lw01_lw23": 1024,
    "4x32dp128bit": 512, "DOWN": 992,
}  # fmt: skip
_MOST_COPIED_BYTES = 4096


class TensorUnit(Record):
    """The unit: the cycle until which it has work, and the end of the last product or copy."""

    free_at: int
    done_at: int


class TensorPort(Record):
    """A sub-core's port to tensor memory: the cycle until which it works."""

    free_at: int


class TensorOp(Record):
    """The kind of an instruction, its number of CTAs, and whether A is in shared memory.

    `integer`, `scaled`: the types of a product; `stationary`: .ws. `amount`: registers of a load or store, or bytes of
    a copy.
    """

    what: int
    ctas: int
    fills: int
    integer: int
    scaled: int
    stationary: int
    amount: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode and the operands."""
        instruction = m.program.code[m.program.ops[number].index]
        opcode = parse_opcode(instruction.opcode)
        self.what = _WHAT.get(instruction.mnemonic, OTHER)
        self.ctas = 2 if opcode.has("2CTA") else 1
        if self.what == PRODUCT:
            self.stationary = int(opcode.has("WS"))
            self.fills = int(any(parse_operand(text).prefix == "gdesc" for text in instruction.operands[:1]))
            self.integer = int(instruction.mnemonic == "UTCIMMA")
            self.scaled = int(any(parse_operand(o).prefix == "tmem" for o in instruction.operands[5:]))
        elif self.what == COPY:
            self.amount = next((n for name, n in _COPIED_BYTES.items() if opcode.has(name)), _MOST_COPIED_BYTES)
        elif self.what in (LOAD, STORE):
            self.amount = opcode.tensor_registers


def take_tensor(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues an instruction of tensor memory."""
    spec, op = state.spec[0], state.tensor_op[o]
    f = new_flight(state, c, w, o, now)
    if op.what in (LOAD, STORE):
        _moves(state, c, o, f, now)
        return
    if op.what == ALLOCATE:
        sources_at(state, f, now + spec.tensor_memory_release_cycles, now)
        result_at(state, f, now + spec.tensor_memory_allocate_cycles, now)
        return
    release = now + spec.tensor_memory_release_cycles
    sources_at(state, f, release, now)
    result_at(state, f, release, now)
    unit = state.tensor_unit[0]
    start = max(now + spec.tensor_memory_issue_cycles, unit.free_at)
    if op.what == COMMIT:
        if event_of(state, f) >= 0:
            comes(state, f, max(now + spec.mbarrier_arrive_cycles, unit.done_at), now)
    elif op.what == COPY:
        unit.free_at = start + -(-op.amount // spec.tensor_memory_shared_bytes_per_cycle)
        unit.done_at = max(unit.done_at, unit.free_at + spec.tensor_memory_copy_latency_cycles)
    elif op.what == PRODUCT and event_of(state, f) >= 0:
        descriptor = state.events[event_of(state, f)].descriptor
        unit.free_at = start + interval_of(state, o, descriptor)
        unit.done_at = max(unit.done_at, start + latency_of(state, o, descriptor))


def rows_of(state: State, o: int, descriptor: int) -> int:
    """The rows of a product in each CTA."""
    return int((descriptor >> 24 & 31) * 16 // state.tensor_op[o].ctas)


def columns_of(descriptor: int) -> int:
    """The columns of a product."""
    return (descriptor >> 17 & 63) * 8


def is_split(state: State, o: int, descriptor: int) -> bool:
    """Whether a pair of CTAs splits the columns of a product."""
    sparse = descriptor >> 2 & 1 > 0
    return state.tensor_op[o].ctas == 2 and rows_of(state, o, descriptor) < ROWS and not sparse


def _columns_cycles(state: State, o: int, descriptor: int) -> int:
    """The time of the columns of a product."""
    split = 2 if is_split(state, o, descriptor) else 1
    if state.tensor_op[o].stationary:
        split = ROWS // max(rows_of(state, o, descriptor), FEWEST_ROWS)
    return -(-columns_of(descriptor) // (split * state.spec[0].tensor_memory_columns_per_cycle))


def interval_of(state: State, o: int, descriptor: int) -> int:
    """The cycles for which a product keeps the unit."""
    spec, op, rows = state.spec[0], state.tensor_op[o], rows_of(state, o, descriptor)
    found = _columns_cycles(state, o, descriptor)
    lines = rows * op.fills + columns_of(descriptor) // op.ctas * (1 + (descriptor >> 2 & 1))
    reads = -(-lines * LINE_BYTES // spec.tensor_memory_shared_bytes_per_cycle)
    if op.ctas == 1:
        return int(max(found, reads))
    if reads > found:
        found = reads + spec.tensor_memory_pair_shared_cycles * rows * op.fills // ROWS
    return int(max(found, spec.tensor_memory_pair_interval_cycles))


def latency_of(state: State, o: int, descriptor: int) -> int:
    """The cycles from the start of a product to the arrival at its barrier."""
    spec, op, rows = state.spec[0], state.tensor_op[o], rows_of(state, o, descriptor)
    rate = spec.tensor_memory_shared_bytes_per_cycle
    found = spec.tensor_memory_latency_cycles + _columns_cycles(state, o, descriptor)
    early, scales = spec.tensor_memory_integer_early_cycles, spec.tensor_memory_scales_cycles
    if op.ctas == 2:
        found += spec.tensor_memory_pair_latency_cycles
        early = spec.tensor_memory_pair_integer_early_cycles
    elif op.fills:
        scales = spec.tensor_memory_scales_filled_cycles
    if is_split(state, o, descriptor):
        found += spec.tensor_memory_split_latency_cycles
        if op.fills:
            before = min(columns_of(descriptor), spec.tensor_memory_fill_columns) // op.ctas
            found += spec.tensor_memory_split_fill_cycles + before * LINE_BYTES // rate
    elif op.fills:
        found += rows * LINE_BYTES // rate
    return int(found + op.scaled * scales - op.integer * early)


def _moves(state: State, c: int, o: int, f: int, now: int) -> None:
    """A load or a store occupies the port of its sub-core."""
    spec, op, port = state.spec[0], state.tensor_op[o], state.tensor_port[c]
    loads = op.what == LOAD
    each = spec.tensor_memory_load_register_cycles if loads else spec.tensor_memory_store_register_cycles
    port.free_at = max(now, port.free_at) + op.amount * each
    sources_at(state, f, now + 1 if loads else port.free_at, now)
    more = spec.tensor_memory_load_latency_cycles if loads else spec.tensor_memory_store_latency_cycles
    result_at(state, f, port.free_at + more, now)


TENSOR_MEMORY = Unit(
    "tensor_memory",
    records={
        "tensor_unit": Kept(TensorUnit),
        "tensor_port": Kept(TensorPort, each_sub_core),
        "tensor_op": Kept(TensorOp, each_op),
    },
    takes=(
        Takes(
            take_tensor, (Kind.ASYNCHRONOUS, Kind.VARIABLE), pipe="tensor_memory", flies=True, reason="long_scoreboard",
        ),
    ),
)  # fmt: skip
