"""Who comes first where sub-cores meet on their way to shared memory and back from it: an H200's tables."""

from __future__ import annotations

from itertools import permutations

import pytest
from probes import builder, completions, emit, issues, machine, run

import gpuemu

KINDS = {  # instruction, addresses of its lanes, counter that says when it is over
    "LDS": ("LDS R4, [R0]", "4*lane", "W"),
    "LDS.64": ("LDS.64 R4, [R0]", "8*lane", "W"),
    "LDS.128": ("LDS.128 R4, [R0]", "16*lane", "W"),
    "LDS.128 of one address": ("LDS.128 R4, [R0]", "0", "W"),
    "LDS.128 of 8 wavefronts": ("LDS.128 R4, [R0]", "32*lane", "W"),
    "LDSM.x4": ("LDSM.16.M88.4 R4, [R0]", "16*lane", "W"),
    "ATOMS": ("ATOMS.ADD R4, [R0], R8", "4*lane", "W"),
    "SHFL": ("SHFL.BFLY PT, R4, R8, 0x1, 0x1f", "4*lane", "W"),
    "STS": ("STS [R0], R8", "4*lane", "R"),
    "STS.64": ("STS.64 [R0], R8", "8*lane", "R"),
    "STS.128": ("STS.128 [R0], R8", "16*lane", "R"),
}
START = 60


def rest(trace: gpuemu.TraceBuilder, cycles: int) -> None:
    """Take so many cycles."""
    while cycles:
        stall = min(cycles, 11)
        emit(trace, f"NOP | S{stall}")
        cycles -= stall


def over_after(plans: list[list[tuple[int, str]]], **overrides: object) -> list[int]:
    """How long behind its issue the last instruction of each warp's plan is over; a plan: cycles and kinds.

    Each warp is on a sub-core of its own; the last has a counter to itself.
    """
    trace = builder(len(plans))
    for warp, plan in enumerate(plans):
        with trace.only(warps=warp):
            now = 0
            for number, (cycle, kind) in enumerate(plan):
                rest(trace, START + cycle - now)
                line, lanes, counter = KINDS[kind]
                emit(trace, f"{line} | {counter}{int(number == len(plan) - 1)} S2", lanes)
                now = START + cycle + 2
            emit(trace, "NOP | B1 S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**overrides))
    last = [issues(result, warp) for warp in range(len(plans))]
    return [cycles[-2] - cycles[-3] for cycles in last]


def over(one: str, other: str, distance: int) -> tuple[int, int]:
    """The same of two instructions, the other issued so many cycles behind the one."""
    found = over_after([[(0, one)], [(distance, other)]])
    return found[0], found[1]


MET = {
    ("LDS.64", "LDS.128"): {
        -8: (26, 32), -7: (27, 32), -6: (28, 32), -5: (29, 32), -4: (30, 32), -3: (26, 33), -2: (27, 33), -1: (26, 32),
        1: (26, 32), 2: (26, 33), 3: (26, 32),
    },
    ("LDS.64", "LDSM.x4"): {
        -6: (27, 29), -5: (26, 29), -4: (27, 29), -3: (26, 30), -2: (27, 30), -1: (26, 29), 1: (26, 29), 2: (26, 30),
        3: (26, 29),
    },
    ("LDS.128", "LDS.128 of 8 wavefronts"): {
        -8: (36, 40), -7: (32, 43), -6: (33, 43), -5: (32, 41), -4: (33, 41), -3: (32, 40), -2: (33, 40), -1: (32, 40),
        1: (32, 40), 2: (32, 41),
    },
    ("ATOMS", "LDS.128"): {-7: (26, 32), -6: (27, 32), -5: (28, 32), -4: (29, 32), -3: (30, 32)},
    ("SHFL", "LDS.128"): {-9: (24, 32), -8: (25, 32), -7: (26, 32), -6: (27, 32), -5: (28, 32), -4: (24, 32)},
}  # fmt: skip


@pytest.mark.parametrize("pair", MET, ids=" and ".join)
def test_what_is_ready_first_is_back_first_and_with_nothing_between_its_registers(pair):
    """H200: the one issued `distance` cycles before or behind the other, each so long behind its issue."""
    assert {distance: over(*pair, distance) for distance in MET[pair]} == MET[pair]


@pytest.mark.parametrize(("store", "alone", "meets"), [("STS", 11, 3), ("STS.64", 13, 5), ("STS.128", 17, 9)])
@pytest.mark.parametrize("load", ["LDS", "LDS.128", "LDSM.x4"])
def test_a_store_is_taken_with_its_last_register_and_lets_a_load_go_first(store, alone, meets, load):
    """H200: at all other distances both come as if alone; when the store is complete the load's address is there."""
    latency = over_after([[(0, load)]])[0]
    assert over(load, store, -meets) == (latency, alone + 1)
    for distance in (-meets - 1, -meets + 1, -1, 0, 1):
        assert over(load, store, distance) == (latency, alone)


@pytest.mark.parametrize(("kind", "alone"), [("STS", 11), ("ATOMS", 26)])
def test_among_loads_every_other_cycle_a_store_goes_first(kind, alone):
    """H200: their sub-core was served when the store's address was sent, so the last load waits a cycle."""
    loads = [(2 * i, "LDS") for i in range(5)]
    assert over_after([loads, [(1, kind)]]) == [24, alone]
    assert over_after([loads, [(2, kind)]]) == [23, alone]


@pytest.mark.slow
@pytest.mark.parametrize("before", ["LDS", "STS"])
def test_of_loads_that_come_together_that_of_the_sub_core_served_longest_ago_goes_first(before):
    """H200: in all 24 orders in which they were served before."""
    for order in permutations(range(4)):
        plans = [[(16 * order.index(warp), before), (100, "LDS")] for warp in range(4)]
        found = over_after(plans)
        assert sorted(range(4), key=found.__getitem__) == list(order)


def back_after(load: str, behind: int) -> list[int]:
    """How long behind its issue a load of each of four sub-cores is over; an FFMA issues `behind` cycles later."""
    trace = builder(4)
    rest(trace, START)
    line, lanes, _ = KINDS[load]
    emit(trace, f"{line} | W0 S2", lanes)
    rest(trace, behind - 2)
    emit(trace, "FFMA R16, R24, R25, R16 | S2")
    emit(trace, "NOP | B0 S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    cycles = [issues(result, warp) for warp in range(4)]
    return sorted(warp[-2] - (warp[-3] - behind) for warp in cycles)


@pytest.mark.parametrize(
    ("load", "behind", "alone", "meets"),
    [
        ("LDS", 15, [23, 24, 25, 26], [24, 25, 26, 27]),
        ("LDS", 16, [23, 24, 25, 26], [23, 25, 26, 27]),
        ("LDS.64", 17, [26, 28, 30, 32], [28, 29, 32, 33]),
        ("LDS.64", 19, [26, 28, 30, 32], [26, 30, 31, 33]),
        ("LDS.64", 21, [26, 28, 30, 32], [26, 28, 32, 33]),
        ("LDS.128", 21, [32, 36, 40, 44], [34, 38, 42, 45]),
        ("LDS.128", 27, [32, 36, 40, 44], [32, 38, 42, 45]),
    ],
)
def test_a_register_that_finds_its_bank_taken_shares_the_way_with_those_behind_it(load, behind, alone, meets):
    """H200: of one sub-core's load a register of the FFMA's bank is just back; those of the others come later, too."""
    assert back_after(load, 10) == alone
    assert back_after(load, behind) == meets


SUMS = (19, 4, 3, 18, 6, 16, 5, 20)
LOOPS = {  # two loads, how many FFMA behind them; cycles for one to six of that
    ("LDS.64", "LDS.64", 4): [65, 108, 149, 190, 228, 267],
    ("LDS.128 of one address", "LDS.128", 4): [85, 134, 182, 231, 279, 327],
    ("LDS.128", "LDS.128", 8): [105, 170, 234, 298, 362, 426],
}


@pytest.mark.parametrize("loop", LOOPS)
def test_loads_of_two_warps_a_sub_core_wait_for_each_other_s_arithmetic(loop):
    """H200: eight warps, each multiplies four registers by four when both of its loads are there."""
    *loads, products = loop
    for times, cycles in enumerate(LOOPS[loop], 1):
        trace = builder(8)
        with trace.only(warps="0-3"):
            rest(trace, 4)
        emit(trace, "NOP | S2")
        for turn in range(times):
            registers = (8, 12) if turn % 2 == 0 else (12, 8)
            for load, register, control in zip(loads, registers, ("S4", "W0 S2"), strict=True):
                line, lanes, _ = KINDS[load]
                emit(trace, f"{line.replace('R4', f'R{register}')} | {control}", lanes)
            for n in range(products):
                one, other, to = registers[0] + n // 4, registers[1] + n % 4, SUMS[n]
                reuse = ".reuse" if n % 4 < 3 else ""
                control = "B0 S1" if n == 0 else "Y S2" if n == products - 1 else "S1"
                emit(trace, f"FFMA R{to}, R{one}{reuse}, R{other}, R{to} | {control}")
        emit(trace, "NOP | B0 S2")
        emit(trace, "EXIT | S5")
        result = gpuemu.run(trace.build(), machine())
        clocks = [issues(result, warp)[-times * (2 + products) - 3 :] for warp in range(8)]
        found = max(clock[-2] for clock in clocks) - min(clock[0] for clock in clocks)
        assert found == pytest.approx(cycles, abs=1)


def test_registers_that_come_over_two_ways_out_of_order_are_written_all_the_same():
    """The wide load's come over one way, the shuffle's over the other and sooner; it waits behind them."""
    arch = machine(
        register_file__write_cycles=1, mio__queue_entries=2,
        shared_memory__ports__topology="separate", shared_memory__ports__read=2,
    )  # fmt: skip
    lines = ["STS [R0], R4 | S1", "SHFL.IDX PT, R9, R9, R10, R11 | S1", "LDS.128 R4, [R0] | S1"] * 3
    result = run([*lines, "EXIT | S5"], arch, warps=8, lanes="16*lane")
    assert all(min(completions(result, warp)) > 0 for warp in range(8))
