"""From a study to points: their order, their keys, and what is refused before anything runs."""

from __future__ import annotations

import shutil
import time
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_traces import tile

import gpuemu
from gpuemu.arch import load_arch
from gpuemu.arch.single_values import REFUSED, Values
from gpuemu.studies.sweeps.plan import PlannedSweep, plan
from gpuemu.studies.sweeps.study import Axis, Named, Setting, Study, parse_vary


def study(*traces: str | gpuemu.Trace, arch: tuple[str, ...] = ("sm_89",), fixed: dict | None = None, **axes) -> Study:
    return Study(
        tuple(Named(t if isinstance(t, str) else t.name, t) for t in traces),
        tuple(Named(a, a) for a in arch),
        tuple(Setting(name, value, "--set") for name, value in (fixed or {}).items()),
        tuple(axes_of(axes)),
    )


def axes_of(axes: dict[str, list[object]]) -> list[Axis]:
    return [
        Axis(name.replace("__", "."), tuple(Setting(name.replace("__", "."), v, "--vary") for v in values))
        for name, values in axes.items()
    ]


def keys(planned: PlannedSweep) -> list[str]:
    return [point.key for point in planned.points]


def test_points_are_in_the_order_of_traces_hardware_and_grid() -> None:
    planned = plan(
        study(
            "v1_global", "v5_swizzle", arch=("sm_80", "sm_89"), shared_memory__banks=[16, 32], mio__queue_entries=[4, 5]
        )
    )
    assert [tuple(point.columns.values()) for point in planned.points] == list(
        product(("v1_global", "v5_swizzle"), ("sm_80", "sm_89"), (16, 32), (4, 5))
    )
    assert [point.number for point in planned.points] == list(range(16))
    # The trace that was recorded for the hardware is taken, as gpuemu run does.
    assert [source.arch for source in planned.sources] == ["sm_80", "sm_89"] * 2


def test_without_hardware_each_trace_runs_on_what_its_code_is_for() -> None:
    planned = plan(study("v5_swizzle", "sm_80/v5_swizzle", arch=()))
    assert [point.columns["arch"] for point in planned.points] == ["sm_89", "sm_80"]


def test_what_a_point_does_not_set_has_its_own_value_in_the_record(tile_file: str) -> None:
    points = (
        (Setting("shared_memory.banks", 64, "p"),),
        (Setting("layout.pitch", 132, "p"), Setting("shared_memory.load_merge_distances", [1], "p")),
    )
    planned = plan(Study((Named("tile", tile_file),), listed=points))
    assert [dict(point.columns) for point in planned.points] == [
        {
            "trace": "tile", "arch": "sm_89", "shared_memory.banks": 64, "layout.pitch": 128,
            "shared_memory.load_merge_distances": "[1, 2]",
        },
        {
            "trace": "tile", "arch": "sm_89", "shared_memory.banks": 32, "layout.pitch": 132,
            "shared_memory.load_merge_distances": "[1]",
        },
    ]  # fmt: skip


# Keys.


def test_equal_points_have_equal_keys_wherever_they_come_from(tmp_path: Path, tile_file: str) -> None:
    (native,) = keys(plan(study("v5_swizzle")))
    assert keys(plan(study("v5_swizzle", shared_memory__banks=[32, 64])))[0] == native
    assert keys(plan(study("v5_swizzle", fixed={"shared_memory.banks": 32}))) == [native]
    assert keys(plan(study("traces/v5_swizzle.yaml"))) == [native]
    assert keys(plan(study(gpuemu.load_trace("v5_swizzle")))) == [native]
    assert keys(plan(study(tile_file, layout__pitch=[128]))) == keys(plan(study(tile_file)))
    shutil.copy(tile_file, tmp_path / "elsewhere.yaml")
    assert keys(plan(study(str(tmp_path / "elsewhere.yaml")))) == keys(plan(study(tile_file)))


def test_a_number_written_as_another_type_is_the_same_point() -> None:
    both = plan(study("v5_swizzle", global_memory__bytes_per_cycle=[13, 13.0, 14]))
    first, second, third = keys(both)
    assert first == second != third


def test_whatever_bears_on_a_run_is_in_its_key(tile_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = keys(plan(study("v5_swizzle", "v4_ldmatrix", arch=("sm_80", "sm_89"), mio__queue_entries=[3, 4])))
    everything += keys(plan(study(tile_file, layout__pitch=[128, 132], layout__first=[0, 1])))
    assert len(set(everything)) == len(everything) == 12
    monkeypatch.setattr("gpuemu.studies.sweeps.plan.program_digest", lambda: "another version of the program")
    assert keys(plan(study("v5_swizzle", mio__queue_entries=[3, 4])))[0] not in everything


def test_one_changed_address_is_another_trace() -> None:
    def key(trace: gpuemu.TraceBuilder) -> str:
        return keys(plan(study(trace.build())))[0]

    assert key(tile()) == key(tile())
    assert key(tile()) != key(tile(rounds=2))
    assert key(tile()) != key(tile(registers_per_thread=40))
    other = tile()
    other.addresses(0, "pitch*lane + 4*((first + 4*warp) % 32)")
    assert key(tile()) == key(other)
    other.addresses(0, [128 * lane for lane in range(32)])
    assert key(tile()) != key(other)


# What is refused.


def test_wrong_values_and_names_are_refused_before_anything_runs(tile_file: str, refused) -> None:
    assert refused(plan, study("v5_swizzle", shared_memory__banks=[16, 0, 5000], mio__queue_entries=[4, "x"])) == [
        "--vary: mio.queue_entries: the text 'x'",
        "--vary: shared_memory.banks: 0",
        "--vary: shared_memory.banks: 5000",
    ]
    assert refused(plan, study("v5_swizzle", shared_memory__bank_width_bytes=[4, 24])) == [
        "--vary: shared_memory.bank_width_bytes: 24"
    ]
    assert refused(plan, study("v5_swizzle", banks=[16, 32])) == ["--vary: banks: unknown name"]
    assert refused(plan, study("v5_swizzle", fixed={"mio.queue_entries": 0}, shared_memory__banks=[16])) == [
        "--set: mio.queue_entries: 0"
    ]
    assert refused(plan, study(tile_file, layout__pich=[16])) == [
        f"--vary: layout.pich: a name that the layout of {tile_file} does not have"
    ]
    assert refused(plan, study(tile_file, "v5_swizzle", layout__pitch=[1 << 63, 1.5])) == [
        "--vary: layout.pitch: a name that the layout of v5_swizzle does not have",
        "--vary: layout.pitch: 9223372036854775808",
        "--vary: layout.pitch: 1.5",
    ]
    assert refused(plan, study("v9")) == refused(gpuemu.load_trace, "v9")
    assert refused(plan, study("v5_swizzle", arch=("sm_99",))) == refused(gpuemu.load_arch, "sm_99")
    assert refused(plan, study("k.cubin")) == ["k.cubin: machine code is not a trace"]
    assert refused(plan, study()) == ["gpuemu sweep: there is no trace"]


def test_values_that_only_together_are_wrong_are_refused_with_their_point(refused) -> None:
    # Memory instructions wait in a queue for longer than they take altogether.
    latencies = study("v5_swizzle", shared_memory__latency_cycles=[12, 30], mio__queue_latency_cycles=[11, 12])
    assert refused(plan, latencies) == [
        "--vary: shared_memory.latency_cycles: 12, with mio.queue_latency_cycles 12 at the point "
        "shared_memory.latency_cycles=12, mio.queue_latency_cycles=12"
    ]


def test_hardware_that_refuses_a_value_is_named_among_several(refused) -> None:
    names = [
        name for name in gpuemu.load_arch("sm_89").flat() if name.startswith("tensor_core.operations.m16n8k8.f32.tf32")
    ]
    assert names
    mode = study("v5_swizzle", arch=("sm_75", "sm_89"))
    mode = Study(mode.traces, mode.archs, axes=(parse_vary(f"{names[0]}=20,21"),))
    assert all(line.endswith(", on sm_75") for line in refused(plan, mode))


LATENCY = st.integers(1, 45)


@pytest.mark.slow
@given(
    shared=st.lists(LATENCY, min_size=1, max_size=3, unique=True),
    queue=st.lists(LATENCY, min_size=1, max_size=3, unique=True),
    shuffle=st.lists(LATENCY, min_size=1, max_size=2, unique=True),
    banks=st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
    fixed=st.one_of(st.none(), LATENCY),
)
def test_a_plan_is_accepted_just_if_every_one_of_its_points_is(shared, queue, shuffle, banks, fixed) -> None:
    """Not every point is built to find that out; the verdict is the one that building them would give."""
    arch = gpuemu.load_arch("sm_89")
    always = {} if fixed is None else {"shared_memory.atomic_latency_cycles": fixed}

    def is_fine(point: tuple[int, ...]) -> bool:
        names = (
            "shared_memory.latency_cycles",
            "mio.queue_latency_cycles",
            "mio.shuffle_latency_cycles",
            "shared_memory.banks",
        )
        try:
            arch.with_overrides({**always, **dict(zip(names, point, strict=True))})
        except gpuemu.GpuemuError:
            return False
        return True

    asked = study(
        "v5_swizzle", fixed=always, shared_memory__latency_cycles=shared, mio__queue_latency_cycles=queue,
        mio__shuffle_latency_cycles=shuffle, shared_memory__banks=banks,
    )  # fmt: skip
    try:
        plan(asked)
        accepted = True
    except gpuemu.GpuemuError:
        accepted = False
    assert accepted == all(map(is_fine, product(shared, queue, shuffle, banks)))


# Large grids.


@pytest.mark.slow
def test_a_hundred_thousand_points_are_planned_at_once(tile_file: str) -> None:
    grid = study(
        "v5_swizzle", shared_memory__latency_cycles=list(range(30, 230)), mio__queue_entries=list(range(1, 251)),
        mio__queue_latency_cycles=[9, 10],
    )  # fmt: skip
    start = time.process_time()
    points = plan(grid).points
    assert time.process_time() - start < 3
    assert len(points) == len({point.key for point in points}) == 100_000
    assert points[-1].overrides == {
        "shared_memory.latency_cycles": 229, "mio.queue_entries": 250, "mio.queue_latency_cycles": 10,
    }  # fmt: skip
    start = time.process_time()
    plan(study(tile_file, layout__pitch=list(range(128, 100_128))))
    assert time.process_time() - start < 3


@pytest.mark.slow
def test_a_hundred_thousand_mistakes_are_refused_at_once() -> None:
    many = list(range(200_000, 300_000))
    for asked in (
        study("v5_swizzle", shared_memory__latency_cycles=many),
        study("v5_swizzle", shared_memry__latency_cycles=many),
        study("v5_swizzle", layout__pitch=many),
        study("v5_swizzle", mio__queue_latency_cycles=list(range(50, 50_050)), shared_memory__latency_cycles=[30, 40]),
    ):
        start = time.process_time()
        with pytest.raises(gpuemu.GpuemuError) as caught:
            plan(asked)
        assert 1 <= len(caught.value.problems) <= 25
        assert time.process_time() - start < 3


@pytest.mark.slow
def test_a_value_is_taken_just_as_building_the_architecture_takes_it() -> None:
    arch = gpuemu.load_arch("sm_90")
    values = Values(arch)
    others = (0, 1, 3, 64, -1, 2.5, True, "auto", None, [], [1, 2], [1, 1], ["H100"], 1 << 40)
    for number, (name, own) in enumerate(arch.flat().items()):
        for value in (own, *(others[(number + 5 * k) % len(others)] for k in range(3))):
            try:
                wanted = arch.with_overrides({name: value}).flat().get(name)  # None: a chip without that value
            except gpuemu.GpuemuError as error:
                # A rule of several values may refuse what is right by itself.
                wanted = REFUSED if not any(", with " in problem.found for problem in error.problems) else None
            if wanted is not None:
                found = values.checked(name, value)
                assert (type(found), found) == (type(wanted), wanted), (name, value)


def test_a_value_that_follows_has_another_key_than_one_that_is_given():
    """With 64 banks the lanes of a group follow; given as they are with 32 they make another machine."""
    lanes = "shared_memory.lanes_per_group.bits_128"
    usual = load_arch("sm_89").shared_memory.lanes_per_group.bits_128
    plans = [
        plan(Study((Named("v5_swizzle", "v5_swizzle"),), axes=axes))
        for axes in (
            (parse_vary("shared_memory.banks=64"),),
            (parse_vary("shared_memory.banks=64"), parse_vary(f"{lanes}={usual}")),
        )
    ]
    assert plans[0].points[0].key != plans[1].points[0].key
