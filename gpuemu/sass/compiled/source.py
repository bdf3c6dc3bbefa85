"""The text that Numba compiles: the sources of lanes and loops one after the other, and a loop for each operation.

The text imports nothing of ours but `Part`. Names that begin with an underscore get the name of their module in front,
so that two modules may have the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuemu.sass.compiled.columns import NUMBER, RESULTS, TRUTH_RESULTS
from gpuemu.sass.lane.changes import CHANGES, PAIR_CHANGES
from gpuemu.sass.lane.table import OPERATIONS

_PARTS = (
    "gpuemu.sass.lane.scalars",
    "gpuemu.sass.lane.integers",
    "gpuemu.sass.lane.floats",
    "gpuemu.sass.lane.doubles",
    "gpuemu.sass.lane.halves",
    "gpuemu.sass.lane.changes",
    "gpuemu.sass.compiled.columns",
)
_PLACES = "gpuemu.isa.matrix_place"
_PRODUCTS = "gpuemu.tensor.compiled"
_RECORDS = "gpuemu.sass.compiled.records"
_NAMES = (
    "registers", "logs", "buffers", "accesses", "atomics", "across", "warpgroup", "looking", "turns", "convergence",
    "control", "loops", "shadow",
)  # fmt: skip
_LOOPS = tuple(f"gpuemu.sass.compiled.{name}" for name in _NAMES)
_OUTERMOST = "run", "follow"
_IN_EVERY_STEP = (
    "has_room", "log_step", "guarded", "count_of", "operate", "fetch", "fetch_word", "fetch_pair", "fetch_truth", "put",
    "put_word", "put_uniform",
)  # fmt: skip
"""Functions that most steps of a group call. They are inlined, because a call copies the fields of every array."""
_AT_ONCE = 16
"""Operations in one compiled function."""


class _Named(ast.NodeTransformer):
    """Gives the private names of a module its name, and marks its functions as Numba's."""

    def __init__(self, module: str, private: set[str]):
        self._module, self._private = module, private

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._of(node.id)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if ast.get_docstring(node) is not None:  # another one is no reason to compile again
            node.body = node.body[1:] or [ast.Pass()]
        node.name = self._of(node.name)
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return node

    def _of(self, name: str) -> str:
        return f"_{self._module}{name}" if name in self._private else name


def _tree(module: str) -> ast.Module:
    """A module without what it imports of ours, its private names told apart."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("gpuemu", "__future__"))
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None)
    ]
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(ast.Module([n for n in tree.body if isinstance(n, ast.Assign)], [])):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    private = {name for name in names if name.startswith("_") and name != "_"}
    found: ast.Module = _Named(module.rpartition(".")[2], private).visit(tree)
    return ast.fix_missing_locations(found)


def _compiled(tree: ast.Module) -> ast.Module:
    """Its functions as parts of a program of Numba's; the outermost ones call a part each, and are kept on disk."""
    outermost = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            if node.name in _OUTERMOST:
                arguments = ", ".join(argument.arg for argument in node.args.args)
                outermost.append(f"def {node.name}({arguments}):\n    return whole_{node.name}({arguments})")
                node.name = f"whole_{node.name}"
            how = "no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=Part"
            how += ", forceinline=True" * (node.name in _IN_EVERY_STEP or node.name.startswith("compute"))
            node.decorator_list = [_numbas(how)]
    for function in ast.parse("\n".join(outermost)).body:
        assert isinstance(function, ast.FunctionDef)
        function.decorator_list = [_numbas("cache=True")]
        tree.body.append(function)
    return tree


def _numbas(how: str) -> ast.expr:
    return ast.parse(f"njit(error_model='numpy', nogil=True, _nrt=False, {how})", mode="eval").body


def _products() -> ast.Module:
    """The product of a warp, compiled as the loops are; what makes instructions of the compiler's own is Python's."""
    tree = _tree(_PRODUCTS)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "float_product")]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            node.decorator_list = [ast.Name("plain", ast.Load())]
        elif isinstance(node, ast.FunctionDef) and isinstance(node.decorator_list[0], ast.Call):
            node.decorator_list = []
    return _compiled(tree)


def _loop(number: int) -> list[str]:
    """The branch of `compute` for an operation: a loop over the lanes of a warp."""
    operation = OPERATIONS[number]
    fixed, reads, at, place, numbers = [], [], 0, 0, 0
    for letter in operation.reads:
        if letter == "p":
            reads.append(f"t[{place}, lane] != 0")
            place += 1
        elif letter == "i":
            fixed.append(f"n{numbers} = code[pc, {NUMBER + numbers}]")
            reads.append(f"n{numbers}")
            numbers += 1
        elif letter in "wd":
            both = f"pair(x[{at}, lane], x[{at + 1}, lane])"
            reads.append(f"double_of({both})" if letter == "d" else both)
            at += 2
        else:
            word = f"x[{at}, lane]"
            reads.append(f"float_of({word})" if letter == "f" else word)
            at += 1
    names = [f"r{k}" for k in range(len(operation.writes))]
    lines = [*fixed, "for lane in range(count):", f"    {', '.join(names)} = {operation.name}({', '.join(reads)})"]
    at, place = RESULTS, TRUTH_RESULTS
    for name, letter in zip(names, operation.writes, strict=True):
        if letter == "p":
            lines.append(f"    t[{place}, lane] = {name}")
            place += 1
        elif letter == "w":
            lines += [f"    x[{at}, lane] = low({name})", f"    x[{at + 1}, lane] = high({name})"]
            at += 2
        else:
            lines.append(f"    x[{at}, lane] = {name}")
            at += 1
    return lines


def _operations() -> str:
    """`compute`: the operation of a number on the scratch rows."""
    functions, outer = [], ["def compute(operation, code, pc, x, t, count):"]
    for first in range(0, len(OPERATIONS), _AT_ONCE):
        lines = [f"def compute_from_{first}(operation, code, pc, x, t, count):"]
        for number in range(first, min(first + _AT_ONCE, len(OPERATIONS))):
            lines.append(f"    {'if' if number == first else 'elif'} operation == {number}:")
            lines += [f"        {line}" for line in _loop(number)]
        functions.append("\n".join(lines))
        outer += [
            f"    if operation < {first + _AT_ONCE}:",
            f"        compute_from_{first}(operation, code, pc, x, t, count)",
        ]
        outer.append("        return")
    return "\n\n".join([*functions, "\n".join(outer)])


def _changes(name: str, changes: Sequence[Callable[..., Any]]) -> str:
    """`change` and `change_pair`: what an atomic leaves, by the number of its change."""
    lines = [f"def {name}(number, old, value):"]
    for number, function in enumerate(changes[:-1]):
        lines += [f"    if number == {number}:", f"        return {function.__name__}(old, value)"]
    return "\n".join([*lines, f"    return {changes[-1].__name__}(old, value)"])


def text() -> str:
    """The text to compile, from the sources as they are."""
    parts = [_tree(module) for module in _PARTS]
    scalars, *lanes, columns = parts
    for node in scalars.body:  # what makes words is Python's
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_"):
            node.decorator_list = [ast.Name("plain", ast.Load())]
    trees = [
        *map(_compiled, [scalars, *lanes]),
        columns,
        _tree(_RECORDS),
        _products(),
        _compiled(_tree(_PLACES)),
        _compiled(ast.parse(_operations())),
        _compiled(ast.parse(_changes("change", CHANGES))),
        _compiled(ast.parse(_changes("change_pair", PAIR_CHANGES))),
        *(_compiled(_tree(name)) for name in _LOOPS),
    ]
    imports = "from numba import njit\n\nfrom gpuemu.base.whole_programs import Part"
    plain = "def plain(function):\n    return function\n"
    return "\n\n".join([imports, plain, *(ast.unparse(ast.fix_missing_locations(tree)) for tree in trees)]) + "\n"
