"""Damaged inputs of every kind run or are refused; `python tools/fuzz` tries 100,000 of them.

`python tools/fuzz 2000 --only machine_code` tries 2,000 cubins with damaged code, headers, attributes and constants.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parent.parent / "tools" / "fuzz"
OF_EACH_HUNDREDTH = 40
"""Inputs for each hundredth of them that a kind makes: 4,000 in all, a minute."""


@pytest.fixture(scope="module")
def fuzz() -> Iterator[ModuleType]:
    """The command's module; the modules beside it are found while it is used."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("fuzz_command", FOLDER / "__main__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))


KINDS = (
    "trace", "traceg", "architecture", "instruction", "cubin", "machine_code", "side_file", "array_file", "argument", "extent", "lanes",
    "override", "variation", "condition", "baseline", "profile", "store", "options", "cache", "name", "output",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_input_ends_in_a_traceback(fuzz: ModuleType, kind: str) -> None:
    assert set(KINDS) == set(fuzz.KINDS)
    failed = fuzz.run(OF_EACH_HUNDREDTH * fuzz.KINDS[kind], only=kind)
    assert not failed, f"python tools/fuzz --only {kind} --seed {failed[0][1]} 1: {failed[0][2]!r}"


def test_most_inputs_are_damaged_and_not_all_are_refused_at_the_door(fuzz: ModuleType, tmp_path: Path) -> None:
    from inputs import FINE, TRACE, TRACEG, Inputs

    from gpuemu.base.errors import GpuemuError

    inputs, refused, ran = Inputs(tmp_path), set(), 0
    for number in range(120):
        try:
            inputs.trace(random.Random(number))
            ran += 1
        except FINE as error:
            refused.add(str(error).partition("found")[0] if isinstance(error, GpuemuError) else "")
    assert ran > 10
    assert len(refused) > 20
    (tmp_path / "t.yaml").write_text(TRACE, encoding="utf-8")
    import gpuemu

    assert gpuemu.load_trace(tmp_path / "t.yaml").executed_instructions > 20
    (tmp_path / "t.traceg").write_text(TRACEG, encoding="utf-8")
    assert gpuemu.run(gpuemu.load_trace(tmp_path / "t.traceg")).cycles > 0


def test_a_traceback_an_endless_input_and_a_wrong_exit_code_are_counted(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import inputs

    def broken(self: object, choose: random.Random) -> None:
        raise ZeroDivisionError

    def endless(self: object, choose: random.Random) -> None:
        while True:
            pass

    def leaves(self: object, choose: random.Random) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(fuzz, "_limit_memory", lambda: None)
    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(inputs.Inputs, "extent", broken)
    monkeypatch.setattr(inputs.Inputs, "lanes", endless)
    monkeypatch.setattr(inputs.Inputs, "condition", leaves)
    for kind, status in (("extent", 1), ("lanes", 1), ("condition", 1), ("argument", 0)):
        monkeypatch.setattr(sys, "argv", ["fuzz", "3", "--only", kind])
        with pytest.raises(SystemExit) as caught:
            fuzz.main()
        assert caught.value.code == status
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == f"3 inputs, {3 * status} tracebacks"
        assert (said[0] == f"{kind} 0:") == bool(status)


def test_the_kernels_that_are_damaged_run_and_some_of_their_mutants_do(fuzz: ModuleType, tmp_path: Path) -> None:
    from inputs import Inputs
    from machine_code import SUBJECTS, mutant

    inputs, ran, refused = Inputs(tmp_path), 0, 0
    for subject in SUBJECTS[:2] + SUBJECTS[-1:]:
        whole, executed = inputs.whole(subject), inputs.executed(subject)
        assert sorted(inputs.damaged(subject, whole)) == ["check", "replay", "run", "trace"]
        assert 40 < len(executed) < len(whole) // 16
        for number in range(5):
            changed = mutant(random.Random(number), whole, executed)
            assert changed != whole
            done = "replay" in inputs.damaged(subject, changed)
            ran, refused = ran + done, refused + (not done)
    assert ran
    assert refused
