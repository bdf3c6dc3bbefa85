"""The arrays that the loops work on, as records; `source` puts these classes into the text that Numba compiles."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lanes(NamedTuple):
    """The lanes of a CTA: registers and predicates, which of them take part, and scratch rows for each lane."""

    file: Any
    """Registers [row, lane]."""
    truths: Any
    """Predicates [row, lane], as bytes."""
    active: Any
    """The lanes of the group."""
    here: Any
    """The active lanes whose guard is true."""
    at: Any
    """The addresses of an access."""
    sources: Any
    """The addresses that a copy reads."""
    lending: Any
    """The lanes whose addresses count."""
    x: Any
    """Words that an operation reads, and behind them the words that it gives."""
    t: Any
    """Bytes, likewise, for predicates."""


class Meetings(NamedTuple):
    """For each convergence barrier: the lanes that each lane waits for, the number of their meeting, and more."""

    participants: Any
    numbers: Any
    waiting_at: Any
    """Where waiting lanes continue, or -1 [barrier, lane]."""
    counts: Any
    """How many lanes wait [barrier, warp]."""
    alive: Any
    """The lanes that have not left, as bytes."""


class Groups(NamedTuple):
    """The groups of a CTA in their order: lanes [group, warp] as bits, and numbers; and the same for a new order."""

    members: Any
    numbers: Any
    new_members: Any
    new_numbers: Any
    marks: Any
    """Scratch numbers for each lane."""


class Barriers(NamedTuple):
    """The barriers of the CTA (see `scheduling.cta_barriers`), and the results of each lane's last vote."""

    heads: Any
    waits_at: Any
    came: Any
    votes: Any
    counts: Any
    truths: Any
    places: Any
    """The numbers of the instructions at multiples of 16 bytes, -1 for none."""


class Logs(NamedTuple):
    """The record of a CTA since the executor has taken it over."""

    steps: Any
    """Instruction, set of lanes, and set of those whose guard is true [step, 3]."""
    kinds: Any
    """The memory of each access, as a record numbers it, or NO_BLOCK."""
    places: Any
    """The addresses of an access [access, lane], 0 for lanes that have no part in it."""
    sources: Any
    """The addresses that a copy reads, likewise, or -1 in front if it is no copy."""
    lanes: Any
    """The lanes of an access, as bytes."""
    sets: Any
    """Sets of lanes, as bits [set, warp]."""
    slots: Any
    """The number of each set at a place that its bits choose, or -1."""


class Looking(NamedTuple):
    """The looks at memory that others may write (see `looking`): the slots, and a table of the last looks."""

    looks: Any
    factors: Any
    slots: Any
    """The slot of a look, or -1 [place]."""
    lookers: Any
    """Its lanes as bits [place, warp]."""
    found: Any
    clocks: Any
    new: Any
    """Whether the executor has not heard of it."""
    waits: Any
    """The lanes that wait, as bytes."""


class Shadow(NamedTuple):
    """The shadow memory of a launch and the threads of its CTA (see `shadow`)."""

    table: Any
    """The instructions, by the columns of `shadow`."""
    buffers: Any
    """The address and the bytes of each buffer."""
    exists: Any
    """The lanes of the CTA as bits, and those that have not left."""
    alive: Any
    arrived: Any
    """The lanes that have arrived at each barrier of the CTA, as bits, and numbers of each barrier."""
    barriers: Any
    parted: Any
    """The warps of which some lanes have waited for the others."""
    times: Any
    """The time of each warp."""
    groups: Any
    """The groups of copies that each warp has closed, and those for which it has waited [warp, 2]."""
    group_times: Any
    """The time of each wait [warp, group modulo GROUP_TIMES]."""
    put_off: Any
    """The reads that are put off: their instructions and accesses [read, 2]."""
    shared: Any
    """The marks of writes, atomics, reads and copies [4, unit] in shared memory, and in global memory."""
    everywhere: Any
    filled: Any
    """Whether each unit of global memory has a value, or nothing if all have."""
    own: Any
    """The bytes of local memory that have been written, or nothing if they are not watched."""
    gaps: Any
    """The bytes of shared memory that belong to no array, or nothing if that is not watched."""
    units: Any
    """Scratch: the unit of each lane."""
    state: Any


class Products(NamedTuple):
    """Matrix products: the forms of operands, zeros for RZ, and scratch memory (see `tensor.compiled`)."""

    forms: Any
    zeros: Any
    no_rows: Any
    numbers: Any
    exponents: Any
    left: Any
    """The words of A from shared memory [register, lane], and of B in blocks of eight columns."""
    right: Any
