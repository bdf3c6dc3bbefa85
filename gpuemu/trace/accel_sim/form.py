"""What a .traceg file consists of, for its reader and its writer: the traces of Accel-Sim, versions 4 and 5.

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

An instruction is [its source line] PC MASK ND [R<d>] OPCODE NS [R<s> ...] WIDTH [MODE addresses] IMM: `PC` its byte
offset, `MASK` the lanes that are active and whose guard holds, `ND` and `NS` how many destination and source registers
follow, `WIDTH` bytes of a lane or 0 where no memory is accessed, `IMM` a number that DEPBAR has. The modes are below.
"""

from __future__ import annotations

from gpuemu.isa.operands import LAST

PLAIN, PACKED = ".traceg", ".traceg.xz"
LIST = ".g"
VERSIONS = (4, 5)
LEAST_BINARY = 70
"""The first binary version whose instructions have 16 bytes."""

EACH, STRIDE, STEPS = range(3)
"""Modes of addresses: one for each active lane; of lanes that follow one another the first and the distance; the first
and each further active lane's distance from the one before."""
MOST_SOURCES = 5
RZ = LAST["R"]
WINDOW_BYTES = 1 << 24
"""Generic addresses from `shmem base_addr` on, and from `local mem base_addr` on, that mean such memory."""

ACCEL_SIM = (
    "an Accel-Sim trace: guards, constants, uniform and special registers are not in it, and nothing waits for them;"
    " wide registers are as wide as the opcode says"
)
BARRIERS = "its barriers have no numbers: each is taken for barrier 0 and the whole CTA"
COPIES = (
    "its asynchronous copies (LDGSTS) have no shared addresses: they are taken to write one lane behind the other,"
    " without bank conflicts, and to read so, too"
)


def is_traceg(name: str) -> bool:
    """Whether a file of that name is one."""
    return name.endswith((PLAIN, PACKED))
