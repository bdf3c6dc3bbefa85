"""The house keeps its walls: who may import whom."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gpuemu"
MODULES = sorted(
    ".".join(("gpuemu", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)


def file_of(module: str) -> Path:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@cache
def imported_at_run_time(module: str, inside_functions: bool = True) -> frozenset[str]:
    """What a module imports, blocks for the type checker left out."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef) and not inside_functions:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            source = node.module or ""
            for alias in node.names:
                inside = f"{source}.{alias.name}"
                found.add(inside if inside in MODULES else source)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(file_of(module).read_text(encoding="utf-8")))
    return frozenset(found)


@cache
def reached_from(module: str, inside_functions: bool = True) -> frozenset[str]:
    seen: set[str] = set()
    todo = [module]
    while todo:
        current = todo.pop()
        for name in imported_at_run_time(current, inside_functions):
            if name not in seen:
                seen.add(name)
                if name in MODULES and name != "gpuemu":
                    todo.append(name)
    return frozenset(seen)


def below(package: str) -> list[str]:
    return [m for m in MODULES if m == package or m.startswith(f"{package}.")]


@pytest.mark.parametrize("module", below("gpuemu.engine"))
def test_the_engine_reaches_neither_yaml_nor_pydantic_nor_a_view(module: str) -> None:
    reached = reached_from(module)
    assert not {name for name in reached if name.split(".")[0] in ("yaml", "pydantic", "rich", "click")}
    assert not reached & {
        *below("gpuemu.report"), *below("gpuemu.observe"), *below("gpuemu.arch"), *below("gpuemu.commands"),
    }  # fmt: skip


@pytest.mark.parametrize("module", [*below("gpuemu.observe"), *below("gpuemu.report")])
def test_a_view_never_reaches_the_engine(module: str) -> None:
    assert not reached_from(module) & set(below("gpuemu.engine"))


@pytest.mark.parametrize("module", ["gpuemu.banks", "gpuemu.errors", "gpuemu.isa", "gpuemu.expressions"])
def test_the_foundations_reach_only_numpy_and_each_other(module: str) -> None:
    inside = {name for name in reached_from(module) if name.split(".")[0] == "gpuemu"}
    assert inside <= {"gpuemu.errors"}
    assert not {name for name in reached_from(module) if name.split(".")[0] in ("yaml", "pydantic", "simpy", "click")}


@pytest.mark.parametrize("module", below("gpuemu.layout"))
def test_layouts_reach_only_the_foundations(module: str) -> None:
    inside = {name for name in reached_from(module) if name.split(".")[0] == "gpuemu"}
    assert inside <= {"gpuemu.errors", "gpuemu.banks", "gpuemu.expressions", *below("gpuemu.layout")}
    assert not {name for name in reached_from(module) if name.split(".")[0] in ("yaml", "pydantic", "simpy", "rich")}


TENSOR = [m for m in MODULES if m.startswith("gpuemu.tensor")]


@pytest.mark.parametrize("module", TENSOR)
def test_the_tensor_core_s_arithmetic_knows_nothing_of_machine_code(module: str) -> None:
    inside = {name for name in reached_from(module) if name.split(".")[0] == "gpuemu"}
    assert inside <= {"gpuemu.compiled", "gpuemu.errors", "gpuemu.fragments", "gpuemu.vector_code", *TENSOR}


@pytest.mark.parametrize("module", MODULES)
def test_only_modules_that_are_compiled_need_numba(module: str) -> None:
    compiled = module.startswith(("gpuemu.sass.lanes_", "gpuemu.tensor_kernel_")) or module in (
        "gpuemu.tensor_compiled", "gpuemu.tensor_fragments", "gpuemu.vector_code",
    )  # fmt: skip
    assert ("numba" in {name.split(".")[0] for name in reached_from(module)}) == compiled


def test_patterns_of_addresses_know_nothing_of_memory() -> None:
    assert not {name for name in reached_from("gpuemu.sass.patterns") if name.split(".")[0] == "gpuemu"}


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith("gpuemu.commands")])
def test_only_the_command_line_reaches_click_and_the_commands(module: str) -> None:
    if module in ("gpuemu.cli", "gpuemu.__main__"):
        return
    assert "click" not in reached_from(module)
    assert not reached_from(module) & set(below("gpuemu.commands"))


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith(("gpuemu.sweeps", "gpuemu.commands"))])
def test_a_single_run_knows_nothing_of_sweeps(module: str) -> None:
    if module in ("gpuemu", "gpuemu.cli", "gpuemu.__main__"):
        return
    assert not reached_from(module) & set(below("gpuemu.sweeps"))


@pytest.mark.parametrize("module", ["study", "study_file", "sources", "plan"])
def test_planning_a_sweep_never_reaches_the_engine(module: str) -> None:
    assert not reached_from(f"gpuemu.sweeps.{module}") & set(below("gpuemu.engine"))


@pytest.mark.parametrize("module", below("gpuemu.sweeps"))
def test_only_the_modules_that_bear_their_names_need_the_extras_of_sweeps(module: str) -> None:
    """So that a sweep without plot, Parquet and cluster runs on a plain install."""
    wanted = {
        "gpuemu.sweeps.plot": "matplotlib",
        "gpuemu.sweeps.palette": "matplotlib",
        "gpuemu.sweeps.files": "polars",
    }
    found = {name.split(".")[0] for name in imported_at_run_time(module)} & {
        "matplotlib",
        "polars",
        "distributed",
        "dask",
    }
    assert found <= {wanted.get(module)}
    assert not {name.split(".")[0] for name in reached_from(module, inside_functions=False)} & {
        "matplotlib", "polars", "distributed", "dask", "pandas",
    }  # fmt: skip


def test_there_are_no_import_cycles() -> None:
    assert [m for m in MODULES if m != "gpuemu" and m in reached_from(m, inside_functions=False)] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stays_below_400_lines(module: str) -> None:
    assert len(file_of(module).read_text(encoding="utf-8").splitlines()) <= 400
