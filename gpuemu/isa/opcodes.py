"""What the model needs to know of an instruction: which unit runs it, how wide it is, which profiler row counts it.

An opcode is a dotted SASS mnemonic (`LDSM.16.M88.4`). `describe` turns it into an `Operation`, by the mnemonic's row in
`isa.table` and the modifiers; what the operation costs is not here but in the architecture file, under its class or
tensor mode. An opcode that the model does not know is refused by name, never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache

from gpuemu.isa import products
from gpuemu.isa.kind import Kind as Kind
from gpuemu.isa.table import NOT_MODELLED, TABLE, Opcode, parse_opcode

CLUSTER_BARRIER = 16
"""The number of the cluster's barrier, behind those of the CTA."""


class Row(StrEnum):
    """A row of the profiler's shared-memory table."""

    LOAD = "Shared Load"
    LOAD_MATRIX = "Shared Load Matrix"
    STORE = "Shared Store"
    STORE_MATRIX = "Shared Store Matrix"
    ATOMIC = "Shared Atomic"
    COPY = "Shared Store From Global Load"


@dataclass(frozen=True)
class Operation:
    """What the model needs to know of an opcode.

    `operation` is the key of its timing: a class under `operations` of the architecture file, or for
    a tensor instruction a mode under `tensor_core.operations`. `width_bits` is what one lane moves;
    `matrices` is N of an LDSM or STSM xN. `warpgroup_columns` is N of a warpgroup instruction of 64 x N, whose
    mode is that of eight columns. `store` and `atomic` say what it does to memory, `cached` whether a load may be
    answered by the SM's own L1, `local` whether the memory is each thread's own. `has_events`: it copies blocks or
    changes or tests an mbarrier. `unit`: the name of the unit of its own that times it, behind a pipe of that name.
    """

    kind: Kind
    operation: str
    tensor: bool = False
    row: Row | None = None
    width_bits: int = 0
    matrices: int = 0
    warpgroup_columns: int = 0
    store: bool = False
    atomic: bool = False
    cached: bool = False
    local: bool = False
    has_events: bool = False
    unit: str = ""


class UnknownOpcodeError(ValueError):
    """The model has no such instruction. `found` names it, `right` says what it knows."""

    def __init__(self, found: str, right: str):
        self.found = found
        self.right = right
        super().__init__(f"{found}; {right}")


_OF_SHARED_MEMORY = (
    "ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST", "SPIN",
    "U8", "S8", "U16", "S16", "64", "128",
)  # fmt: skip
_BEYOND_THE_SM = ("GPU", "SYS", "MMIO", "CLUSTER")
"""Modifiers of loads that must see what other SMs wrote (ld.global.cg, ld.volatile): L1 cannot answer them."""
_BITS = {"128": 128, "64": 64, "U8": 8, "S8": 8, "U16": 16, "S16": 16}


@lru_cache(maxsize=4096)
def describe(opcode: str) -> Operation:
    """The operation of a dotted SASS opcode; raises UnknownOpcodeError."""
    parsed = parse_opcode(opcode)
    row = parsed.row
    if not row.kind:
        raise _unknown(parsed)
    kind = Kind[row.kind.upper()]
    if row.operation == "tensor":
        try:
            return Operation(kind, products.mode(parsed), tensor=True)
        except ValueError as error:
            raise UnknownOpcodeError(f"'{opcode}'", str(error)) from None
    if row.operation == "warpgroup":
        return _warpgroup(kind, parsed)
    operation = next((instead for modifier, instead in row.classes if parsed.has(modifier)), row.operation)
    if kind is Kind.SHUFFLE:
        return Operation(kind, operation, width_bits=32)
    if kind not in (Kind.SHARED, Kind.GLOBAL):
        unit = operation if "own" in row.notes else ""
        return Operation(kind, operation, has_events=_has_events(parsed), unit=unit)
    of_matrices, does = "matrix" in row.notes, row.notes
    return Operation(
        kind, operation, row=_profiler_row(row.operation, does), store="store" in does, atomic="atomic" in does,
        width_bits=32 if of_matrices else next((_BITS[m] for m in parsed.modifiers if m in _BITS), 32),
        matrices=parsed.matrices if of_matrices else 0, local="local" in does,
        cached=kind is Kind.GLOBAL and (
            not parsed.has("BYPASS") if operation == "copy" else "load" in does and not parsed.has(*_BEYOND_THE_SM)
        ),
    )  # fmt: skip


def _profiler_row(operation: str, does: frozenset[str]) -> Row | None:
    if operation == "copy":
        return Row.COPY
    if operation != "shared":
        return None
    if "atomic" in does:
        return Row.ATOMIC
    if "matrix" in does:
        return Row.STORE_MATRIX if "store" in does else Row.LOAD_MATRIX
    return Row.STORE if "store" in does else Row.LOAD


def _has_events(opcode: Opcode) -> bool:
    """Of sm_90; the mbarriers of architectures before it are words of shared memory."""
    if opcode.mnemonic == "ARRIVES":
        return opcode.has("ARVCNT", "TRANSCNT")
    return "events" in opcode.row.notes and not opcode.has("CCTL")


def _warpgroup(kind: Kind, opcode: Opcode) -> Operation:
    shape = products.warpgroup_shape(opcode)
    if shape is None:
        right = f"expected a shape 64xNxK for {opcode.mnemonic}"
        raise UnknownOpcodeError(f"'{opcode.text}'", right)
    if opcode.has("SP"):
        raise UnknownOpcodeError(
            f"sparse instruction '{opcode.text}'", "The model knows only the dense ones of this kind"
        )
    return Operation(kind, f"m64n8k{shape[1]}.{products.types(opcode)}", warpgroup_columns=shape[0], unit="warpgroup")


def _unknown(opcode: Opcode) -> UnknownOpcodeError:
    right = "gpuemu/isa/table.py has the known instructions"
    if opcode.mnemonic in NOT_MODELLED:
        return UnknownOpcodeError(f"the model leaves out '{opcode.text}'", right)
    close = get_close_matches(opcode.mnemonic.upper(), TABLE, 1, cutoff=0.75)
    return UnknownOpcodeError(f"unknown instruction '{opcode.text}'", f"Did you mean '{close[0]}'?" if close else right)


def is_guessed(opcode: str) -> bool:
    """Whether no rule says how long it takes: what shows a time names it."""
    return "guessed" in parse_opcode(opcode).row.notes


def takes_generic_addresses(opcode: str) -> bool:
    """Whether the address of each lane says which memory it means: shared, the lane's own, or global."""
    return parse_opcode(opcode).row.generic != ""


def shared_opcode(opcode: str) -> str:
    """The opcode that does to shared memory what one with generic addresses does there: STS.64 for ST.E.64."""
    parsed = parse_opcode(opcode)
    return ".".join([parsed.row.generic, *(m for m in parsed.modifiers if m in _OF_SHARED_MEMORY)])


def cluster_opcode(opcode: str) -> str:
    """The name that the model has for one with generic addresses where these mean another CTA's shared memory."""
    parsed = parse_opcode(opcode)
    return ".".join([f"{parsed.mnemonic}_CLUSTER", *parsed.modifiers])


_CLOCK = re.compile(r"\bSR_CLOCK(LO|HI)?\b")
_TIMER = re.compile(r"\bSR_GLOBALTIMER(LO|HI)?\b")
_LANE_REGISTER = re.compile(r"\bSR_(TID|LANEID)\b")


def reads_lane_register(opcode: str, operands: str) -> bool:
    """Whether it is an S2R that goes through the load/store unit: its value differs by lane (H200, counted)."""
    return opcode == "S2R" and _LANE_REGISTER.search(operands) is not None


def reads_clock(operands: str) -> bool:
    """Whether a CS2R or S2R with these operands reads the SM's cycle counter."""
    return _CLOCK.search(operands) is not None


def reads_timer(operands: str) -> bool:
    """Whether a CS2R or S2R with these operands reads %globaltimer, which counts nanoseconds."""
    return _TIMER.search(operands) is not None
