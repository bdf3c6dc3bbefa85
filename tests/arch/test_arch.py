import copy
import os
import pickle
import re
import shutil
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from refusals import brief

from gpuemu.arch import OPERATION_CLASSES, load_arch, parse_override, parse_overrides
from gpuemu.arch.derived import BYTES_OF_ONE, derived, is_derived
from gpuemu.arch.files import with_chip
from gpuemu.arch.model import Architecture
from gpuemu.arch.schema import Leaf, Section, tree
from gpuemu.arch.text import to_yaml, unit
from gpuemu.base import resources, strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.loading import loaded_trace

SHIPPED = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
TENSOR_MODES = (
    "m16n8k16.f32.f16",
    "m16n8k16.f16.f16",
    "m16n8k16.f32.bf16",
    "m16n8k8.f32.f16",
    "m16n8k8.f16.f16",
    "m16n8k8.f32.bf16",
    "m16n8k8.f32.tf32",
    "m16n8k4.f32.tf32",
    "m16n8k32.s32.s8",
    "m16n8k16.s32.s8",
    "m8n8k16.s32.s8",
)
INTEGER4_MODES = ("m8n8k32.s32.s4", "m16n8k32.s32.s4", "m16n8k64.s32.s4")
BIT_MODES = ("m8n8k128.s32.b1", "m16n8k128.s32.b1", "m16n8k256.s32.b1")
FLOAT64_MODES = ("m8n8k4.f64.f64", "m16n8k4.f64.f64", "m16n8k8.f64.f64", "m16n8k16.f64.f64")
NARROW_MODES = ("m16n8k32.f32.f6", "m16n8k32.f16.f6", "m16n8k32.f32.mxf8", "m16n8k32.f32.mxf6", "m16n8k64.f32.mxf4")
FLOAT8_MODES = ("m16n8k32.f32.f8", "m16n8k32.f16.f8", "m16n8k16.f32.f8", "m16n8k16.f16.f8")
WARPGROUP_MODES = (
    "m64n8k16.f32.f16",
    "m64n8k16.f16.f16",
    "m64n8k16.f32.bf16",
    "m64n8k8.f32.tf32",
    "m64n8k32.s32.s8",
)
MODES_OF = {
    "sm_75": ("m16n8k8.f32.f16", "m16n8k8.f16.f16", "m8n8k16.s32.s8", INTEGER4_MODES[0], BIT_MODES[0]),
    **dict.fromkeys(("sm_80", "sm_86"), (*TENSOR_MODES, *INTEGER4_MODES, *BIT_MODES, FLOAT64_MODES[0])),
    "sm_89": (*TENSOR_MODES, *INTEGER4_MODES, *BIT_MODES, FLOAT64_MODES[0], *FLOAT8_MODES),
    "sm_90": (*TENSOR_MODES, *BIT_MODES, *FLOAT64_MODES, *WARPGROUP_MODES),
    **dict.fromkeys(("sm_100", "sm_103"), (*TENSOR_MODES, *FLOAT64_MODES)),
    "sm_120": (*TENSOR_MODES, FLOAT64_MODES[0], *FLOAT8_MODES, *NARROW_MODES),
}

PINNED = yaml.safe_load(Path(__file__).with_name("pinned.yaml").read_text(encoding="utf-8"))
"""The table of values: for each architecture some of its values, by section."""


def assert_values(arch: Architecture, pinned: dict) -> list[str]:
    """Compare the values of sections with those of the table; returns their names."""
    wanted = {f"{section}.{name}": value for section, values in pinned.items() for name, value in values.items()}
    flat = arch.flat()
    found = {name: list(flat[name]) if isinstance(flat[name], tuple) else flat[name] for name in wanted}
    assert found == wanted
    return list(wanted)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder, so that messages name files as a user would."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


def refusal(action, *args) -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        action(*args)
    return brief(caught.value)


def refused_override(**by_name) -> list[str]:
    return refusal(partial(load_arch("sm_90").with_overrides, where="--set"), by_name)


# ---- the shipped files ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_shipped_architectures_are_the_eight_real_ones():
    assert resources.names("configs") == list(SHIPPED)
    assert [load_arch(n).name for n in SHIPPED] == list(SHIPPED)
    assert [load_arch(n).chip for n in SHIPPED] == [next(iter(load_arch(n).chips)) for n in SHIPPED]


@pytest.mark.parametrize("name", SHIPPED)
def test_values_are_those_of_the_table(name):
    arch, pinned = load_arch(name), dict(PINNED[name])
    assert arch.compute_capability == pinned.pop("compute_capability")
    assert [(chip, of.sms) for chip, of in arch.chips.items()] == [*pinned.pop("sms").items()]
    assert_values(arch, pinned)


def test_the_h200_has_the_values_that_were_measured_on_it():
    arch = load_arch("sm_90")
    for name in assert_values(arch, PINNED["measured"]):
        assert arch.provenance[name].status == ("derived" if name in BYTES_OF_ONE else "measured"), name


@pytest.mark.slow
def test_a_chip_that_the_architecture_does_not_name_is_refused_with_those_that_it_does(here):
    assert refusal(load_arch, write("mine.yaml", "extends: sm_89\nchip: RTX 4091\n")) == [
        "mine.yaml:2: chip: unknown chip 'RTX 4091'"
    ]
    own = write("own.yaml", "extends: sm_89\nchip: RTX 4091\nchips:\n  RTX 4091: {sms: 76, clock_mhz: 2505}\n")
    assert load_arch(own).chips["RTX 4091"].sms == 76
    assert "RTX 4090" in load_arch(own).chips


@cache
def confirmed(name):
    return yaml.safe_load(resources.find("configs", name).read_text(encoding="utf-8")).get("confirmed", [])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_value_of_a_shipped_file_says_where_it_comes_from(name):
    arch = load_arch(name)
    assert set(arch.provenance) == set(arch.flat())
    for value, where in arch.provenance.items():
        if is_derived(where):
            continue  # it stands in no file
        assert where.status in ("measured", "published", "derived", "assumed"), value
        keys = where.source.split("; ")
        assert keys, value
        assert set(keys) <= set(arch.sources), value
        assert where.confidence in ("A", "B", "C", "D"), value
        assert where.file in {f"configs/{of}.yaml" for of in SHIPPED}, value
        if where.file != f"configs/{name}.yaml":
            assert where.status == "assumed" or value in confirmed(name), value
        if where.status in ("assumed", "derived"):
            assert where.note, f"{value} is {where.status}: from what?"


@pytest.mark.parametrize("name", SHIPPED)
def test_only_the_file_of_the_chips_at_hand_calls_its_measurements_measured(name):
    measured = {n for n, w in load_arch(name).provenance.items() if w.status == "measured"}
    assert bool(measured) == (name == "sm_90")
    assert all(load_arch("sm_90").provenance[n].source in ("H200", "H100") for n in measured)
    for value, where in load_arch(name).provenance.items():
        if where.source == "H200" and where.status == "assumed" and name != "sm_90":
            assert re.search("sm_90.* value taken over", where.note), value


@pytest.mark.parametrize("name", SHIPPED)
def test_a_value_from_another_chips_source_names_that_chip(name):
    for value, where in load_arch(name).provenance.items():
        if "HUERTA" in where.source and where.status == "assumed" and "H200" not in where.source:
            assert re.search("sm_8[69] value taken over", where.note), value


def test_shipped_files_are_overlays_that_can_be_read_at_a_sitting():
    five = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
    assert sum(len(resources.find("configs", name).read_text(encoding="utf-8").splitlines()) for name in five) <= 900


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_lists_no_source_that_it_does_not_use(name):
    arch = load_arch(name)
    used = {key for where in arch.provenance.values() for key in where.source.split("; ") if key}
    assert used == set(arch.sources)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_line_of_every_value_is_the_line_in_the_file(name):
    lines = {
        f"configs/{of}.yaml": resources.find("configs", of).read_text(encoding="utf-8").splitlines() for of in SHIPPED
    }
    arch = load_arch(name)
    for path in arch.paths():
        where = arch.provenance[".".join(path)]
        if is_derived(where):
            assert ".".join(path) in BYTES_OF_ONE or path[0] == "chips", "what follows from others"
            continue
        line = lines[where.file][where.line - 1].replace('"', "")
        assert f"{path[-1]}: " in line, "an entry, or a value in the line of its section"
        assert len(path) < 2 or path[-2] in line or line.startswith("  "), path


def test_flat_is_in_file_order():
    lines = [where.line for where in load_arch("sm_90").provenance.values() if where.line is not None]
    assert lines == sorted(lines)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_know_every_operation_class_and_tensor_mode(name):
    arch = load_arch(name)
    assert tuple(arch.operations) == OPERATION_CLASSES
    assert sorted(arch.tensor_core.operations) == sorted(MODES_OF[name])


def test_tensor_numerics_out_of_bounds_are_refused():
    kept, block = "tensor_core.numerics.kept_fraction_bits", "tensor_core.numerics.products_per_block_16_bit"
    assert refused_override(**{kept: 41, block: 12}) == [
        f"--set: {kept}: 41",
        f"--set: {block}: 12",
    ]


def test_what_was_measured_on_sm_86_is_published_there_and_assumed_on_sm_89():
    ampere, ada = load_arch("sm_86"), load_arch("sm_89")
    taken_over = [n for n, where in ada.provenance.items() if where.note.startswith("sm_86 value taken over")]
    assert len(taken_over) > 20
    for name in taken_over:
        assert ampere.flat()[name] == ada.flat()[name], name
        assert ampere.provenance[name].status in ("published", "derived"), name
    statuses = [where.status for where in ampere.provenance.values()]
    assert statuses.count("published") > [where.status for where in ada.provenance.values()].count("published")


def test_a_published_barrier_time_is_reduced_by_the_warps_of_its_measurement():
    """The source's program has 256 threads."""
    assert load_arch("sm_80").barrier.latency_cycles + 2 * 8 == 36 + 1  # a second source has 1 and 4 warps
    assert load_arch("sm_86").barrier.latency_cycles + 2 * 8 == 37
    assert load_arch("sm_89").barrier.latency_cycles + 2 * 8 == 37
    assert load_arch("sm_86").provenance["barrier.latency_cycles"].status == "derived"


def test_shipped_files_are_found_as_package_data_as_in_a_wheel(tmp_path, monkeypatch):
    root = resources.folder("configs")
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "site-packages" / "gpuemu")
    assert resources.names("configs") == []
    assert resources.find("configs", "sm_90") is None
    shutil.copytree(root, tmp_path / "site-packages" / "gpuemu" / "data" / "configs")
    assert resources.names("configs") == list(SHIPPED)
    assert load_arch("sm_90").provenance["sm.sub_cores"].file == "configs/sm_90.yaml"


def test_a_shipped_file_is_read_once_until_it_is_written_anew(tmp_path, monkeypatch):
    shutil.copytree(resources.folder("configs"), tmp_path / "configs")
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "gpuemu")
    first = load_arch("sm_89")
    assert load_arch("sm_89") is first
    os.utime(tmp_path / "configs" / "sm_90.yaml", ns=(1, 1))  # sm_89 extends it
    assert load_arch("sm_89") is not first


def test_names_find_files_in_subfolders_and_never_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "gpuemu")
    (tmp_path / "traces" / "sm_89").mkdir(parents=True)
    (tmp_path / "traces" / "sm_89" / "v5.1.yaml").write_text("a: 1")
    (tmp_path / "secret.yaml").write_text("a: 1")
    assert resources.names("traces") == ["sm_89/v5.1"]
    assert resources.find("traces", "sm_89/v5.1") == tmp_path / "traces" / "sm_89" / "v5.1.yaml"
    assert resources.label("traces", "sm_89/v5.1") == "traces/sm_89/v5.1.yaml"
    for name in ("../secret", "sm_89/../../secret", str(tmp_path / "secret"), "", ".", "x\0y"):
        assert resources.find("traces", name) is None


# ---- the model ------------------------------------------------------------------------------------------


def test_an_architecture_is_frozen_all_the_way_down():
    arch = load_arch("sm_90")
    with pytest.raises(ValidationError):
        arch.shared_memory.banks = 64
    with pytest.raises(TypeError):
        arch.operations["ffma"] = arch.operations["imad"]
    with pytest.raises(TypeError):
        arch.provenance["sm.sub_cores"] = None
    arch.flat()["sm.sub_cores"] = 5
    assert load_arch("sm_90").sm.sub_cores == arch.sm.sub_cores == 4


def test_architectures_can_be_compared_hashed_copied_and_pickled():
    arch = load_arch("sm_90")
    for other in (load_arch("sm_90"), copy.deepcopy(arch), pickle.loads(pickle.dumps(arch))):
        assert other == arch
        assert hash(other) == hash(arch)
        assert other.provenance == arch.provenance
    assert load_arch("sm_80") != arch
    assert arch.with_overrides({"shared_memory.banks": 64}) != arch


def test_an_architecture_dumps_to_plain_values():
    dump = load_arch("sm_90").model_dump()
    assert dump["operations"]["ffma"] == {"pipe": "fmalite|fmaheavy", "latency_cycles": 4, "issue_interval_cycles": 2}
    assert dump["shared_memory"]["load_merge_distances"] == (1, 2)


def leaves(section: Section):
    for node in section.fields.values():
        if isinstance(node, Leaf):
            yield node
        else:
            yield from leaves(node if isinstance(node, Section) else node.entry)


def test_every_value_has_a_meaning_and_a_sentence_about_what_is_right():
    for leaf in leaves(tree(Architecture)):
        assert leaf.about
        assert leaf.right.startswith("expected ")


def test_every_number_has_a_unit():
    arch = load_arch("sm_90")
    for path, value in arch.paths().items():
        assert bool(unit(path)) == (type(value) in (int, float)), path


# ---- files ----------------------------------------------------------------------------------------------

SMALL = "extends: sm_90\nshared_memory:\n  banks: 64\n"


@pytest.mark.slow
def test_a_small_file_changes_one_value_and_inherits_the_rest(here):
    arch = load_arch(write("mine.yaml", SMALL))
    base = load_arch("sm_90")
    assert arch.name == "mine"
    assert arch.description == ""
    follows = {
        "shared_memory.lanes_per_group.bits_64": 32,
        "shared_memory.lanes_per_group.bits_128": 16,
        "shared_memory.matrix_rows_per_phase": 16,
    }
    assert arch.flat() == base.flat() | {"shared_memory.banks": 64} | follows
    assert list(arch.flat()) == list(base.flat())
    own = arch.provenance["shared_memory.banks"]
    assert (own.status, own.source, own.file, own.line) == ("user", "", "mine.yaml", 3)
    for name in base.flat():
        if name != "shared_memory.banks":
            assert arch.provenance[name] == base.provenance[name]


ROWS = "shared_memory.matrix_rows_per_phase"
LANES_AND_ROWS = (*(f"shared_memory.lanes_per_group.bits_{bits}" for bits in (32, 64, 128)), ROWS)


def lanes_and_rows(arch: Architecture) -> tuple[int, ...]:
    return tuple(arch.flat()[name] for name in LANES_AND_ROWS)


@pytest.mark.parametrize("name", SHIPPED)
def test_lanes_of_a_group_and_rows_of_a_phase_follow_from_banks_and_width(name):
    arch = load_arch(name)
    assert lanes_and_rows(arch) == (32, 16, 8, 8)
    for banks, width, expected in [
        (64, 4, (32, 32, 16, 16)), (32, 8, (32, 32, 16, 16)), (16, 4, (16, 8, 4, 4)), (32, 128, (32, 32, 32, 32)),
        (48, 4, (32, 16, 8, 8)), (1, 1, (1, 1, 1, 1)),
    ]:  # fmt: skip
        changed = arch.with_overrides({"shared_memory.banks": banks, "shared_memory.bank_width_bytes": width})
        assert lanes_and_rows(changed) == expected
        assert lanes_and_rows(changed.with_overrides({"shared_memory.banks": 32})) == lanes_and_rows(
            arch.with_overrides({"shared_memory.bank_width_bytes": width})
        )
    wide_rows = arch.with_overrides({"shared_memory.matrix_row_bytes": 32})
    assert lanes_and_rows(wide_rows) == (32, 16, 8, 4)
    where = arch.provenance[ROWS]
    assert (where.status, where.note, where.file, where.line) == (
        "derived", "follows from banks x bank_width_bytes / matrix_row_bytes", "derived", None,
    )  # fmt: skip


def test_what_sms_get_of_dram_and_l2_follows_from_published_lists_and_the_clock():
    arch = load_arch("sm_86")
    chip = arch.chips["RTX 3080"]
    assert chip.dram_bytes_per_cycle == round(0.91 * 760 / 1.710, 1)
    assert chip.l2_held_kibibytes == round(0.825 * 5120)
    assert chip.l2_read_bytes_per_cycle == round(0.2282 * 5120)
    assert arch.provenance["chips.RTX 3080.l2_read_bytes_per_cycle"].note == (
        "l2_kibibytes x global_memory.l2.read_bytes_per_kibibyte"
    )
    larger = arch.with_overrides({"chips.RTX 3080.l2_kibibytes": 10240}).chips["RTX 3080"]
    assert (larger.l2_held_kibibytes, larger.l2_read_bytes_per_cycle) == (round(0.825 * 10240), round(0.2282 * 10240))
    slow = arch.with_overrides({"chips.RTX 3080.clock_mhz": chip.base_clock_mhz}).chips["RTX 3080"]
    assert slow.dram_bytes_per_cycle == round(0.91 * 760 / 1.440, 1)
    assert arch.with_overrides({"chips.RTX 3080.dram_bytes_per_cycle": 1.0}).chips["RTX 3080"].dram_bytes_per_cycle == 1
    assert load_arch("sm_90").provenance["chips.H100.dram_bytes_per_cycle"].status == "measured"
    assert arch.provenance["chips.RTX 3080.dram_bytes_per_cycle"].note == (
        "dram_gigabytes_per_second x global_memory.dram_share / clock_mhz"
    )


def test_what_l2_gives_all_sms_at_once_is_told_once_of_an_architecture():
    """Of one SM alone `global_memory.bytes_per_cycle` tells in every file: no share of what a chip gives all."""
    rates = {"A100": 3840, "A40": 1402, "RTX 4090": 1708, "T4": 799, "H100": 3974, "RTX 5090": 2278}
    for name in SHIPPED:
        arch = load_arch(name)
        alone = arch.global_memory.bytes_per_cycle
        assert alone == (128.0 if name in ("sm_90", "sm_100", "sm_103") else 64.0)
        for chip, of in arch.chips.items():
            assert of.l2_read_bytes_per_cycle == rates.get(chip, of.l2_read_bytes_per_cycle)
            assert of.sms * alone > of.l2_read_bytes_per_cycle
            where = arch.provenance[f"chips.{chip}.l2_read_bytes_per_cycle"]
            assert (where.status, where.file) == ("derived", "derived") or where.status == "measured"


def test_lanes_and_rows_of_ones_own_stay_as_they_are_given(here):
    given = load_arch("sm_90").with_overrides({ROWS: 8}).with_overrides({"shared_memory.banks": 64})
    assert lanes_and_rows(given) == (32, 32, 16, 8)
    assert given.provenance[ROWS].status == "override"
    own = "extends: sm_90\nshared_memory:\n  banks: 64\n  lanes_per_group: {bits_128: 8}\n"
    assert lanes_and_rows(load_arch(write("mine.yaml", own))) == (32, 32, 8, 16)


@pytest.mark.slow
def test_what_is_wrong_with_the_banks_is_told_once(here):
    assert refusal(load_arch, write("mine.yaml", "extends: sm_90\nshared_memory: {banks: many}\n")) == [
        "mine.yaml:2: shared_memory.banks: the text 'many'"
    ]


def test_overrides_in_python_speak_of_the_call_and_not_of_an_option():
    assert refusal(load_arch("sm_90").with_overrides, {"shared_memory.banks": 0, "bank": 1})[0].startswith(
        "with_overrides(): bank"
    )


def test_a_path_may_be_a_string_or_a_path_and_files_without_suffix_are_found(here):
    write("mine", SMALL)
    write("sub/mine.yml", SMALL)
    assert load_arch("mine").shared_memory.banks == 64
    assert load_arch(Path("mine")).shared_memory.banks == 64
    assert load_arch(os.path.join("sub", "mine.yml")).shared_memory.banks == 64


def test_a_shipped_name_wins_over_a_file_of_that_name_and_a_path_does_not(here):
    write("sm_90", SMALL)
    assert load_arch("sm_90").shared_memory.banks == 32
    assert load_arch("./sm_90").shared_memory.banks == 64
    assert load_arch(Path("sm_90")).shared_memory.banks == 64


def test_a_value_may_carry_its_provenance(here):
    text = "extends: sm_90\nsources: {LAB: my bench}\nbarrier:\n  latency_cycles:\n    value: 15\n"
    text += "    status: measured\n    source: LAB; H200\n    confidence: B\n    note: two runs\n"
    arch = load_arch(write("mine.yaml", text))
    where = arch.provenance["barrier.latency_cycles"]
    assert (where.status, where.source, where.confidence, where.note) == (
        "measured",
        "LAB; H200",
        "B",
        "two runs",
    )
    assert (where.file, where.line) == ("mine.yaml", 4)
    assert arch.sources["LAB"] == "my bench"
    assert "HUERTA" in arch.sources


def test_extends_takes_a_path_relative_to_the_file(here):
    write("base/a.yaml", "name: first\nextends: sm_80\nbarrier: {latency_cycles: 50}\nsm: {max_ctas: 7}\n")
    write("base/b.yaml", "extends: a.yaml\nbarrier: {latency_cycles: 60}\n")
    arch = load_arch(write("c.yaml", "extends: base/b.yaml\ndescription: mine\n"))
    assert (arch.name, arch.description) == ("c", "mine")
    assert (arch.barrier.latency_cycles, arch.sm.max_ctas) == (60, 7)
    assert arch.provenance["barrier.latency_cycles"].file == os.path.join("base", "b.yaml")
    assert arch.provenance["sm.max_ctas"].file == os.path.join("base", "a.yaml")
    assert arch.provenance["sm.max_warps"].file == "configs/sm_80.yaml"


OTHER = 'extends: sm_90\ncompute_capability: "9.9"\nchip: X\nchips: {X: {sms: 1, clock_mhz: 1000}}\n'


def test_a_file_for_another_compute_capability_takes_values_over_as_assumptions(here):
    arch, base = load_arch(write("mine.yaml", OTHER)), load_arch("sm_90")
    assert list(arch.chips) == ["X"], "chips are not taken over"
    measured = arch.provenance["launch.overhead_cycles"]
    assert base.provenance["launch.overhead_cycles"].status == "measured"
    assert (measured.status, measured.source, measured.confidence) == ("assumed", "H200", "C")
    assert measured.note == "sm_90 value taken over"
    assert measured.line == base.provenance["launch.overhead_cycles"].line
    assert arch.provenance["barrier.fence_ways"].confidence == "D", "it was C"
    guessed = base.provenance["operations.uniform.latency_cycles"]
    assert arch.provenance["operations.uniform.latency_cycles"] == guessed, "an assumption stays the one that it is"


@pytest.mark.slow
def test_values_that_hold_for_both_are_confirmed(here):
    arch = load_arch(write("mine.yaml", OTHER + "confirmed: [sm.registers]\n"))
    assert arch.provenance["sm.registers"] == load_arch("sm_90").provenance["sm.registers"]
    assert arch.provenance["sm.max_warps"].status == "assumed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OTHER + "confirmed: [sm.register]\n", "5: confirmed[0]: the text 'sm.register'"),
        (OTHER + "confirmed: sm.registers\n", "5: confirmed: the text 'sm.registers'"),
        ("extends: sm_90\nconfirmed: [sm.registers]\n", "2: confirmed: 1 name in a file for the same compute capability"),
        (OTHER + "tensor_core: {operations: {m16n8k64.s32.s4: null}}\n", "5: tensor_core.operations.m16n8k64.s32.s4: null"),
        (OTHER + "tensor_core: {operations: null}\n", "5: tensor_core.operations: nothing"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_what_is_confirmed_or_left_out_is_said(here, text, message):
    assert refusal(load_arch, write("mine.yaml", text)) == [f"mine.yaml:{message}"]


def test_an_entry_of_a_table_can_be_left_out(here):
    mode = "m64n8k16.f32.f16"
    arch = load_arch(write("mine.yaml", f"extends: sm_90\ntensor_core: {{operations: {{{mode}: null}}}}\n"))
    assert set(load_arch("sm_90").tensor_core.operations) - set(arch.tensor_core.operations) == {mode}


def test_extends_in_a_circle_is_refused(here):
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "\nextends: a.yaml\n")
    write("c.yaml", "extends: c.yaml\n")
    assert refusal(load_arch, "a.yaml") == ["b.yaml:2: extends: a.yaml extends this file in turn"]
    assert refusal(load_arch, "c.yaml") == ["c.yaml:1: extends: the file extends itself"]


def test_extends_of_something_unknown_is_refused(here):
    assert refusal(load_arch, write("a.yaml", "extends: sm_91")) == ["a.yaml:1: extends: unknown architecture 'sm_91'"]
    assert refusal(load_arch, write("a.yaml", "extends: b/c.yaml")) == ["a.yaml:1: extends: the text 'b/c.yaml'"]
    assert refusal(load_arch, write("a.yaml", "extends: 90")) == ["a.yaml:1: extends: 90"]


def test_an_unknown_name_lists_the_known_ones():
    assert refusal(load_arch, "sm_09") == ["sm_09: unknown architecture"]
    assert refusal(load_arch, "RTX 4090") == ["RTX 4090: unknown architecture"]
    assert refusal(load_arch, "volta") == ["volta: unknown architecture"]


def test_a_missing_file_is_named_as_it_was_given(here):
    assert refusal(load_arch, "nowhere/my.yaml") == ["nowhere/my.yaml: no such file"]


def test_all_problems_of_a_file_and_of_the_file_it_extends_come_at_once(here):
    write("base.yaml", "extends: sm_90\nbarriers: {}\nmio:\n  pool_entries: many\n")
    text = """\
extends: base.yaml
shared_memory:
  bankz: 32
  banks: 0
  bank_width_bytes: 3
  load_merge_distances: [1, 1]
  atomic_same_word_shares: no
  ports: {topology: split}
  latency_cycles: 7
global_memory:
  bytes_per_cycle: .nan
sm: 4
issue:
"""
    assert refusal(load_arch, write("mine.yaml", text)) == [
        "mine.yaml:3: shared_memory.bankz: unknown name",
        "mine.yaml:4: shared_memory.banks: 0",
        "mine.yaml:5: shared_memory.bank_width_bytes: 3",
        "mine.yaml:6: shared_memory.load_merge_distances: the list [1, 1]",
        "mine.yaml:7: shared_memory.atomic_same_word_shares: the text 'no'",
        "mine.yaml:8: shared_memory.ports.topology: the text 'split'",
        "mine.yaml:9: shared_memory.latency_cycles: 7, with mio.queue_latency_cycles 7",
        "mine.yaml:11: global_memory.bytes_per_cycle: nan",
        "mine.yaml:12: sm: 4",
        "mine.yaml:13: issue: nothing",
        "base.yaml:2: barriers: unknown name",
        "base.yaml:4: mio.pool_entries: the text 'many'",
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"32"', "the text '32'"),
        ("32.5", "32.5"),
        ("32.0", "32.0"),
        ("true", "true"),
        ("", "nothing"),
        ("[32]", "the list [32]"),
        ("-1", "-1"),
        ("0", "0"),
        ("4097", "4097"),
        ("1_000", "the text '1_000'"),
        ("{value: 32.5}", "32.5"),
        ("{value: {a: 1}}", "a mapping"),
    ],
)
def test_a_whole_number_is_nothing_else(here, value, found):
    text = f"extends: sm_90\nshared_memory:\n  banks: {value}\n"
    assert refusal(load_arch, write("mine.yaml", text)) == [f"mine.yaml:3: shared_memory.banks: {found}"]


@pytest.mark.parametrize("value", ["0", "1e-9", "-3.5", ".inf", "1e9", "'3'", "true"])
def test_a_rate_is_a_finite_number_and_not_next_to_0(here, value):
    text = f"extends: sm_90\nglobal_memory:\n  bytes_per_cycle: {value}\n"
    with pytest.raises(GpuemuError, match=r"bytes_per_cycle: found .*, expected a number from 0\.001 to 65536\.$"):
        load_arch(write("mine.yaml", text))


def test_a_whole_number_is_a_rate(here):
    text = "extends: sm_90\nglobal_memory:\n  bytes_per_cycle: 64\n"
    assert load_arch(write("mine.yaml", text)).global_memory.bytes_per_cycle == 64.0


def test_mistakes_in_the_provenance_of_a_value_are_told(here):
    text = """\
extends: sm_90
sources: {LAB: 3}
sm:
  sub_cores: {valu: 4}
  max_warps: {value: 64, status: guessed}
  max_ctas: {value: 32, status: measured}
  registers: {value: 65536, status: published, source: CUDAA}
  max_threads_per_cta: {value: 1024, status: assumed, source: CUDA}
  cta_launch_cycles: {value: 0, confidence: E, note: 3}
  register_allocation_unit: {value: 256, confidence: E}
"""
    assert refusal(load_arch, write("mine.yaml", text)) == [
        "mine.yaml:2: sources.LAB: 3",
        "mine.yaml:4: sm.sub_cores.valu: unknown name",
        "mine.yaml:4: sm.sub_cores: no 'value' in the mapping",
        "mine.yaml:5: sm.max_warps.status: the text 'guessed'",
        "mine.yaml:6: sm.max_ctas.source: nothing",
        "mine.yaml:7: sm.registers.source: unknown source 'CUDAA'",
        "mine.yaml:8: sm.max_threads_per_cta.note: nothing",
        "mine.yaml:9: sm.cta_launch_cycles.confidence: the text 'E'",
        "mine.yaml:9: sm.cta_launch_cycles.note: 3",
        "mine.yaml:10: sm.register_allocation_unit.confidence: the text 'E'",
    ]


@pytest.mark.slow
def test_what_a_section_says_of_its_values_counts_where_they_say_nothing_themselves(here):
    text = """\
extends: sm_90
sources: {LAB: my bench}
operations:
  fp64: {status: measured, source: LAB, confidence: B, latency_cycles: 9, issue_interval_cycles: {value: 4, confidence: A}}
"""
    arch = load_arch(write("mine.yaml", text))
    said = {name: arch.provenance[f"operations.fp64.{name}"] for name in ("latency_cycles", "issue_interval_cycles")}
    assert [(p.status, p.source, p.confidence, p.line) for p in said.values()] == [
        ("measured", "LAB", "B", 4), ("measured", "LAB", "A", 4),
    ]  # fmt: skip
    assert arch.provenance["operations.fp64.pipe"].source == "H200"
    wrong = text.replace("status: measured, source: LAB, confidence: B", "status: seen, confidence: Z, note: ''")
    assert refusal(load_arch, write("wrong.yaml", wrong)) == [
        "wrong.yaml:4: operations.fp64.status: the text 'seen'",
        "wrong.yaml:4: operations.fp64.confidence: the text 'Z'",
        "wrong.yaml:4: operations.fp64.note: the text ''",
    ]


@pytest.mark.slow
def test_top_level_mistakes_are_told(here):
    assert refusal(load_arch, write("mine.yaml", "extends: sm_90\nname: 3\nsource: {}\nsources: [a]\n")) == [
        "mine.yaml:2: name: 3",
        "mine.yaml:3: source: unknown name",
        "mine.yaml:4: sources: the list [a]",
    ]
    assert refusal(load_arch, write("mine.yaml", "- a\n")) == ["mine.yaml:1: the list [a]"]
    assert refusal(load_arch, write("mine.yaml", "extends: sm_90\ncompute_capability: 9.0\nchip: []\n")) == [
        "mine.yaml:2: compute_capability: 9.0",
        "mine.yaml:3: chip: the list []",
    ]


def test_a_misspelt_operation_class_or_tensor_mode_is_refused(here):
    text = """\
extends: sm_90
operations:
  fma: {latency_cycles: 4}
  ffma: {pipe: Fma Pipe}
tensor_core:
  operations:
    m16n8k16.f16: {latency_cycles: 4}
    m16n8k99.f32.f16: {latency_cycles: 4}
"""
    ", ".join(OPERATION_CLASSES)
    lines = refusal(load_arch, write("mine.yaml", text))
    assert lines == [
        "mine.yaml:3: operations.fma: unknown name",
        "mine.yaml:4: operations.ffma.pipe: the text 'Fma Pipe'",
        "mine.yaml:7: tensor_core.operations.m16n8k16.f16: unknown name",
        "mine.yaml:8: tensor_core.operations.m16n8k99.f32.f16.issue_interval_cycles: nothing",
    ]


@pytest.mark.slow
def test_a_new_tensor_mode_may_be_added(here):
    text = "extends: sm_89\ntensor_core:\n  operations:\n"
    text += "    m16n8k32.f32.e4m3: {latency_cycles: 33, issue_interval_cycles: 32}\n"
    arch = load_arch(write("mine.yaml", text))
    assert set(arch.tensor_core.operations) == {*MODES_OF["sm_89"], "m16n8k32.f32.e4m3"}
    name = "tensor_core.operations.m16n8k32.f32.e4m3.latency_cycles"
    assert arch.with_overrides({name: 30}).flat()[name] == 30


def test_a_complete_file_must_be_complete(here):
    text = resources.find("configs", "sm_90").read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  mufu:"))
    del lines[start]
    start = next(i for i, line in enumerate(lines) if line.startswith("  pool_entries:") and i > lines.index("mio:"))
    del lines[start]
    start = next(i for i, line in enumerate(lines) if line == "barrier:")
    del lines[start : lines.index("", start)]
    write("mine.yaml", "\n".join(lines))
    mio = lines.index("mio:") + 1
    operations = lines.index("operations:") + 1
    top = next(i for i, line in enumerate(lines) if line.startswith("name:")) + 1
    assert refusal(load_arch, "mine.yaml") == [
        f"mine.yaml:{top}: barrier: nothing",
        f"mine.yaml:{operations}: operations.mufu: nothing",
        f"mine.yaml:{mio}: mio.pool_entries: nothing",
    ]


def test_an_empty_file_is_refused(here):
    assert refusal(load_arch, write("mine.yaml", "")) == ["mine.yaml:1: nothing"]


def test_yaml_mistakes_keep_their_place(here):
    assert refusal(load_arch, write("mine.yaml", "extends: sm_90\nsm:\n  max_ctas: 1\n  max_ctas: 2\n")) == [
        "mine.yaml:4: sm.max_ctas: the key appears twice"
    ]


# ---- values that must fit together ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        {"sm.registers": 32 * 255},
        {"sm.registers": 8192, "sm.register_allocation_unit": 8192},
        {"global_memory.sector_bytes": 128},
        {"shared_memory.capacity_bytes": 232448 + 1024},
    ],
)
def test_values_that_just_fit_together_are_taken(overrides):
    paths = load_arch("sm_90").with_overrides(overrides).paths()
    assert {".".join(path): value for path, value in paths.items() if ".".join(path) in overrides} == overrides


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            {"sm.sub_cores": 64, "sm.max_warps": 32},
            ["sm.max_warps: 32, with sm.sub_cores 64"],
        ),
        (
            {"sm.max_threads_per_cta": 1000},
            ["sm.max_threads_per_cta: 1000"],
        ),
        (
            {"sm.max_warps": 16},
            ["sm.max_warps: 16, with sm.max_threads_per_cta 1024"],
        ),
        (
            {"sm.registers": 2048},
            ["sm.registers: 2048, with sm.max_registers_per_thread 255"],
        ),
        (
            {"sm.registers": 8192, "sm.register_allocation_unit": 16384},
            ["sm.register_allocation_unit: 16384, with sm.registers 8192"],
        ),
        (
            {"shared_memory.capacity_bytes": 65536},
            [
                "shared_memory.capacity_bytes: 65536, with shared_memory.max_bytes_per_cta 232448 "
                "and shared_memory.reserved_bytes_per_cta 1024"
            ],
        ),
        (
            {"shared_memory.reserved_bytes_per_cta": 2048},
            [
                "shared_memory.reserved_bytes_per_cta: 2048, with shared_memory.max_bytes_per_cta 232448 "
                "and shared_memory.capacity_bytes 233472"
            ],
        ),
        (
            {"mio.queue_latency_cycles": 26},
            [
                "mio.queue_latency_cycles: 26, with shared_memory.latency_cycles 23",
                "mio.queue_latency_cycles: 26, with shared_memory.atomic_latency_cycles 24",
                "mio.queue_latency_cycles: 26, with mio.shuffle_latency_cycles 24",
                "mio.queue_latency_cycles: 26, with mio.lane_register_latency_cycles 23",
            ],
        ),
        (
            {"shared_memory.atomic_latency_cycles": 7},
            ["shared_memory.atomic_latency_cycles: 7, with mio.queue_latency_cycles 7"],
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused(overrides, lines):
    assert refused_override(**overrides) == [f"--set: {line}" for line in lines]


def test_lanes_per_group_divide_a_warp():
    assert refused_override(**{"shared_memory.lanes_per_group.bits_64": 12}) == [
        "--set: shared_memory.lanes_per_group.bits_64: 12"
    ]


@pytest.mark.parametrize("banks", [1, 3, 17, 24, 4096])
def test_any_number_of_banks_can_be_asked_for(banks):
    assert load_arch("sm_90").with_overrides({"shared_memory.banks": banks}).shared_memory.banks == banks


# ---- overrides ------------------------------------------------------------------------------------------


def test_an_override_makes_a_new_architecture_and_says_so():
    arch = load_arch("sm_90")
    changed = arch.with_overrides({"shared_memory.banks": 64, "shared_memory.load_merge_distances": []})
    assert changed.flat() == arch.flat() | {
        "shared_memory.banks": 64,
        "shared_memory.lanes_per_group.bits_64": 32,
        "shared_memory.lanes_per_group.bits_128": 16,
        "shared_memory.matrix_rows_per_phase": 16,
        "shared_memory.load_merge_distances": (),
    }
    assert arch.shared_memory.banks == 32
    where = changed.provenance["shared_memory.banks"]
    assert (where.status, where.file, where.line, where.note) == ("override", "with_overrides()", None, "32 without it")
    assert changed.provenance["shared_memory.load_merge_distances"].note == "[1, 2] without it"
    assert changed.provenance["sm.sub_cores"] == arch.provenance["sm.sub_cores"]
    assert changed.name == arch.name


def test_an_override_of_an_override_remembers_what_the_file_has():
    name = "shared_memory.atomic_same_word_shares"
    arch = load_arch("sm_90").with_overrides({name: True})
    assert arch.provenance[name].note == "false without it"
    assert arch.with_overrides({name: False}).provenance[name].note == "false without it"


def test_all_wrong_overrides_are_told_at_once_with_what_was_meant():
    lines = refused_override(
        **{
            "shared_memory.bankz": 64,
            "banks": 64,
            "queue_latency_cycles": 64,
            "latency_cycles": 64,
            "mio": 3,
            "tensor_core.operations.m16n8k16.f32.f16": 3,
            "colour": "red",
            "name": "mine",
            "barrier.latency_cycles": "13",
            "sm.max_warps": True,
        }
    )
    assert lines == [
        "--set: shared_memory.bankz: unknown name",
        "--set: banks: unknown name",
        "--set: queue_latency_cycles: unknown name",
        "--set: latency_cycles: unknown name",
        "--set: mio: this is a section",
        "--set: tensor_core.operations.m16n8k16.f32.f16: this is a section",
        "--set: colour: unknown name",
        "--set: name: unknown name",
        "--set: sm.max_warps: true",
        "--set: barrier.latency_cycles: the text '13'",
    ]


def test_a_list_with_several_wrong_items_is_told_once():
    assert refused_override(**{"shared_memory.load_merge_distances": [0, 32, "a"]}) == [
        "--set: shared_memory.load_merge_distances: the list [0, 32, a]"
    ]


def test_whole_numbers_of_numpy_are_whole_numbers():
    arch = load_arch("sm_90").with_overrides(
        {"shared_memory.banks": np.int64(64), "shared_memory.load_merge_distances": [np.uint8(1)]}
    )
    assert type(arch.shared_memory.banks) is int
    assert arch.shared_memory.load_merge_distances == (1,)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("shared_memory.banks=64", ("shared_memory.banks", 64)),
        (" shared_memory.banks = 0x40 ", ("shared_memory.banks", 64)),
        ("a=[1, 2]", ("a", [1, 2])),
        ("a=separate", ("a", "separate")),
        ("a=no", ("a", "no")),
        ("a=true", ("a", True)),
        ("a=1=2", ("a", "1=2")),
        ("a=", ("a", None)),
        ("a=12.5", ("a", 12.5)),
    ],
)
def test_an_override_on_the_command_line_is_a_name_and_a_yaml_value(text, parsed):
    assert parse_override(text) == parsed


def test_wrong_overrides_on_the_command_line_are_told_at_once():
    assert refusal(parse_overrides, ["banks", "=3", "a=[1", "b=1", "b=2", "c=*x"]) == [
        "--set: the text 'banks'",
        "--set: the text '=3'",
        "--set: a: invalid YAML (did not find expected ',' or ']')",
        "--set: b: the name is set twice",
        "--set: c: invalid YAML (found undefined alias)",
    ]
    assert parse_overrides(["a.b=1", "c=x"]) == {"a.b": 1, "c": "x"}


FLAT = load_arch("sm_90").flat()
# Values that are free of the others, so that any of them loads.
FREE = {
    "shared_memory.banks": st.integers(1, 4096),
    "shared_memory.bank_width_bytes": st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]),
    "shared_memory.load_merge_distances": st.lists(st.integers(1, 31), max_size=5, unique=True).map(tuple),
    "shared_memory.atomic_same_word_shares": st.booleans(),
    "shared_memory.ports.topology": st.sampled_from(["unified", "separate"]),
    "issue.policy": st.sampled_from(["greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first"]),
    "global_memory.bytes_per_cycle": st.floats(0.001, 65536),
    "operations.ffma.pipe": st.from_regex(r"[a-z][a-z0-9_]{0,39}", fullmatch=True),
    "tensor_core.operations.m16n8k16.f32.f16.latency_cycles": st.integers(1, 100_000),
    "tensor_core.numerics.products_per_block_tf32": st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
}
overrides = st.fixed_dictionaries({}, optional=FREE)


@pytest.mark.slow
@given(overrides)
def test_overrides_there_and_back_give_the_same_architecture(values):
    arch = load_arch("sm_90")
    changed = arch.with_overrides(values)
    given = FLAT | values
    follow = {n: v for n, (v, _) in derived(given).items() if n not in values and is_derived(arch.provenance[n])}
    assert changed.flat() == given | follow
    assert changed.with_overrides({name: FLAT[name] for name in values}).flat() == FLAT


def reload(text: str, folder: Path) -> Architecture:
    path = folder / "shown.yaml"
    path.write_text(text, encoding="utf-8", newline="")
    return load_arch(path)


@pytest.mark.slow
@given(values=overrides)
def test_what_is_written_as_yaml_loads_back_as_the_same_architecture(values, tmp_path_factory):
    arch = load_arch("sm_89").with_overrides(values)
    again = reload(to_yaml(arch), tmp_path_factory.mktemp("arch"))
    assert again.flat() == arch.flat()
    assert list(again.flat()) == list(arch.flat())
    assert (again.name, again.description) == (arch.name, arch.description)
    assert dict(again.sources) == dict(arch.sources)
    for name, where in arch.provenance.items():
        there = again.provenance[name]
        assert (there.status, there.source, there.note, there.confidence) == (
            where.status,
            where.source,
            where.note,
            where.confidence,
        )


@pytest.mark.slow
@settings(max_examples=20)
@given(notes=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=5, max_size=5))
def test_any_note_survives_being_written_as_yaml(notes, tmp_path_factory):
    folder, lines = tmp_path_factory.mktemp("arch"), []
    names = [f"sm.{name}" for name in ("sub_cores", "max_warps", "max_ctas", "max_threads_per_cta", "registers")]
    for name, note in zip(names, notes, strict=True):
        value = yaml.safe_dump(
            {"value": FLAT[name], "note": note}, default_style='"', default_flow_style=True, width=9999
        )
        lines.append(f"  {name.partition('.')[2]}: {value}")
    arch = reload("extends: sm_90\nsm:\n" + "".join(lines), folder)
    again = reload(to_yaml(arch), folder)
    for name, note in zip(names, notes, strict=True):
        assert arch.provenance[name].note == again.provenance[name].note == note


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_are_strict_yaml_without_machine_paths(name):
    path = resources.find("configs", name)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s\"'(])/(work|tmp|home|root)\b", text)
    assert strict_yaml.load(path).value["name"] == name


@pytest.mark.parametrize("name", SHIPPED)
def test_a_chip_alone_finds_its_architecture(name: str) -> None:
    for chip in load_arch(name).chips:
        assert {with_chip(chip), with_chip(chip, name), with_chip(chip.lower().replace(" ", "-"))} == {(name, chip)}


def test_a_chip_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        GpuemuError, match=r"unknown chip 'RTX 4070Tj'\. Did you mean RTX 4070, RTX 4070 Ti or RTX 5070\? "
    ) as caught:
        with_chip("RTX 4070Tj")
    assert str(caught.value).count("RTX") == 4


def test_a_chip_of_another_architecture_is_refused_with_its_own() -> None:
    assert refusal(with_chip, "rtx3080", "sm_89") == ["--chip: 'rtx3080' is a chip of sm_86, not of sm_89"]
    setting = ("chips.RTX 3080.clock_mhz=1440",)
    assert refusal(loaded_trace, "v5_swizzle", None, setting) == ["--set: chips.RTX 3080.clock_mhz: unknown name"]
    assert loaded_trace("v5_swizzle", "sm_86", setting)[1].chips["RTX 3080"].clock_mhz == 1440


def test_a_chip_is_set_whatever_the_case_spaces_and_hyphens_of_its_name() -> None:
    assert load_arch("sm_86").with_overrides({"chip": "rtx-3080"}).chip == "RTX 3080"
