"""How the engine treats an instruction."""

from __future__ import annotations

from enum import IntEnum, auto


class Kind(IntEnum):
    """How the engine treats an instruction."""

    FIXED = auto()  # a pipe of the sub-core; the result is ready after a fixed latency
    VARIABLE = auto()  # a unit of the sub-core whose completion a dependence counter reports
    SHARED = auto()  # the SM's load/store path into shared memory
    GLOBAL = auto()  # the SM's load/store path to global or local memory
    SHUFFLE = auto()  # the SM's load/store path; crosses lanes and accesses no memory
    BARRIER = auto()
    BRANCH = auto()
    EXIT = auto()
    COUNTER_WAIT = auto()  # DEPBAR: waits until a dependence counter has fallen to a given value
    COPY_COMMIT = auto()  # LDGDEPBAR: closes a group of asynchronous copies
    PRODUCT = auto()  # a warpgroup instruction on the asynchronous side of the tensor core
    PRODUCT_WAIT = auto()  # WARPGROUP.DEPBAR: waits until at most a given number of groups of products are pending
    ASYNCHRONOUS = auto()  # a block copy, or an operation on an mbarrier
    LANE_REGISTER = auto()  # S2R of a register that differs by lane: the SM's load/store path, without memory access
