"""Products in tensor memory (tcgen05): latency and interval by shape, operands, CTAs; copies, commits, loads, stores."""

from __future__ import annotations

from typing import Any

import pytest

import gpuemu

FREE, WAIT = "B------:R-:W-:-:S04", "B0-----:R-:W-:-:S05"
ARCH = gpuemu.load_arch("sm_100")


def after(*started: tuple[str, dict[str, int] | None], **overrides: Any) -> int:
    """The cycles from the issue of the first instruction until a warp goes on that waits for a commit after them."""
    trace = gpuemu.TraceBuilder("products", arch="sm_100", block=(32, 1, 1), static_shared_bytes=64)
    trace.emit("SYNCS.EXCH.64 URZ, [UR4], UR6", event={"barrier": 0, "arrivals": 1}, control="B------:R-:W0:-:S01")
    trace.emit("BAR.SYNC 0x0", control=WAIT)
    for sass, event in started:
        trace.emit(sass, event=event, control=FREE)
    trace.emit("UTCBAR [UR4], URZ", event={"barrier": 0, "arrivals": 1}, control=FREE)
    test = "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R4+URZ], R3"
    trace.emit(test, event={"barrier": 0, "parity": 0}, control="B------:R-:W0:-:S01")
    trace.emit("NOP", control=WAIT)
    trace.emit("EXIT", control=WAIT)
    arch = ARCH.with_overrides({f"tensor_memory.{name}": value for name, value in overrides.items()})
    issue = gpuemu.run(trace.build(), arch, engine="simpy").log.issue
    return int(issue[-2] - issue[2])


def product(
    m: int, n: int, a: str = "gdesc[UR6]", opcode: str = "UTCHMMA", scales: str = "", flags: int = 0
) -> tuple[str, dict[str, int]]:
    sass = f"{opcode} {a}, gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5]{scales}, UPT"
    return sass, {"descriptor": m // 16 << 24 | n // 8 << 17 | flags}


TENSOR = "tmem[UR6]"


SPARSE = "", 1 << 2


def alone(m: int, n: int, *more: Any) -> int:
    return after(product(m, n, *more))


def interval(m: int, n: int, *more: Any) -> int:
    three, two = (after(*[product(m, n, *more)] * times) for times in (3, 2))
    return three - two


def test_the_latency_grows_by_half_a_cycle_per_column() -> None:
    assert [alone(128, n, TENSOR) - alone(128, 64, TENSOR) for n in (80, 128, 256)] == [8, 32, 96]
    assert alone(64, 64, TENSOR) == alone(128, 64, TENSOR)


def test_a_in_shared_memory_is_filled_in_first() -> None:
    assert alone(128, 64) - alone(128, 64, TENSOR) == 32
    assert alone(64, 64) - alone(64, 64, TENSOR) == 16


def test_products_follow_each_other_at_the_pace_of_columns_or_of_shared_memory() -> None:
    assert [interval(128, n, TENSOR) for n in (64, 128, 256)] == [32, 64, 128]
    assert [interval(128, n) for n in (64, 80, 112, 128, 256)] == [48, 52, 60, 64, 128]
    assert [interval(64, n) for n in (64, 128)] == [32, 64]


def test_a_pair_of_ctas_reads_half_of_b_each_and_splits_128_rows_by_columns() -> None:
    pair = (TENSOR, "UTCHMMA.2CTA")
    assert alone(256, 128, *pair) - alone(128, 128, TENSOR) == 34
    assert alone(128, 128, *pair) - alone(256, 128, *pair) == 8 - 32
    assert [interval(128, n, *pair) for n in (64, 80, 256)] == [18, 20, 64]
    assert [interval(256, n, "gdesc[UR6]", "UTCHMMA.2CTA") for n in (64, 128)] == [43, 64]
    assert [interval(128, n, "gdesc[UR6]", "UTCHMMA.2CTA") for n in (64, 128)] == [25, 32]


def test_integers_are_early_and_scales_late() -> None:
    assert alone(128, 64, TENSOR, "UTCIMMA") == alone(128, 64, TENSOR) - 1
    assert alone(128, 64, TENSOR, "UTCOMMA", ", tmem[UR12]") == alone(128, 64, TENSOR) + 3
    assert alone(128, 64, "gdesc[UR6]", "UTCQMMA", ", tmem[UR12]") == alone(128, 64) + 1


def test_sparse_products_take_the_same_columns_but_read_twice_the_bytes_of_b() -> None:
    tensor = TENSOR, "UTCHMMA"
    assert alone(128, 128, *tensor, *SPARSE) == alone(128, 128, TENSOR)
    assert [interval(128, n, *tensor, *SPARSE) for n in (64, 256)] == [32, 128]
    assert [interval(128, n, "gdesc[UR6]", "UTCHMMA", *SPARSE) for n in (64, 128)] == [64, 96]
    pair = (TENSOR, "UTCHMMA.2CTA")
    assert [interval(m, 128, *pair, *SPARSE) for m in (128, 256)] == [64, 64]
    assert alone(128, 128, *pair, *SPARSE) == alone(256, 128, *pair)


def test_weight_stationary_products_split_their_columns_into_banks() -> None:
    assert [interval(m, 256, TENSOR, "UTCHMMA.WS") for m in (128, 64, 32)] == [128, 64, 64]
    assert alone(128, 128, TENSOR, "UTCHMMA.WS") == alone(128, 128, TENSOR)
    assert alone(128, 256, TENSOR) - alone(64, 256, TENSOR, "UTCHMMA.WS") == 64


def test_shifts_take_their_turn() -> None:
    both = after(("UTCSHIFT.DOWN tmem[UR4]", None), product(128, 64, TENSOR))
    assert both - alone(128, 64, TENSOR) == 8


@pytest.mark.parametrize(
    ("name", "value", "later"), [("latency_cycles", 71, 10), ("issue_cycles", 14, 4), ("columns_per_cycle", 1, 32)]
)
def test_the_values_of_the_file_move_the_end(name: str, value: int, later: int) -> None:
    assert after(product(128, 64, TENSOR), **{name: value}) - alone(128, 64, TENSOR) == later


def test_copies_and_products_have_their_turn_in_order() -> None:
    copy = "UTCCP.T.S.128dp128bit tmem[UR4], gdesc[UR6]", None
    both = after(copy, product(128, 64, TENSOR))
    assert both - alone(128, 64, TENSOR) == 16 + 0
    assert after(copy) < both


def issues(*lines: tuple[str, str]) -> list[int]:
    trace = gpuemu.TraceBuilder("moves", arch="sm_100", block=(32, 1, 1))
    for sass, control in lines:
        trace.emit(sass, control=control)
    trace.emit("EXIT", control=WAIT)
    return [int(x) for x in gpuemu.run(trace.build(), ARCH, engine="simpy").log.issue]


def test_loads_and_stores_take_a_cycle_per_register_of_their_port() -> None:
    for opcode, operands in (("LDTM", "R8, tmem[UR4]"), ("STTM", "tmem[UR4], R8")):
        counter = "W0" if opcode == "LDTM" else "R0"
        found = []
        for times in (4, 32):
            word = f"B------:R{'0' if counter == 'R0' else '-'}:W{'0' if counter == 'W0' else '-'}:-:S01"
            first, second, *_ = issues((f"{opcode}.x{times} {operands}", word), ("FADD R8, R8, R8", WAIT))
            found.append(second - first)
        assert found[1] - found[0] == 28


def test_a_product_without_an_event_takes_no_time_of_the_unit() -> None:
    sass, _ = product(128, 64)
    assert after((sass, None)) < alone(128, 64)
