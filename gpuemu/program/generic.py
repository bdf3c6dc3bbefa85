"""Generic addresses: an instruction has an op for each memory that its executions mean.

`ST.E [R2.64], R4` is a store to shared memory if its addresses lie there, and then costs what `STS [R2], R4` does. For
local memory it is an STL; another CTA's shared memory belongs to the unit `cluster`. If the lanes of one execution mean
several memories, gpuemu assumes that these are served one after another: the access goes on to global memory and also
holds the data stage for its shared part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import cluster_opcode, shared_opcode
from gpuemu.trace.model import CLUSTER, GLOBAL, LOCAL, SHARED, SPACES, Instruction, Trace

IN_GLOBAL, IN_SHARED, IN_LOCAL, IN_CLUSTER = (1 << space for space in (GLOBAL, SHARED, LOCAL, CLUSTER))
"""Bits of the memories that the lanes of an execution mean."""
_SETS = 1 << len(SPACES)


@dataclass(frozen=True)
class Variant:
    """An instruction of the code as executed for lanes that mean `spaces`, a set of bits.

    `instruction` does the same to the memory meant; `index` is the place of the instruction in the code.
    """

    index: int
    instruction: Instruction
    spaces: int = IN_GLOBAL

    @property
    def is_mixed(self) -> bool:
        """Whether some lanes mean shared memory and others do not."""
        return bool(self.spaces & IN_SHARED) and self.spaces != IN_SHARED and not self.in_cluster

    @property
    def in_cluster(self) -> bool:
        """Whether lanes mean the shared memory of other CTAs: then all of them go to the cluster."""
        return bool(self.spaces & IN_CLUSTER)


def as_shared(instruction: Instruction) -> Instruction:
    """The instruction that does the same by an address of shared memory in one register: STS [R2] for ST.E."""
    operands = tuple(o[o.index("[R") :].replace(".64", "") if "[R" in o else o for o in instruction.operands)
    return replace(instruction, opcode=shared_opcode(instruction.opcode), operands=operands)


def variants(
    trace: Trace, path: NDArray[np.int32], carries: NDArray[np.bool_], rows: NDArray[np.int64]
) -> tuple[list[Variant], NDArray[np.int32]]:
    """The variants that executions need besides the code itself, and the path with their numbers after the code's.

    `path` are the executed instructions, those of `carries` with the address rows `rows`, in order.
    """
    if trace.spaces is None:
        return [], path
    generic = np.array([i.takes_generic_addresses for i in trace.code])
    meant = np.zeros(len(trace.addresses), dtype=np.uint8)
    for space in range(len(SPACES)):
        meant |= ((trace.spaces == space) & trace.active).any(axis=1).astype(np.uint8) << space
    places = np.flatnonzero(carries)
    spaces = np.where(generic[path[places]], meant[rows], IN_GLOBAL)
    other = spaces > IN_GLOBAL
    places, spaces = places[other], spaces[other]
    keys, numbers = np.unique(path[places].astype(np.int64) * _SETS + spaces, return_inverse=True)
    found = []
    for index, its_spaces in (divmod(key, _SETS) for key in keys.tolist()):
        instruction = trace.code[index]
        if its_spaces == IN_SHARED:
            instruction = as_shared(instruction)
        elif its_spaces & IN_CLUSTER:
            instruction = replace(instruction, opcode=cluster_opcode(instruction.opcode))
        found.append(Variant(index, instruction, its_spaces))
    path = path.copy()
    path[places] = len(trace.code) + numbers
    return found, path


def of_code(code: Sequence[Instruction]) -> list[Variant]:
    """The instructions of the code as they are."""
    return [Variant(index, instruction) for index, instruction in enumerate(code)]
