"""Would the tests notice? Changes a module in one place at a time and runs the module's own tests on each mutant.

    python tools/mutate.py                          # a sample of the modules below, 4 mutants of each
    python tools/mutate.py banks scheduler -n 20    # of modules whose names hold these words
    python tools/mutate.py --fast                   # by the fast lane of the tests alone
    python tools/mutate.py --list                   # the modules and their tests

    noticed   gpuemu/banks/wavefronts.py:92      0 < distance < LANES -> 0 <= distance < LANES
    SURVIVED  gpuemu/engine/units/load_store.py:36 state.flights[core.outside].has_left = 1 -> pass
    27 of 28 mutants were noticed

A mutant has another comparison, another constant, an operator or operands swapped, `and` for `or`, a condition
turned round, or a statement less. Which ones is drawn by `--seed`; the same seed and code give the same. One that
survives is a hole, or the same program: look at it, then write the test, or delete the code. The tree itself is not
touched: mutants are made in a copy. It takes minutes a module, so CI does not run it. It stands on `ast` alone: mutmut
and cosmic-ray want a configuration and a database for each module and its tests, which the table below says in a line.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("gpuemu", "tests", "validation", "configs", "traces", "tools", "pyproject.toml", "README.md")
SECONDS = 600
"""A mutant's tests may take this long; one that goes on for ever counts as noticed."""

MODULES = {
    "gpuemu/arch/build.py": "tests/arch/test_arch.py",
    "gpuemu/arch/overrides.py": "tests/arch/test_arch.py",
    "gpuemu/banks/wavefronts.py": "tests/banks/test_banks.py",
    "gpuemu/base/strict_yaml.py": "tests/base/test_strict_yaml.py",
    "gpuemu/engine/units/barrier.py": "tests/engine/test_barrier.py",
    "gpuemu/engine/units/collector.py": "tests/engine/test_operand_collector.py",
    "gpuemu/engine/units/data_stage.py": "tests/engine/test_shared_memory.py tests/engine/test_lane_registers.py",
    "gpuemu/engine/units/divergence.py": "tests/engine/test_address_divergence.py",
    "gpuemu/engine/units/ports.py": "tests/engine/test_operand_ports.py",
    "gpuemu/engine/units/window.py": (
        "tests/engine/test_fences.py tests/engine/test_shared_memory.py tests/engine/test_copies.py"
    ),
    "gpuemu/engine/units/dependences.py": "tests/engine/test_dependences.py",
    "gpuemu/engine/units/global_memory.py": "tests/engine/test_global_memory.py tests/engine/test_launches.py",
    "gpuemu/engine/units/load_store.py": "tests/engine/test_mio_queue.py tests/engine/test_sender.py",
    "gpuemu/engine/units/order.py": "tests/engine/test_warp_order.py",
    "gpuemu/engine/units/scheduler.py": "tests/engine/test_scheduler.py tests/engine/test_warp_order.py",
    "gpuemu/sass/machine/scheduling/control.py": "tests/sass/test_jumps.py tests/sass/test_control.py",
    "gpuemu/sass/semantics/atomics.py": "tests/sass/test_atomics.py",
    "gpuemu/sass/semantics/integer.py": "tests/sass/test_integer.py tests/sass/test_uniform.py",
    "gpuemu/studies/compare/profile.py": "tests/studies/compare/test_profile.py",
    "gpuemu/views/baseline.py": "tests/views/test_baseline.py",
    "gpuemu/views/bounds.py": "tests/views/test_bounds.py",
    "gpuemu/views/stalls.py": "tests/views/test_stalls.py",
    "validation/fit/searching.py": "tests/validation/test_fit.py",
    "validation/score.py": "tests/validation/test_score.py",
    "validation/split.py": "tests/validation/test_split.py tests/validation/test_verify.py",
}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """A node of a module, and what stands in its place."""

    node: ast.expr | ast.stmt
    text: str


def mutants(tree: ast.Module) -> list[Mutant]:
    """Every mutant of a module, in the order of its text; annotations, texts and what has no effect stay."""
    found = [Mutant(place, ast.unparse(new)) for node in _code(tree) for place, new in _others(node)]
    return sorted(found, key=lambda m: (m.node.lineno, m.node.col_offset, m.text))


def _code(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            if isinstance(node, (ast.expr, ast.stmt)):
                yield node
            if isinstance(node, ast.AST):
                yield from _code(node)


def _others(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    for new in _instead(node):
        yield node, new


def _instead(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:place], _COMPARISONS[type(op)](), *ops[place + 1 :]], comparators)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS and not isinstance(
            left, (ast.Constant, ast.JoinedStr)
        ):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
            if isinstance(op, (ast.Sub, ast.FloorDiv, ast.LShift, ast.RShift)):
                yield ast.BinOp(right, op, left)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name]), arguments, keywords)
        case ast.Assign() | ast.AugAssign() | ast.Expr(ast.Call()) | ast.Continue() | ast.Break():
            yield ast.Pass()


def changed(source: str, mutant: Mutant) -> str:
    """The module's text with the mutant in it; nothing else moves."""
    node = mutant.node
    assert node.end_lineno is not None
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    indent = b" " * node.col_offset if isinstance(node, ast.stmt) else b""
    new = (b"\n" + indent).join(mutant.text.encode().split(b"\n"))
    if not isinstance(node, ast.stmt):
        new = b"(" + new + b")"
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], head + new + tail, *lines[last + 1 :]]).decode()


def noticed(folder: Path, tests: str, fast: bool = False) -> bool:
    """Whether the tests, or those of them that are not slow, fail in the copy at `folder`."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    if fast:
        command += ["-m", "not slow"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode != 0


def copy(folder: Path) -> None:
    """The tree, without what builds left in it."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each mutant and, last, how many of how many were noticed; 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="parts of names of modules; all without any")
    parser.add_argument("-n", "--mutants", type=int, default=4, help="of each module")
    parser.add_argument("--seed", default="1", help="draws the mutants")
    parser.add_argument("--fast", action="store_true", help="leave out slow tests, as the fast lane does")
    parser.add_argument("--list", action="store_true", help="print the modules and their tests")
    options = parser.parse_args(arguments)
    chosen = {m: t for m, t in MODULES.items() if not options.words or any(word in m for word in options.words)}
    if options.list or not chosen:
        print("\n".join(f"{module:44} {tests}" for module, tests in MODULES.items()))
        return 0 if options.list else 2
    counts = [0, 0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy(folder)
        for module, tests in chosen.items():
            if noticed(folder, tests, options.fast):
                sys.exit(f"{tests} fails as it is")
            source = (folder / module).read_text(encoding="utf-8")
            every = mutants(ast.parse(source))
            drawn = random.Random(f"{options.seed} {module}").sample(every, min(options.mutants, len(every)))
            for mutant in drawn:
                (folder / module).write_text(changed(source, mutant), encoding="utf-8")
                found = noticed(folder, tests, options.fast)
                counts[found] += 1
                was = " ".join(ast.unparse(mutant.node).split())[:50]
                where = f"{module}:{mutant.node.lineno}"
                new = " ".join(mutant.text.split())[:50]
                print(f"{'noticed ' if found else 'SURVIVED'}  {where:44} {was} -> {new}", flush=True)
            (folder / module).write_text(source, encoding="utf-8")
    print(f"{counts[True]} of {sum(counts)} mutants were noticed")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
