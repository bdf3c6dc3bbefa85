"""The instructions that the model knows: which unit runs each, how wide it is, which profiler row counts it.

An opcode is a dotted SASS mnemonic (`LDSM.16.M88.4`). `describe` turns it into an `Operation`; what the
operation costs is not here but in the architecture file, under the operation's class or tensor mode.
An opcode that the model does not know is refused by name, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from functools import lru_cache

CLUSTER_BARRIER = 16
"""The number of the cluster's barrier, behind those of the CTA."""


class Kind(Enum):
    """How the engine treats an instruction."""

    FIXED = auto()  # a pipe of the sub-core; the result comes after a fixed latency
    VARIABLE = auto()  # a unit of the sub-core whose completion a dependence counter reports
    SHARED = auto()  # the SM's load/store path into shared memory
    GLOBAL = auto()  # the SM's load/store path to global or local memory
    SHUFFLE = auto()  # the SM's load/store path, crossing lanes and touching no memory
    BARRIER = auto()
    BRANCH = auto()
    EXIT = auto()
    COUNTER_WAIT = auto()  # DEPBAR: waits until a dependence counter has fallen to a value
    COPY_COMMIT = auto()  # LDGDEPBAR: closes a group of asynchronous copies
    LANE_REGISTER = auto()  # S2R of a register that differs by lane: the SM's load/store path, touching no memory


class Row(Enum):
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
    changes or tests an mbarrier.
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


class UnknownOpcodeError(ValueError):
    """The model has no such instruction. `found` names it, `right` says what it knows."""

    def __init__(self, found: str, right: str):
        self.found = found
        self.right = right
        super().__init__(f"{found}; {right}")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FIXED_CLASSES = {
    "integer": "IADD3 IADD LOP3 LOP PLOP3 SHF SHL SHR LEA ISETP ISET SEL IMNMX VIMNMX VIMNMX3 VIADDMNMX PRMT "
    "IABS FMNMX FSETP FSEL FSET FCHK VABSDIFF VABSDIFF4 P2R R2P I2FP F2FP F2IP I2IP BMSK SGXT VOTE HMNMX2 R2B "
    "B2R LEPC VHMNMX LOP32I IADD32I",
    "move": "MOV MOV32I CS2R R2UR RPCMOV",
    "ffma": "FFMA FADD FMUL FFMA32I FADD32I FMUL32I FSWZADD",
    "imad": "IMAD IDP IMUL VIADD",
    "half": "HFMA2 HADD2 HMUL2 HSET2 HSETP2",
    "fp64": "DFMA DADD DMUL DSETP DMNMX",
    "uniform": "UIADD3 ULOP3 ULEA USHF UISETP USEL UIMAD UPRMT UPLOP3 UBMSK USGXT UFLO UBREV UPOPC "
    "UP2UR UR2UP VOTEU UIMNMX UVIADD ELECT",
    "uniform_move": "UMOV ULDC",
    "nop": "NOP PMTRIG USETMAXREG ACQBULK PREEXIT UCGABAR_ARV",
}
_VARIABLE_CLASSES = {
    "mufu": "MUFU",
    "conversion": "I2F F2I F2F FRND I2I FLO POPC BREV",
    "special_register": "S2R QSPC SYNCS ARRIVES UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL "
    "UTMACMDFLUSH",
    "uniform_special_register": "S2UR",
    "reduction": "REDUX",
    "match": "MATCH",
    "matrix_move": "MOVM",
    "constant_load": "LDC",
}
_CLASS_OF = {
    name: operation
    for table in (_FIXED_CLASSES, _VARIABLE_CLASSES)
    for operation, names in table.items()
    for name in _names(names)
}
_BRANCHES = _names(
    "BRA BRX BRXU JMP JMX CALL RET BSSY BSYNC BREAK BMOV WARPSYNC ENDCOLLECTIVE YIELD NANOSLEEP KILL BPT RPCMOV"
)
_FENCES = _names("MEMBAR ERRBAR CGAERRBAR CCTL CCTLL FENCE")
_GLOBAL = {
    "LDG": "load", "STG": "store", "LD": "load", "ST": "store", "LDL": "load", "STL": "store",
    "ATOM": "atomic", "ATOMG": "atomic", "RED": "reduction",
    "REDG": "reduction",
}  # fmt: skip
_GENERIC = {"LD": "LDS", "ST": "STS", "ATOM": "ATOMS"}
"""Instructions that take generic addresses, and what does the same to shared memory."""
_OF_SHARED_MEMORY = _names("ADD MIN MAX INC DEC AND OR XOR EXCH CAS CAST SPIN U8 S8 U16 S16 64 128")
_BEYOND_THE_SM = _names("GPU SYS MMIO CLUSTER")
"""Modifiers of loads that must see what other SMs wrote (ld.global.cg, ld.volatile): L1 cannot answer them."""
_OTHERS = _names(
    "LDS STS LDSM STSM ATOMS LDGSTS SHFL BAR UCGABAR_WAIT EXIT DEPBAR LDGDEPBAR HMMA IMMA BMMA DMMA QMMA "
    "HGMMA IGMMA QGMMA WARPGROUP"
)
KNOWN_MNEMONICS = frozenset([*_CLASS_OF, *_BRANCHES, *_FENCES, *_GLOBAL, *_OTHERS])

_GUESSED = _names(
    "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED UBLKPF SYNCS ARRIVES FENCE MEMBAR ERRBAR "
    "CGAERRBAR CCTL CCTLL QSPC HGMMA IGMMA QGMMA WARPGROUP USETMAXREG UCGABAR_ARV UCGABAR_WAIT ACQBULK PREEXIT "
    "NANOSLEEP"
)
"""Instructions that no rule times: they take the time of something else. A rule for one takes it off this list."""

_WITH_EVENTS = _names("UBLKCP UBLKRED UTMALDG UTMASTG UTMAREDG SYNCS")
_NOT_MODELLED = _names("BGMMA LDTRAM TEX TLD TLD4 TMML TXD TXQ SULD SUST SUATOM SURED")
"""Instructions of these architectures that the model leaves out: not to be taken for a slip of the pen."""

_TENSOR_SHAPES = {
    "HMMA": {"16816": "m16n8k16", "1688": "m16n8k8", "1684": "m16n8k4"},
    "QMMA": {"16832": "m16n8k32", "16816": "m16n8k16"},
    "IMMA": {"16832": "m16n8k32", "16816": "m16n8k16", "8816": "m8n8k16", "8832": "m8n8k32", "16864": "m16n8k64"},
    "BMMA": {"168256": "m16n8k256", "168128": "m16n8k128", "88128": "m8n8k128"},
    "DMMA": {
        "16x8x16": "m16n8k16",
        "16x8x8": "m16n8k8",
        "16x8x4": "m16n8k4",
        "8x8x4": "m8n8k4",
        "884": "m8n8k4",
    },
}
_SPARSE_SHAPES = {
    ("HMMA", False): {"16832": "m16n8k16", "16816": "m16n8k8"},
    ("HMMA", True): {"16816": "m16n8k8", "1688": "m16n8k4"},
    ("IMMA", False): {"168128": "m16n8k64", "16864": "m16n8k32", "16832": "m16n8k16"},
    ("QMMA", False): {"16864": "m16n8k32", "16832": "m16n8k16"},
}
"""Of a sparse product: the dense one of as many products, whose time it is taken to need."""
_IMMA_INPUTS = {"s8": frozenset(("S8", "U8")), "s4": frozenset(("S4", "U4"))}


_WARPGROUP_SHAPE = re.compile(r"64x(\d+)x(\d+)\Z")


def warpgroup_shape(modifiers: Iterable[str]) -> tuple[int, int] | None:
    """N and K of a warpgroup instruction's shape 64xNxK; None if there is none."""
    found = next((match for m in modifiers if (match := _WARPGROUP_SHAPE.match(m))), None)
    return (int(found[1]), int(found[2])) if found else None


def matrices(modifiers: Iterable[str]) -> int:
    """N of an LDSM or STSM xN; the text leaves out a 1."""
    return next((int(m) for m in modifiers if m in ("1", "2", "4")), 1)


def _bits(modifiers: list[str]) -> int:
    for m in modifiers:
        if m in ("128", "64"):
            return int(m)
        if m in ("U8", "S8"):
            return 8
        if m in ("U16", "S16"):
            return 16
    return 32


def _tensor_mode(opcode: str, mnemonic: str, modifiers: list[str]) -> str:
    """The mode whose time an instruction needs; that of integers for 8-bit floats, which have as many bits."""
    sparse = _SPARSE_SHAPES.get((mnemonic, "TF32" in modifiers), {})
    shapes = sparse if "SP" in modifiers else _TENSOR_SHAPES[mnemonic]
    shape = next((shapes[m] for m in modifiers if m in shapes), None)
    if shape is None:
        right = (
            f"the model knows the shapes {', '.join(shapes)} of {mnemonic}"
            if shapes
            else f"a dense {mnemonic} is right"
        )
        raise UnknownOpcodeError(f"'{opcode}'", right)
    if mnemonic == "QMMA":
        return f"{shape}.s32.s8"
    if mnemonic == "IMMA":
        for inputs, names in _IMMA_INPUTS.items():
            if names.intersection(modifiers):
                return f"{shape}.s32.{inputs}"
        raise UnknownOpcodeError(f"'{opcode}'", "the model knows the inputs S8, U8, S4, U4 of IMMA")
    if mnemonic == "BMMA":
        return f"{shape}.s32.b1"
    if mnemonic == "DMMA":
        return f"{shape}.f64.f64"
    return f"{shape}.{_float_types(modifiers)}"


def _warpgroup(opcode: str, mnemonic: str, modifiers: list[str]) -> Operation:
    shape = warpgroup_shape(modifiers)
    if shape is None:
        raise UnknownOpcodeError(f"'{opcode}'", f"the model knows the shapes 64xNxK of {mnemonic}")
    if "SP" in modifiers:
        raise UnknownOpcodeError(f"the sparse '{opcode}'", "a dense matrix instruction is right")
    types = "s32.s8" if mnemonic in ("IGMMA", "QGMMA") else _float_types(modifiers)
    return Operation(Kind.FIXED, f"m64n8k{shape[1]}.{types}", warpgroup_columns=shape[0])


def _has_events(mnemonic: str, modifiers: list[str]) -> bool:
    """Of sm_90; the mbarriers of architectures before it are words of shared memory."""
    if mnemonic == "ARRIVES":
        return "ARVCNT" in modifiers or "TRANSCNT" in modifiers
    return mnemonic in _WITH_EVENTS and "CCTL" not in modifiers


def _float_types(modifiers: list[str]) -> str:
    accumulator = "f32" if "F32" in modifiers else "f16"
    inputs = "bf16" if "BF16" in modifiers else "tf32" if "TF32" in modifiers else "f16"
    return f"{accumulator}.{inputs}"


@lru_cache(maxsize=4096)
def describe(opcode: str) -> Operation:
    """The operation of a dotted SASS opcode; raises UnknownOpcodeError."""
    mnemonic, *modifiers = opcode.split(".")
    if mnemonic in _CLASS_OF:
        operation = _CLASS_OF[mnemonic]
        if mnemonic == "IMAD" and ("WIDE" in modifiers or "HI" in modifiers):
            operation = "imad_wide"
        if mnemonic == "HADD2" and "F32" in modifiers:
            operation = "imad"  # a half becomes a float where IMAD runs
        if mnemonic == "HFMA2" and "MMA" in modifiers:
            operation = "half_mma"
        kind = Kind.VARIABLE if operation in _VARIABLE_CLASSES else Kind.FIXED
        return Operation(kind, operation, has_events=_has_events(mnemonic, modifiers))
    if mnemonic in _GLOBAL:
        what = _GLOBAL[mnemonic]
        changes = what in ("atomic", "reduction")
        stores = what in ("store", "reduction")
        cached = what == "load" and _BEYOND_THE_SM.isdisjoint(modifiers)
        local = mnemonic in ("LDL", "STL")
        return Operation(
            Kind.GLOBAL, what, width_bits=_bits(modifiers), store=stores, atomic=changes, cached=cached, local=local
        )
    if mnemonic in _BRANCHES:
        return Operation(Kind.BRANCH, "branch")
    if mnemonic in _FENCES:
        return Operation(Kind.VARIABLE, "special_register")
    match mnemonic:
        case "HMMA" | "IMMA" | "BMMA" | "DMMA" | "QMMA":
            return Operation(Kind.FIXED, _tensor_mode(opcode, mnemonic, modifiers), tensor=True)
        case "HGMMA" | "IGMMA" | "QGMMA":
            return _warpgroup(opcode, mnemonic, modifiers)
        case "WARPGROUP":
            return Operation(Kind.FIXED, "nop")
        case "LDS":
            return Operation(Kind.SHARED, "shared", row=Row.LOAD, width_bits=_bits(modifiers))
        case "STS":
            return Operation(Kind.SHARED, "shared", row=Row.STORE, width_bits=_bits(modifiers), store=True)
        case "LDSM":
            return Operation(Kind.SHARED, "shared", row=Row.LOAD_MATRIX, width_bits=32, matrices=matrices(modifiers))
        case "STSM":
            row = Row.STORE_MATRIX
            return Operation(Kind.SHARED, "shared", row=row, width_bits=32, matrices=matrices(modifiers), store=True)
        case "ATOMS":
            return Operation(Kind.SHARED, "shared", row=Row.ATOMIC, width_bits=_bits(modifiers), atomic=True)
        case "LDGSTS":
            return Operation(
                Kind.GLOBAL, "copy", row=Row.COPY, width_bits=_bits(modifiers), store=True,
                cached="BYPASS" not in modifiers,
            )  # fmt: skip
        case "SHFL":
            return Operation(Kind.SHUFFLE, "shuffle", width_bits=32)
        case "BAR" | "UCGABAR_WAIT":
            return Operation(Kind.BARRIER, "barrier")
        case "EXIT":
            return Operation(Kind.EXIT, "branch")
        case "DEPBAR":
            return Operation(Kind.COUNTER_WAIT, "nop")
        case "LDGDEPBAR":
            return Operation(Kind.COPY_COMMIT, "commit")
    if mnemonic in _NOT_MODELLED:
        raise UnknownOpcodeError(
            f"'{opcode}', which the model leaves out", "an instruction that the model knows is right"
        )
    close = get_close_matches(mnemonic.upper(), KNOWN_MNEMONICS, 1, cutoff=0.75)
    raise UnknownOpcodeError(
        f"the unknown instruction '{opcode}'",
        f"did you mean '{close[0]}'?" if close else "an instruction that the model knows is right",
    )


def is_guessed(opcode: str) -> bool:
    """Whether no rule says how long it takes: what shows a time names it."""
    return opcode.partition(".")[0] in _GUESSED


def takes_generic_addresses(opcode: str) -> bool:
    """Whether the address of each lane says which memory it means: shared, the lane's own, or global."""
    return opcode.partition(".")[0] in _GENERIC


def shared_opcode(opcode: str) -> str:
    """The opcode that does to shared memory what one with generic addresses does there: STS.64 for ST.E.64."""
    mnemonic, *modifiers = opcode.split(".")
    return ".".join([_GENERIC[mnemonic], *(m for m in modifiers if m in _OF_SHARED_MEMORY)])


_CLOCK = re.compile(r"\bSR_CLOCK(LO|HI)?\b")


_LANE_REGISTER = re.compile(r"\bSR_(TID|LANEID)\b")


def reads_lane_register(opcode: str, operands: str) -> bool:
    """Whether it is an S2R that goes through the load/store unit: its value differs by lane (H200, counted)."""
    return opcode == "S2R" and _LANE_REGISTER.search(operands) is not None


def reads_clock(operands: str) -> bool:
    """Whether a CS2R or S2R with these operands reads the SM's cycle counter."""
    return _CLOCK.search(operands) is not None
