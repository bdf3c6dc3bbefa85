"""The house keeps its walls: who may import whom, imports for the type checker counted."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gpuemu"
MODULES = sorted(
    ".".join(("gpuemu", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)

BELOW = {
    "base": "",
    "isa": "base",
    "arch": "base isa",
    "banks": "base isa",
    "trace": "base isa arch banks",
    "tensor": "base isa",
    "sass": "base isa arch banks trace tensor",
    "program": "base isa arch banks trace",
    "engine": "base isa arch banks trace program",
    "chip": "base isa arch trace program engine sass",
    "views": "base isa arch banks trace program engine chip",
    "emulate": "base isa arch banks trace program engine chip views",
    "triton": "base isa arch banks trace sass program engine chip views emulate gpuemu",
    "programs": "base isa arch banks trace sass program engine chip views emulate",
    "studies": "base isa arch banks trace sass program engine chip views emulate triton gpuemu",
    "cli": "base isa arch banks trace tensor sass program engine chip views emulate triton programs studies gpuemu",
    "__main__": "cli",
    "gpuemu": "base isa arch banks trace tensor sass program engine chip views emulate triton studies",
}
"""Each room, and the rooms that it may import from beside itself; `gpuemu` is the package's own `__init__`."""

OUTSIDE = {
    "yaml": {"base", "trace"},
    "pydantic": {"arch", "trace"},
    "simpy": {"engine"},
    "click": {"cli"},
    "rich": {"cli", "views", "studies"},
    "elftools": {"sass"},
    "numba": {"base", "tensor", "engine", "sass"},
    "llvmlite": {"engine", "sass", "tensor", "base"},
    "jinja2": {"views"},
    "matplotlib": {"studies"},
    "polars": {"studies"},
    "distributed": {"studies"},
    "loky": {"studies"},
    "filelock": {"base"},
    "zstandard": {"sass"},
    "pytest": {"cli"},
    "triton": {"triton"},
    "torch": {"triton"},
    "helion": {"triton"},
}
"""Libraries, and the rooms that may import them."""


ONE_MEANING = ("LANES", "Plan", "Access", "Op", "Unit", "Memory", "Barrier", "Row", "Launch")
"""Words that stand for one thing in the whole package."""
SECOND_MEANING = {("Launch", "gpuemu.triton.launch")}
"""A word of the public interface that another room has, too: gpuemu.triton.Launch. The list may only shrink."""


def file_of(module: str) -> Path:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


@cache
def imports(module: str) -> tuple[tuple[str, bool, bool], ...]:
    """Each name that a module imports, and whether a function or the type checker alone does."""
    found: list[tuple[str, bool, bool]] = []

    def visit(node: ast.AST, in_function: bool, for_types: bool) -> None:
        for_types |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        in_function |= isinstance(node, ast.FunctionDef)
        if isinstance(node, ast.Import):
            found.extend((alias.name, in_function, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            source = node.module or ""
            for alias in node.names:
                inside = f"{source}.{alias.name}"
                found.append((inside if inside in MODULES else source, in_function, for_types))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # most nodes, and none imports anything
                visit(child, in_function, for_types)

    visit(ast.parse(file_of(module).read_text(encoding="utf-8")), False, False)
    return tuple(found)


@cache
def imported(module: str, inside_functions: bool = True, for_the_type_checker: bool = True) -> frozenset[str]:
    """What a module imports: modules of ours by their full names, others by the name they are imported by."""
    return frozenset(
        name
        for name, in_function, for_types in imports(module)
        if inside_functions >= in_function and for_the_type_checker >= for_types
    )


@cache
def reached_from(module: str, inside_functions: bool = True, for_the_type_checker: bool = False) -> frozenset[str]:
    """All that is imported along the way; the package's own `__init__` is not followed."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        for name in imported(todo.pop(), inside_functions, for_the_type_checker):
            if name not in seen:
                seen.add(name)
                if name in MODULES and name != "gpuemu":
                    todo.append(name)
    return frozenset(seen)


def below(package: str) -> list[str]:
    return [m for m in MODULES if m == package or m.startswith(f"{package}.")]


def test_the_package_has_at_most_nineteen_entries() -> None:
    entries = {path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "data")}
    assert len(entries) <= 19, sorted(entries)


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_from_those_below_it(module: str) -> None:
    allowed = {room(module), *BELOW[room(module)].split()}
    ours = {name for name in imported(module) if name.split(".")[0] == "gpuemu"}
    assert {name for name in ours if room(name) not in allowed} == set()


@pytest.mark.parametrize("module", MODULES)
def test_a_library_is_imported_only_where_it_belongs(module: str) -> None:
    names = {name.split(".")[0] for name in imported(module)}
    assert {name for name in names if room(module) not in OUTSIDE.get(name, {room(module)})} == set()


@pytest.mark.slow
def test_there_are_no_circles_of_imports() -> None:
    """Neither at run time nor for the type checker, nor inside functions."""
    assert [m for m in MODULES if m != "gpuemu" and m in reached_from(m, True, True)] == []


def test_sass_and_the_engine_never_meet() -> None:
    for module in below("gpuemu.sass"):
        assert not reached_from(module, True, True) & set(below("gpuemu.engine"))
    for module in below("gpuemu.engine"):
        assert not reached_from(module, True, True) & set(below("gpuemu.sass"))


@pytest.mark.parametrize("module", below("gpuemu.views"))
def test_a_view_knows_of_the_engine_its_log_alone(module: str) -> None:
    assert {name for name in imported(module) if room(name) == "engine"} <= {"gpuemu.engine.log"}


@pytest.mark.parametrize("module", below("gpuemu.engine"))
def test_the_engine_reaches_neither_yaml_nor_pydantic_nor_a_view(module: str) -> None:
    reached = reached_from(module)
    assert not {name for name in reached if name.split(".")[0] in ("yaml", "pydantic", "rich", "click")}
    assert not reached & {*below("gpuemu.views"), *below("gpuemu.arch")}


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("gpuemu.studies.layout.")])
def test_layouts_reach_only_the_foundations(module: str) -> None:
    allowed = {"base", "isa", "banks", "studies"} | ({"views"} if module.endswith(("_text", "_picture")) else set())
    inside = {name for name in reached_from(module) if name.split(".")[0] == "gpuemu"}
    assert {name for name in inside if room(name) not in allowed} == set()


NEED_NUMBA = (
    "gpuemu.base.whole_programs", "gpuemu.engine.compiled", "gpuemu.engine.twins", "gpuemu.sass.lane.scalars",
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_only_what_is_compiled_and_what_compiles_needs_numba(module: str) -> None:
    """Matrix products import nothing of ours: Numba compiles again when that file changes, and looks at no other."""
    names = imported(module)
    if module == "gpuemu.tensor.compiled":
        assert {name.split(".")[0] for name in names} == {"__future__", "typing", "numpy", "numba", "llvmlite"}
    elif module not in NEED_NUMBA:  # with watchers
        assert "numba" not in {name.split(".")[0] for name in (*names, *reached_from(module, inside_functions=False))}


@pytest.mark.parametrize("module", ["study", "study_file", "sources", "plan"])
def test_planning_a_sweep_never_reaches_the_engine(module: str) -> None:
    assert not reached_from(f"gpuemu.studies.sweeps.{module}") & set(below("gpuemu.engine"))


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) not in ("gpuemu", "cli", "studies", "__main__")])
def test_a_single_run_knows_nothing_of_studies(module: str) -> None:
    assert not reached_from(module) & set(below("gpuemu.studies"))


@pytest.mark.parametrize("module", below("gpuemu.studies.sweeps"))
def test_only_the_modules_that_bear_their_names_need_the_extras_of_sweeps(module: str) -> None:
    """So that a sweep without plot, Parquet and cluster runs on a plain install."""
    wanted = {
        "gpuemu.studies.sweeps.plot": "matplotlib",
        "gpuemu.studies.sweeps.files": "polars",
    }
    found = {name.split(".")[0] for name in imported(module)} & {
        "matplotlib",
        "polars",
        "distributed",
        "dask",
    }
    assert found <= {wanted.get(module)}
    assert not {name.split(".")[0] for name in reached_from(module, inside_functions=False)} & {
        "matplotlib", "polars", "distributed", "dask", "pandas",
    }  # fmt: skip


@cache
def defined(module: str) -> set[str]:
    """The classes and values that a module defines."""
    found = set()
    for node in ast.parse(file_of(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("word", ONE_MEANING)
def test_a_word_has_one_meaning(word: str) -> None:
    found = {(word, module) for module in MODULES if word in defined(module)}
    assert len(found - SECOND_MEANING) <= 1
    assert {one for one in SECOND_MEANING if one[0] == word} <= found


@pytest.mark.parametrize("module", below("gpuemu.engine"))
def test_the_engine_knows_units_from_the_program_and_not_by_their_names(module: str) -> None:
    assert not {"TENSOR_PIPE", "MIO_PIPE", "SCALAR"} & {
        alias.name
        for node in ast.walk(ast.parse(file_of(module).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert ".startswith(" not in file_of(module).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stays_below_400_lines(module: str) -> None:
    assert len(file_of(module).read_text(encoding="utf-8").splitlines()) <= 400


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports each by its name alone, and stops at the second of a name."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


LONGEST, MOST_PARAMETERS, MOST_OPTIONS = 80, 10, 14
"""Lines and parameters of a function, and parameters of a command."""
LARGER = {
    "gpuemu.sass.compiled.loops.run",  # functions of compiled code, which take arrays and numbers one by one
    "gpuemu.tensor.compiled.warp_product",
}
"""Functions beyond the limits. The list may only shrink."""


def larger() -> set[str]:
    """Functions that are too long or have too many parameters. Public signatures and the room `chip` do not count."""
    import gpuemu

    public = {f"gpuemu.{home}.{name}" for name, home in gpuemu._HOMES.items()}
    found = set()
    for module in MODULES:
        tree = ast.parse(file_of(module).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or room(module) == "chip":
                continue
            given = node.args
            count = sum(a.arg not in ("self", "cls") for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))
            most = MOST_OPTIONS if room(module) == "cli" else MOST_PARAMETERS
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST or (count > most and f"{module}.{node.name}" not in public):
                found.add(f"{module}.{node.name}")
    return found


@pytest.mark.slow
def test_functions_are_short_and_have_few_parameters() -> None:
    assert larger() == LARGER
