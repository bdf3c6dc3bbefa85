"""The claims of sections D and E: virtual threads, and the tiled product."""

from __future__ import annotations

from collections.abc import Callable

from claim import (
    HOLDS,
    NO_CHANGE,
    OPEN,
    PARTLY,
    REFUTED,
    Finding,
    claim,
    conflicts,
    faster,
    judge,
    percent,
    ran,
    same_ratio,
)
from measured import cycles_of_strides, measured

import gpuemu
from gpuemu.isa.opcodes import Row

MEASURED = measured()
ROUNDS = MEASURED["transpose_rounds"]
EIGHT = ROUNDS["eight_warps"]
TRANSPOSE = {"plain": "plain", "padded": "padded", 2: "v2", 4: "v4", 8: "v8", 16: "v16"}
NAMES = {"plain": "plain", "padded": "padded", 2: "n = 2", 4: "n = 4", 8: "n = 8", 16: "n = 16"}


def _use(kind: int | str, row: Row) -> float:
    """The part of the banks' bandwidth that a transpose's loads or stores use."""
    counts = ran(f"transpose_{TRANSPOSE[kind]}").shared_memory[row]
    return counts.ideal_wavefronts / counts.wavefronts


def _bandwidth(kind: int | str, claimed: float) -> Callable[[], Finding]:
    def check() -> Finding:
        loads, stores = _use(kind, Row.LOAD), _use(kind, Row.STORE)
        text = f"reads {percent(loads)}, stores {percent(stores)}"
        return Finding(text, judge(same_ratio(loads, claimed) and same_ratio(min(loads, stores), claimed)))

    return check


def _speed_up(kind: int | str, claimed: float) -> Callable[[], Finding]:
    def check() -> Finding:
        here = faster("transpose_plain", f"transpose_{TRANSPOSE[kind]}")
        counts = {
            k: sum(c.wavefronts for c in ran(f"transpose_{TRANSPOSE[k]}").shared_memory.values())
            for k in ("plain", kind)
        }
        there = EIGHT["plain"] / EIGHT[kind]
        text = f"{here:.2f} times as fast, with {counts['plain'] / counts[kind]:.1f} times fewer wavefronts"
        if any(same_ratio(x, claimed) for x in (here, there)):
            verdict = judge(same_ratio(here, claimed), same_ratio(there, claimed))
        else:
            verdict = REFUTED
        return Finding(text, verdict, f"{there:.2f} times (shared memory alone, 8 warps)")

    return check


@claim(
    "D10",
    "Bandwidth falls as 1/c for conflicts of c ways",
    "gpuemu banks LDS.32 --lanes '16*lane'",
)
def _as_one_over_c() -> Finding:
    arch = gpuemu.load_arch("sm_89")
    ways = {c: gpuemu.shared_access(arch, "LDS.32", [4 * c * lane for lane in range(32)]) for c in (1, 2, 4, 8, 16, 32)}
    text = ", ".join(f"{c}-way: {percent(a.ideal_wavefronts / a.wavefronts)}" for c, a in ways.items())
    exact = all(a.data_stage_cycles == a.wavefronts == c for c, a in ways.items())
    there = cycles_of_strides()
    near = all(abs(cycles / c - 1) <= NO_CHANGE for c, cycles in there.items())
    hardware = f"{', '.join(f'{c}-way: {percent(1 / cycles)}' for c, cycles in there.items())} (8 warps)"
    return Finding(text, judge(exact and near), hardware)


@claim(
    "D11",
    "Remapping cuts a conflict of c ways to c/n",
    "gpuemu search --tile 32x32:f32 --access copy-in:32 --access column",
)
def _c_to_c_over_n() -> Finding:
    each = {
        n: [ran(f"transpose_v{n}").shared_memory[row].wavefronts // 32 for row in (Row.LOAD, Row.STORE)]
        for n in (2, 4, 8, 16)
    }
    text = "; ".join(f"n = {n}: reads {loads}-way, stores {stores}-way" for n, (loads, stores) in each.items())
    reads = all(loads == 32 // n for n, (loads, _) in each.items())
    stores = all(stores == 1 for _, stores in each.values())
    return Finding(text, judge(reads, stores))


@claim(
    "D14",
    "Measured: for one warp every n costs the same as no remap; for 8 warps a round is shorter with n = 2 and"
    " again with n = 4, and no shorter with more",
)
def _rounds() -> Finding:
    """A store and a read of each warp, by wavefronts: what eight warps cannot undercut."""
    arch = gpuemu.load_arch("sm_90")
    store = "STS.32: row = thread // 32; column = thread % 32; steps = 8"
    load = "LDS.32: row = thread % 32; column = thread // 32; steps = 8"
    result = gpuemu.search(arch, "32x32:f32", [store, load], threads=256)
    found = {
        "plain": result.plain,
        **{c.layout.factor: c for c in result.candidates if c.layout.family == "virtual threads"},
    }
    cycles = {kind: found[kind].total_wavefronts for kind in ("plain", 2, 4, 8, 16)}
    one = gpuemu.search(arch, "32x32:f32", ["LDS.32: row = thread; column = 0"], threads=32)
    same = {c.total_wavefronts for c in one.candidates if c.layout.family in ("plain", "virtual threads")}
    text = f"8 warps: {', '.join(str(c) for c in cycles.values())} wavefronts a round without, n = 2, 4, 8, 16; "
    text += f"one warp: {' or '.join(map(str, sorted(same)))} for the read whatever n"
    near = all(0 <= EIGHT[kind] / cycles[kind] - 1 <= 0.12 for kind in cycles)
    hardware = f"8 warps: {', '.join(str(EIGHT[k]) for k in cycles)} cycles; one warp: "
    hardware += " or ".join(str(v) for v in sorted({ROUNDS["one_warp"][k] for k in cycles}))
    return Finding(text, judge(near, same == {32}), hardware)


@claim(
    "D12",
    "In a tree reduction sdata[t] and sdata[t + 128] conflict",
    "gpuemu run reduction_plain --arch sm_89",
)
def _tree() -> Finding:
    loads, stores = (conflicts("reduction_plain", row) for row in (Row.LOAD, Row.STORE))
    remapped = conflicts("reduction_v4", Row.LOAD) + conflicts("reduction_v4", Row.STORE)
    text = (
        f"{loads + stores} conflicts: a warp reads 32 neighbouring words, and the other 32 with another instruction; "
    )
    text += f"by virtual threads {remapped}"
    return Finding(text, judge(loads + stores > 0))


@claim(
    "D13",
    "The reduction is 1.5 times as fast by virtual threads",
    "gpuemu diff written_reduction_plain written_reduction_v4 --arch sm_89",
)
def _reduction() -> Finding:
    here, there = (
        faster("written_reduction_plain", "written_reduction_v4"),
        MEASURED["reduction"]["plain"] / MEASURED["reduction"]["v4"],
    )
    verdict = judge(same_ratio(here, 1.5), same_ratio(there, 1.5))
    return Finding(f"{here:.2f} times as fast", verdict, f"{there:.2f} times")


@claim(
    "E1",
    "72.7 ms with static shared memory, 93.3 ms with dynamic",
    "gpuemu run tiled_straight_static --arch sm_89",
)
def _milliseconds() -> Finding:
    cycles = {k: ran(_kernel(f"straight_{k}")).cycles for k in ("static", "dynamic")}
    text = f"a 32x32 product takes {cycles['static']} and {cycles['dynamic']} cycles of one SM, "
    text += "which are no milliseconds of a GPU"
    return Finding(text, OPEN)


def _ratio(slow: str, fast: str, claimed: float, hardware: float | None = None) -> Callable[[], Finding]:
    """The cycles of two versions; where they are equal to an SM, what differs is not on it."""

    def check() -> Finding:
        found = faster(slow, fast)
        text = f"{found:.2f} times the cycles"
        if same_ratio(found, claimed):
            verdict = HOLDS
        elif abs(found - 1) <= NO_CHANGE:
            verdict = OPEN
            text += ": both do the same on an SM"
        else:
            verdict = PARTLY if (found > 1) == (claimed > 1) else REFUTED
        return Finding(text, verdict, f"{hardware:.2f} times (shared memory alone)" if hardware else "")

    return check


@claim(
    "E8",
    "The worst case of a column: 32 lanes on one bank, 32 memory cycles",
    "gpuemu banks LDS.32 --lanes '128*lane'",
)
def _column() -> Finding:
    access = gpuemu.shared_access(gpuemu.load_arch("sm_89"), "LDS.32", [128 * lane for lane in range(32)])
    banks = {served.bank for phase in access.phases for wavefront in phase.served for served in wavefront}
    text = f"{len(banks)} bank, {access.wavefronts} wavefronts, {access.data_stage_cycles} cycles of the data stage"
    there = cycles_of_strides()[32]
    right = access.data_stage_cycles == 32 and abs(there / 32 - 1) <= NO_CHANGE
    return Finding(text, judge(len(banks) == 1, right), f"{there:.1f} cycles an access (8 warps)")


@claim(
    "E9",
    "One extra column mends it without harm to rows",
    "gpuemu banks LDS.32 --lanes '132*lane'",
)
def _one_more_column() -> Finding:
    result = gpuemu.search(gpuemu.load_arch("sm_89"), "32x32:f32", ["copy-in:32", "column"])
    padded = next(c for c in result.candidates if c.label == "rows of 32 + 1")
    assert result.plain is not None
    rows, column = padded.wavefronts
    text = f"a column costs {column // 32} instead of {result.plain.wavefronts[1] // 32} wavefronts, "
    text += f"a row {rows // 32} instead of {result.plain.wavefronts[0] // 32}"
    kernel = sum(conflicts("tiled_padded_static", row) for row in Row)
    text += (
        f"; the padded kernel keeps {kernel} of {sum(conflicts('tiled_conflict_static', row) for row in Row)} conflicts"
    )
    row = gpuemu.shared_access(gpuemu.load_arch("sm_89"), "LDS.32", [4 * (17 * (t // 16) + t % 16) for t in range(32)])
    text += f"; in rows of 17 two rows of 16 together cost {row.wavefronts}"
    return Finding(text, judge(column == result.fewest[1], rows == result.fewest[0], row.excess_wavefronts == 0))


for _number, (_kind, _part) in enumerate((("plain", 0.03125), ("padded", 0.75), (2, 0.5), (4, 0.85), (8, 0.9375)), 1):
    claim(
        f"D{_number}",
        f"Transpose, {NAMES[_kind]}: {percent(_part)} of the bandwidth is used",
        f"gpuemu run transpose_{TRANSPOSE[_kind]} --arch sm_89",
    )(_bandwidth(_kind, _part))

for _number, (_kind, _times) in enumerate((("padded", 24), (2, 16), (4, 27), (8, 30)), 6):
    claim(
        f"D{_number}",
        f"Transpose, {NAMES[_kind]}: {_times} times as fast as plain",
        f"gpuemu diff transpose_plain transpose_{TRANSPOSE[_kind]} --arch sm_89",
    )(_speed_up(_kind, _times))


def _kernel(name: str) -> str:
    """The kernel as written: with dynamic shared memory the size of its block comes at run time."""
    layout, memory = name.split("_")
    return f"tiled_{name}" if memory == "static" else f"written_{layout}"


_PADDED_ROWS = MEASURED["tiled_conflict"]["plain"] / MEASURED["tiled_conflict"]["padded"]
_TEXT = "{} takes {:.2f} times as long as {} ({:g} to {:g} ms)"
for _number, (_slow, _fast, _ms, _ms_fast, _there) in enumerate(
    (
        ("straight_dynamic", "straight_static", 93.3, 72.7, None),
        ("conflict_static", "straight_static", 153, 72.7, None),
        ("conflict_dynamic", "straight_dynamic", 215, 93.3, None),
        ("conflict_static", "padded_static", 153, 114, _PADDED_ROWS),
        ("conflict_dynamic", "padded_dynamic", 215, 114, _PADDED_ROWS),
        ("padded_dynamic", "padded_static", 114, 114, None),
    ),
    2,
):
    claim(
        f"E{_number}",
        _TEXT.format(_slow.replace("_", ", ").capitalize(), _ms / _ms_fast, _fast.replace("_", ", "), _ms, _ms_fast),
        f"gpuemu diff {_kernel(_fast)} {_kernel(_slow)} --arch sm_89",
    )(_ratio(_kernel(_slow), _kernel(_fast), _ms / _ms_fast, _there))


@claim(
    "D15",
    "The matrix product has serious bank conflicts, 32 threads on one bank, which virtual threads take away",
    "gpuemu diff written_matmul_plain written_matmul_v4 --arch sm_89",
)
def _product() -> Finding:
    plain, remapped = (
        sum(conflicts(f"written_matmul_{kind}", row) for row in (Row.LOAD, Row.STORE)) for kind in ("plain", "v4")
    )
    return Finding(f"{plain} conflicts plain, {remapped} with n = 4", judge(plain > 0, remapped < plain))


def _bank(address: int) -> int:
    access = gpuemu.shared_access(gpuemu.load_arch("sm_89"), "LDS.32", [address] * 32, 1)
    return access.phases[0].served[0][0].bank


@claim("D16", "Bits 2 to 7 of an address choose the bank", "gpuemu banks LDS.32 --lanes '128*(lane%2)'")
def _bits() -> Finding:
    chosen = [bit for bit in range(2, 12) if _bank(1 << bit) != _bank(0)]
    text = f"those that change the bank: {chosen[0]} to {chosen[-1]}"
    return Finding(text, judge(set(range(2, 7)) <= set(chosen), 7 in chosen))


@claim("D17", "Address 0x04 is in bank 0", "gpuemu banks LDS.32 --lanes '4'")
def _address_four() -> Finding:
    return Finding(f"bank {_bank(4)}", judge(_bank(4) == 0))


@claim("D18", "Virtual threads make the transpose 3 to 4 times as fast", "gpuemu diff transpose_plain transpose_v4")
def _three_to_four() -> Finding:
    here = {n: faster("transpose_plain", f"transpose_v{n}") for n in (2, 4, 8, 16)}
    there = {n: EIGHT["plain"] / EIGHT[n] for n in (2, 4, 8, 16)}
    best, best_there = max(here.values()), max(there.values())
    hardware = f"{best_there:.2f} times at most (shared memory alone, 8 warps)"
    return Finding(f"{best:.2f} times at most", judge(3 <= best <= 4, 3 <= best_there <= 4), hardware)


@claim(
    "D19",
    "In a block of 256 with n = 4, v(32) = 1 and v(128) = 4",
    "gpuemu layout virtual:4/256 --tile 8x32:f32 --vector 1",
)
def _values_of_v() -> Finding:
    found = [t % 64 * 4 + t // 64 for t in (32, 128)]
    return Finding(f"v(32) = {found[0]}, v(128) = {found[1]}", judge(found[0] == 1, found[1] == 4))


@claim(
    "D20",
    "With n = 4 the speed-up is 8, 4 and 2 for c = 32, 16 and 8",
    "gpuemu search --tile 32x16:f32 --access column",
)
def _speed_up_by_ways() -> Finding:
    """Columns of tiles of c words a row: reads of c ways."""
    gains = []
    for ways in (32, 16, 8):
        result = gpuemu.search(gpuemu.load_arch("sm_89"), f"32x{ways}:f32", ["column"], threads=32 * ways)
        remapped = next(c for c in result.candidates if c.label.startswith("virtual threads, n = 4 "))
        assert result.plain is not None
        gains.append(result.plain.total_wavefronts / remapped.total_wavefronts)
    text = f"columns of tiles {', '.join(f'{gain:.3g}' for gain in gains)} times fewer wavefronts"
    return Finding(text, judge(*(same_ratio(gain, claimed) for gain, claimed in zip(gains, (8, 4, 2), strict=True))))


@claim("D21", "Virtual threads take 5 to 10 % more registers", "gpuemu run transpose_v4 --arch sm_89")
def _registers() -> Finding:
    plain, remapped = (ran(f"transpose_{kind}").trace.launch.registers_per_thread for kind in ("plain", "v4"))
    return Finding(f"{plain} and {remapped} a thread", judge(1.05 <= remapped / plain <= 1.10))


def _ways_left(four: int, eight: int) -> Callable[[], Finding]:
    def check() -> Finding:
        reads, stores = (
            [ran(f"transpose_v{n}").shared_memory[row].wavefronts // 32 for n in (4, 8)]
            for row in (Row.LOAD, Row.STORE)
        )
        text = f"reads {reads[0]}- and {reads[1]}-way, stores {stores[0]}- and {stores[1]}-way"
        return Finding(text, judge(reads == [four, eight], stores == [four, eight]))

    return check


claim("D22", "n = 4 leaves conflicts of 8 ways, n = 8 of 4 (one table)", "gpuemu run transpose_v8")(_ways_left(8, 4))
claim("D23", "n = 4 leaves conflicts of 4 ways, n = 8 of 2 (the other)", "gpuemu run transpose_v8")(_ways_left(4, 2))


@claim("D24", "A remapped warp has eight lanes served a cycle", "gpuemu run transpose_v4 --arch sm_89")
def _eight_lanes() -> Finding:
    rows = {row: ran("transpose_v4").shared_memory[row] for row in (Row.LOAD, Row.STORE)}
    lanes = {row: 32 * counts.instructions / counts.wavefronts for row, counts in rows.items()}
    text = f"n = 4: stores {lanes[Row.STORE]:g} lanes a wavefront, reads {lanes[Row.LOAD]:g}; without conflict 32"
    return Finding(text, judge(lanes[Row.STORE] == 8, lanes[Row.LOAD] == 8))


@claim("E10", "L1 is 20 to 30 times as fast as L2", "gpuemu arch show sm_89")
def _l1() -> Finding:
    memory = gpuemu.load_arch("sm_89").global_memory
    l1, l2 = memory.l1.latency_cycles, memory.l2.latency_cycles
    return Finding(f"{l1} and {l2} cycles, {l2 / l1:.1f} times", judge(20 <= l2 / l1 <= 30))


@claim(
    "E11",
    "The tiles in static shared memory make the product about a third faster than none",
    "gpuemu diff tiled_straight_static tiled_none --arch sm_89",
)
def _baseline() -> Finding:
    found = faster("tiled_none", "tiled_straight_static")
    return Finding(f"{found:.2f} times as fast", judge(same_ratio(found, 4 / 3)))


@claim(
    "E12",
    "With conflicts it is slower than without shared memory",
    "gpuemu diff tiled_none tiled_conflict_static --arch sm_89",
)
def _slower_than_none() -> Finding:
    found = faster("tiled_conflict_static", "tiled_none")
    return Finding(f"{found:.2f} times the cycles", judge(found > 1))


@claim(
    "E13",
    "The padded static kernel, as published, computes the product M N",
    "gpuemu run written_padded_slip --page source",
)
def _slip() -> Finding:
    loads = sum(i.opcode.startswith("LDG") for i in ran("written_padded_slip").trace.code)
    named = {i.operands[-1] for i in ran("written_padded_slip").trace.code if "c[0x0][0x168]" in " ".join(i.operands)}
    text = f"its {loads} loads take both tiles from M, and N's pointer is {'read' if named else 'never read'}:"
    return Finding(f"{text} its result is M M", judge(bool(named)))
