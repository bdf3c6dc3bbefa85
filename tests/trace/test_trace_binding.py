import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

from gpuemu.base.errors import GpuemuError
from gpuemu.trace.bind import ALL_LANES, Binder
from gpuemu.trace.files import load_trace
from gpuemu.trace.form import TraceForm
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Trace

CODE = """\
0000: MOV R1, R2
0010: LDS R4, [R1]
0020: STS.128 [R1], R4
0030: LDG.E R4, [R2.64]
0040: EXIT
"""
LANE = np.arange(32)


def bind(code: str = CODE, *, replacing=None, **fields) -> Trace:
    """A trace of this code, in a file t.yaml that has line 1 alone; `replacing` numbers of its layout."""
    document = {"gpuemu_trace": 1, "kernel": "k", "arch": "sm_89", "code": code}
    document["launch"] = {"static_shared_bytes": 4096}
    form = TraceForm.model_validate(document | fields)
    return Binder(form, parse_listing(code, "t.yaml", 1), "t.yaml", lambda place: 1).bind(replacing or {})


def of_loads(addresses, *, path=None, **fields) -> Trace:
    """A trace that executes the LDS at 0x0010 alone."""
    warps = [{"path": path or 0x10, "addresses": {0x10: addresses}}]
    return bind(**{"warps": warps, **fields})


def refusal(action, *args, **more) -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        action(*args, **more)
    return brief(caught.value)


def rows(trace: Trace, warp: int = 0) -> list[list[int]]:
    """What each memory instruction of a warp was given, in order."""
    return trace.addresses[trace.warps[warp].rows].tolist()


def active(trace: Trace, warp: int = 0) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in trace.active[trace.warps[warp].rows]]


# Paths.


def paths(value, **fields) -> list[int]:
    trace = bind(warps=[{"path": value, "addresses": {0x10: 0, 0x20: 0, 0x30: 0}}], **fields)
    return trace.warps[0].path.tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (0x20, [2]),
        ("0x0020", [2]),
        ("0x0010-0x0030", [1, 2, 3]),
        ("0x0010-0x0010", [1]),
        ([0x40, 0x0], [4, 0]),
        ({"repeat": 3, "path": "0x0-0x10"}, [0, 1, 0, 1, 0, 1]),
        ([0, {"repeat": 0, "path": 16}, 64], [0, 4]),
        ([{"repeat": 2, "path": [0, {"repeat": 3, "path": 16}]}, 64], [0, 1, 1, 1, 0, 1, 1, 1, 4]),
        ({"repeat": 2, "path": None}, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
    ],
)
def test_a_path_names_what_is_executed_in_order(value, expected):
    assert paths(value) == expected


def test_a_path_is_of_indices_even_where_offsets_have_gaps():
    trace = bind("0000: NOP\n0100: NOP\n0110: EXIT", warps=[{"path": "0x0000-0x0110"}])
    assert trace.warps[0].path.tolist() == [0, 1, 2]
    assert trace.warps[0].path.dtype == np.int32


def slow_path(value) -> list[int]:
    if value is None:
        return list(range(5))
    result = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            for _ in range(item["repeat"]):
                result += slow_path(item["path"])
        elif isinstance(item, int):
            result.append(item // 16)
        else:
            first, _, last = item.partition("-")
            result += range(int(first, 16) // 16, int(last, 16) // 16 + 1)
    return result


offsets = st.integers(0, 4).map(lambda n: 16 * n)
path_items = st.recursive(
    offsets | st.tuples(offsets, offsets).map(lambda ends: f"{min(ends):#06x}-{max(ends):#x}"),
    lambda inner: st.fixed_dictionaries(
        {"repeat": st.integers(0, 4), "path": st.none() | inner | st.lists(inner, max_size=3)}
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.lists(path_items, min_size=1, max_size=4))
def test_path_expansion_equals_a_slow_reference(value):
    expected = slow_path(value)
    if expected:
        assert paths(value) == expected
    else:
        assert refusal(paths, value) == ["t.yaml:1: warps[0].path: the path is empty"]


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        (0x50, "0x0050"),
        (0x8, "0x0008"),
        ("0x0010-0x0050", "0x0050"),
        ({"repeat": 2, "path": "0x15"}, "0x0015"),
    ],
)
def test_an_offset_that_is_not_in_the_code_is_refused(value, offset):
    assert refusal(paths, value) == [f"t.yaml:1: warps[0].path: the offset {offset}"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"repeat": 1_000_000_000, "path": 0}, "1000000000 times 1 instructions"),
        ({"repeat": 20_000, "path": {"repeat": 3000, "path": 0}}, "20000 times 3000 instructions"),
    ],
)
def test_a_path_that_is_too_long_is_refused_before_it_is_built(value, found):
    assert refusal(paths, value) == [f"t.yaml:1: warps[0].path: {found}"]


def test_pieces_of_a_path_that_are_too_long_together_are_refused(monkeypatch):
    monkeypatch.setattr("gpuemu.trace.bind.MAX_PATH", 10)
    assert refusal(paths, [{"repeat": 6, "path": 0}, {"repeat": 6, "path": 0}, 0]) == [
        "t.yaml:1: warps[0].path: over 12 instructions"
    ]


# Warps.


def owners(warps, **launch) -> list[tuple[int, int, int]]:
    """(CTA, warp, instructions) of each warp."""
    trace = bind("NOP\nNOP\nEXIT", warps=warps, launch=launch)
    return [(w.cta, w.warp, len(w.path)) for w in trace.warps]


def test_one_entry_speaks_for_every_warp_of_every_cta():
    assert owners([{}], grid=[2, 1, 1], block=[64, 1, 1]) == [(0, 0, 3), (0, 1, 3), (1, 0, 3), (1, 1, 3)]


def test_entries_divide_the_warps_and_come_out_in_order():
    warps = [{"warp": [2, "0"], "path": 0}, {"warp": 1, "path": "0x0-0x10"}, {"warp": "3", "cta": 0}]
    warps += [{"warp": 3, "cta": 1, "path": 0}]
    assert owners(warps, grid=[1, 2, 1], block=[16, 8, 1]) == [
        (0, 0, 1), (0, 1, 2), (0, 2, 1), (0, 3, 3),
        (1, 0, 1), (1, 1, 2), (1, 2, 1), (1, 3, 1),
    ]  # fmt: skip


def test_whole_ctas_may_be_left_out():
    assert owners([{"cta": [1, 5]}], grid=[100_000_000, 1, 1]) == [(1, 0, 3), (5, 0, 3)]


@pytest.mark.parametrize(
    ("warps", "message"),
    [
        ([{}, {"warp": 1}], "warps[1]: warp 1 of CTA 0 appears twice"),
        (
            [{"cta": 0}, {"cta": 1, "warp": 0}, {"cta": 1}],
            "warps[2]: warp 0 of CTA 1 appears twice",
        ),
        ([{"warp": 0}], "warps: warp 1 of CTA 0 has no entry"),
        (
            [{"cta": 0}, {"cta": 1, "warp": 1}],
            "warps: warp 0 of CTA 1 has no entry",
        ),
        ([{"warp": "0-2"}], "warps[0].warp: warp 2"),
        ([{"cta": [0, 2]}], "warps[0].cta: CTA 2"),
    ],
)
def test_each_warp_has_one_entry(warps, message):
    assert refusal(owners, warps, grid=[2, 1, 1], block=[64, 1, 1]) == [f"t.yaml:1: {message}"]


def test_ctas_and_warps_out_of_range_are_reported_at_once():
    assert refusal(owners, [{"cta": 3, "warp": 9}, {"warp": 2}], block=[64, 1, 1]) == [
        "t.yaml:1: warps[0].cta: CTA 3",
        "t.yaml:1: warps[0].warp: warp 9",
        "t.yaml:1: warps[1].warp: warp 2",
    ]


@pytest.mark.parametrize("grid", [[65_537, 1, 1], [2**31 - 1, 65_535, 65_535]])
def test_a_launch_of_too_many_ctas_is_refused_at_once(grid):
    found = grid[0] * grid[1] * grid[2]
    assert refusal(owners, [{}], grid=grid) == [f"t.yaml:1: launch: {found} CTAs"]


def test_entries_speak_for_at_most_65536_ctas_and_a_million_warps():
    halves = [{"cta": "0-39999"}, {"cta": "40000-79999"}]
    assert refusal(owners, halves, grid=[80_000, 1, 1]) == ["t.yaml:1: launch: 80000 CTAs"]
    assert refusal(owners, [{}], grid=[65_536, 1, 1], block=[1024, 1, 1]) == ["t.yaml:1: launch: 2097152 warps"]


def test_a_block_of_more_threads_than_any_hardware_has_is_refused_before_its_addresses_are_worked_out():
    start = time.perf_counter()
    assert refusal(of_loads, "16*lane + warp + cta", launch={"block": [32, 1, 65536]}) == [
        "t.yaml:1: launch.block: [32, 1, 65536]",
        "t.yaml:1: launch.block: 2097152 threads",
    ]
    assert time.perf_counter() - start < 1


# Addresses.


def test_an_expression_gives_the_lanes_their_addresses():
    assert rows(of_loads("16*lane + 4")) == [[16 * lane + 4 for lane in range(32)]]


def test_a_number_is_the_address_of_every_lane():
    assert rows(of_loads(64)) == [[64] * 32]


def test_a_list_is_taken_lane_by_lane():
    addresses = [4 * (lane ^ 5) for lane in range(32)]
    assert rows(of_loads(addresses, path={"repeat": 2, "path": 16})) == [addresses, addresses]


def test_i_counts_the_executions_of_the_instruction_by_this_warp():
    trace = bind(
        warps=[
            {
                "path": {"repeat": 3, "path": [0x10, 0x20, 0x10]},
                "addresses": {0x10: "4*i", 0x20: "1000*0 + 16*i"},
            }
        ]
    )
    assert [row[0] for row in rows(trace)] == [0, 0, 4, 8, 16, 12, 16, 32, 20]


def test_warp_and_cta_tell_warps_apart():
    launch = {"grid": [2, 1, 1], "block": [64, 1, 1], "static_shared_bytes": 4096}
    trace = of_loads("1000*cta + 100*warp + 0*lane", launch=launch)
    assert [rows(trace, n)[0][7] for n in range(4)] == [0, 100, 1000, 1100]


def test_layout_names_stand_for_their_numbers():
    assert rows(of_loads("pitch*lane", layout={"pitch": 12}))[0][3] == 36


def test_layout_numbers_can_be_replaced_when_a_trace_is_loaded(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "gpuemu_trace: 1\nkernel: k\narch: sm_89\nlayout: {pitch: 8, base: 4}\n"
        "launch: {static_shared_bytes: 4096}\ncode: LDS R1, [R2]\n"
        "warps:\n- addresses: {0: base + pitch*lane}\n"
    )
    assert rows(load_trace(path))[0][2] == 20
    trace = load_trace(path, layout={"pitch": np.int64(100)})
    assert rows(trace)[0][2] == 204
    assert trace.layout == {"pitch": 100, "base": 4}
    assert all(type(value) is int for value in trace.layout.values())


@pytest.mark.parametrize(
    ("given_layout", "message"),
    [
        ({"ptch": 3}, "layout: unknown name 'ptch'"),
        ({"zzz": 3}, "layout: unknown name 'zzz'"),
        ({"pitch": 3.0}, "layout.pitch: 3.0"),
        ({"pitch": True}, "layout.pitch: true"),
        ({"pitch": "3"}, "layout.pitch: the text '3'"),
        ({"pitch": 1 << 63}, f"layout.pitch: {1 << 63}"),
    ],
)
def test_a_replacement_that_does_not_fit_the_layout_is_refused(given_layout, message):
    assert refusal(bind, "EXIT", layout={"pitch": 1, "base": 2}, replacing=given_layout) == [f"t.yaml:1: {message}"]


def test_a_replacement_where_there_is_no_layout_is_refused():
    assert refusal(bind, "EXIT", replacing={"pitch": 3}) == ["t.yaml:1: layout: unknown name 'pitch'"]


@pytest.mark.parametrize("name", ["lane", "warp", "cta", "i", "lambda", "two words", "2nd", "é", ""])
def test_a_layout_name_that_an_expression_cannot_name_is_refused(name):
    assert refusal(bind, "EXIT", layout={name: 3}) == [f"t.yaml:1: layout.{name}: the name '{name}'"]


def test_a_layout_name_may_be_that_of_a_function():
    trace = of_loads("min(min, lane)", layout={"min": 5})
    assert rows(trace)[0][:8] == [0, 1, 2, 3, 4, 5, 5, 5]


def test_each_gives_every_execution_its_own_addresses():
    each = [64, "4*lane", list(range(32)), {"lanes": "8*lane", "active": 1}]
    trace = of_loads({"each": each}, path={"repeat": 4, "path": 16})
    assert rows(trace) == [[64] * 32, (4 * LANE).tolist(), LANE.tolist(), (8 * LANE).tolist()]
    assert active(trace)[3] == [0]


def test_i_under_each_still_counts_the_executions():
    trace = of_loads({"each": ["4*i", 8, "4*i", {"lanes": 0, "active": "lane == i"}]}, path={"repeat": 4, "path": 16})
    assert [row[0] for row in rows(trace)] == [0, 8, 8, 0]
    assert active(trace)[3] == [3]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_with_another_number_of_entries_is_refused(count):
    assert refusal(of_loads, {"each": [0] * count}, path={"repeat": 2, "path": 16}) == [
        f"t.yaml:1: warps[0].addresses.0x0010: {count} entries under each"
    ]


@pytest.mark.parametrize(
    ("mask", "lanes"),
    [
        (0x0000000F, [0, 1, 2, 3]),
        (0x80000001, [0, 31]),
        (0, []),
        (ALL_LANES, list(range(32))),
        ("lane < 2", [0, 1]),
        ("lane % 8", [lane for lane in range(32) if lane % 8]),
        ("0", []),
        ("7", list(range(32))),
        ("lane == pick", [9]),
    ],
)
def test_the_active_lanes_come_from_a_mask_or_an_expression(mask, lanes):
    trace = of_loads({"lanes": "4*lane", "active": mask}, layout={"pick": 9})
    assert active(trace) == [lanes]


def test_lanes_beyond_the_last_thread_never_take_part():
    launch = {"block": [40, 1, 1], "static_shared_bytes": 128}
    trace = of_loads("4*lane", launch=launch)
    assert active(trace, 0) == [list(range(32))]
    assert active(trace, 1) == [list(range(8))]
    far = {"lanes": "where(warp == 1, 100*lane, 0)", "active": "where(warp == 1, lane > 0, 1)"}
    launch["static_shared_bytes"] = 704
    assert active(of_loads(far, launch=launch), 1) == [list(range(1, 8))]


def test_the_bytes_of_shared_memory_follow_the_layout():
    launch = {"static_shared_bytes": "32*pitch", "dynamic_shared_bytes": "max(pitch - 128, 0)"}
    layout = {"pitch": 132}
    assert of_loads("pitch*lane", launch=launch, layout=layout).launch.shared_bytes == 32 * 132 + 4
    tight = of_loads("pitch*lane", launch=launch, layout=layout, replacing={"pitch": 64})
    assert (tight.launch.static_shared_bytes, tight.launch.dynamic_shared_bytes) == (2048, 0)
    beyond = refusal(
        of_loads, "64*lane", launch={"static_shared_bytes": "pitch"}, layout=layout, replacing={"pitch": 64}
    )
    assert beyond == ["t.yaml:2: code at 0x0010: LDS of 4 bytes at 64 in lane 1"]


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("32*pich", "unknown name 'pich' in '32*pich'"),
        ("32*lane", "unknown name 'lane' in '32*lane'"),
        ("pitch - 200", "-68 from 'pitch - 200'"),
        ("pitch // 0", "'pitch // 0', which divides by 0"),
    ],
)
def test_bytes_that_the_layout_does_not_give_are_refused(size, found):
    launch = {"dynamic_shared_bytes": size}
    assert refusal(of_loads, "4*lane", launch=launch, layout={"pitch": 132}) == [
        f"t.yaml:1: launch.dynamic_shared_bytes: {found}"
    ]


def test_rows_are_shared_where_warps_and_executions_do_the_same():
    launch = {"grid": [2, 1, 1], "block": [128, 1, 1], "static_shared_bytes": 4096}

    def count(addresses) -> int:
        return len(of_loads(addresses, path={"repeat": 5, "path": 16}, launch=launch).addresses)

    assert count("4*lane") == 1
    assert count([4 * lane for lane in range(32)]) == 1
    assert count("4*lane + warp") == 4
    assert count("4*lane + cta") == 2
    assert count("4*lane + i") == 5
    assert count("4*lane + i + warp + cta") == 40
    assert count({"lanes": "4*lane", "active": "warp == 1"}) == 4
    assert count({"each": ["4*lane", "4*lane", "8*lane", "4*lane", "8*lane"]}) == 2


def test_rows_are_shared_between_instructions():
    warps = [{"path": "0x0010-0x0030", "addresses": {0x10: "16*lane", 0x20: "16*lane", 0x30: "4*lane"}}]
    trace = bind(warps=warps)
    assert trace.warps[0].rows.tolist() == [0, 0, 1]


def test_warps_of_different_entries_have_their_own_addresses():
    warps = [
        {"warp": 0, "path": 16, "addresses": {16: 0}},
        {"warp": 1, "path": [16, 16], "addresses": {16: 8}},
    ]
    trace = bind(warps=warps, launch={"block": [64, 1, 1], "static_shared_bytes": 64})
    assert [len(w.rows) for w in trace.warps] == [1, 2]
    assert rows(trace, 1) == [[8] * 32] * 2


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (
            {},
            ".addresses: LDS at 0x0010 has no addresses",
        ),
        (
            {0x10: 0, 0x18: 0},
            ".addresses.0x0018: the offset 0x0018",
        ),
        (
            {0x10: 0, 0x50: 0},
            ".addresses.0x0050: the offset 0x0050",
        ),
        (
            {0x10: 0, 0x40: 0},
            ".addresses.0x0040: EXIT has addresses",
        ),
        (
            {0x10: "4*lane - 8"},
            ".addresses.0x0010: -8 in lane 0",
        ),
        (
            {0x10: {"lanes": "4*lane - 8*i", "active": "lane > 0"}},
            ".addresses.0x0010: -4 in lane 1",
        ),
        (
            {0x10: "4*lan"},
            ".addresses.0x0010: unknown name 'lan' in '4*lan'",
        ),
        (
            {0x10: {"lanes": 0, "active": "lane <"}},
            ".addresses.0x0010: 'lane <' (invalid syntax)",
        ),
        (
            {0x10: {"each": [0, "100 // lane"]}},
            ".addresses.0x0010.each[1]: '100 // lane', which divides by 0",
        ),
    ],
)
def test_addresses_that_cannot_be_are_refused(addresses, message):
    warps = [{"path": {"repeat": 2, "path": 16}, "addresses": addresses}]
    assert refusal(bind, warps=warps) == [f"t.yaml:1: warps[0]{message}"]


def test_a_mistake_that_every_warp_makes_is_reported_once():
    launch = {"block": [1024, 1, 1], "static_shared_bytes": 64}
    assert len(refusal(of_loads, "4*lan", launch=launch)) == 1


def test_mistakes_of_several_instructions_are_reported_at_once():
    warps = [{"path": "0x0010-0x0030", "addresses": {0x10: "lan", 0x20: "-lane", 0x40: 0}}]
    assert refusal(bind, warps=warps) == [
        "t.yaml:1: warps[0].addresses.0x0040: EXIT has addresses",
        "t.yaml:1: warps[0].addresses.0x0010: unknown name 'lan' in 'lan'",
        "t.yaml:1: warps[0].addresses.0x0020: -1 in lane 1",
        "t.yaml:1: warps[0].addresses: LDG.E at 0x0030 has no addresses",
    ]


def test_addresses_of_inactive_lanes_may_be_anything():
    trace = of_loads({"lanes": "4096*lane - 4096", "active": "lane == 1"})
    assert active(trace) == [[1]]


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr("gpuemu.trace.bind.MAX_ROWS", 100)
    assert len(of_loads("i", path={"repeat": 100, "path": 16}).addresses) == 100
    assert refusal(of_loads, "i", path={"repeat": 101, "path": 16}) == [
        "t.yaml:1: warps[0].addresses.0x0010: 101 executions with addresses of their own"
    ]


# The CTA's shared memory.


@pytest.mark.parametrize(
    ("sass", "lanes", "shared_bytes", "found"),
    [
        ("LDS R4, [R1]", "4*lane", 127, "LDS of 4 bytes at 124 in lane 31"),
        ("LDS.U8 R4, [R1]", "lane", 31, "LDS.U8 of 1 bytes at 31 in lane 31"),
        ("STS.128 [R1], R4", "16*lane", 511, "STS.128 of 16 bytes at 496 in lane 31"),
        ("LDSM.16.M88.4 R4, [R1]", "16*lane", 511, "LDSM.16.M88.4 of 16 bytes at 496 in lane 31"),
        ("LDSM.16.M88.2 R4, [R1]", "16*lane", 255, "LDSM.16.M88.2 of 16 bytes at 240 in lane 15"),
        ("LDSM.16.M88 R4, [R1]", "16*lane", 127, "LDSM.16.M88 of 16 bytes at 112 in lane 7"),
        ("ATOMS.ADD R4, [R1], R2", "where(lane == 5, 400, 0)", 400, "ATOMS.ADD of 4 bytes at 400 in lane 5"),
        ("LDGSTS.E.128 [R1], [R2.64]", "16*lane", 500, "LDGSTS.E.128 of 16 bytes at 496 in lane 31"),
        ("LDS R4, [R1]", "9223372036854775807", 4096, "LDS of 4 bytes at 9223372036854775807 in lane 0"),
        ("LDS R4, [R1]", "0", 0, "LDS of 4 bytes at 0 in lane 0"),
    ],
)
def test_an_access_beyond_shared_memory_is_refused_with_its_lane_and_byte(sass, lanes, shared_bytes, found):
    def access(size: int) -> Trace:
        launch = {"static_shared_bytes": size // 2, "dynamic_shared_bytes": size - size // 2}
        return bind(f"NOP\n{sass}\nEXIT", warps=[{"addresses": {0x10: lanes}}], launch=launch)

    assert refusal(access, shared_bytes) == [f"t.yaml:2: code at 0x0010: {found}"]
    if int(found.split()[5]) < 4096:
        assert len(access(int(found.split()[5]) + int(found.split()[2])).warps) == 1


def test_global_addresses_know_no_such_limit():
    warps = [{"path": 0x30, "addresses": {0x30: "1000000*lane"}}]
    assert bind(warps=warps, launch={}).addresses.max() == 31_000_000


def test_the_first_offence_of_each_instruction_is_reported():
    warps = [{"path": "0x0010-0x0020", "addresses": {0x10: "4*lane + 64*i", 0x20: "16*lane"}}]
    assert refusal(bind, warps=warps, launch={"static_shared_bytes": 100}) == [
        "t.yaml:2: code at 0x0010: LDS of 4 bytes at 100 in lane 25",
        "t.yaml:3: code at 0x0020: STS.128 of 16 bytes at 96 in lane 6",
    ]


def test_only_what_is_executed_counts():
    launch = {"static_shared_bytes": 128}
    warps = [{"path": 0x10, "addresses": {0x10: "4*lane", 0x20: "100*lane"}}]
    assert len(bind(warps=warps, launch=launch).addresses) == 1


def test_a_trace_without_memory_instructions_has_no_rows():
    trace = bind("NOP\nEXIT", warps=[{}])
    assert trace.addresses.shape == (0, 32)
    assert trace.active.shape == (0, 32)
    assert trace.warps[0].rows.tolist() == []


@pytest.mark.slow
def test_a_trace_of_ten_thousand_instructions_with_addresses_loads(tmp_path):
    lines = "\n".join("  LDS R4, [R2]" if n % 2 else "  STS [R2], R4" for n in range(10_000))
    addresses = "\n".join(f"    {16 * n:#x}: 4*lane + {4 * (n % 32)}" for n in range(10_000))
    path = tmp_path / "long.yaml"
    path.write_text(
        "gpuemu_trace: 1\nkernel: k\narch: sm_89\nlaunch: {block: [128, 1, 1], static_shared_bytes: 256}\n"
        f"code: |\n{lines}\nwarps:\n- addresses:\n{addresses}\n"
    )
    trace = load_trace(path)
    assert trace.executed_instructions == 40_000
    assert trace.addresses.shape == (32, 32)
    assert trace.code[9_999].line == 5 + 10_000
    assert Path(trace.file).name == "long.yaml"
