"""Tensor memory of sm_100 (PTX: tcgen05.alloc, dealloc, ld, st): allocation, and copies from and to registers.

    UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR4     take UR4 x 32 columns; UP0: whether there were so many
    UTCATOMSWS.AND URZ, UR4                         keep the columns whose bits UR4 has
    LDTM.x8 R12, tmem[UR4+0x10]                     registers of the warp from tensor memory
    LDTM.STAT.x8.MAX.F32 R20, R12, tmem[UR4]        the same, and in R20 each thread's largest of them (sm_103)
    STTM.16dp64bit.x2 tmem[UR4], R4                 and to it

The code of tcgen05.alloc also keeps words of its own, in shared memory that the system reserves.

LDTM and STTM access the lanes 32 w to 32 w + 31 of the warp w of four. N of xN repeats a shape along the columns:

    32dp32bit (the default)  thread t has lane t; register r has column r
    16dp64bit                thread t has lane t / 4 + 8 (t % 2), column t / 2 % 2; register r has columns 2 r further
    16dp128bit               thread t has lane t / 4, column t % 4; register 2 r + h has lanes 8 h, columns 4 r further
    16dp256bit               thread t has lane t / 4, columns 2 (t % 4); register 4 r + 2 h + e has lanes 8 h, columns
                             8 r + e further
    16dp32bit_t0_t15         threads 0 to 15 have lanes 0 to 15; _t16_t31: threads 16 to 31 have them

.PACK16BIT packs the low halves of two columns into a register, and .EXPAND16BIT does the opposite. Source: the figures
of the PTX manual, and CUTLASS's layouts of these instructions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import NOTHING, OP
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask, whole_warps
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.tensor_memory import UNITS, find_and_set, tell, tell_units, tensor_memory_of
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.warps import complete_warps, fragment
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import Uniform
from gpuemu.sass.semantics.extremes import MODIFIERS, Extreme
from gpuemu.sass.semantics.lanewise import EncodedStep

_SHAPES = ("32dp32bit", "16dp64bit", "16dp128bit", "16dp256bit", "16dp32bit_t0_t15", "16dp32bit_t16_t31")
_TIMES = {f"x{1 << n}": 1 << n for n in range(8)}
_GROUP = 4
"""Warps that together reach all lanes."""
Index = NDArray[np.int64]


@semantics("UTCATOMSWS")
def allocate(site: Site) -> Step:
    """UTCATOMSWS[.2CTA].FIND_AND_SET[.ALIGN] UPd, URd, URs; UTCATOMSWS.AND URd, URs: tcgen05.alloc and dealloc.

    With .2CTA, one CTA of a pair takes columns that are free in both CTAs; each gives its own back.
    """
    modifiers = [m for m in site.modifiers if m != "2CTA"]
    finds = modifiers[:1] == ["FIND_AND_SET"] and set(modifiers[1:]) <= {"ALIGN"}
    if not finds and modifiers != ["AND"]:
        raise site.unsupported("this form of UTCATOMSWS")
    first = 1 if finds else 0
    store, source = site.destination(first), site.raw(first + 1)
    succeeds, uniform = site.set_predicate(0) if finds else None, Uniform(site)

    def step(mask: Mask) -> None:
        wanted = np.broadcast_to(source(), (site.lanes.count,))
        for lane in uniform.lanes(mask):
            memory, here = tensor_memory_of(site), np.zeros(site.lanes.count, np.bool_)
            here[lane] = True
            before = memory.taken
            if succeeds is None:
                tell_units(site, lane, None, "free", before & ~int(wanted[lane]))
                memory.taken &= int(wanted[lane])
                store(np.uint32(before), whole_warps(here))
                continue
            units = int(wanted[lane])
            if not 0 < units <= UNITS or units & units - 1:
                raise ExecutionError(
                    site.instruction, lane, f"an allocation of {32 * units} columns of tensor memory",
                    "Allocate 32, 64, 128, 256 or 512 columns",
                )  # fmt: skip
            both = [memory]
            if site.has("2CTA"):
                if site.environment.memory.cluster is None:
                    raise clusters.refusal(site, 1)
                both.append(tensor_memory_of(site, site.environment.memory.rank ^ 1))
            found = find_and_set(both, units, site.has("ALIGN"))
            succeeds(np.bool_(found is not None), whole_warps(here))
            if found is not None:
                store(np.uint32(found), whole_warps(here))
                ranks = (site.environment.memory.rank, site.environment.memory.rank ^ 1)[: len(both)]
                for rank in ranks:
                    tell_units(site, lane, rank, "alloc", (1 << units) - 1 << found)

    return step


@semantics("UVIRTCOUNT")
def give_up_permit(site: Site) -> Step:
    """UVIRTCOUNT.DEALLOC.SMPOOL n: tcgen05.relinquish_alloc_permit lets other CTAs of the SM allocate."""
    site.only("DEALLOC", "SMPOOL")
    return EncodedStep(lambda mask: None, {OP: NOTHING})


class _Block:
    """The lanes and columns that an LDTM or STTM accesses: for each register and thread of a warp, relative ones."""

    def __init__(self, site: Site, k: int, packs: str, *more: str):
        self.site = site
        site.only(*_SHAPES, *_TIMES, packs, *more)
        operand = site.operands[k]
        inside = operand.brackets[0] if operand.prefix == "tmem" and len(operand.brackets) == 1 else None
        register = None if inside is None else inside.of("UR")
        if inside is None or register is None or inside.unknown or len(inside.registers) != 1 or operand.suffixes:
            raise site.unsupported(f"the address {operand.text}")
        shape = next((m for m in site.modifiers if m in _SHAPES), _SHAPES[0])
        times = next((_TIMES[m] for m in site.modifiers if m in _TIMES), 1)
        self.packed = site.has(packs)
        self.lanes, self.columns, self.threads = block(shape, times, self.packed)
        self.registers = len(self.lanes)
        self._row = site.lanes.uniform_registers[register.number]
        self._offset = inside.number or 0

    def of_warp(self, warp: int) -> tuple[NDArray[np.uint32], Index, Index]:
        """Return the cells of a warp's tensor memory, and the lanes and columns of each register and thread."""
        memory = tensor_memory_of(self.site)
        address = int(self._row[warp * WARP]) + self._offset & 0xFFFFFFFF
        lane, columns = memory.places(self.site, warp * WARP, address, self.columns)
        lanes = lane + self.lanes
        last, own = int(lanes.max()), warp % _GROUP * WARP
        if lane % 16 or lane < own or last >= own + WARP:
            found = f"lanes {lane} to {last} of tensor memory in warp {warp}"
            right = f"Access lanes {own} to {own + WARP - 1} in this warp"
            raise ExecutionError(self.site.instruction, warp * WARP, found, right)
        return memory.cells, lanes, columns


@lru_cache(maxsize=64)
def block(shape: str, times: int, packed: bool) -> tuple[Index, Index, Index]:
    """Return lanes and columns [registers, 32 threads (, 2 if packed)], and the threads that take part."""
    t = np.arange(WARP)
    part = t
    if shape == "16dp64bit":
        each, lanes, columns = 2, [t // 4 + 8 * (t % 2)], [t // 2 % 2]
    elif shape == "16dp128bit":
        each, lanes, columns = 4, [t // 4, t // 4 + 8], [t % 4] * 2
    elif shape == "16dp256bit":
        each, lanes = 8, [t // 4, t // 4, t // 4 + 8, t // 4 + 8]
        columns = [2 * (t % 4), 2 * (t % 4) + 1] * 2
    else:
        each, lanes, columns = 1, [t if shape == "32dp32bit" else t % 16], [t * 0]
        if shape != "32dp32bit":
            part = t[:16] if shape.endswith("t15") else t[16:]
    along = np.arange(times)[:, None, None] * each
    all_columns = (np.stack(columns)[None] + along).reshape(-1, WARP)
    all_lanes = np.broadcast_to(np.stack(lanes)[None], (times, len(lanes), WARP)).reshape(-1, WARP)
    if packed:
        return all_lanes[..., None], np.stack([2 * all_columns, 2 * all_columns + 1], axis=-1), part
    return all_lanes, all_columns, part


@semantics("LDTM")
def load(site: Site) -> Step:
    """LDTM[.shape][.xN][.PACK16BIT] Rd, tmem[UR + n]: tcgen05.ld.

    LDTM.STAT[.shape].xN.MIN|MAX... Rs, Rd, tmem[UR + n]: tcgen05.ld.red of sm_103.
    """
    reduces = site.has("STAT")
    access = _Block(site, 1 + reduces, "PACK16BIT", *(("STAT", *MODIFIERS) if reduces else ()))
    if reduces and access.packed:
        raise site.unsupported("a reduction of packed numbers")
    extreme, (statistics, of_all) = Extreme(site) if reduces else None, site.register(0)
    file, first = site.register(1 if reduces else 0)
    if first + access.registers >= len(file):
        raise site.unsupported(f"{access.registers} registers from {site.operands[int(reduces)].core}")

    def step(mask: Mask) -> None:
        chosen = complete_warps(site, mask)
        for warp in range(site.lanes.warps) if chosen is None else chosen.tolist():
            cells, lanes, columns = access.of_warp(warp)
            tell(site, warp * WARP, None, "load", lanes, columns)
            found = cells[lanes, columns]
            if access.packed:
                found = found[..., 0] & np.uint32(0xFFFF) | found[..., 1] << np.uint32(16)
            threads = warp * WARP + access.threads
            file[first : first + access.registers, threads] = found[:, access.threads]
            if extreme is not None:
                values = np.ascontiguousarray(found[:, access.threads].T)
                statistics[of_all, threads] = extreme.of(values, np.ones(values.shape, np.bool_))

    return step


@semantics("STTM")
def store(site: Site) -> Step:
    """STTM[.shape][.xN][.EXPAND16BIT] tmem[UR + n], Rs: tcgen05.st."""
    access = _Block(site, 0, "EXPAND16BIT")
    held = fragment(site, 1, access.registers)

    def step(mask: Mask) -> None:
        chosen = complete_warps(site, mask)
        for warp in range(site.lanes.warps) if chosen is None else chosen.tolist():
            cells, lanes, columns = access.of_warp(warp)
            tell(site, warp * WARP, None, "store", lanes, columns)
            threads, values = access.threads, held[warp]
            if access.packed:
                values = np.stack([values & np.uint32(0xFFFF), values >> np.uint32(16)], axis=-1)
                lanes = np.broadcast_to(lanes, values.shape)
            cells[lanes[:, threads], columns[:, threads]] = values[:, threads]

    return step
