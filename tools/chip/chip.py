"""Measures what SMs share: python tools/chip/chip.py OUT (needs CuPy and a GPU with 6 GB free)

Writes OUT/chip.csv, a row a launch (the median of REPEATS launches), and OUT/deal.csv, where and when each CTA of some
grids ran. `--launches` only launches grids of kernels that do nothing or wait, for the profiler to count. chip.cu says
what each kernel does, README.md what the columns mean.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import cupy
import numpy as np

RECORD = 6
REPEATS = 5
ALONE = 180 * 1024
"""Bytes of shared memory of which only one CTA's fit on an SM."""
MIB = 1 << 20


class Bench:
    """The kernels, the buffers, and the rows."""

    def __init__(self) -> None:
        source = (Path(__file__).parent / "chip.cu").read_text(encoding="utf-8")
        self.module = cupy.RawModule(code=source, options=("--std=c++17",), backend="nvrtc")
        self.sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.big = cupy.zeros(4096 * MIB, cupy.uint8)
        self.other = cupy.zeros(1024 * MIB, cupy.uint8)
        self.stop = cupy.zeros(2, cupy.int32)
        self.rows: list[dict[str, Any]] = []

    def launch(self, kernel: str, ctas: int, threads: int, *args: Any, shared: int = ALONE) -> np.ndarray:
        """The records of a launch, a row a CTA."""
        function = self.module.get_function(kernel)
        function.max_dynamic_shared_size_bytes = max(shared, 0)
        records = cupy.zeros((ctas, RECORD), cupy.uint64)
        function((ctas,), (threads,), (*args, records), shared_mem=shared)
        cupy.cuda.Device().synchronize()
        return cupy.asnumpy(records).astype(np.int64)

    def measure(
        self, what: str, kernel: str, ctas: int, threads: int, *args: Any, warm: bool, shared: int = ALONE, **told: Any
    ) -> None:
        """The median launch of several; `warm`: behind one that had the same data, else behind a flush of L2."""
        found = []
        for number in range(REPEATS + 1):
            if not warm:
                self.other[: 256 * MIB] = number
            self.stop[:] = 0
            records = self.launch(kernel, ctas, threads, *args, shared=shared)
            if number:
                found.append(records)
        spans = [int(r[:, 4].max() - r[:, 2].min()) for r in found]
        records = found[int(np.argsort(spans)[len(spans) // 2])]
        cycles = records[:, 3] - records[:, 1]
        self.rows.append({
            "what": what, "kernel": kernel, "ctas": ctas, "threads": threads, "warm": int(warm),
            "told": " ".join(f"{k}={v}" for k, v in told.items()), "cycles_median": int(np.median(cycles)),
            "cycles_least": int(cycles.min()), "cycles_most": int(cycles.max()),
            "span_ns": sorted(spans)[len(spans) // 2],
            "done": int(records[:, 5].sum()), "per_cycle": round(float((records[:, 5] / cycles).sum()), 3),
            "first_cycles": int(cycles[0]), "first_done": int(records[0, 5]),
            "others_per_cycle": round(float((records[1:, 5] / cycles[1:]).sum()), 3) if ctas > 1 else 0,
        })  # fmt: skip


def ns(sms: int) -> list[int]:
    """Numbers of SMs."""
    return [1, 2, 4, 8, 16, 33, 66, 99, sms]


def rates(bench: Bench) -> None:
    """Bytes a cycle by SMs, by what is done and where the data lies; loads in flight by warps and rows at once."""
    big, other = bench.big, bench.other
    for n in ns(bench.sms):
        for kernel, one_pass in (("read4", 8), ("write4", 8), ("copy4", 4), ("reduce4", 4)):
            lines = one_pass * MIB // (1024 * 16) // 8  # a megabyte or half of one a CTA: L2 has all of it
            lines = max(4, min(lines, 16 * MIB // (n * 1024 * 16) // 4 * 4))
            passes = max(2, 512 // lines)
            bench.measure("l2", kernel, n, 1024, big, other, lines, passes, 0, 1, warm=True, bytes=lines * 16384 * n)
            lines = 512 if n <= 33 else 128 if kernel != "read4" else 256
            lines = min(lines, 1024 * MIB // (n * 16384) // 4 * 4) if kernel == "copy4" else lines
            bench.measure("dram", kernel, n, 1024, big, other, lines, 1, 0, 1, warm=False, bytes=lines * 16384 * n)
    for threads in (32, 64, 128, 256, 512, 1024):
        for kernel in ("read1", "read4", "read8"):
            for n in (1, 16, 66, bench.sms):
                lines = max(8, min(512, 8 * MIB // (n * threads * 16)) // 8 * 8)
                bench.measure(
                    "l2 in flight", kernel, n, threads, big, other, lines, max(1, 512 // lines), 0, 1, warm=True
                )
                lines = 128
                bench.measure("dram in flight", kernel, n, threads, big, other, lines, 1, 0, 1, warm=False)


def sectors(bench: Bench) -> None:
    """Rows with gaps: a thread's 16 bytes are one sector's half, every 16, 32, 64, 128, 256 bytes."""
    for step in (1, 2, 4, 8, 16):
        for n in (1, bench.sms):
            lines = 64
            bench.measure(
                "dram gaps", "read4", n, 1024, bench.big, bench.other, lines, 1, 0, step, warm=False, step=step
            )
            lines = max(4, 16 * MIB // (n * 16384 * step) // 4 * 4)
            lines = min(lines, 256)
            passes = max(2, 256 // lines)
            bench.measure(
                "l2 gaps", "read4", n, 1024, bench.big, bench.other, lines, passes, 0, step, warm=True, step=step
            )


def capacity(bench: Bench) -> None:
    """The same range read again and again: each CTA its own part, or another one's each time."""
    n = bench.sms
    for size in (4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64, 80, 96, 128):
        lines = max(4, size * MIB // (n * 1024 * 16) // 4 * 4)
        for turn in (0, 1, 7):
            bench.measure(
                "capacity", "read4", n, 1024, bench.big, bench.other, lines, 12, turn, 1, warm=True,
                mib=round(lines * n * 16384 / MIB, 2), turn=turn,
            )  # fmt: skip


def pieces(bench: Bench) -> None:
    """Rows of each CTA's own, a piece of each at a time, by the bytes of a piece and what an SM has in flight."""
    big, other, threads = bench.big, bench.other, 128

    def go(kernel: str, each: int, loads: int, piece: int, odd: int, ways: tuple[int, int]) -> None:
        ctas, rows = each * bench.sms, loads * threads * 16 // piece
        steps = 1
        while ctas * rows * piece * steps < 160 * MIB:
            steps *= 2
        pitch = piece * steps + odd * 128
        bench.measure(
            "pieces", kernel, ctas, threads, big, other, *(np.uint64(pitch * way) for way in ways), piece, steps,
            warm=True, shared=ALONE // each - 6144 * (each > 1), piece=piece, each=each, flight=each * rows * piece,
            odd=odd, apart_in=ways[0], apart_out=ways[1], pitch=pitch,
        )  # fmt: skip

    for each in (1, 2, 4, 8, 16):
        for loads in (1, 2, 4, 8):
            go(f"go_read{loads}", each, loads, 2048, 0, (0, 1))
            for piece in (64, 128, 256, 512, 1024, 2048, 8192):
                if piece <= loads * threads * 16:
                    for odd in (0, 3):
                        go(f"go_read{loads}", each, loads, piece, odd, (1, 0))
    for each in (4, 8):
        for piece in (32, 64, 128, 256, 512, 1024, 2048):
            for odd in (0, 3):
                go("go_write4", each, 4, piece, odd, (1, 1))
                for ways in ((0, 1), (1, 0), (1, 1)):
                    go("go_copy4", each, 4, piece, odd, ways)
        go("go_write4", each, 4, 2048, 0, (1, 0))
        go("go_copy4", each, 4, 2048, 0, (0, 0))


def small(bench: Bench) -> None:
    """Little data that is read once, by CTAs that all fit: what a launch waits for DRAM and L2 beside the rate."""
    for threads, each in ((128, 1), (128, 4), (128, 8), (1024, 1)):
        for kernel in ("go_read1", "go_read4", "go_copy4"):
            loads = int(kernel[-1])
            for steps in (1, 2, 4, 8, 16):
                for warm in (True, False):
                    n = each * bench.sms
                    bench.measure(
                        "small", kernel, n, threads, bench.big, bench.other, np.uint64(0), np.uint64(0), 2048,
                        steps, warm=warm, shared=ALONE // each - 6144 * (each > 1), each=each, steps=steps,
                        bytes=n * threads * 16 * loads * steps,
                    )  # fmt: skip


def shared_rows(bench: Bench) -> None:
    """All SMs read one range, at one time or one behind another; warm and from DRAM."""
    for lines in (16, 64, 256):
        for skew in (0, 4, 16):
            for warm in (True, False):
                passes = 512 // lines if warm else 1
                for n in (16, bench.sms):
                    bench.measure(
                        "shared rows", "shared_rows", n, 1024, bench.big, bench.other, lines, passes, skew, warm=warm,
                        kib=lines * 16, skew=skew,
                    )  # fmt: skip


def loaded(bench: Bench) -> None:
    """Cycles a hop of a chain on one SM while others read at some rate; chain and rows in L2 or in DRAM."""
    random = np.random.default_rng(1)
    for where, mib in (("l2", 2), ("dram", 512)):
        count = mib * MIB // 128
        order = random.permutation(count)
        chain = np.zeros(count * 32, np.uint32)
        chain[order * 32] = np.roll(order, -1) * 32
        on_gpu = cupy.asarray(chain)
        for rows_in, lines in (("l2", 4), ("dram", 512)):
            for n in (2, 17, 67, bench.sms):
                for rest in (0, 100, 300, 1000, 3000) if n in (67, bench.sms) else (0,):
                    bench.measure(
                        "under load", "under_load", n, 1024, on_gpu, 400, bench.big, lines, rest, bench.stop,
                        warm=where == "l2", chain=where, rows=rows_in, rest=rest,
                    )  # fmt: skip


WORDS = (
    (1, 4), (2, 4), (8, 4), (8, 32), (8, 128), (8, 4096), (64, 4), (64, 128), (1024, 4), (1024, 128), (65536, 4),
)  # fmt: skip
"""How many words, and how many bytes these lie apart."""


def atomics(bench: Bench) -> None:
    """Atomics a cycle by SMs, words, how far these lie apart, and lanes."""
    for kernel in ("reds", "atoms"):
        for n in (1, 8, 33, bench.sms):
            for words, pitch in WORDS:
                for lanes in (1, 32):
                    bench.measure(
                        "atomics", kernel, n, 256, bench.big, words, pitch, lanes, 64, warm=True,
                        words=words, pitch=pitch, lanes=lanes,
                    )  # fmt: skip


GRIDS = (
    (1, 128, ALONE, 4000, 0, 0), (3, 128, ALONE, 4000, 0, 0), (3, 1024, 100 * 1024, 4000, 0, 0),
    (2, 1024, 0, 4000, 0, 0), (16, 128, 0, 4000, 0, 0), (4, 256, ALONE, 2000, 20000, 7),
    (4, 256, ALONE, 2000, 20000, 132),
    (12, 256, 50 * 1024, 2000, 9000, 5), (15, 64, 0, 500, 0, 0),
)  # fmt: skip
"""CTAs an SM, their threads and shared memory; the cycles that each waits, and other cycles that every so many wait."""


def dealt(bench: Bench, out: Path) -> None:
    """Where and when each CTA of some grids ran."""
    names = "grid threads shared cycles long every cta sm start_ns end_ns start_cycle end_cycle"
    with (out / "deal.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names.split())
        for each, threads, shared, cycles, long, every in GRIDS:
            for extra in (0, 1) if each == 1 else (0,):
                ctas = each * bench.sms + extra
                for _ in range(2):
                    records = bench.launch("waits", ctas, threads, cycles, long, every, shared=shared)
                first = records[:, 2].min()
                clocks = {sm: records[records[:, 0] == sm, 1].min() for sm in np.unique(records[:, 0])}
                for cta, (sm, start, start_ns, end, end_ns, _) in enumerate(records):
                    own = clocks[sm]
                    when = (start_ns - first, end_ns - first, start - own, end - own)
                    writer.writerow([ctas, threads, shared, cycles, long, every, cta, sm, *when])


def launches(bench: Bench) -> None:
    """For the profiler, which counts each: grids of kernels that do nothing, and that wait 1,000 cycles."""
    nothing, waits = (bench.module.get_function(name) for name in ("nothing", "waits"))
    records = cupy.zeros((200_000, RECORD), cupy.uint64)
    for threads in (32, 128, 256, 1024):
        for ctas in (1, 2, 16, 66, 132, 133, 264, 528, 1056, 2112, 8448, 33792):
            nothing((ctas,), (threads,), ())
            waits((ctas,), (threads,), (1000, 0, 0, records))
    cupy.cuda.Device().synchronize()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    bench = Bench()
    if options.launches:
        return launches(bench)
    for part in (rates, sectors, capacity, pieces, small, shared_rows, loaded, atomics):
        if options.only not in part.__name__:
            continue
        part(bench)
        with (options.out / "chip.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, bench.rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(bench.rows)
        print(part.__name__, len(bench.rows), flush=True)
    return None if options.only else dealt(bench, options.out)


if __name__ == "__main__":
    main()
