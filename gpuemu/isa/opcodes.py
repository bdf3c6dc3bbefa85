"""The facts that the model needs about an instruction: its unit, its width and the profiler row that counts it.

An opcode is a dotted SASS mnemonic (`LDSM.16.M88.4`). `describe` turns it into an `Operation`, by the modifiers and the
mnemonic's row in `isa.table`. The architecture file holds the cost of the operation, under its class or tensor mode. An
unknown opcode is refused by name, never guessed.
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
"""The number of the cluster's barrier, which follows the numbers of the CTA's barriers."""


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
    """The facts that the model needs about an opcode.

    `operation`: the key of its timing, which is a class under `operations` of the architecture file, or for a tensor
    instruction a mode under `tensor_core.operations`. `width_bits`: bits that one lane moves. `matrices`: N of an LDSM
    or STSM xN. `warpgroup_columns`: N of a warpgroup instruction of 64 x N, whose mode is that of eight columns.
    `store`, `atomic`: its effect on memory. `cached`: whether the SM's own L1 may answer a load. `local`: whether each
    thread has its own memory. `has_events`: whether it copies blocks, or changes or tests an mbarrier. `unit`: the name
    of its own unit, which times it after a pipe of the same name.
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
    """The model has no such instruction. `found` names it, `right` says which instructions are known."""

    def __init__(self, found: str, right: str):
        self.found = found
        self.right = right
        super().__init__(f"{found}; {right}")


_OF_SHARED_MEMORY = (
    "ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST", "SPIN",
    "U8", "S8", "U16", "S16", "64", "128",
)  # fmt: skip
_BEYOND_THE_SM = ("GPU", "SYS", "MMIO", "CLUSTER")
"""Modifiers of loads that must see data of other SMs (ld.global.cg, ld.volatile), so that L1 cannot answer them."""
_BITS = {"256": 256, "128": 128, "64": 64, "U8": 8, "S8": 8, "U16": 16, "S16": 16}


@lru_cache(maxsize=4096)
def describe(opcode: str) -> Operation:
    """Return the operation of a dotted SASS opcode; raises UnknownOpcodeError."""
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
    """Whether an instruction of sm_90 has events; earlier architectures keep mbarriers as words of shared memory."""
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
    """Whether no rule gives its duration; every output that shows a time names such an instruction."""
    return "guessed" in parse_opcode(opcode).row.notes


def takes_generic_addresses(opcode: str) -> bool:
    """Whether the address of each lane selects the memory: shared, local or global."""
    return parse_opcode(opcode).row.generic != ""


def shared_opcode(opcode: str) -> str:
    """Return the opcode that does the same to shared memory as one with generic addresses: STS.64 for ST.E.64."""
    parsed = parse_opcode(opcode)
    return ".".join([parsed.row.generic, *(m for m in parsed.modifiers if m in _OF_SHARED_MEMORY)])


def cluster_opcode(opcode: str) -> str:
    """Return the model's name for an opcode whose generic addresses lie in another CTA's shared memory."""
    parsed = parse_opcode(opcode)
    return ".".join([f"{parsed.mnemonic}_CLUSTER", *parsed.modifiers])


_CLOCK = re.compile(r"\bSR_CLOCK(LO|HI)?\b")
_TIMER = re.compile(r"\bSR_GLOBALTIMER(LO|HI)?\b")
_LANE_REGISTER = re.compile(r"\bSR_(TID|LANEID)\b")


def reads_lane_register(opcode: str, operands: str) -> bool:
    """Whether an S2R uses the load/store unit, because its value differs by lane (counted on an H200)."""
    return opcode == "S2R" and _LANE_REGISTER.search(operands) is not None


def reads_clock(operands: str) -> bool:
    """Whether a CS2R or S2R with these operands reads the SM's cycle counter."""
    return _CLOCK.search(operands) is not None


def reads_timer(operands: str) -> bool:
    """Whether a CS2R or S2R with these operands reads %globaltimer, which counts nanoseconds."""
    return _TIMER.search(operands) is not None
