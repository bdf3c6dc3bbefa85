from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from validation.build import source_of, units_of
from validation.corpus import corpus, kernels_for
from validation.split import JUDGED_FAMILIES, held_out

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "validation"
ON_THE_GPU = [SUITE / f"{name}.py" for name in ("build", "measure", "profiler", "records")] + sorted(
    (SUITE / "corpus").glob("*.py")
)


def test_the_corpus_has_over_500_kernels_of_which_over_150_are_held_out() -> None:
    judged = [k for k in corpus() if k.family in JUDGED_FAMILIES]
    assert len(judged) >= 500
    assert 150 <= sum(held_out(k.name, k.family) for k in judged) <= len(judged) / 2


def test_every_judged_family_is_held_out_in_part_and_no_microbenchmark_is() -> None:
    held = Counter(k.family for k in corpus() if held_out(k.name, k.family))
    seen = Counter(k.family for k in corpus() if not held_out(k.name, k.family))
    assert set(held) == JUDGED_FAMILIES
    assert set(seen) > JUDGED_FAMILIES


@pytest.mark.slow
def test_the_generator_writes_the_same_text_in_every_process() -> None:
    program = (
        "import hashlib; from validation.corpus import corpus;"
        "print(hashlib.sha256(''.join(k.source for k in corpus()).encode()).hexdigest())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.strip() == hashlib.sha256("".join(k.source for k in corpus()).encode()).hexdigest()


def test_units_hold_every_kernel_once_in_order() -> None:
    names = [kernel.name for unit in units_of(corpus()) for kernel in unit]
    assert names == [kernel.name for kernel in corpus()]


@pytest.mark.parametrize("capability", [75, 80, 89, 90])
def test_older_chips_get_only_what_they_can_run(capability: int) -> None:
    text = source_of(kernels_for(capability))
    assert ("cp.async" in text) == (capability >= 80)
    assert ("stmatrix" in text) == (capability >= 90)


@pytest.mark.parametrize("file", ON_THE_GPU, ids=lambda file: file.stem)
def test_what_runs_on_the_measuring_machine_needs_only_numpy_and_cupy(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            root = module.split(".")[0]
            assert root in sys.stdlib_module_names or root in ("numpy", "cupy", "validation"), (
                f"{file.name} imports {module}"
            )
            if root == "validation":
                allowed = ("validation", "validation.build", "validation.corpus", "validation.measure", "validation.profiler",
                           "validation.records")  # fmt: skip
                assert module in allowed or module.startswith("validation.corpus."), f"{file.name} imports {module}"


def test_measuring_loads_neither_gpuemu_nor_anything_else() -> None:
    program = (
        "import sys; import validation.__main__, validation.measure, validation.profiler;"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'gpuemu', 'rich', 'matplotlib', 'scipy', 'yaml', 'simpy'}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.strip() == "[]"


def test_the_emulator_does_not_know_the_suite() -> None:
    for file in (ROOT / "gpuemu").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "import validation" not in text, file
        assert "from validation" not in text, file


@pytest.mark.parametrize("file", sorted(SUITE.rglob("*.py")), ids=lambda file: file.stem)
def test_a_module_stays_below_400_lines(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400
