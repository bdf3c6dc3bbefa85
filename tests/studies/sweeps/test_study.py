"""What a sweep is asked for: on the command line, in Python, in a study file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuemu.studies.sweeps.study import MAX_POINTS, Axis, Named, Setting, Study, axis, parse_vary
from gpuemu.studies.sweeps.study_file import read_study

PLACE = Setting("shared_memory.banks", None, "t.yaml", 3, "vary.shared_memory.banks")


def values(parsed: Axis) -> list[object]:
    return [setting.value for setting in parsed.settings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shared_memory.banks=16,32,64", [16, 32, 64]),
        ("shared_memory.banks=16", [16]),
        (" shared_memory.banks = 16, 32 ", [16, 32]),
        ("shared_memory.banks=1..4", [1, 2, 3, 4]),
        ("shared_memory.banks=1..4,16", [1, 2, 3, 4, 16]),
        ("layout.pitch=128..140..4", [128, 132, 136, 140]),
        ("layout.pitch=128..139..4", [128, 132, 136]),
        ("layout.first=-2..1", [-2, -1, 0, 1]),
        ("shared_memory.ports.topology=unified,separate", ["unified", "separate"]),
        ("shared_memory.atomic_same_word_shares=true,false", [True, False]),
        ("global_memory.bytes_per_cycle=13.3,20.0", [13.3, 20.0]),
        ("shared_memory.load_merge_distances=[],[1],[1,2]", [[], [1], [1, 2]]),
    ],
)
def test_vary_lists_yaml_values_and_ranges(text: str, expected: list[object]) -> None:
    parsed = parse_vary(text)
    assert parsed.name == text.partition("=")[0].strip()
    assert values(parsed) == expected
    assert {(s.name, s.file, s.line) for s in parsed.settings} == {(parsed.name, "--vary", None)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("banks", "--vary: the text 'banks'"),
        ("=3", "--vary: the text '=3'"),
        ("a.b=", "--vary: a.b: no value"),
        ("a.b=3,", None),
        ("a.b=3,3", "--vary: a.b: 3 appears twice"),
        ("a.b=1..3,2", "--vary: a.b: 2 appears twice"),
        ("a.b=3..1", "--vary: a.b: the range 3..1"),
        ("a.b=1..9..0", "--vary: a.b: the range 1..9..0"),
        (
            "a.b=1..999999999",
            "--vary: a.b: the range 1..999999999",
        ),
        ("a.b=3,null", "--vary: a.b: nothing"),
        ("a.b={x: 3}", "--vary: a.b: a mapping"),
        ("a.b=[3", "--vary: a.b: invalid YAML (did not find expected ',' or ']')"),
    ],
)
def test_a_vary_that_is_none_is_refused(text: str, message: str | None, refused) -> None:
    if message is None:  # YAML allows a comma at the end
        assert values(parse_vary(text)) == [3]
    else:
        assert refused(parse_vary, text) == [message]


def test_a_grid_runs_through_its_last_name_fastest() -> None:
    study = Study((Named("t", "t"),), axes=(parse_vary("a.x=1,2"), parse_vary("b.y=3,4,5")))
    assert study.varied == ("a.x", "b.y")
    assert [tuple(s.value for s in point) for point in study.points()] == [
        (1, 3),
        (1, 4),
        (1, 5),
        (2, 3),
        (2, 4),
        (2, 5),
    ]


def test_names_given_twice_and_too_many_points_are_refused(refused) -> None:
    one = (Named("t", "t"),)
    twice = Study(one, axes=(parse_vary("a.x=1,2"), parse_vary("a.x=3")))
    assert refused(twice.check) == ["--vary: a.x: the name is given twice"]
    both = Study(one, fixed=(Setting("a.x", 3, "--set"),), axes=(parse_vary("a.x=1,2"),))
    assert refused(both.check) == ["--set: a.x: the name is varied as well"]
    many = Study(one, axes=(parse_vary("a.x=1..1000"), parse_vary("a.y=1..101")))
    assert refused(many.check) == ["--vary: 101,000 points"]
    Study(one, axes=(parse_vary("a.x=1..1000"), parse_vary("a.y=1..100"))).check()


STUDY = """\
gpuemu_study: 1
about: what wider banks are worth
traces: [v2_shared_memory, tile.yaml]
arch: [sm_89, mine.yaml]
set: {mio.queue_entries: 8}
vary:
  shared_memory.banks: [16, 32]
  shared_memory.latency_cycles: 25..35..5
"""


def written(folder: Path, text: str) -> str:
    path = folder / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_study_file_has_traces_hardware_and_a_grid(tmp_path: Path) -> None:
    for name in ("tile.yaml", "mine.yaml"):
        (tmp_path / name).touch()
    study = read_study(written(tmp_path, STUDY))
    # What lies beside the study is found from any folder.
    assert [(t.label, t.what) for t in study.traces] == [
        ("v2_shared_memory", "v2_shared_memory"),
        ("tile.yaml", str(tmp_path / "tile.yaml")),
    ]
    assert [a.label for a in study.archs] == ["sm_89", "mine.yaml"]
    assert [(s.name, s.value, s.line) for s in study.fixed] == [("mio.queue_entries", 8, 5)]
    assert [(a.name, values(a)) for a in study.axes] == [
        ("shared_memory.banks", [16, 32]),
        ("shared_memory.latency_cycles", [25, 30, 35]),
    ]
    assert study.axes[1].settings[0].line == 8
    assert study.axes[1].settings[0].field == "vary.shared_memory.latency_cycles"


def test_a_study_file_may_list_its_points(tmp_path: Path) -> None:
    text = "gpuemu_study: 1\ntraces: v5_swizzle\npoints:\n- {a.x: 1, a.y: 2}\n- {a.y: 3}\n- {}\n"
    study = read_study(written(tmp_path, text))
    assert study.varied == ("a.x", "a.y")
    assert [[(s.name, s.value, s.line) for s in point] for point in study.points()] == [
        [("a.x", 1, 4), ("a.y", 2, 4)],
        [("a.y", 3, 5)],
        [],
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gpuemu_study: 1", "gpuemu_study: 2", "1: gpuemu_study: 2"),
        ("gpuemu_study: 1", "gpuemu_study: true", "1: gpuemu_study: true"),
        ("about: what wider banks are worth", "about: 3", "2: about: 3"),
        ("traces:", "trace:", "3: trace: unknown key"),
        (
            "arch: [sm_89, mine.yaml]",
            "arch: []",
            "4: arch: an empty list",
        ),
        (
            "v2_shared_memory, ",
            "7, ",
            "3: traces: 7",
        ),
        (
            "set: {mio.queue_entries: 8}",
            "set: [8]",
            "5: set: the list [8]",
        ),
        (
            "set: {mio.queue_entries: 8}",
            "set: {mio: {queue_entries: 8}}",
            "5: set.mio: this is a section",
        ),
        ("[16, 32]", "[16, 16]", "7: vary.shared_memory.banks: 16 appears twice"),
        ("[16, 32]", "[]", "7: vary.shared_memory.banks: no value"),
        (
            "25..35..5",
            "35..25",
            "8: vary.shared_memory.latency_cycles: the range 35..25",
        ),
        ("vary:\n", "points: []\nvary:\n", "6: points: both vary and points"),
        ("[16, 32]", "[16, 32]\n  shared_memory.banks: 3", "8: vary.shared_memory.banks: the key appears twice"),
    ],
)
def test_a_study_file_with_a_mistake_is_refused_with_its_line(
    old: str, new: str, message: str, tmp_path: Path, refused
) -> None:
    assert old in STUDY
    path = written(tmp_path, STUDY.replace(old, new))
    assert any(line.startswith(f"{path}:{message}") for line in refused(read_study, path)), refused(read_study, path)


def test_a_study_without_points_or_that_is_no_mapping_is_refused(tmp_path: Path, refused) -> None:
    path = written(tmp_path, "gpuemu_study: 1\ntraces: v5_swizzle\n")
    assert refused(read_study, path) == [f"{path}:1: neither vary nor points"]
    path = written(tmp_path, "- 3\n")
    assert refused(read_study, path) == [f"{path}:1: the list [3]"]
    path = written(tmp_path, "gpuemu_study: 1\npoints: 3\n")
    assert refused(read_study, path)[0].startswith(f"{path}:2: points: 3")


def test_every_mistake_of_a_study_file_is_told_at_once(tmp_path: Path, refused) -> None:
    text = STUDY.replace("gpuemu_study: 1", "gpuemu_study: 3").replace("25..35..5", "5..1").replace("[sm_89", "[9")
    assert len(refused(read_study, written(tmp_path, text))) == 3


def test_axes_take_what_python_has() -> None:
    assert values(axis("a.x", range(3), PLACE)) == [0, 1, 2]
    assert values(axis("a.x", (1, 2), PLACE)) == [1, 2]
    assert values(axis("a.x", 7, PLACE)) == [7]


@pytest.mark.slow
def test_values_are_written_out_only_as_far_as_they_are_taken(refused) -> None:
    start = time.process_time()
    many = ",".join(f"{n}00001..{n}99999" for n in range(1, 1000))
    assert refused(parse_vary, f"a.x={many}") == [f"--vary: a.x: more than {MAX_POINTS:,} values"]
    assert len(refused(parse_vary, f"a.x=1..50000,{'1..50000,' * 1000}7")) == 21
    assert time.process_time() - start < 3
