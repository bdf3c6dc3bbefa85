"""Integer expressions in named variables, in which traces and command lines write lane addresses.

    16*(lane % 16) + 8*(lane // 16)
    2*swizzle(8*lane, 1, 3, 3)

An expression may contain Python's integer operators (`+ - * // % & | ^ << >> ~`), comparisons (1 if true, 0 if false),
parentheses, numbers, the names that the caller allows, and

    swizzle(x, b, m, s)    x ^ ((x >> s) & (((1 << b) - 1) << m)), CuTe's Swizzle<B, M, S>
    min(x, y)  max(x, y)
    where(condition, x, y) x in the lanes where the condition is not 0, y in the others

Values are 64-bit integers and NumPy arrays of them. A value that does not fit is refused, never wrapped. No other part
of Python is reachable, because this module parses the text and checks and evaluates it node by node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError

Value = NDArray[np.int64]
MAX_CHARACTERS = 4000
DEEPEST = 200
"""Limit of nested operators. A longer text or a deeper nesting would exhaust Python's own parser."""
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class _UndefinedError(ArithmeticError):
    """Some lane has no value; the text says what the expression does there."""


def _require(defined: Any, what: str) -> None:
    if not np.all(defined):
        raise _UndefinedError(what)


_TOO_LARGE = "leaves 64 bits"


def _add(x: Value, y: Value) -> Value:
    result = x + y
    _require((x ^ result) & (y ^ result) >= 0, _TOO_LARGE)
    return result


def _subtract(x: Value, y: Value) -> Value:
    result = x - y
    _require((x ^ y) & (x ^ result) >= 0, _TOO_LARGE)
    return result


def _multiply(x: Value, y: Value) -> Value:
    if np.any(np.abs(np.multiply(x, y, dtype=np.float64)) >= 2.0**62):
        # Near or past the limit, Python's own integers decide.
        for product in np.ravel(np.multiply(x, y, dtype=object)):
            _require(_LEAST <= product <= _GREATEST, _TOO_LARGE)
    return np.multiply(x, y)


def _divide(x: Value, y: Value) -> Value:
    _require(y != 0, "divides by 0")
    _require((x != _LEAST) | (y != -1), _TOO_LARGE)
    return x // y


def _modulo(x: Value, y: Value) -> Value:
    _require(y != 0, "divides by 0")
    return np.where(y == -1, 0, x % np.where(y == -1, 1, y))


def _shift_left(x: Value, bits: Value) -> Value:
    _require(bits >= 0, "shifts by a negative number")
    capped = np.minimum(bits, 63)
    result = x << capped
    _require((result >> capped == x) & ((bits < 64) | (x == 0)), _TOO_LARGE)
    return result


def _shift_right(x: Value, bits: Value) -> Value:
    _require(bits >= 0, "shifts by a negative number")
    return x >> np.minimum(bits, 63)


def _swizzle(x: Value, b: Value, m: Value, s: Value) -> Value:
    one = np.ones_like(b)
    mask = _shift_left(_subtract(_shift_left(one, b), one), m)
    return x ^ (_shift_right(x, s) & mask)


def _where(condition: Value, x: Value, y: Value) -> Value:
    return np.where(condition != 0, x, y)


def _truth(compare: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    return lambda x, y: np.asarray(compare(x, y)).astype(np.int64)


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "swizzle": (4, _swizzle),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "where": (3, _where),
}
_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: _add, ast.Sub: _subtract, ast.Mult: _multiply, ast.FloorDiv: _divide, ast.Mod: _modulo,
    ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or, ast.BitXor: np.bitwise_xor,
    ast.LShift: _shift_left, ast.RShift: _shift_right,
    ast.Eq: _truth(np.equal), ast.NotEq: _truth(np.not_equal), ast.Lt: _truth(np.less),
    ast.LtE: _truth(np.less_equal), ast.Gt: _truth(np.greater), ast.GtE: _truth(np.greater_equal),
}  # fmt: skip
_UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: lambda x: _subtract(np.zeros_like(x), x),
    ast.UAdd: lambda x: x,
    ast.Invert: np.invert,
}
_INSTEAD: Mapping[type[ast.AST], tuple[str, str]] = {
    ast.Div: ("'/'", "Use '//' to divide integers"),
    ast.Pow: ("'**'", "Use '<<' for powers of 2"),
    ast.And: ("'and'", "Use '&' to join conditions"),
    ast.Or: ("'or'", "Use '|' to join conditions"),
    ast.Not: ("'not'", "Compare with 0 instead"),
    ast.IfExp: ("'if'", "Use where(condition, x, y)"),
}
"""Python syntax that people are likely to write, and its replacement in these expressions."""


@dataclass(frozen=True)
class CompiledExpression:
    """A checked expression; `names` are the variables it reads."""

    text: str
    names: frozenset[str]
    where: tuple[str, int | None, str]
    _root: ast.expr = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Any]) -> Value:
        """Return the value for these variables (integers or int64 arrays), as an int64 array of their common shape.

        Raises GpuemuError if some lane divides by 0, shifts by a negative number or leaves 64 bits. `where` evaluates
        both of its sides in every lane.
        """
        scope = {name: np.asarray(values[name], dtype=np.int64) for name in self.names}
        try:
            with np.errstate(all="ignore"):
                result = _evaluate(self._root, scope)
        except _UndefinedError as error:
            right = "expected an expression defined for every lane"
            raise GpuemuError.one(*self.where, f"{_quoted(self.text)}, which {error}", right) from None
        return np.asarray(result, dtype=np.int64)


def _evaluate(node: ast.AST, scope: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant():
            return np.int64(node.value)  # type: ignore[arg-type]
        case ast.Name():
            return scope[node.id]
        case ast.BinOp():
            return _BINARY[type(node.op)](_evaluate(node.left, scope), _evaluate(node.right, scope))
        case ast.Compare():
            left, right = _evaluate(node.left, scope), _evaluate(node.comparators[0], scope)
            return _BINARY[type(node.ops[0])](left, right)
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_evaluate(node.operand, scope))
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[name][1](*(_evaluate(argument, scope) for argument in node.args))
    raise AssertionError(f"{type(node).__name__} passed the check")


def compile_expression(text: str, names: Collection[str], *, where: tuple[str, int | None, str]) -> CompiledExpression:
    """Check `text`, which may contain only `names`.

    `where` is (file, line, field) for messages. Raises GpuemuError that names the faulty part.
    """
    if len(text) > MAX_CHARACTERS:
        found, right = f"an expression of {len(text)} characters", f"expected at most {MAX_CHARACTERS}"
        raise GpuemuError.one(*where, found, right)
    try:
        root = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        right = "expected an integer expression such as 16*(lane % 16)"
        raise GpuemuError.one(*where, f"{_quoted(text)} ({reason})", right) from None
    check = _Check(text.strip(), names, where)
    check.visit(root, 0)
    return CompiledExpression(text, frozenset(check.used), where, root)


def _quoted(text: str) -> str:
    """Return the text in quotes, on one line of limited length."""
    short = _shortened(text)
    return f"'{short}'" if short.isprintable() else repr(short)


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


class _Check:
    """Walks an expression and refuses everything that `_evaluate` does not know; `used` collects the names."""

    def __init__(self, text: str, names: Collection[str], where: tuple[str, int | None, str]):
        self.text = text
        self.names = names
        self.where = where
        self.used: set[str] = set()

    def visit(self, node: ast.expr, depth: int) -> None:
        """Refuse the node, or continue with its operands."""
        if depth > DEEPEST:
            found, right = "an expression nested too deeply", f"expected at most {DEEPEST} levels"
            raise GpuemuError.one(*self.where, found, right)
        operands: list[ast.expr] = []
        match node:
            case ast.Constant():
                if type(node.value) is not int or node.value > _GREATEST:
                    # Show the text, not the number: Python refuses to write out the longest numbers.
                    segment = ast.get_source_segment(self.text, node) or ""
                    raise self._refusal(_shortened(segment), "expected a whole number of at most 63 bits")
            case ast.Name():
                self._name(node.id)
            case ast.BinOp():
                self._operator(node.op, node)
                operands = [node.left, node.right]
            case ast.UnaryOp():
                self._operator(node.op, node)
                operands = [node.operand]
            case ast.Compare(ops=[operator], comparators=[right_side]):
                self._operator(operator, node)
                operands = [node.left, right_side]
            case ast.Compare():
                raise self._refusal(
                    "a chained comparison", "Compare two values at a time and join the comparisons with '&'"
                )
            case ast.Call():
                self._call(node)
                operands = node.args
            case ast.BoolOp():
                self._operator(node.op, node)
            case _:
                self._operator(node, node)
        for operand in operands:
            self.visit(operand, depth + 1)

    def _refusal(self, found: str, right: str) -> GpuemuError:
        return GpuemuError.one(*self.where, f"{found} in {_quoted(self.text)}", right)

    def _operator(self, operator: ast.AST, node: ast.expr) -> None:
        if type(operator) in _INSTEAD:
            raise self._refusal(*_INSTEAD[type(operator)])
        if type(operator) not in _BINARY and type(operator) not in _UNARY:
            part = _quoted(ast.get_source_segment(self.text, node) or "")
            raise self._refusal(part, "expected only integers, names, operators and calls")

    def _name(self, name: str) -> None:
        if name in self.names:
            self.used.add(name)
            return
        if name in FUNCTIONS:
            raise self._refusal(f"'{name}' without arguments", f"Call it with {FUNCTIONS[name][0]}")
        close = get_close_matches(name, self.names, 1)
        known = f"Known names: {', '.join(sorted(self.names))}"
        raise self._refusal(f"unknown name '{name}'", f"Did you mean '{close[0]}'?" if close else known)

    def _call(self, node: ast.Call) -> None:
        name = ast.get_source_segment(self.text, node.func) or ""
        if name not in FUNCTIONS:
            close = get_close_matches(name, FUNCTIONS, 1)
            known = f"Known functions: {', '.join(FUNCTIONS)}"
            raise self._refusal(f"unknown function {_quoted(name)}", f"Did you mean '{close[0]}'?" if close else known)
        arity, given = FUNCTIONS[name][0], len(node.args) + len(node.keywords)
        if node.keywords or given != arity:
            count = f"{given}{' named' if node.keywords else ''} argument{'s' if given != 1 else ''}"
            raise self._refusal(f"{name} with {count}", f"Give it {arity}, in order")
