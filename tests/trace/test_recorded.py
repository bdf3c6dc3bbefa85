import re
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from refusals import brief

from gpuemu import TraceBuilder
from gpuemu.base import strict_yaml, whole_files
from gpuemu.base.errors import GpuemuError
from gpuemu.trace import bulk, recorded
from gpuemu.trace.bind import Binder
from gpuemu.trace.files import load_trace
from gpuemu.trace.form import TraceForm, json_schema
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import SPACES, Launch, Trace, WarpTrace
from gpuemu.trace.recorded import write_trace

LANE = np.arange(32)
CODE = parse_listing(
    """\
0000: [B------:R-:W-:-:S05] MOV R1, R2
0010: [B------:R-:W0:-:S02] LDS R4, [R1]
0020: [B------:R0:W-:-:S02] STS.128 [R1], R4
0030: [B------:R-:W1:-:S02] LDG.E R4, [R2.64]
0040: [B------:R-:W1:-:S02] LDSM.16.M88.4 R4, [R2]
0050: [B01----:R-:W-:-:S05] EXIT
""",
    "<test>",
    1,
)
MEMORY = np.array([i.accesses_memory for i in CODE])


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trace_of(paths, addresses, *, ctas=1, threads=None, active=None, kept=None, code=CODE) -> Trace:
    """A trace whose warp w takes path w; `addresses(cta, warp, index, i)` and `active` give 32 values each."""
    threads = threads or 32 * len(paths)
    table, masks, warps = [], [], []
    for cta in range(ctas) if kept is None else kept:
        for warp, path in enumerate(paths):
            rows, times = [], {}
            for index in path:
                if not code[index].accesses_memory:
                    continue
                i = times[index] = times.get(index, -1) + 1
                rows.append(len(table))
                table.append(np.broadcast_to(addresses(cta, warp, index, i), 32))
                mask = True if active is None else active(cta, warp, index, i)
                masks.append(np.broadcast_to(mask, 32) & (32 * warp + LANE < threads))
            warps.append(WarpTrace(cta, warp, np.array(path, np.int32), np.array(rows, np.int32)))
    return Trace(
        "kernel", "sm_89", Launch((ctas, 1, 1), (threads, 1, 1), 40, 16384, 32768), code, tuple(warps),
        np.array(table, np.int64).reshape(-1, 32), np.array(masks, np.bool_).reshape(-1, 32), "recorded",
    )  # fmt: skip


def same(a: Trace, b: Trace) -> None:
    """Equal content: where lanes take part, and in everything else."""
    assert (a.name, a.arch, a.about, a.launch) == (b.name, b.arch, b.about, b.launch)
    assert [replace(i, line=None) for i in a.code] == [replace(i, line=None) for i in b.code]
    a_warps, b_warps = (sorted(t.warps, key=lambda w: (w.cta, w.warp)) for t in (a, b))
    assert [(w.cta, w.warp) for w in a_warps] == [(w.cta, w.warp) for w in b_warps]
    for x, y in zip(a_warps, b_warps, strict=True):
        assert x.path.tolist() == y.path.tolist()
        active = a.active[x.rows]
        assert active.tolist() == b.active[y.rows].tolist()
        assert (a.addresses[x.rows] == b.addresses[y.rows])[active].all()


def warps_of(path="t.yaml"):
    """What stands under `warps`."""
    return strict_yaml.load(path).value["warps"]


def written(trace: Trace):
    assert write_trace(trace, "t.yaml") == [Path("t.yaml")]
    same(trace, load_trace("t.yaml"))
    return warps_of()


# What people read.


def test_paths_become_repetitions_and_addresses_expressions():
    path = [0, *[1, 2] * 6, 5]
    rule = {1: lambda w, i: 512 * w + 128 * i + 4 * LANE, 2: lambda w, i: 2048 + (16 * LANE ^ 16 * (LANE // 8 % 2))}
    assert written(trace_of([path, path], lambda cta, w, index, i: rule[index](w, i))) == [
        {
            "path": [0x0000, {"repeat": 6, "path": "0x0010-0x0020"}, 0x0050],
            "addresses": {
                0x10: "512*warp + 128*i + 4*lane",
                0x20: "2048 + (16*lane ^ 16*(lane // 8 % 2))",
            },
        }
    ]


def test_warps_with_different_paths_stand_apart():
    paths = [[0, 1, 5], [0, 5], [0, 1, 5]]
    assert written(trace_of(paths, lambda cta, w, index, i: 128 * w + 4 * LANE)) == [
        {"warp": [0, 2], "path": ["0x0000-0x0010", 0x50], "addresses": {0x10: "128*warp + 4*lane"}},
        {"warp": 1, "path": [0, 0x50]},
    ]


def test_ctas_share_an_expression_in_cta():
    trace = trace_of([[3]] * 2, lambda cta, w, index, i: (1 << 40) + 4096 * cta + 128 * w + 4 * LANE, ctas=3)
    assert written(trace) == [
        {"path": 0x30, "addresses": {0x30: "0x10000000000 + 4096*cta + 128*warp + 4*lane"}},
    ]


def test_ctas_that_behave_alike_share_an_entry_without_cta():
    generator = np.random.default_rng(0)
    lists = generator.integers(0, 1000, (3, 32))
    trace = trace_of([[1]] * 3, lambda cta, w, index, i: lists[w if w < 2 else 0], ctas=4)
    assert written(trace) == [
        {"warp": [0, 2], "path": 0x10, "addresses": {0x10: lists[0].tolist()}},
        {"warp": 1, "path": 0x10, "addresses": {0x10: lists[1].tolist()}},
    ]


def test_ctas_that_follow_no_common_rule_stand_apart():
    bases = [300, 0, 7000, 90, 16]
    trace = trace_of([[1]] * 2, lambda cta, w, index, i: bases[cta] + 128 * w + 4 * LANE, ctas=5)
    entries = written(trace)
    assert entries[:2] == [
        {"cta": 0, "path": 0x10, "addresses": {0x10: "300 + 128*warp + 4*lane"}},
        {"cta": 1, "path": 0x10, "addresses": {0x10: "128*warp + 4*lane"}},
    ]
    assert [entry["cta"] for entry in entries] == [0, 1, 2, 3, 4]


def test_the_ctas_that_were_kept_are_named():
    trace = trace_of([[1]], lambda cta, w, index, i: 4 * LANE, ctas=9, kept=[0, 1, 2, 5])
    assert written(trace) == [{"cta": ["0-2", 5], "path": 0x10, "addresses": {0x10: "4*lane"}}]


def test_a_partial_last_warp_is_as_the_others():
    trace = trace_of([[1]] * 3, lambda cta, w, index, i: 128 * w + 4 * LANE, threads=70)
    assert written(trace) == [{"path": 0x10, "addresses": {0x10: "128*warp + 4*lane"}}]


def test_a_mask_stands_beside_the_expression():
    trace = trace_of([[1, 1]], lambda cta, w, index, i: 4 * LANE, active=lambda cta, w, index, i: LANE < 4)
    assert written(trace) == [
        {"path": {"repeat": 2, "path": 0x10}, "addresses": {0x10: {"lanes": "4*lane", "active": 15}}}
    ]


def test_masks_that_change_stand_under_each_and_the_expression_stays_whole():
    trace = trace_of(
        [[1] * 3], lambda cta, w, index, i: 256 * i + 4 * LANE, active=lambda cta, w, index, i: (8 >> i) > LANE
    )
    lanes = "256*i + 4*lane"
    assert written(trace)[0]["addresses"][0x10] == {"each": [{"lanes": lanes, "active": m} for m in (0xFF, 0xF, 3)]}


def test_a_mask_that_some_warps_have_separates_only_those():
    trace = trace_of(
        [[1]] * 4, lambda cta, w, index, i: 4 * LANE, active=lambda cta, w, index, i: (w != 1) | (LANE < 2)
    )
    assert written(trace) == [
        {"warp": [0, "2-3"], "path": 0x10, "addresses": {0x10: "4*lane"}},
        {"warp": 1, "path": 0x10, "addresses": {0x10: {"lanes": "4*lane", "active": 3}}},
    ]


def test_an_instruction_without_lanes_has_an_empty_mask():
    trace = trace_of([[1]], lambda cta, w, index, i: 0, active=lambda cta, w, index, i: False)
    assert written(trace)[0]["addresses"] == {0x10: {"lanes": "0", "active": 0}}


def test_executions_without_a_common_rule_have_rules_of_their_own():
    bases = [512, 0, 7000, 64]
    trace = trace_of([[1] * 4], lambda cta, w, index, i: bases[i] + 4 * LANE)
    assert written(trace)[0]["addresses"] == {
        0x10: {"each": ["512 + 4*lane", "4*lane", "7000 + 4*lane", "64 + 4*lane"]}
    }


def test_irregular_addresses_are_listed_and_lanes_that_take_no_part_are_at_0():
    numbers = np.random.default_rng(0).integers(1, 1000, (2, 32))
    trace = trace_of([[1, 2, 1]], lambda cta, w, index, i: numbers[i], active=lambda cta, w, index, i: LANE != 3)
    lists = [np.where(LANE == 3, 0, n).tolist() for n in numbers]
    mask = 0xFFFFFFF7
    assert written(trace)[0]["addresses"] == {
        0x10: {"each": [{"lanes": numbers, "active": mask} for numbers in lists]},
        0x20: {"lanes": lists[0], "active": mask},
    }


def test_a_long_loop_over_the_same_irregular_addresses_is_one_list():
    numbers = np.random.default_rng(0).integers(1, 1000, 32)
    trace = trace_of([[1] * 1000], lambda cta, w, index, i: numbers)
    assert written(trace)[0]["addresses"] == {0x10: numbers.tolist()}


def test_a_name_that_no_form_may_have_is_refused_and_nothing_written():
    trace = replace(trace_of([[1]], lambda cta, w, index, i: 0), name="")
    with pytest.raises(GpuemuError) as caught:
        write_trace(trace, "t.yaml")
    assert "\n".join(brief(caught.value)) == "t.yaml: kernel: the text ''"
    assert not list(Path().iterdir())


# The side file.


def irregular(executions: int = 700, **more) -> Trace:
    """A trace whose lists would have 32 numbers for each of these executions, times two warps."""
    generator = np.random.default_rng(7)
    path = [0, *[1, 2] * (executions // 2), 5]
    return trace_of([path, path], lambda cta, w, index, i: 16 * generator.integers(0, 3000, 32), **more)


def bulky(**more) -> Trace:
    trace = irregular(**more)
    assert write_trace(trace, "t.yaml") == [Path("t.yaml"), Path("t.npz")]
    return trace


def test_bulky_addresses_go_to_a_side_file():
    trace = bulky()
    assert strict_yaml.load("t.yaml").value["bulk"] == "t.npz"
    assert "warps" not in strict_yaml.load("t.yaml").value
    same(trace, load_trace("t.yaml"))
    jsonschema.Draft202012Validator(json_schema()).validate(strict_yaml.load("t.yaml").value)


def test_the_arrays_of_the_side_file_are_those_of_its_description():
    bulky()
    with np.load("t.npz", allow_pickle=False) as arrays:
        assert list(arrays) == [
            name for name in bulk.FIELDS if name not in (*SPACES, "sources") and "event" not in name
        ]
        assert arrays["addresses"].dtype == np.uint16
        assert arrays["addresses"].shape == (1400, 32)
        assert arrays["active"].tolist() == [0xFFFFFFFF] * 1400
        assert arrays["path_lengths"].tolist() == [702]
        assert arrays["path"].tolist() == [0, 0]
        assert (arrays["cta"].tolist(), arrays["warp"].tolist()) == ([0, 0], [0, 1])
        assert arrays["row_lengths"].tolist() == [700, 700]
        assert arrays["rows"].tolist() == list(range(1400))
    for name, (kinds, shape) in bulk.FIELDS.items():
        words = " ".join((bulk.__doc__ or "").split())
        assert name in words
        assert shape in words or shape in ("[instructions]", "[memory instructions]", "[asynchronous instructions]")
        assert all(kind in words for kind in kinds)


@pytest.mark.parametrize(("greatest", "kind"), [(1 << 16, np.uint32), (1 << 32, np.int64), ((1 << 63) - 1, np.int64)])
def test_large_addresses_take_a_wider_type(greatest, kind, monkeypatch):
    monkeypatch.setattr(recorded, "MOST_NUMBERS", 0)
    trace = trace_of([[3]], lambda cta, w, index, i: np.where(LANE == 9, greatest, LANE))
    write_trace(trace, "t.yaml")
    assert np.load("t.npz")["addresses"].dtype == kind
    same(trace, load_trace("t.yaml"))


def test_equal_rows_and_paths_are_kept_once_and_unused_rows_not_at_all(monkeypatch):
    monkeypatch.setattr(recorded, "MOST_NUMBERS", 0)
    trace = trace_of([[1] * 50, [1] * 50], lambda cta, w, index, i: 4 * LANE + 256 * (i % 2))
    spare = replace(
        trace, addresses=np.concatenate([trace.addresses, trace.addresses]), active=np.tile(trace.active, (2, 1))
    )
    for content in (trace, spare):
        write_trace(content, "t.yaml")
        with np.load("t.npz") as arrays:
            assert len(arrays["addresses"]) == 2
            assert arrays["rows"].tolist() == [0, 1] * 50
            assert len(arrays["paths"]) == 50
        same(trace, load_trace("t.yaml"))


@pytest.mark.slow
def test_a_path_without_loops_is_bulky_too():
    path = np.random.default_rng(3).integers(0, 6, 30_000).tolist()
    trace = trace_of([path], lambda cta, w, index, i: 4 * LANE)
    assert len(write_trace(trace, "t.yaml")) == 2
    same(trace, load_trace("t.yaml"))


def test_the_same_trace_gives_the_same_bytes():
    trace = bulky()
    first = Path("t.yaml").read_bytes(), Path("t.npz").read_bytes()
    shuffled = replace(trace, warps=trace.warps[::-1])
    write_trace(shuffled, "t.yaml")
    assert (Path("t.yaml").read_bytes(), Path("t.npz").read_bytes()) == first
    with zipfile.ZipFile("t.npz") as archive:
        assert {m.date_time for m in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {m.create_system for m in archive.infolist()} == {3}
    # Loaded and written once more, nothing changes either.
    write_trace(load_trace("t.yaml"), "t.yaml")
    assert (Path("t.yaml").read_bytes(), Path("t.npz").read_bytes()) == first


@pytest.mark.slow
def test_an_irregular_trace_of_100000_instructions_takes_a_few_megabytes():
    generator = np.random.default_rng(5)
    path = np.tile([0, 1, 0, 0, 2, 0, 0, 0], 12_500).astype(np.int32)
    rows = np.arange(25_000, dtype=np.int32)
    trace = replace(
        trace_of([[5]], lambda cta, w, index, i: 0),
        warps=(WarpTrace(0, 0, path, rows),),
        addresses=16 * generator.integers(0, 3000, (25_000, 32)),
        active=np.ones((25_000, 32), np.bool_),
    )
    files = write_trace(trace, "t.yaml")
    assert sum(f.stat().st_size for f in files) < 2_000_000
    same(trace, load_trace("t.yaml"))


def test_a_side_file_is_removed_where_none_is_needed_any_more():
    bulky()
    assert write_trace(irregular(executions=10), "t.yaml") == [Path("t.yaml")]
    assert sorted(p.name for p in Path().iterdir()) == ["t.yaml"]


def test_a_file_that_is_no_side_file_stays():
    np.savez("t.npz", x=np.arange(3))
    before = Path("t.npz").read_bytes()
    write_trace(irregular(executions=10), "t.yaml")
    assert Path("t.npz").read_bytes() == before
    Path("t.yaml").unlink()
    with pytest.raises(GpuemuError) as caught:
        write_trace(irregular(), "t.yaml")
    assert "\n".join(brief(caught.value)) == (
        "t.npz: this file would be overwritten, and it is not a side file of a trace"
    )
    assert [p.name for p in Path().iterdir()] == ["t.npz"]
    assert Path("t.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "side"), [("a.yml", "a.npz"), ("a", "a.npz"), ("a.b", "a.b.npz"), ("x.npz", "x.npz.npz")]
)
def test_the_side_file_bears_the_name_of_the_trace(name, side):
    Path("folder").mkdir()
    assert write_trace(irregular(), f"folder/{name}") == [Path("folder", name), Path("folder", side)]
    same(irregular(), load_trace(f"folder/{name}"))


@pytest.mark.parametrize("fails", ["write_bulk", "replace", "replace_side"])
@pytest.mark.parametrize("had_one", [False, True])
def test_nothing_is_half_written_where_writing_fails(fails, had_one, monkeypatch):
    if had_one:
        bulky(threads=40)
    before = {p.name: p.read_bytes() for p in Path().iterdir()}

    def failing(*_):
        raise OSError("no space left")

    original = whole_files.take_place

    def failing_at(new, target):
        return failing() if target.name == ("t.yaml" if fails == "replace" else "t.npz") else original(new, target)

    with monkeypatch.context() as patch:
        if fails == "write_bulk":
            patch.setattr(recorded, "write_bulk", failing)
        else:
            patch.setattr(whole_files, "take_place", failing_at)
        with pytest.raises(OSError, match="no space left"):
            write_trace(irregular(), "t.yaml")
    assert {p.name: p.read_bytes() for p in Path().iterdir()} == before


# Damage.


def refusal(**changes) -> list[str]:
    """What is said of the side file with these arrays in place of its own; None leaves one out."""
    with np.load("t.npz") as arrays:
        content = dict(arrays)
    content |= changes
    np.savez("t.npz", **{name: array for name, array in content.items() if array is not None})
    return said()


def said() -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.yaml")
    return brief(caught.value)


def test_a_side_file_that_is_not_there_is_refused():
    bulky()
    Path("t.npz").unlink()
    assert said() == ["t.yaml:13: bulk: no file 't.npz' beside the trace"]


def test_a_form_that_no_file_holds_has_no_side_file():
    form = TraceForm(gpuemu_trace=1, kernel="k", arch="sm_89", code="0000: EXIT", bulk="t.npz")
    with pytest.raises(GpuemuError) as caught:
        Binder(form, parse_listing(form.code, "<b>", 1), "<b>", lambda _: None).bind({})
    assert "\n".join(brief(caught.value)) == "<b>: bulk: no file 't.npz' beside the trace"


def test_a_side_file_in_a_folder_is_named_with_it():
    Path("folder").mkdir()
    write_trace(irregular(), "folder/t.yaml")
    Path("folder/t.npz").write_bytes(b"hello")
    with pytest.raises(GpuemuError) as caught:
        load_trace("folder/t.yaml")
    assert "\n".join(brief(caught.value)) == "folder/t.npz: a damaged file, or not a NumPy .npz"


ZERO = np.zeros(0, np.int64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"addresses": None}, "addresses: nothing"),
        ({"paths": None}, "paths: nothing"),
        ({"addresses": np.zeros((1400, 31), np.int64)},
         "addresses: int64 [1400, 31]"),
        ({"addresses": np.zeros((1400, 32), np.float64)},
         "addresses: float64 [1400, 32]"),
        ({"addresses": np.array([{}])}, "addresses: object [1]"),
        ({"active": np.ones((1400, 32), bool)}, "active: bool [1400, 32]"),
        ({"active": np.ones(1399, np.uint32)},
         "active: 1399 masks"),
        ({"warp": np.zeros(3, np.int32)}, "warp: 3 entries"),
        ({"path": np.zeros(1, np.int32)}, "path: 1 entries"),
        ({"row_lengths": np.array([1400])}, "row_lengths: 1 entries"),
        ({"path_lengths": np.array([700])}, "paths: 702 numbers"),
        ({"path_lengths": np.array([-1, 703])}, "paths: 702 numbers"),
        ({"path_lengths": np.array([702, 0])}, "path_lengths: path 1 is empty"),
        ({"paths": np.full(702, 6, np.int32)},
         "paths: 6"),
        ({"paths": np.full(702, -1, np.int32)},
         "paths: -1"),
        ({"path": np.array([0, 1], np.int32)}, "path: 1"),
        ({"rows": np.full(1400, 1400, np.int32)},
         "rows: 1400"),
        ({"row_lengths": np.array([699, 701])},
         "row_lengths: 699 rows for warp 0 of CTA 0"),
        ({"cta": np.array([0, 1], np.int32)}, "cta: 1"),
        ({"warp": np.array([0, 2], np.int32)}, "warp: 2"),
        ({"warp": np.array([0, 0], np.int32)}, "warp: warp 0 of CTA 0 appears twice"),
        ({"cta": np.zeros(1, np.int32), "warp": np.ones(1, np.int32), "path": np.zeros(1, np.int32),
          "row_lengths": np.array([700]), "rows": np.zeros(700, np.int32)},
         "warp: warp 0 of CTA 0 is missing"),
        ({"cta": ZERO.astype(np.int32), "warp": ZERO.astype(np.int32), "path": ZERO.astype(np.int32),
          "row_lengths": ZERO, "rows": ZERO.astype(np.int32)}, "cta: the file has no warps"),
        ({"addresses": np.where(np.arange(1400 * 32).reshape(1400, 32) == 70, -8, 0)},
         "addresses: -8 in lane 6 of row 2"),
    ],
)  # fmt: skip
def test_a_damaged_side_file_is_refused(changes, message):
    bulky()
    assert refusal(**changes) == [f"t.npz: {message}"]


def test_addresses_beyond_shared_memory_are_refused():
    bulky()
    assert refusal(addresses=np.full((1400, 32), 49140)) == [
        "t.yaml:9: code at 0x0020: STS.128 of 16 bytes at 49140 in lane 0"
    ]


def test_lanes_without_a_thread_take_no_part():
    trace = bulky(threads=40)
    same(trace, load_trace("t.yaml"))
    assert refusal(active=np.full(1400, 0x1FF, np.uint32)) == [
        "t.npz: active: lanes beyond the last thread in warp 1 of CTA 0"
    ]


def test_a_header_that_promises_more_than_there_is_is_refused():
    bulky()
    huge = b"{'descr': '<u2', 'fortran_order': False, 'shape': (0x1" + b"0" * 4000 + b", 7), }"  # too long to print
    content = {}
    with zipfile.ZipFile("t.npz") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for damage, message in [
        (lambda data: data.replace(b"(1400, 32)", b"(9400, 32)"),
         "89600 bytes for uint16 [9400, 32]"),
        (lambda data: data[:-1], "89599 bytes for uint16 [1400, 32]"),
        (lambda data: data.replace(b"(1400, 32)", b"(-400, 32)"),
         "89600 bytes for uint16 [-400, 32]"),
        (lambda data: b"hello", "no array"),
        (lambda data: data.replace(b"(1400, 32)", b"(1400, 32,"),
         "no array"),
        (lambda data: data[:8] + len(huge).to_bytes(2, "little") + huge,
         "no array"),
    ]:  # fmt: skip
        with zipfile.ZipFile("t.npz", "w") as archive:
            for name, data in content.items():
                archive.writestr(name, damage(data) if name == "addresses.npy" else data)
        assert said() == [f"t.npz: addresses: {message}"]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 255), st.booleans())
def test_any_broken_byte_is_refused_or_harmless(place, change, cut):
    if not Path("whole.npz").exists():
        write_trace(irregular(), "t.yaml")
        Path("whole.npz").write_bytes(Path("t.npz").read_bytes())
    data = bytearray(Path("whole.npz").read_bytes())
    # Half of the places in the directory at the end, which decides most.
    place = place % len(data) if place % 2 else len(data) - 1 - place % 1000
    data[place] ^= change
    Path("t.npz").write_bytes(data[:place] if cut else data)
    try:
        loaded = load_trace("t.yaml")
    except GpuemuError as error:
        problems = error.problems
    else:
        same(irregular(), loaded)
        return
    assert problems[0].file == "t.npz"


# The field of the form.

HEAD = "gpuemu_trace: 1\nkernel: k\narch: sm_89\nbulk: {}\ncode: |\n  0000: EXIT\n"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a/b.npz", "the text 'a/b.npz'"), ("/b.npz", "the text '/b.npz'"), ("..", "the text '..'"),
        (".", "the text '.'"), ("a\\b", "the text 'a\\\\b'"), ("5", "5"), ("", "nothing"), ("''", "the text ''"),
        ("[a]", "the list [a]"), ('"a\\0"', "the text 'a\\x00'"),
    ],
)  # fmt: skip
def test_bulk_is_a_file_name(value, found):
    Path("t.yaml").write_text(HEAD.format(value))
    assert said() == [f"t.yaml:4: bulk: {found}"]
    document = strict_yaml.load("t.yaml").value
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document)


@pytest.mark.parametrize(
    ("field", "right"),
    [
        ("warps: [{path: 0}]", "both bulk and warps"),
        ("layout: {a: 3}", "both bulk and layout"),
    ],
)
def test_bulk_stands_alone(field, right):
    Path("t.yaml").write_text(HEAD.format("t.npz") + field + "\n")
    name = field.partition(":")[0]
    assert said() == [f"t.yaml:4: bulk: both bulk and {name}"]
    document = strict_yaml.load("t.yaml").value
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document)


def test_a_layout_for_a_recorded_trace_is_refused():
    bulky()
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.yaml", layout={"pitch": 3})
    assert "\n".join(brief(caught.value)) == "t.yaml:1: layout: unknown name 'pitch'"


# Any trace.


def random_addresses(kind: str, generator, index: int):
    """(cta, warp, i) -> 32 addresses, for an instruction."""
    limit = (1 << 44) if index == 3 else 49152 - 16
    parts = 4 * generator.integers(0, 64, (4, 5))
    table = generator.integers(0, limit, (4, 8, 32))

    def joined(cta, warp, i):
        result = np.zeros(32, np.int64)
        for name, value in enumerate((cta, warp, np.int64(i), LANE)):
            for bit in range(5):
                change = parts[name, bit] * (value >> bit & 1)
                result = result ^ change if kind == "xor" else result + change
        return result

    return {
        "affine": lambda cta, warp, i: 16 * LANE + 8 * i + 512 * warp + 4 * cta,
        "sum": joined,
        "xor": joined,
        "swizzle": lambda cta, warp, i: 2048 * warp + (128 * (LANE % 16) ^ 16 * (LANE // 16) ^ 16 * (LANE % 8)),
        "by_warp": lambda cta, warp, i: table[warp, 0],
        "by_execution": lambda cta, warp, i: table[0, i % 8, :1] + LANE % 2,
        "random": lambda cta, warp, i: generator.integers(0, limit, 32),
    }[kind]


KINDS = ["affine", "sum", "xor", "swizzle", "by_warp", "by_execution", "random"]
MASKS = ["all", "prefix", "some", "by_warp", "by_execution", "none"]
bodies = st.recursive(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    lambda inner: st.tuples(st.integers(1, 4), st.lists(inner, min_size=1, max_size=3)).map(
        lambda loop: loop[0] * [n for part in loop[1] for n in part]
    ),
    max_leaves=5,
).filter(lambda path: len(path) < 100)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(bodies, min_size=1, max_size=2), st.lists(st.integers(0, 1), min_size=1, max_size=4),
    st.lists(st.sampled_from(KINDS), min_size=5, max_size=5), st.lists(st.sampled_from(MASKS), min_size=5, max_size=5),
    st.integers(1, 3), st.integers(1, 32), st.integers(0, 1 << 32), st.sampled_from([0, 1000, 20_000]),
)  # fmt: skip
def test_any_trace_written_and_loaded_is_the_same(bodies, whose, kinds, masks, ctas, last, seed, most):
    generator = np.random.default_rng(seed)
    paths = [[*bodies[w % len(bodies)], 5] for w in whose]
    rules = [random_addresses(kind, generator, index) for index, kind in enumerate(kinds)]
    some = generator.random((4, 8, 32)) < 0.5

    def active(cta, warp, index, i):
        return {
            "all": True, "prefix": LANE < 8, "some": some[0, 0], "by_warp": some[warp, 0],
            "by_execution": some[0, i % 8], "none": False,
        }[masks[index]]  # fmt: skip

    trace = trace_of(
        paths, lambda cta, warp, index, i: rules[index](cta, warp, i), active=active, ctas=ctas,
        threads=32 * (len(paths) - 1) + last,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "MOST_NUMBERS", most)
        files = write_trace(trace, "t.yaml")
        content = [f.read_bytes() for f in files]
        assert most or len(files) == 2
        loaded = load_trace("t.yaml")
        same(trace, loaded)
        # The same content, its rows in another order: the same bytes.
        write_trace(loaded, "t.yaml")
        assert [f.read_bytes() for f in files] == content


def test_a_trace_of_the_builder_comes_back_as_written_by_hand():
    builder = TraceBuilder("copy", arch="sm_89", block=(128, 1, 1), static_shared_bytes=8192, layout={"pitch": 16})
    builder.emit("S2R R0, SR_TID.X")
    with builder.repeat(16):
        builder.emit("LDS.128 R4, [R0]", lanes="512*warp + pitch*lane")
        with builder.only(warps="0-1"):
            builder.emit("STS.128 [R0], R4", lanes="512*warp + (16*lane ^ 16*(lane // 8))", active="lane < 16")
    builder.emit("EXIT")
    trace = builder.build()
    assert written(trace) == [
        {
            "warp": "0-1",
            "path": [0x0, {"repeat": 16, "path": "0x0010-0x0020"}, 0x30],
            "addresses": {
                0x10: "512*warp + 16*lane",
                0x20: {"lanes": "512*warp + (16*lane ^ 16*(lane // 8))", "active": 0xFFFF},
            },
        },
        {
            "warp": "2-3",
            "path": [0x0, {"repeat": 16, "path": 0x10}, 0x30],
            "addresses": {0x10: "1024 + 512*(warp % 2) + 16*lane"},
        },
    ]


def of_one_member(kind, size, method):
    """A side file whose addresses are `size` zeros of this type, packed by this method."""
    with zipfile.ZipFile("t.npz") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    header = BytesIO()
    npy.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": (size // 128, 32)})
    with zipfile.ZipFile("t.npz", "w", method) as archive:
        for name, data in content.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(header.getvalue() if name == "addresses.npy" else data)
                for _ in range(size >> 20 if name == "addresses.npy" else 0):
                    member.write(bytes(1 << 20))


def test_a_side_file_is_refused_by_what_it_would_unpack_to_before_it_is_unpacked(monkeypatch):
    bulky()
    of_one_member("<u4", 4 << 20, zipfile.ZIP_DEFLATED)
    assert Path("t.npz").stat().st_size < 1 << 18
    monkeypatch.setattr("gpuemu.trace.bulk.MOST_BYTES", 2 << 20)
    monkeypatch.setattr("gpuemu.trace.bulk._unpacked", lambda archive, member: pytest.fail("it is unpacked"))
    (line,) = said()
    assert line.startswith("t.npz: 4,")
    assert line.endswith(" bytes when unpacked")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_side_file_packed_in_another_way_is_refused(method):
    bulky()
    of_one_member("<u4", 1 << 20, method)
    assert said() == ["t.npz: a damaged file, or not a NumPy .npz"]


def test_a_side_file_of_more_rows_than_fit_is_refused_by_its_header(monkeypatch):
    bulky()
    monkeypatch.setattr("gpuemu.trace.bulk.MOST_ROWS", 1000)
    assert said() == ["t.npz: addresses: 1,400 rows"]
    with pytest.raises(GpuemuError, match=r"1,400 rows of addresses\."):
        bulky()


# --- generic addresses ------------------------------------------------------------------------------------

GENERIC = parse_listing(
    """\
0000: [B------:R-:W0:-:S02] LD.E R4, [R2.64]
0010: [B0-----:R0:W-:-:S02] ST.E.64 [R2.64], R4
0020: [B0-----:R-:W-:-:S05] EXIT
""",
    "<test>",
    1,
)


def generic_trace(spaces, active=None, threads=None) -> Trace:
    """Two warps that execute the load and the store twice; `spaces(warp, i)` gives 32 numbers."""
    trace = trace_of([[0, 1, 0, 1, 2]] * 2, lambda cta, w, k, i: 8 * LANE, code=GENERIC, active=active, threads=threads)
    rows = [np.broadcast_to(spaces(w, k // 2), 32) for w in range(2) for k in range(4)]
    return replace(trace, spaces=np.array(rows, np.uint8))


@pytest.mark.parametrize("most", [0, 20_000])
@pytest.mark.parametrize(
    "spaces",
    [
        lambda w, i: 1,
        lambda w, i: i,
        lambda w, i: np.where(LANE < 7, 1, 0),
        lambda w, i: np.where(7 + w > LANE, i + 1, 0),
        lambda w, i: LANE % 3,
    ],
)
def test_the_memory_of_generic_addresses_comes_back(spaces, most, monkeypatch):
    monkeypatch.setattr(recorded, "MOST_NUMBERS", most)
    masked = lambda cta, w, k, i: LANE < 20  # noqa: E731
    for trace in (generic_trace(spaces), generic_trace(spaces, masked), generic_trace(spaces, threads=40)):
        assert len(write_trace(trace, "t.yaml")) == (1 if most else 2)
        read = load_trace("t.yaml")
        same(trace, read)
        for x, y in zip(trace.warps, read.warps, strict=True):
            active = trace.active[x.rows]
            assert (trace.spaces[x.rows] * active).tolist() == (read.spaces[y.rows] * active).tolist()


def test_the_memory_is_written_as_a_word_where_all_lanes_mean_it():
    write_trace(generic_trace(lambda w, i: 1, lambda cta, w, k, i: LANE < 8), "t.yaml")
    assert "{lanes: 8*lane, active: 0x000000ff, space: shared}" in Path("t.yaml").read_text()
    write_trace(generic_trace(lambda w, i: LANE % 3), "t.yaml")
    text = Path("t.yaml").read_text()
    assert "{lanes: 8*lane, space: {shared: 0x92492492, local: 0x24924924}}" in text


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        (
            "0x0000: {lanes: 4*lane, space: texture}",
            "space: the text 'texture'",
        ),
        (
            "0x0000: {lanes: 4*lane, space: {shared: -1}}",
            "space: a mapping",
        ),
        ("0x0000: {lanes: 4*lane, space: {shared: 3, local: 2}}", "a lane is in two masks of space"),
        (
            "{0x0000: 4*lane, 0x0010: {lanes: 4*lane, space: shared}}",
            "LDS has a space",
        ),
        (
            "0x0000: {lanes: 4*lane + 9000, space: shared}",
            "LD.E of 4 bytes at 9000 in lane 0",
        ),
    ],
)
def test_what_is_wrong_with_a_space_is_said(addresses, found):
    code = "code: |\n  0000: LD.E R4, [R2.64]\n  0010: LDS R4, [R2]\n  0020: EXIT\n"
    path = "[0x0000, 0x0020]" if "0x0010" not in addresses else "0x0000-0x0020"
    Path("t.yaml").write_text(
        f"gpuemu_trace: 1\nkernel: k\narch: sm_90\n{code}warps:\n- path: {path}\n  addresses:\n    {addresses}\n"
    )
    with pytest.raises(GpuemuError, match=re.escape(found)):
        load_trace("t.yaml")


# Text of the source.


SCHEMA = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8")) | st.text(" \t\na#:{|\u2028\x85\ufeff"))
def test_the_text_of_a_source_file_comes_back_as_it_was(text):
    code = (replace(CODE[0], source=(("a b.cu", 3),)), *CODE[1:])
    trace = replace(trace_of([[0]], lambda *_: LANE, code=code), source_text={"a b.cu": text})
    write_trace(trace, "t.yaml")
    assert load_trace("t.yaml").source_text == {"a b.cu": text}
    SCHEMA.validate({**strict_yaml.load("t.yaml").value, "warps": [{}]})


def test_the_text_of_a_source_file_reads_as_it_does():
    text = "int k;\n\n\tk = 1;  // one \n"
    code = (replace(CODE[0], source=(("k.cu", 1),)), *CODE[1:])
    write_trace(replace(trace_of([[0]], lambda *_: LANE, code=code), source_text={"k.cu": text}), "t.yaml")
    assert "source_text:\n  k.cu: |2+\n    int k;\n\n    \tk = 1;  // one \nwarps:" in Path("t.yaml").read_text()


def test_text_of_a_file_that_no_instruction_names_is_refused():
    trace = replace(trace_of([[0]], lambda *_: LANE), source_text={"k.cu": "int k;"})
    with pytest.raises(GpuemuError, match=r"source_text: source does not name 'k.cu'"):
        write_trace(trace, "t.yaml")
