"""Copies of matrices from shared memory to tensor memory of sm_100 (PTX: tcgen05.cp), and shifts (tcgen05.shift).

    UTCCP.T.S[.2CTA][.shape] tmem[UR4], gdesc[UR6]

The shapes, with the lanes that get each row of 32 (128dp256bit is the default):

    128dp256bit, 128dp128bit      128 rows of 32 or 16 bytes, each in its lane
    4dp256bit                     4 rows of 32 bytes
    2x64dp128bit_lw02_lw13        64 rows of 16 bytes, the first 32 in lanes 0 and 64 on, the others in 32 and 96 on
    2x64dp128bit_lw01_lw23        the first 32 rows in lanes 0 and 32 on, the others in lanes 64 and 96 on
    4x32dp128bit                  32 rows of 16 bytes in lanes 0, 32, 64 and 96 on

.U4x16P64 and .U6x16P32 expand numbers of 4 and 6 bits to bytes. With .2CTA, both CTAs of the pair copy from their own
shared memory. A copy is complete when its instruction has executed. Source: the PTX manual, chapter tcgen05.

    UTCSHIFT[.2CTA].DOWN tmem[UR4]

moves 32 bytes of 31 lanes of a warp: each lane gets those of the next, and the last of the 32 stays. The manual gives
the shape, 31x256b; that a row moves to the row before it is known from .ashift, see `async_products`.
"""

from __future__ import annotations

import numpy as np

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.shared_matrices import shared_matrix, unpacked
from gpuemu.sass.machine.memory.tensor_memory import shift_down, tell, tensor_memory_of
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import Uniform

_SHAPES: dict[str, tuple[int, int, tuple[tuple[int, ...], ...]]] = {
    "128dp256bit": (128, 32, ((0,), (1,), (2,), (3,))),
    "128dp128bit": (128, 16, ((0,), (1,), (2,), (3,))),
    "4dp256bit": (4, 32, ((0,),)),
    "2x64dp128bit_lw02_lw13": (64, 16, ((0, 2), (1, 3))),
    "2x64dp128bit_lw01_lw23": (64, 16, ((0, 1), (2, 3))),
    "4x32dp128bit": (32, 16, ((0, 1, 2, 3),)),
}
"""By shape: the rows, the bytes of a row, and for each 32 rows the groups of 32 lanes that get them."""
_PACKED = {"U4x16P64": 4, "U6x16P32": 6}


def _ranks(site: Site) -> list[int]:
    """The CTAs whose tensor memory an instruction uses: its own, or both of the pair (.2CTA)."""
    memory = site.environment.memory
    if not site.has("2CTA"):
        return [memory.rank]
    if memory.cluster is None:
        raise clusters.refusal(site, 1)
    return [memory.rank & ~1, memory.rank | 1]


@semantics("UTCCP")
def copy(site: Site) -> Step:
    """UTCCP.T.S[.2CTA][.shape][.format] tmem[UR + n], gdesc[UR]."""
    site.only("T", "S", "2CTA", *_SHAPES, *_PACKED)
    target, source = site.operands[0], site.operands[1]
    inside = target.brackets[0] if target.prefix == "tmem" else None
    register = None if inside is None else inside.of("UR")
    described = source.brackets[0].of("UR") if source.prefix == "gdesc" else None
    if inside is None or register is None or described is None or len(site.operands) != 2:
        raise site.unsupported("this form of UTCCP")
    rows, size, groups = _SHAPES[next((m for m in site.modifiers if m in _SHAPES), "128dp256bit")]
    bits = next((_PACKED[m] for m in site.modifiers if m in _PACKED), 8)
    uniform, offset = Uniform(site), inside.number or 0

    def step(mask: Mask) -> None:
        ranks = _ranks(site)
        for lane in uniform.lanes(mask):
            address = uniform.word(register.number, lane) + offset & 0xFFFFFFFF
            for rank in ranks:
                found = shared_matrix(site, lane, rank, uniform.wide(described.number, lane), (rows, size), 1)
                if bits < 8:
                    found = unpacked(found.astype(np.uint8), bits)
                words = np.ascontiguousarray(found).view(np.uint32)
                tensor = tensor_memory_of(site, rank)
                first, columns = tensor.places(site, lane, address, np.arange(size // 4))
                for number, group in enumerate(groups):
                    part = words[number * WARP : (number + 1) * WARP]
                    for which in group:
                        lanes = first + WARP * which + np.arange(len(part))
                        tell(site, lane, rank, "store", lanes[:, None], columns)
                        tensor.cells[lanes[:, None], columns] = part

    return step


@semantics("UTCSHIFT")
def shift(site: Site) -> Step:
    """UTCSHIFT[.2CTA].DOWN tmem[UR + n]."""
    site.only("2CTA", "DOWN")
    target = site.operands[0]
    inside = target.brackets[0] if target.prefix == "tmem" and len(site.operands) == 1 else None
    register = None if inside is None else inside.of("UR")
    if inside is None or register is None or not site.has("DOWN"):
        raise site.unsupported("this form of UTCSHIFT")
    uniform, offset = Uniform(site), inside.number or 0

    def step(mask: Mask) -> None:
        ranks = _ranks(site)
        for lane in uniform.lanes(mask):
            address = uniform.word(register.number, lane) + offset & 0xFFFFFFFF
            if (address >> 16) % WARP:
                found = f"a shift of rows from lane {address >> 16} of tensor memory on"
                raise ExecutionError(site.instruction, lane, found, f"Use a lane that is a multiple of {WARP}")
            for rank in ranks:
                shift_down(site, lane, rank, address, WARP)

    return step
