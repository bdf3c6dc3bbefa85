"""Sequences of products in tensor memory as those behind the tables: one product alone, and many in a row.

A table's row names a format, where A is (SS: shared memory, TS: tensor memory), one or two CTAs, M and N. A sequence is
written here, with a trace's events in place of data. One thread starts `depth` products and a commit, and waits for the
mbarrier. A latency is the time between two clock reads around one product. A throughput is the time of a turn of the
loop, divided by the products in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import gpuemu
from gpuemu.isa.instruction_descriptor import A_BYTES

MNEMONICS = {
    "BF16": "UTCHMMA", "E4M3": "UTCQMMA", "F4": "UTCQMMA", "S8": "UTCIMMA", "MXF8": "UTCQMMA", "MXF4": "UTCOMMA",
}  # fmt: skip
_TURNS = 3
_FREE, _NEXT = "B------:R-:W-:-:S04", "B------:R-:W-:-:S02"
_TEST, _TESTED = "B------:R-:W0:-:S01", "B0-----:R-:W-:Y:S05"


@dataclass(frozen=True)
class Product:
    """A row's product; `a` is SS or TS."""

    format: str
    a: str
    ctas: int
    m: int
    n: int

    @property
    def sass(self) -> str:
        """The instruction."""
        left = "gdesc[UR6]" if self.a == "SS" else "tmem[UR6]"
        opcode = MNEMONICS[self.format] + ".2CTA" * (self.ctas == 2)
        scales = ", tmem[UR12]" if self.format.startswith("MX") else ""
        return f"{opcode} {left}, gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5]{scales}, UPT"

    @property
    def event(self) -> dict[str, int]:
        """The shape, as the instruction descriptor has it."""
        return {"descriptor": self.m // 16 << 24 | self.n // 8 << 17}

    @property
    def operations(self) -> int:
        """Multiplications and additions of a CTA pair or a CTA, by elements of 32 bytes of K."""
        bits = {"BF16": 16, "MXF4": 4}.get(self.format, 8)
        return 2 * self.m * self.n * A_BYTES * 8 // bits


@lru_cache(maxsize=1)
def architecture() -> gpuemu.Architecture:
    """The architecture of the tables' chip."""
    return gpuemu.load_arch("sm_100")


def _turns(product: Product, depth: int, clocks_inside: bool) -> list[int]:
    """Replay the loop of a sequence; return the clock reads of its warp."""
    trace = gpuemu.TraceBuilder("products", arch="sm_100", block=(32, 1, 1), static_shared_bytes=1024)
    at = {"barrier": 0}
    trace.emit("SYNCS.EXCH.64 URZ, [UR4], UR6", event=at | {"arrivals": 1}, control="B------:R-:W0:-:S01")
    trace.emit("BAR.SYNC 0x0", control="B0-----:R-:W-:-:S05")
    if not clocks_inside:
        trace.emit("CS2R.32 R2, SR_CLOCKLO", control="B------:R-:W-:-:S05")
    with trace.repeat(_TURNS):
        if clocks_inside:
            trace.emit("CS2R.32 R2, SR_CLOCKLO", control="B------:R-:W-:-:S05")
        trace.emit("ELECT P0, URZ, PT", control=_NEXT)
        with trace.repeat(depth):
            trace.emit(product.sass, event=product.event, control=_FREE)
        trace.emit("UTCBAR [UR4], URZ", event=at | {"arrivals": 1}, control=_FREE)
        test = "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R4+URZ], R3"
        if not clocks_inside:
            trace.emit("VIADD R6, R6, 0xffffffff", control=_FREE)
            trace.emit("ISETP.NE.AND P2, PT, R6, RZ, PT", control=_NEXT)
        trace.emit(test, event=at | {"parity": "i % 2"}, control=_TEST)
        trace.emit("@!P1 BRA 0x0", control=_TESTED)
        if clocks_inside:
            trace.emit("CS2R.32 R4, SR_CLOCKLO", control="B------:R-:W-:-:S05")
        else:
            trace.emit("LOP3.LUT R3, R3, R5, RZ, 0x3c, !PT", control=_NEXT)
            trace.emit("@P2 BRA 0x0", control=_TESTED)
    if not clocks_inside:
        trace.emit("CS2R.32 R4, SR_CLOCKLO", control="B------:R-:W-:-:S05")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return list(gpuemu.run(trace.build(), architecture(), engine="simpy").warps[0].clock_reads)


@cache
def latency(product: Product) -> int:
    """The cycles between clock reads around one product, its commit and the wait for it."""
    reads = _turns(product, 1, True)
    return reads[-1] - reads[-2]


@cache
def cycles_per_product(product: Product, depth: int) -> float:
    """The cycles of a turn of the loop, divided by the products in it."""
    first, last = _turns(product, depth, False)
    return (last - first) / _TURNS / depth
