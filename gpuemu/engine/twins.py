"""Compiled twins of modules of plain functions, by Numba.

A unit's module stays plain Python, and SimPy drives it as it is. Its twin is the same source, executed once more as a
module of another name. In the twin every function is compiled, and every import from another unit is an import from
that unit's twin. Only the outermost function is kept on disk, under a hash of all sources and versions: a change of any
rule compiles everything again.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, EnumType
from functools import wraps
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from gpuemu.base import cache
from gpuemu.base.compiled import compiler
from gpuemu.engine import machine_code

TWIN = "__compiled"
_COMPILERS = (__name__, "gpuemu.engine.compiled", "gpuemu.engine.machine_code", "gpuemu.base.whole_programs")


class _Redirect(ast.NodeTransformer):
    """Imports from the units become imports from their twins; assertions are removed if nothing is checked."""

    def __init__(self, units: Sequence[str], keep_assertions: bool):
        self._units = units
        self._keep_assertions = keep_assertions

    def visit_Assert(self, node: ast.Assert) -> ast.Assert | None:
        return node if self._keep_assertions else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module is not None and node.module in self._units:
            node.module += TWIN
        return node


def _source(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin)


@functools.cache
def _imports(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The modules from which a text imports, and the names. Every process that loads the engine asks several times."""
    body = ast.parse(text).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    return tuple((node.module, tuple(alias.name for alias in node.names)) for node in imports if node.module)


def imported(module: str, text: str = "") -> list[str]:
    """The modules from which a module, and a text in place of some of its functions, import names."""
    own = _source(module).read_text(encoding="utf-8")
    return [name for source in (own, text) for name, _ in _imports(source)]


def twins(
    units: Sequence[str], texts: Mapping[str, str], *, check_bounds: bool = False, allocates: bool = True
) -> dict[str, ModuleType]:
    """The twins of these modules, named in the order of their imports. Needs Numba.

    `texts`: for a module, functions that its twin has instead of its own. `check_bounds`: an index outside its array is
    an error, and assertions are checked. Functions that do not allocate (`allocates`) need no reference counts.
    """
    from numba import njit

    from gpuemu.base.whole_programs import Part

    made: dict[str, ModuleType] = {}
    for name in units:
        source, instead = _source(name), ast.parse(texts.get(name, ""))
        tree = ast.parse(source.read_text(encoding="utf-8"))
        given = {node.name for node in instead.body if isinstance(node, ast.FunctionDef)}
        tree.body = [node for node in tree.body if getattr(node, "name", "") not in given] + instead.body
        tree = _Redirect(units, check_bounds).visit(tree)
        twin = made[name] = sys.modules[name + TWIN] = ModuleType(name + TWIN)
        twin.__file__ = str(source)
        exec(compile(tree, str(source), "exec"), twin.__dict__)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                function = twin.__dict__[node.name]
                # Only compiled code calls these, so they need no form for Python or C.
                twin.__dict__[node.name] = njit(
                    function, error_model="numpy", boundscheck=check_bounds, _nrt=allocates,
                    no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=Part,
                )  # fmt: skip
    return made


def _numbers(module: str, units: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The whole numbers that a module imports from modules other than units, by their full names, and the values of
    Enums.
    """
    for home, names in _imports(_source(module).read_text(encoding="utf-8")):
        for name in names if home not in units else ():
            found = getattr(importlib.import_module(home), name, None)
            if isinstance(found, int):
                yield f"{home}.{name}", found
            elif isinstance(found, EnumType):
                yield from (
                    (str(member), member.value) for member in list[Enum](found) if isinstance(member.value, int)
                )


def fingerprint(units: Sequence[str], texts: Mapping[str, str]) -> str:
    """A hash of these sources, of the versions of everything that compiles them, and of the processor.

    Numbers that they import are compiled in, so those count as well.
    """
    content = hashlib.sha256(compiler().encode())
    for text in texts.items():
        content.update("\0".join(text).encode())
    for name in (*_COMPILERS, *units):
        content.update(name.encode() + b"\0" + _source(name).read_bytes())
    numbers = {at for name in units for at in _numbers(name, units)}
    content.update(repr(sorted(numbers)).encode())
    return content.hexdigest()[:16]


def folder_of(
    units: Sequence[str], texts: Mapping[str, str], folder: Path | None = None, *, check_bounds: bool = False
) -> Path:
    """The folder in which `cached` keeps the compiled code of these sources."""
    return (folder or cache.cache_folder()) / f"engine-{fingerprint(units, texts)}{'-checked' if check_bounds else ''}"


def _inner(
    units: Sequence[str], name: str, texts: Mapping[str, str], *, check_bounds: bool, allocates: bool
) -> Callable[..., Any]:
    """A placeholder for the twin of the function `name`, which is made when there is something to compile."""
    from numba.extending import overload

    from gpuemu.base.whole_programs import Part

    def inner(state: Any, until: Any) -> Any:
        """Stand for the twin."""

    def twin(state: Any, until: Any) -> Callable[[Any, Any], Any]:
        made = twins(units, texts, check_bounds=check_bounds, allocates=allocates)
        function = getattr(made[units[-1]], name)
        return lambda state, until: function(state, until)

    overload(inner, jit_options={"pipeline_class": Part}, strict=False)(twin)
    return inner


def keep_object(
    place: Path, units: Sequence[str], name: str, values: Sequence[Any], texts: Mapping[str, str],
    holder: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Compile the function `name` of the last of the units for two such values, and write its code into a folder.

    `holder`: as in `cached`. The function returns a whole number, raises nothing, allocates nothing, and the code needs
    no function that is elsewhere.
    """
    from numba import njit, typeof

    inner = _inner(units, name, texts, check_bounds=False, allocates=False)

    def outermost(state: Any, until: Any) -> Any:
        return inner(state, until)

    def outermost_of_held(state: Any, until: Any) -> Any:
        return inner(holder(state), until)  # type: ignore[misc]

    compiled = njit(
        outermost if holder is None else outermost_of_held,
        error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True,
    )  # fmt: skip
    compiled.compile(tuple(map(typeof, values)))
    (found,) = compiled.overloads.values()
    _, _, (code, _) = found.library.serialize_using_object_code()
    machine_code.write(place, code, found.fndesc.llvm_func_name)


def machine_code_of(units: Sequence[str], name: str) -> Callable[[Any, Any], int]:
    """The function `name` of the last of the units as machine code, kept on disk for each form of its two values.

    See `keep_object` for what the function may do.
    """
    found: dict[str, Callable[..., int]] = {}

    def run(*values: Any) -> int:
        form = machine_code.form_of(values)
        if form not in found:
            texts = {"form": form}
            home = folder_of(units, texts)
            with cache.turn(home):
                place, is_kept = cache.ready(home)
                if not is_kept:
                    keep_object(place, units, name, values, texts)
                found[form] = machine_code.read(place, form)
                if not is_kept:
                    cache.keep(place, home)
        return found[form](*values)

    return run


def cached(
    units: Sequence[str],
    name: str,
    folder: Path | None = None,
    *,
    texts: Mapping[str, str] = MappingProxyType({}),
    holder: Callable[[Any], Any] | None = None,
    check_bounds: bool = False,
    allocates: bool = True,
) -> Callable[..., Any]:
    """The function `name` of the last of the units, compiled, and kept on disk for the next process.

    The units get the result of `holder`, which Numba can call, applied to the state, if there is one. Numba keeps
    compiled code beside the file of its function, so the function gets a file of its own.
    """
    from numba import njit

    home = folder_of(units, texts, folder, check_bounds=check_bounds)
    place, is_kept = cache.ready(home)
    path = place / "outermost.py"
    if not is_kept:
        given = "state" if holder is None else "holder(state)"
        path.write_text(f"def outermost(state, until):\n    return inner({given}, until)\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"{units[-1]}{TWIN}_of_{home.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)

    inner = _inner(units, name, texts, check_bounds=check_bounds, allocates=allocates)
    module.__dict__.update(inner=inner, holder=holder)
    for unit in units:  # code from disk asks for modules of these names, and reads nothing there
        sys.modules.setdefault(unit + TWIN, ModuleType(unit + TWIN))
    spec.loader.exec_module(module)
    compiled: Callable[..., Any] = njit(module.outermost, error_model="numpy", cache=True)

    @wraps(compiled)
    def compiled_and_kept(state: Any, until: Any) -> Any:
        answer = compiled(state, until)
        if not is_kept:
            cache.keep(place, home)
        return answer

    return compiled_and_kept
