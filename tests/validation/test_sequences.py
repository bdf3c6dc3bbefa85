"""Hand-assembled sequences: encodings, the frame, and a run on a CuPy that launches on the emulator."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import fake_cupy
import pytest
from refusals import brief

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.tools.disassembly import disassemble, load_cubin
from gpuemu.trace.listing import INSTRUCTION_BYTES, parse_listing
from validation import measure
from validation.__main__ import main
from validation.measure import MeasureError
from validation.records import CODE_FILE, DATA, read_code
from validation.sequences import comparing, running
from validation.sequences.assembler import assemble
from validation.sequences.files import Snippet, read_sequences
from validation.sequences.forms import Forms, form_of, recorded_forms, text_of
from validation.sequences.frame import cubin_of, framed

CODE = DATA / "h200" / CODE_FILE
TURNS = Path(running.__file__).parent / "turns.yaml"
WHO = TURNS.with_name("who.yaml")
STORES = TURNS.with_name("stores.yaml")
FENCES = TURNS.with_name("fences.yaml")
CHAIN = "[B------:R-:W-:-:S04] FFMA R1, R1, R2, R1\n"


@pytest.fixture(scope="module")
def forms() -> Forms:
    return recorded_forms(CODE)


def snippet(body: str, name: str = "one", warps: int = 1) -> Snippet:
    return Snippet(name, warps, parse_listing(body, "test", 1))


def cycles(body: str, forms: Forms) -> int:
    ((start, end),) = comparing.emulated(cubin_of(snippet(body), forms, "test"), 1, gpuemu.load_arch("sm_90"))
    return end - start


@pytest.mark.slow
def test_a_kernel_s_instructions_give_back_their_bytes_from_their_text() -> None:
    units = read_code(CODE)
    learnt = Forms([units[i] for i in (0, 26, 39, 65)])
    cubin = load_cubin(units[46])
    checked, left_out = set(), set()
    for kernel in map(cubin.kernel, cubin.kernels):
        for at, instruction in enumerate(disassemble(cubin, kernel)):
            name, _ = form_of(text_of(instruction).replace(".reuse", ""))
            try:
                written = assemble([instruction], learnt, "test")
            except GpuemuError:
                left_out.add(name)
                continue
            assert written == kernel.machine_code[INSTRUCTION_BYTES * at :][:INSTRUCTION_BYTES], str(instruction)
            checked.add(name)
    assert len(checked) > 60
    assert len(left_out) < 16


@pytest.mark.slow
def test_nvdisasm_reads_a_sequence_back_as_it_was_written(forms: Forms) -> None:
    written = [
        "[B------:R-:W-:-:S02] LOP3.LUT R14, R2.reuse, RZ, R15, 0xaa, !PT",
        "[B------:R-:W-:-:S04] @!P3 FFMA R17, R3, R4.reuse, R5",
        "[B------:R-:W-:Y:S15] ISETP.GE.AND P5, PT, R9, 0x123, PT",
        "[B------:R2:W3:-:S01] LDS R6, [R7+0x120]",
        "[B--23--:R-:W-:Y:S00] NOP",
    ]
    one = snippet("\n".join(written))
    cubin = load_cubin(cubin_of(one, forms, "test", check=False))
    kernel = cubin.kernel(running.KERNEL)
    found = disassemble(cubin, kernel)
    begin = framed(one).index(one.body[0])
    assert begin % 8 == 0
    assert [f"{i.control} {i}" for i in found[begin : begin + len(written)]] == written
    assert kernel.registers_per_thread >= 120


@pytest.mark.slow
def test_a_long_stall_is_written_with_the_yield_bit(forms: Forms) -> None:
    with_bit = parse_listing("[B------:R-:W-:Y:S12] NOP", "test", 1)
    without = parse_listing("[B------:R-:W-:-:S12] NOP", "test", 1)
    shorter = parse_listing("[B------:R-:W-:-:S11] NOP\n[B------:R-:W-:Y:S11] NOP", "test", 1)
    assert assemble(with_bit, forms, "test") == assemble(without, forms, "test")
    words = assemble(shorter, forms, "test")
    assert words[:INSTRUCTION_BYTES] != words[INSTRUCTION_BYTES:]


@pytest.mark.slow
def test_reuse_flags_beside_the_yield_bit_are_refused(forms: Forms) -> None:
    code = parse_listing("[B------:R-:W-:Y:S02] FFMA R1, R2.reuse, R3, R4", "test", 1)
    with pytest.raises(GpuemuError, match="expected either reuse flags or the yield bit"):
        assemble(code, forms, "test")


@pytest.mark.slow
def test_dependent_ffma_issue_every_four_cycles(forms: Forms) -> None:
    assert cycles(CHAIN * 9, forms) - cycles(CHAIN * 4, forms) == 5 * 4


@pytest.mark.slow
def test_a_branch_goes_by_its_distance(forms: Forms) -> None:
    branch = "[B------:R-:W-:-:S05] BRA +0x{:x}\n"
    skipping, falling = (branch.format(16 * skipped) + CHAIN * 8 for skipped in (8, 0))
    assert cycles(falling, forms) - cycles(skipping, forms) > 20


@pytest.mark.slow
def test_what_reads_back_otherwise_is_refused(forms: Forms) -> None:
    body = "[B------:R-:W-:-:S02] LOP3.LUT R14, R2, RZ, R15, 0x1aa, !PT"
    with pytest.raises(GpuemuError, match=r"test:1: code: .*0x1aa, !PT', written as 'LOP3.* 0xaa, !PT'"):
        cubin_of(snippet(body), forms, "test")


def test_the_frame_s_own_registers_are_refused(forms: Forms) -> None:
    body = CHAIN + "[B------:R-:W-:-:S04] FFMA R112, R1, R2, R1\n[B------:R-:W-:-:S04] @P6 FFMA R1, R1, R2, R1\n"
    with pytest.raises(GpuemuError) as refused:
        cubin_of(snippet(body), forms, "test")
    assert brief(refused.value) == [
        "test:2: code: 'FFMA R112, R1, R2, R1'",
        "test:3: code: '@P6 FFMA R1, R1, R2, R1'",
    ]


@pytest.mark.slow
def test_an_unknown_form_is_refused_with_the_nearest_ones() -> None:
    one_unit = Forms(read_code(CODE)[:1])
    code = parse_listing("\n" + CHAIN + "[B------:R-:W-:-:S02] IADD3 R1, R2, R3, -|R4|\nNOP", "mine.yaml", 6)
    with pytest.raises(GpuemuError) as refused:
        assemble(code[1:], one_unit, "mine.yaml")
    unknown, bare = refused.value.problems
    assert str(unknown).startswith("mine.yaml:8: code: 'IADD3 R1, R2, R3, -|R4|', a form that no known code has")
    assert "found 'NOP'" in str(bare)


@pytest.mark.slow
def test_what_is_learnt_does_not_depend_on_what_else_was_asked_for() -> None:
    units = read_code(CODE)[:5]
    name, _ = form_of("IMAD R1, R2, R3, RZ")
    at_once, later = Forms(units), Forms(units)
    with pytest.raises(Exception, match="NONE"):
        later.find("NONE")  # reads all
    assert at_once.find(name).word == later.find(name).word
    assert at_once.find(name).places == later.find(name).places


def test_prefixes_are_the_sequences_of_the_first_instructions() -> None:
    found = {one.name: one for one in read_sequences(TURNS)}
    lengths = {name: len(one.body) for name, one in found.items() if name.startswith("two_warps/")}
    assert lengths == {f"two_warps/{k}": k for k in (1, 2, 3, 4)}
    assert [one.whole for one in found.values()][:4] == [False, False, False, True]
    assert (found["four_warps"].warps, found["four_warps"].whole) == (16, True)


def test_everything_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "a:\n  warps: 17\n  body: |\n    NOP\n  steps: 3\nb:\n  warps: 1\n  body: |\n    NOP\n    NONSENSE R1\n"
    )
    with pytest.raises(GpuemuError) as refused:
        read_sequences(path)
    lines = [(problem.line, problem.field) for problem in refused.value.problems]
    assert lines == [(5, "a.steps"), (2, "a.warps"), (10, "b.body")]


@pytest.mark.slow
def test_the_example_is_emulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sequences", "emulate", str(TURNS)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 10
    assert all(re.match(r"(two|four)_warps\S* +\d+ warps  [\d ]+ on each sub-core$", line) for line in printed)
    without, yielding = (
        next(line for line in printed if line.startswith(name)) for name in ("four_warps ", "four_warps_y")
    )
    assert without.split()[3:7] != yielding.split()[3:7]


@pytest.mark.slow
def test_a_body_s_clocks_are_kept_and_say_who_issued_after_whom(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of four warps alternate until they end: they have begun, the others rested."""
    assert main(["sequences", "emulate", str(WHO)]) == 0
    printed = {line.split()[0]: line.split()[3] for line in capsys.readouterr().out.splitlines()}
    assert printed["four_warps"] == "AB" * 12 + "CD" * 12
    assert {name: len(order) for name, order in printed.items()} == {
        "four_warps": 48,
        "two_warps_yielding": 48,
        "four_warps_yielding": 96,
        "three_warps_by_turns": 108,
    }


@pytest.mark.slow
def test_stores_and_loads_behind_them_end_when_they_did_on_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """`sequences compare` on an H200: these are the same in most launches, the others are within a store's 16 cycles."""
    assert main(["sequences", "emulate", str(STORES)]) == 0
    lines = capsys.readouterr().out.splitlines()
    ends = {line.split()[0]: [int(part.split()[-1]) for part in line.split("|")] for line in lines}
    assert ends["six_global_stores_of_1_sub_cores"] == [82]
    assert ends["six_global_stores_of_3_sub_cores"] == [100, 107, 110]
    assert ends["loads_that_hit_alone_of_1_sub_cores"] == [51]
    assert ends["loads_that_hit_behind_a_store_of_1_sub_cores"] == [76]
    assert ends["six_global_stores_of_4_sub_cores"] == [pytest.approx(end, abs=16) for end in (150, 166, 182, 198)]


@pytest.mark.slow
def test_loads_with_barriers_behind_them_end_when_they_did_on_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """`sequences compare` on an H200: these are the same."""
    assert main(["sequences", "emulate", str(FENCES)]) == 0
    lines = capsys.readouterr().out.splitlines()
    ends = {line.split()[0]: [int(part.split()[-1]) for part in line.split("|")] for line in lines}
    assert ends["of_32_wavefronts_by_1_warps"] == [265]
    assert ends["of_32_wavefronts_by_2_warps"] == [265, 266]
    assert ends["of_32_wavefronts_by_3_warps"] == [353, 354, 418]
    assert ends["of_32_wavefronts_by_4_warps"] == [355, 356, 420, 421]
    assert ends["of_4_wavefronts_by_4_warps"] == [99, 100, 107, 108]


def test_two_clocks_in_one_register_are_refused(forms: Forms) -> None:
    read = "[B------:R-:W-:-:S02] CS2R.32 R5, SR_CLOCKLO\n"
    with pytest.raises(GpuemuError) as refused:
        cubin_of(snippet(read * 2), forms, "test")
    assert brief(refused.value) == ["test:1: code: two clocks read into R5"]


def test_runs_are_the_same_only_if_all_clocks_are() -> None:
    clocks = [[0, 1, 7, 9], [0, 3, 5, 9]]
    assert comparing.shown(comparing.times_of([clocks[0], [9], [9], [9], clocks[1]])[:1]) == "ABBA 9 9"
    assert comparing.times_of(clocks) != comparing.times_of([[0, 1, 6, 9], [0, 3, 5, 9]])


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built folder with a sequence of one warp and one of five."""
    file, folder = tmp_path / "two.yaml", tmp_path / "built"
    body = "".join(f"    {line}\n" for line in (CHAIN * 3).splitlines())
    file.write_text(f"chain:\n  warps: 1\n  body: |\n{body}five:\n  warps: 5\n  body: |\n{body}")
    assert main(["sequences", "build", str(file), "-o", str(folder)]) == 0
    return folder


def test_a_run_is_recorded_and_compared(
    built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(measure, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(running, "LAUNCHES", 3)
    assert main(["sequences", "run", str(built)]) == 0
    clocks = running.read_clocks(built)
    assert {name: (len(launches), len(launches[0])) for name, launches in clocks.items()} == {
        "chain": (3, 1),
        "five": (3, 5),
    }
    assert json.loads((built / running.CLOCKS_FILE).read_text())["device"]["name"] == "NVIDIA Fake 1"

    arch = gpuemu.load_arch("sm_90")
    (_, sequences) = running.read_built(built)
    real = {one.name: comparing.emulated((built / one.file).read_bytes(), one.warps, arch) for one in sequences}
    start, end = real["chain"][0]
    clocks = {"five": [real["five"]] * 3, "chain": [[[start, end + 1]], [[start, end + 1]], [[start, end]]]}
    (built / running.CLOCKS_FILE).write_text(json.dumps({"clocks": clocks}))
    capsys.readouterr()
    assert main(["sequences", "compare", str(built)]) == 0
    chain, five, count = capsys.readouterr().out.splitlines()
    assert chain == f"chain   1 warps  DIFFERS  measured {end + 1} in 2 of 3 launches; emulated {end}"
    assert five.startswith("five    5 warps  same     measured ")
    assert count == "1 of 2 the same"


@pytest.mark.parametrize("error", [fake_cupy.CUDADriverError, fake_cupy.CUDARuntimeError])
def test_a_sequence_that_the_gpu_refuses_is_named_and_nothing_written(
    built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[Exception]
) -> None:
    def refuses(self: object, name: str) -> None:
        raise error("an illegal instruction was encountered")

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(fake_cupy.RawModule, "get_function", refuses)
    (built / running.CLOCKS_FILE).unlink(missing_ok=True)
    assert main(["sequences", "run", str(built)]) == 2
    assert "chain: an illegal instruction was encountered" in capsys.readouterr().err
    assert not (built / running.CLOCKS_FILE).exists()


def test_the_measuring_machine_does_without_gpuemu() -> None:
    program = "import sys; sys.modules['gpuemu'] = None; import validation.sequences.running"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=DATA.parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_was_not_built_or_not_run_is_refused(tmp_path: Path, built: Path) -> None:
    with pytest.raises(
        MeasureError, match=r"holds no sequences\.json; `python -m validation sequences build` writes it"
    ):
        running.run(tmp_path)
    with pytest.raises(MeasureError, match=r"holds no clocks\.json; `python -m validation sequences run` writes it"):
        list(comparing.compare(built, gpuemu.load_arch("sm_90")))
