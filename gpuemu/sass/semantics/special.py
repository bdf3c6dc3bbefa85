"""Special registers, and instructions that compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import NOTHING, OP
from gpuemu.sass.lane import integers
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import CTA_ROW, VOTE_ROW, VOTE_TRUTH_ROW, WARP, Mask, write
from gpuemu.sass.machine.memory.storage import SHARED_WINDOW
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.lanewise import EncodedStep, LaneStep, Place, Value, constant, constant_pair

_LOW = 0xFFFFFFFF
_ZEROS = ("SRZ", "SR_VIRTUALSMID", "SR_LMEMHIOFF")
"""Registers that read 0: SRZ, the number of the emulated SM, and the offset down to which a stack may grow."""
_TIMER = "SR_GLOBALTIMER"
_CLOCKS = ("SR_CLOCK", _TIMER)
"""See Environment.now for their values."""


def _thread_index(environment: Environment) -> dict[str, NDArray[np.uint32]]:
    width, height, _ = environment.launch.block
    thread = environment.lanes.thread
    return {
        "SR_TID.X": thread % np.uint32(width),
        "SR_TID.Y": thread // np.uint32(width) % np.uint32(height),
        "SR_TID.Z": thread // np.uint32(width * height),
    }


def _lane_masks(environment: Environment) -> dict[str, NDArray[np.uint32]]:
    own = np.left_shift(np.uint32(1), environment.lanes.lane)
    below = own - np.uint32(1)
    return {
        "SR_EQMASK": own,
        "SR_LTMASK": below,
        "SR_LEMASK": below | own,
        "SR_GEMASK": ~below,
        "SR_GTMASK": ~(below | own),
    }


def _clock(environment: Environment, name: str) -> Callable[[], Any] | None:
    """Return a getter of 64 bits, lanes or scalar, shifted to the word that the register names."""
    for clock in _CLOCKS:
        nanoseconds = clock == _TIMER
        if name in (clock, f"{clock}LO"):
            return lambda: environment.now(nanoseconds)
        if name == f"{clock}HI":
            return lambda: environment.now(nanoseconds) >> 32
    return None


def _special_register(site: Site, name: str) -> Value:
    """Return 32 bits of a special register."""
    environment = site.environment
    lanes, launch = environment.lanes, environment.launch
    if name in _ZEROS:
        return constant(0)
    clock = _clock(environment, name)
    if clock is not None:
        return Value(lambda: np.uint32(clock() & _LOW), None)
    stem, _, axis = name.partition(".")
    if stem in ("SR_CTAID", "SR_NTID", "SR_NCTAID") and axis in ("X", "Y", "Z"):
        k = "XYZ".index(axis)
        if stem == "SR_CTAID":
            return Value(lambda: np.uint32(environment.cta[k]), Place(CTA_ROW + k))
        return constant((launch.block if stem == "SR_NTID" else launch.grid)[k])
    arrays = {"SR_LANEID": lanes.lane, "SR_WARPID": lanes.warp}
    # %warpid is bits 8 to 14 of SR_VIRTID; here it is the warp's number in its CTA
    arrays |= {"SR_VIRTID": lanes.warp << np.uint32(8)} | _thread_index(environment) | _lane_masks(environment)
    if name in arrays:
        values = arrays[name]
        return Value(lambda: values, Place(lanes.fixed_row(name, values)))
    match name:
        case "SR_CgaCtaId":
            return Value(lambda: np.uint32(environment.memory.rank), Place(-1))  # compiled code has no clusters
        case "SR_CgaSize":  # matches the placement of words in bank 0: see machine/memory/constant_banks
            return constant(1)
        case "SR_SWINHI":
            return constant(SHARED_WINDOW >> 32)
        case "SR_SMEMSZ":
            return constant(environment.shared_memory_size)
        case "SR_VIRTCFG":  # %nwarpid is bits 8 to 15
            return constant(environment.arch.sm.max_warps << 8)
    raise site.unsupported(f"the special register {name}")


@semantics("S2R", "S2UR")
def s2r(site: Site) -> Step:
    """S2R Rd, SR and S2UR URd, SR: 32 bits of a special register."""
    site.only()
    value = _special_register(site, site.instruction.operands[1])
    if site.mnemonic == "S2UR":
        lanes = np.broadcast_to(value.get(), site.lanes.count).reshape(-1, WARP)
        if not site.is_uniform(0) or (lanes != lanes[:, :1]).any():
            raise site.unsupported("this form of S2UR")
    return LaneStep(site, integers.move, [value], [0])


@semantics("B2R")
def barrier_result(site: Site) -> Step:
    """B2R.RESULT Rd [, Pd]: the number of true votes in the lane's last BAR.RED, and in Pd their AND or OR."""
    site.only("RESULT")
    if not site.has("RESULT") or site.is_predicate(0) or len(site.operands) > 2:
        raise site.unsupported("this form of B2R")
    counts, truths = site.environment.barrier_results
    reads = [Value(lambda: counts, Place(VOTE_ROW)), Value(lambda: truths, Place(VOTE_TRUTH_ROW))]
    return LaneStep(site, integers.keep_both, reads, [0, 1 if len(site.operands) > 1 else None])


@semantics("CS2R", "CS2UR")
def cs2r(site: Site) -> Step:
    """CS2R Rd, SR: 64 bits of a clock or SRZ, in a register pair. CS2R.32 reads a word. CS2UR is uniform."""
    site.only("32")
    name = site.instruction.operands[1]
    clock = _clock(site.environment, name)
    if clock is None and name not in ("SRZ", *(("SR_CgaSize",) if site.has("32") else ())):
        raise site.unsupported(f"the special register {name}")
    if site.has("32"):
        return LaneStep(site, integers.move, [_special_register(site, name)], [0])
    if clock is None:
        return LaneStep(site, integers.move_pair, [constant_pair(0)], [0])
    if not name.endswith("LO"):
        raise site.unsupported(f"64 bits from {name}")
    store = site.destination64(0)

    def step(mask: Mask) -> None:
        store(np.uint64(clock()), mask)

    return step


@semantics("LEPC")
def lepc(site: Site) -> Step:
    """LEPC Rd returns the address of this instruction, and LEPC Rd, target that of another, in a register pair.

    The code of a function starts at address 0.
    """
    site.only()
    operands = site.instruction.operands
    address = site.instruction.offset
    if len(operands) == 2:
        if not operands[1].startswith("0x"):
            raise site.unsupported(f"the address of {operands[1]}")
        address = int(operands[1], 16)
    elif len(operands) != 1:
        raise site.unsupported("this form of LEPC")
    return LaneStep(site, integers.move_pair, [constant_pair(address)], [0])


@semantics("RPCMOV")
def rpcmov(site: Site) -> Step:
    """RPCMOV.32 Rpc.LO|HI, Ra and Rd, Rpc.LO|HI: move the return address register, in which compilers save words."""
    site.only("32")
    words = site.environment.return_address
    halves = {"Rpc.LO": words[0], "Rpc.HI": words[1]}
    operands = site.instruction.operands
    if len(operands) != 2 or not site.has("32") or sum(o in halves for o in operands) != 1:
        raise site.unsupported("this form of RPCMOV")
    if operands[0] in halves:
        target, get = halves[operands[0]], site.source(1)
        return lambda mask: write(target, get(), mask)
    store, source = site.destination(0), halves[operands[1]]
    return lambda mask: store(source, mask)


@semantics("NOP", "PMTRIG")
def nothing(site: Site) -> Step:
    """NOP, and PMTRIG, which triggers an event of a profiler."""
    site.only()
    return EncodedStep(lambda mask: None, {OP: NOTHING})
