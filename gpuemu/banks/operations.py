"""The instructions that access shared memory, by their short names and their names in machine code."""

from __future__ import annotations

from enum import Enum

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.table import parse_opcode


class AccessKind(Enum):
    """The effect of a shared-memory instruction, as far as its wavefronts depend on it."""

    LOAD = "load"
    GENERIC_LOAD = "generic load"
    STORE = "store"
    LOAD_MATRIX = "matrix load"
    STORE_MATRIX = "matrix store"
    ATOMIC = "atomic"
    COUNT = "atomic count"
    TRY = "compare and swap in a loop"
    COPY = "asynchronous copy"

    @property
    def is_matrix(self) -> bool:
        """Whether the width of this kind is a number of matrices instead of bits."""
        return self in (AccessKind.LOAD_MATRIX, AccessKind.STORE_MATRIX)


_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "32": 32, "64": 64, "128": 128}
_MATRICES = {"1": 1, "2": 2, "4": 4}
_ATOMIC_WIDTHS = {"32": 32, "U32": 32, "S32": 32, "64": 64, "U64": 64, "S64": 64, "128": 128}
_MATRIX_FORMS = frozenset(("16", "M88", "MT88", "T"))
_ATOMIC_OPERATIONS = frozenset(
    ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST", "SPIN", "POPC", "ARRIVE")
)
_COPY_WIDTHS = {"32": 32, "64": 64, "128": 128}
_COPY_FORMS = frozenset(("E", "ACCESS", "BYPASS", "CONSTANT", "EF", "EL", "LTC64B", "LTC128B", "LTC256B", "ZFILL"))
_GENERIC_FORMS = frozenset(("E", "STRONG", "CTA", "SM", "GPU", "SYS", "CONSTANT", "EF", "EL", "LU", "NA"))
# mnemonic -> kind, width without a modifier, modifiers that keep the width, modifiers that change it
_OPS: dict[str, tuple[AccessKind, int, frozenset[str], dict[str, int]]] = {
    "LDS": (AccessKind.LOAD, 32, frozenset("U"), _WIDTHS),
    "LD": (AccessKind.GENERIC_LOAD, 32, _GENERIC_FORMS, _WIDTHS),
    "STS": (AccessKind.STORE, 32, frozenset("U"), _WIDTHS),
    "LDSM": (AccessKind.LOAD_MATRIX, 1, _MATRIX_FORMS, _MATRICES),
    "STSM": (AccessKind.STORE_MATRIX, 1, _MATRIX_FORMS, _MATRICES),
    "ATOMS": (AccessKind.ATOMIC, 32, _ATOMIC_OPERATIONS, _ATOMIC_WIDTHS),
    "LDGSTS": (AccessKind.COPY, 32, _COPY_FORMS, _COPY_WIDTHS),
}
KNOWN_OPS = (
    "Known: LDS, STS and LD (by generic addresses) with U8, S8, U16, S16, 32, 64 or 128; LDSM and STSM with 1, 2 or "
    "4, transposed with T or MT88; ATOMS with an operation such as ADD; LDGSTS with 32, 64 or 128"
)


def parse_op(op: str, *, where: tuple[str, int | None, str] = ("shared_access", None, "op")) -> tuple[AccessKind, int]:
    """Return the kind and width of an access. The width is bits per lane, or the number of matrices.

    Reads the short names (`LDS.128`, `LDSM.T.4`) and those of machine code (`LDSM.16.MT88.4`, `LDS.U.128`,
    `ATOMS.POPC.INC.32`). Raises GpuemuError at `where` (file, line, field) for any other name.
    """
    opcode = parse_opcode(str(op).strip().upper())
    base, modifiers = opcode.mnemonic, opcode.modifiers
    kind, default, plain, widths = _OPS.get(base, _OPS["ATOMS"])
    found = {widths[m] for m in modifiers if m in widths}
    known = base in _OPS and all(m in plain or m in widths for m in modifiers) and len(found) <= 1
    if not known or (base == "ATOMS" and not plain.intersection(modifiers)):
        raise GpuemuError.one(*where, f"'{op}'", KNOWN_OPS)
    if opcode.has("POPC"):
        kind = AccessKind.COUNT
    elif opcode.has("CAST"):
        kind = AccessKind.TRY
    return kind, found.pop() if found else default
