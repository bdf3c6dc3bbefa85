"""The units behind the pipes of a sub-core; lowering names them once for the engine and the views."""

from __future__ import annotations

from enum import Enum

MIO_PIPE = "mio"
"""The pipe of instructions that go through the sub-core's queue to the load/store unit; always pipe 0."""
BARRIER_PIPE = "barrier"
TENSOR_PIPE = "tensor"
"""Operations on this pipe differ by their accumulator: the pipes are tensor/f32, tensor/f16, tensor/fma and so on."""
SCALAR = f"{TENSOR_PIPE}/fma"


class Destination(Enum):
    """The unit that takes the instructions of a pipe."""

    LOAD_STORE = "load/store"
    BARRIER = "barrier"
    ARITHMETIC = "arithmetic"
    TENSOR = "tensor core"
    SPECIAL_FUNCTION = "special function"
    ADDRESS_DIVERGENCE = "address divergence"


def tensor_pipe(mode: str) -> str:
    """The pipe of a tensor mode: m16n8k16.f32.f16 accumulates in f32."""
    return f"{TENSOR_PIPE}/{mode.split('.')[1]}"


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a pipe's name: fmaheavy and fmalite of "fmaheavy+fmalite"."""
    return tuple(name.replace("|", "+").split("+"))


def is_of_sm(name: str) -> bool:
    """Whether all sub-cores share a pipe of this name: sm_fp64."""
    return name.startswith("sm_")
