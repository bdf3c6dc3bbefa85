"""Sequences of copies as those behind the tables, by LDGSTS and by TMA, in one CTA and in clusters.

They are written here from what a row's columns mean, with a trace's addresses and events in place of data.

* LDGSTS: each thread copies 4, 8 or 16 bytes a turn. Before that it waits until all but the last `stages - 1` of its
  copies are there, or all but 8, which is what CUDA's pipeline primitives wait for at most.
* TMA: one thread copies a tile a turn into one of `stages` buffers, after the copy that filled it before.
* Clusters: each of four warps copies a tile a turn and waits for it. Then all threads of the cluster meet, with release
  and acquire. The CTAs of a group copy the same tiles. A group is a cluster, in which each CTA copies or one
  multicasts, or it has consecutive CTAs without a cluster.
"""

from __future__ import annotations

from functools import cache

import numpy as np

import gpuemu
from validation.blackwell.grids import (
    Part,
    architecture,
    chip,
    cluster_waves,
    launch_cycles,
    run,
    turn_cycles,
)

IMPLICIT, MULTICAST, APART, WITHOUT_CLUSTER = range(4)
"""The modes of the multicast tables, by number."""
WARPS = 4
MOST_LEFT = 8
LINE = 128
_LDGSTS = {4: "LDGSTS.E", 8: "LDGSTS.E.64", 16: "LDGSTS.E.BYPASS.128"}
_FREE, _NEXT, _LATE = "B------:R-:W-:-:S04", "B------:R-:W-:-:S02", "B------:R-:W-:-:S05"
_TEST, _TESTED = "B------:R-:W0:-:S01", "B0-----:R-:W-:Y:S05"


def _clock(trace: gpuemu.TraceBuilder) -> None:
    trace.emit("CS2R.32 R2, SR_CLOCKLO", control=_LATE)


def _box(at: dict[str, object], tile: int, start: object) -> dict[str, object]:
    """The event of the copy of a tile of consecutive bytes."""
    lines = {"line": LINE, "count1": max(1, tile // LINE), "pitch1": LINE}
    return at | {"bytes": tile, "shared": 1024, "global": start, "map": 1 << 30} | lines


def _copy(trace: gpuemu.TraceBuilder, at: dict[str, object], tile: int, start: object) -> None:
    """One thread says how many bytes its mbarrier gets, and copies them."""
    expected = at | {"arrivals": 1, "bytes": tile}
    trace.emit("SYNCS.ARRIVE.TRANS64 RZ, [R5+URZ], R4", event=expected, control=_FREE)
    trace.emit("UTMALDG.2D [UR12], [UR8]", event=_box(at, tile, start), control="B------:R1:W-:-:S01")


def _wait(trace: gpuemu.TraceBuilder, at: dict[str, object], parity: object) -> None:
    """Wait for a phase of the mbarrier."""
    trace.emit("SHF.L.U32 R4, R2, 0x1f, RZ", control="B-1----:R-:W-:-:S05")
    test = "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R5+URZ], R4"
    trace.emit(test, event=at | {"parity": parity}, control=_TEST)
    trace.emit("@!P1 BRA 0x0", control=_TESTED)


def _begin(name: str, threads: int, barriers: int) -> gpuemu.TraceBuilder:
    """A trace whose threads initialize mbarriers and meet."""
    trace = gpuemu.TraceBuilder(name, arch="sm_100", block=(threads, 1, 1), dynamic_shared_bytes=2048)
    with trace.only(warps=0):
        for barrier in range(barriers):
            trace.emit("SYNCS.EXCH.64 URZ, [UR4], UR6", event={"barrier": 8 * barrier, "arrivals": 1}, control=_LATE)
    trace.emit("BAR.SYNC 0x0", control=_LATE)
    return trace


def _end(trace: gpuemu.TraceBuilder) -> gpuemu.Trace:
    trace.emit("EXIT", control=_LATE)
    return trace.build()


def tma(tile: int, stages: int, turns: int, apart: int, timed: bool = False) -> gpuemu.Trace:
    """A thread copies `stages + turns` tiles. `timed`: between clock reads."""
    trace = _begin("tma", 32, stages)
    if timed:
        _clock(trace)
    for turn in range(stages + turns):
        at: dict[str, object] = {"barrier": turn % stages * 8}
        if turn >= stages:
            _wait(trace, at, (turn // stages - 1) % 2)
        _copy(trace, at, tile, turn * apart)
    for turn in range(stages + turns, 2 * stages + turns):
        _wait(trace, {"barrier": turn % stages * 8}, (turn // stages - 1) % 2)
    if timed:
        _clock(trace)
    return _end(trace)


def ldgsts(width: int, threads: int, stages: int, turns: int, apart: int, timed: bool = False) -> gpuemu.Trace:
    """Each thread copies `turns` times. `timed`: between clock reads."""
    shared = stages * threads * width
    trace = gpuemu.TraceBuilder("ldgsts", arch="sm_100", block=(threads, 1, 1), static_shared_bytes=shared)
    if timed:
        _clock(trace)
    place = f"{width} * (32 * warp + lane)"
    with trace.repeat(turns):
        if not timed:
            trace.emit("IADD3 R5, P0, PT, R2, R13, RZ", control=_NEXT)
            trace.emit(f"DEPBAR.LE SB0, {min(stages - 1, MOST_LEFT):#x}", control=_NEXT)
            trace.emit("LEA R4, P0, R5, UR12, 0x4", control=_FREE)
            trace.emit("LEA.HI.X R5, R5, UR13, R6, 0x4, P0", control=_LATE)
        copy = f"{_LDGSTS[width]} [R3], desc[UR10][R4.64]"
        trace.emit(copy, lanes=place, source=f"{place} + i * {apart}", control="B------:R1:W-:-:S01")
        trace.emit("LDGDEPBAR", control="B------:R-:W0:-:S01")
        if not timed:
            trace.emit("IMAD R13, R0, 0x4, R13", control="B-1----:R-:W-:-:S02")
            trace.emit("BRA 0x0", control=_LATE)
    trace.emit("DEPBAR.LE SB0, 0x0", control=_NEXT)
    if timed:
        trace.emit("LDS R6, [R3]", lanes=place, control="B------:R-:W2:-:S01")
        trace.emit("CS2R.32 R4, SR_CLOCKLO", control="B--2---:R-:W-:-:S05")
    return _end(trace)


def cluster(tile: int, turns: int, apart: int) -> gpuemu.Trace:
    """Four warps copy a tile each, wait for it, and meet with the rest of the cluster, again and again."""
    trace = _begin("cluster", 32 * WARPS, WARPS)
    at: dict[str, object] = {"barrier": "8 * warp"}
    with trace.repeat(turns):
        trace.emit("VIADD R3, R6, UR5", control=_FREE)
        trace.emit("ELECT P1, URZ, PT", control="B------:R-:W-:-:S13")
        trace.emit("R2UR UR15, R3", control="B------:R-:W-:-:S13")
        _copy(trace, at, tile, f"i * {apart} + warp * {tile}")
        _wait(trace, at, "i % 2")
        for opcode in ("MEMBAR.ALL.CTA", "MEMBAR.ALL.GPU"):
            trace.emit(opcode, control="B------:R-:W-:-:S06")
        for opcode in ("ERRBAR", "CGAERRBAR", "UCGABAR_ARV", "UCGABAR_WAIT", "CCTL.IVALL", "BRA 0x0"):
            trace.emit(opcode, control=_LATE)
    return _end(trace)


@cache
def ldgsts_turn(width: int, threads: int, stages: int, resident: int) -> float:
    """The cycles of a turn of LDGSTS copies by `resident` CTAs of each SM."""
    ctas, bytes_of_cta = chip().sms * resident, threads * width
    part = Part(range(ctas), bytes_of_cta, resident)
    apart = stages * ctas * bytes_of_cta
    return turn_cycles(
        lambda turns: ldgsts(width, threads, stages, turns, apart), part, max(1, bytes_of_cta // LINE), 2 * stages
    )


@cache
def tma_turn(tile: int, stages: int) -> float:
    """The cycles of a turn of TMA copies by a CTA of each SM."""
    part = Part(range(chip().sms), tile)
    apart = chip().sms * tile
    return turn_cycles(lambda turns: tma(tile, stages, turns, apart), part, max(1, tile // LINE), stages)


@cache
def ldgsts_once(width: int, threads: int, resident: int) -> tuple[float, float]:
    """One copy by each thread of the launch: median cycles between clock reads, and elapsed cycles of the launch."""
    warps = resident * threads // 32
    part = Part(range(chip().sms * warps), 32 * width, warps)
    return _latency(ldgsts(width, 32, 1, 1, 0, timed=True), part)


@cache
def tma_once(tile: int) -> float:
    """Median cycles between clock reads around one copy by a thread of each SM."""
    return _latency(tma(tile, 1, 0, 0, timed=True), Part(range(chip().sms), tile))[0]


def _latency(trace: gpuemu.Trace, part: Part) -> tuple[float, float]:
    """Median cycles between the clock reads of a launch that reads pages for the first time, and elapsed cycles."""
    found = run(trace, part)
    walk = chip().page_walk_cycles or 0
    late = np.arange(len(found.ended.ends)) % part.resident * architecture().launch.cta_interval_cycles
    longer = float(np.median(found.ended.ends - late)) - found.alone
    return longer + max(found.clocks) - min(found.clocks) + walk, found.ended.end + launch_cycles()


def group_of(mode: int, cta: int, size: int) -> int:
    """The group whose data a CTA copies. CTAs of no cluster go to the GPCs in turn, and those of a cluster to one."""
    if mode == WITHOUT_CLUSTER:
        gpcs = chip().gpcs or 1
        gpc = cta * gpcs // chip().sms
        first = -(-gpc * chip().sms // gpcs)
        return ((cta - first) * gpcs + gpc) // size
    return cta if mode == APART else cta // size


@cache
def cluster_turn(mode: int, size: int, tile: int) -> float:
    """The cycles of a turn of all CTAs of the launch, in groups of this size; waves of CTAs follow one another."""
    sms, each = chip().sms, WARPS * tile
    ctas = sms // size * size
    waves = [ctas] if mode == WITHOUT_CLUSTER else cluster_waves(ctas, size)
    found = 0.0
    for wave in waves:
        groups = [group_of(mode, cta, size) for cta in range(wave)]
        if mode == MULTICAST:
            groups = list(range(wave // size))  # only the first CTA of a cluster asks L2
        found += turn_cycles(lambda turns: cluster(tile, turns, sms * each), Part(groups, each), each // LINE)
    return found
