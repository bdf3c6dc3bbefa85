"""The parts of a .traceg file, for its reader and its writer: traces of Accel-Sim, versions 4 and 5.

    -kernel name = scale                        lines `-key = value`, up to the first that begins with #
    -grid dim = (2,1,1)
    -binary version = 86
    ...
    #traces format = ...
    #BEGIN_TB                                   a CTA
    thread block = 0,0,0
    warp = 0
    insts = 2
    0010 ffffffff 1 R4 LDS.64 1 R2 8 1 0x0000000000000000 8 0
    0020 ffffffff 0 EXIT 0 0 0
    #END_TB

An instruction is [its source line] PC MASK ND [R<d>] OPCODE NS [R<s> ...] WIDTH [MODE addresses] IMM: `PC` is its byte
offset. `MASK` has the lanes that are active and whose guard is true. `ND` and `NS` are the numbers of destination and
source registers that follow. `WIDTH` is the bytes per lane, or 0 without a memory access. `IMM` is the number of a
DEPBAR. The modes are listed below.
"""

from __future__ import annotations

from gpuemu.isa.operands import LAST

PLAIN, PACKED = ".traceg", ".traceg.xz"
LIST = ".g"
VERSIONS = (4, 5)
LEAST_BINARY = 70
"""The first binary version whose instructions have 16 bytes."""

EACH, STRIDE, STEPS = range(3)
"""Modes of addresses.

EACH: one address for each active lane. STRIDE: for consecutive lanes, the first address and the distance. STEPS: the
first address, and for each further active lane the distance from the previous one.
"""
MOST_SOURCES = 5
RZ = LAST["R"]
WINDOW_BYTES = 1 << 24
"""Size of the windows of generic addresses at `shmem base_addr` and `local mem base_addr`."""

ACCEL_SIM = (
    "an Accel-Sim trace: it lacks guards, constants, uniform and special registers, and nothing waits for them;"
    " the opcode gives the width of registers"
)
BARRIERS = "its barriers have no numbers: each is assumed to be barrier 0 for the whole CTA"
COPIES = (
    "its asynchronous copies (LDGSTS) have no shared addresses: the lanes are assumed to write consecutive"
    " bytes without bank conflicts, and to read consecutive bytes"
)


def is_traceg(name: str) -> bool:
    """Whether a file of that name is one."""
    return name.endswith((PLAIN, PACKED))
