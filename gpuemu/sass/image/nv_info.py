"""The attributes of a kernel in a cubin's `.nv.info` sections: registers, stack, parameters, launch bounds.

A section is a sequence of attributes. Each has a format byte, an attribute byte and a 16-bit field. With format 4, the
field is the size of a payload that follows; otherwise it is the value itself. The numbers below are those for which
nvdisasm prints names (`EIATTR_...`). They were checked against its output for toolkits 12.4 and 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum


class Attribute(IntEnum):
    """The attributes read here, by their names in nvdisasm."""

    MAX_THREADS = 0x05
    PARAM_CBANK = 0x0A
    REQNTID = 0x10
    FRAME_SIZE = 0x11
    MIN_STACK_SIZE = 0x12
    KPARAM_INFO = 0x17
    REGCOUNT = 0x2F
    INDIRECT_BRANCH_TARGETS = 0x34
    CTA_PER_CLUSTER = 0x3D
    EXPLICIT_CLUSTER = 0x3E
    KPARAM_INFO_V2 = 0x45  # in kernels with more than 4 KiB of parameters, and in those of cuTile that use TMA


_WITH_PAYLOAD = 4
_STATE_SPACE = 0xF
"""Mask of the state space. The last word of a parameter's attribute has these fields, from bit 0 on:

KPARAM_INFO     8 bits log2 of the alignment that PTX promises for what the parameter points to, 4 the state space,
                5 a constant bank, 1 whether the parameter is in one, 14 the size
KPARAM_INFO_V2  16 bits the size, 8 log2 of the alignment, 4 the state space, 4 without a name

ptxas writes 0 where PTX has no `.ptr`, and for `.ptr` 1 local, 2 shared, 4 global and const, 5 any.
"""


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter, with `offset` from the start of the parameter area and `size`, in bytes.

    `is_pointer`: whether the cubin names the state space that it points to. Without one it may still be a pointer.
    """

    offset: int
    size: int
    is_pointer: bool = False


@dataclass
class KernelInfo:
    """The attributes of one kernel."""

    parameter_base: int | None = None
    parameter_bytes: int = 0
    parameters: dict[int, Parameter] = field(default_factory=dict)
    max_threads: tuple[int, int, int] | None = None
    required_block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    explicit_cluster: bool = False
    branch_targets: dict[int, tuple[int, ...]] = field(default_factory=dict)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each attribute's number with its payload, or its 16-bit value as 2 bytes."""
    at = 0
    while at + 4 <= len(data):
        form, number, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _WITH_PAYLOAD:
            yield number, data[at : at + value]
            at += value
        else:
            yield number, data[at - 2 : at]


def sizes_by_symbol(data: bytes) -> dict[int, dict[int, int]]:
    """Read the cubin's common `.nv.info`: attribute → symbol index → value, which is -1 if unknown."""
    found: dict[int, dict[int, int]] = {
        Attribute.REGCOUNT: {},
        Attribute.FRAME_SIZE: {},
        Attribute.MIN_STACK_SIZE: {},
    }
    for number, payload in attributes(data):
        if number in found and len(payload) == 8:
            symbol, value = struct.unpack("<Ii", payload)
            found[number][symbol] = value
    return found


def kernel_info(data: bytes) -> KernelInfo:
    """Read a kernel's own `.nv.info.NAME`."""
    info = KernelInfo()
    for number, payload in attributes(data):
        match number:
            case Attribute.KPARAM_INFO:
                _, ordinal, offset, word = struct.unpack("<IHHI", payload)
                info.parameters[ordinal] = Parameter(offset, word >> 18, bool(word >> 8 & _STATE_SPACE))
            case Attribute.KPARAM_INFO_V2:
                _, ordinal, offset, word = struct.unpack("<IHHI", payload)
                info.parameters[ordinal] = Parameter(offset, word & 0xFFFF, bool(word >> 24 & _STATE_SPACE))
            case Attribute.PARAM_CBANK:
                _, info.parameter_base, info.parameter_bytes = struct.unpack("<IHH", payload)
            case Attribute.MAX_THREADS:
                info.max_threads = struct.unpack("<III", payload)
            case Attribute.REQNTID:
                info.required_block = struct.unpack("<III", payload)
            case Attribute.CTA_PER_CLUSTER:
                info.cluster = struct.unpack("<III", payload)
            case Attribute.EXPLICIT_CLUSTER:
                info.explicit_cluster = True
            case Attribute.INDIRECT_BRANCH_TARGETS:
                info.branch_targets.update(_branch_targets(payload))
    return info


def _branch_targets(payload: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield records of a branch's byte offset, a zero, a count, and that many target offsets."""
    words = struct.unpack(f"<{len(payload) // 4}I", payload[: len(payload) // 4 * 4])
    at = 0
    while at + 3 <= len(words):
        branch, _, count = words[at : at + 3]
        yield branch, words[at + 3 : at + 3 + count]
        at += 3 + count
