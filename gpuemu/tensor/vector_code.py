"""Vector instructions written down one by one, for functions that Numba compiles: what it makes of loops is chance.

A `Vector` is a value of LLVM's: an integer or float, or as many of them as a vector has, with the operators of Python.
Integer comparisons are of signed numbers where nothing else is said. `Code` emits loads, stores, loops and choices at
the place where a builder stands. LLVM splits what is longer than the processor's registers, so that the functions are
right anywhere and quick where vectors are long.

    code = Code(builder)
    with code.loop(16) as i:
        x = code.load(code.floats(16), address + i * 64)
        code.store(x * x, address + i * 64)

Used by `tensor_kernel_floats` and its like; needs llvmlite, which comes with Numba.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, config

I1, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_MOST_ALIGNED = 64


def converts_halves() -> bool:
    """Whether the processor that Numba compiles for turns float16 into float32; LLVM calls what is not there else."""
    chosen = config.CPU_NAME is not None or config.CPU_FEATURES is not None or not config.ENABLE_AVX
    return not chosen and bool(binding.get_host_cpu_features().get("f16c"))


def permutes() -> bool:
    """Whether the processor that Numba compiles for has `permuted`."""
    features, chosen = binding.get_host_cpu_features(), config.CPU_NAME is not None or config.CPU_FEATURES is not None
    return not chosen and bool(config.ENABLE_AVX) and all(features.get(name) for name in ("avx512f", "avx512bw"))


def vector(element: Any, count: int) -> Any:
    """The type of `count` of them."""
    return ir.VectorType(element, count)


class Vector:
    """A number, or a vector of numbers; plain Python numbers as the other operand are spread over all of it."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Any, value: Any):
        self.builder = builder
        self.value = value

    @property
    def type(self) -> Any:
        """LLVM's type."""
        return self.value.type

    @property
    def element(self) -> Any:
        """The type of its numbers."""
        return self.type.element if isinstance(self.type, ir.VectorType) else self.type

    def _other(self, other: Vector | float) -> Any:
        if isinstance(other, Vector):
            if isinstance(self.type, ir.VectorType) and not isinstance(other.type, ir.VectorType):
                return spread(other, self.type.count).value
            return other.value
        return constant(self.type, other)

    def _with(self, other: Vector | float, integer: str, floating: str | None = None) -> Vector:
        name = integer if floating is None or isinstance(self.element, ir.IntType) else floating
        return Vector(self.builder, getattr(self.builder, name)(self.value, self._other(other)))

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(other, "add", "fadd")

    def __sub__(self, other: Vector | float) -> Vector:
        return self._with(other, "sub", "fsub")

    def __mul__(self, other: Vector | float) -> Vector:
        return self._with(other, "mul", "fmul")

    def __and__(self, other: Vector | float) -> Vector:
        return self._with(other, "and_")

    def __or__(self, other: Vector | float) -> Vector:
        return self._with(other, "or_")

    def __xor__(self, other: Vector | float) -> Vector:
        return self._with(other, "xor")

    def __lshift__(self, other: Vector | float) -> Vector:
        return self._with(other, "shl")

    def __rshift__(self, other: Vector | float) -> Vector:
        """Of a signed number."""
        return self._with(other, "ashr")

    def logical_shift(self, other: Vector | float) -> Vector:
        """To the right, of an unsigned number."""
        return self._with(other, "lshr")

    def compare(self, how: str, other: Vector | float, unsigned: bool = False) -> Vector:
        """True or false of each; floats compare as ordered ones."""
        builder = self.builder
        by = builder.fcmp_ordered if not isinstance(self.element, ir.IntType) else builder.icmp_signed
        by = builder.icmp_unsigned if unsigned else by
        return Vector(builder, by(how, self.value, self._other(other)))

    def choose(self, one: Vector, other: Vector | float) -> Vector:
        """Of truths: `one` where true, else `other`."""
        return Vector(self.builder, self.builder.select(self.value, one.value, one._other(other)))

    def is_nan(self) -> Vector:
        """Of floats."""
        return Vector(self.builder, self.builder.fcmp_unordered("uno", self.value, self.value))

    def largest(self, other: Vector | float) -> Vector:
        """The larger of two integers."""
        return self.compare(">", other).choose(self, other)

    def as_bits(self, element: Any) -> Vector:
        """The same bits as numbers of another type."""
        kind = element
        if isinstance(self.type, ir.VectorType):
            kind = vector(element, self.type.count * _width(self.element) // _width(element))
        return Vector(self.builder, self.builder.bitcast(self.value, kind))

    def to(self, element: Any, signed: bool = True) -> Vector:
        """Converted: integers are extended or cut off, floats rounded, floats to integers cut toward zero."""
        old = self.element
        kind = vector(element, self.type.count) if isinstance(self.type, ir.VectorType) else element
        if isinstance(old, ir.IntType) and isinstance(element, ir.IntType):
            longer = "sext" if signed else "zext"
            name = "trunc" if element.width < old.width else longer
        elif isinstance(old, ir.IntType):
            name = "sitofp" if signed else "uitofp"
        elif isinstance(element, ir.IntType):
            name = "fptosi"
        else:
            name = "fpext" if _width(element) > _width(old) else "fptrunc"
        return self if old == element else Vector(self.builder, getattr(self.builder, name)(self.value, kind))

    def call(self, name: str, *others: Vector) -> Vector:
        """One of LLVM's intrinsic functions of such numbers, as `fma`."""
        suffix = _name(self.element)
        if isinstance(self.type, ir.VectorType):
            suffix = f"v{self.type.count}{suffix}"
        kind = ir.FunctionType(self.type, [self.type] * (1 + len(others)))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.{suffix}")
        return Vector(self.builder, self.builder.call(function, [self.value, *(x.value for x in others)]))

    def any(self) -> Vector:
        """Of truths in a vector: whether one is true."""
        bits = self.builder.bitcast(self.value, ir.IntType(self.type.count))
        return Vector(self.builder, self.builder.icmp_unsigned("!=", bits, bits.type(0)))


def _width(element: Any) -> int:
    return int(element.width) if isinstance(element, ir.IntType) else {F16: 16, F32: 32, F64: 64}[element]


def _name(element: Any) -> str:
    return f"{'i' if isinstance(element, ir.IntType) else 'f'}{_width(element)}"


def constant(kind: Any, number: float) -> Any:
    """The number as a value of the type, everywhere in a vector."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [constant(kind.element, number)] * kind.count)
    if isinstance(kind, ir.IntType):
        number = int(number) & ((1 << kind.width) - 1)
    return ir.Constant(kind, number)


def spread(number: Vector, count: int) -> Vector:
    """The number in all places of a vector."""
    builder, kind = number.builder, vector(number.type, count)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number.value, I32(0))
    return Vector(
        builder, builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), constant(vector(I32, count), 0))
    )


def pick(one: Vector, other: Vector, places: Sequence[int]) -> Vector:
    """Numbers of two vectors, counted from the first of the one to the last of the other."""
    mask = ir.Constant(vector(I32, len(places)), [I32(place) for place in places])
    return Vector(one.builder, one.builder.shuffle_vector(one.value, other.value, mask))


def permuted(numbers: Vector, places: Vector) -> Vector:
    """The numbers at places that are not constant, the low bits of which count: 16 floats or 32 integers of 16 bits."""
    name = {F32: "sf", I16: "hi"}[numbers.element]
    kind = ir.FunctionType(numbers.type, [numbers.type, places.type])
    builder = numbers.builder
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.avx512.permvar.{name}.512")
    return Vector(builder, builder.call(function, [numbers.value, places.value]))


class Code:
    """What is emitted at the place of a builder; addresses and counters are 64-bit integers."""

    def __init__(self, builder: Any):
        self.builder = builder

    def number(self, value: int, kind: Any = I64) -> Vector:
        """A constant."""
        return Vector(self.builder, constant(kind, value))

    def splat(self, kind: Any, value: float) -> Vector:
        """A constant of any type."""
        return Vector(self.builder, constant(kind, value))

    def load(self, kind: Any, address: Vector, align: int = 4) -> Vector:
        """What is at the address."""
        pointer = self.builder.inttoptr(address.value, kind.as_pointer())
        return Vector(self.builder, self.builder.load(pointer, align=align))

    def store(self, value: Vector, address: Vector, align: int = 4) -> None:
        """To the address."""
        pointer = self.builder.inttoptr(address.value, value.type.as_pointer())
        self.builder.store(value.value, pointer, align=align)

    def room(self, size_bytes: int) -> Vector:
        """The address of so much memory of the function's own."""
        with self.builder.goto_entry_block():
            memory = self.builder.alloca(ir.ArrayType(ir.IntType(8), size_bytes))
            memory.align = _MOST_ALIGNED
            address = self.builder.ptrtoint(memory, I64)
        return Vector(self.builder, address)

    @contextmanager
    def loop(self, count: Vector | int) -> Iterator[Vector]:
        """For each number from 0 to count - 1."""
        end = self.number(count) if isinstance(count, int) else count
        with cgutils.for_range(self.builder, end.value) as loop:
            yield Vector(self.builder, loop.index)

    @contextmanager
    def when(self, truth: Vector) -> Iterator[None]:
        """Only if it is so."""
        with self.builder.if_then(truth.value):
            yield

    @contextmanager
    def either(self, truth: Vector) -> Iterator[Any]:
        """Two ways: `with code.either(truth) as (so, not_so): with so: ...; with not_so: ...`."""
        with self.builder.if_else(truth.value) as ways:
            yield ways


class Variable:
    """A value that changes, in a loop for example; LLVM keeps it in a register."""

    def __init__(self, code: Code, kind: Any):
        self._builder = code.builder
        with self._builder.goto_entry_block():
            self._place = self._builder.alloca(kind)
        self._kind = kind

    def set(self, value: Vector | float) -> None:
        """Have another value from now on."""
        new = value.value if isinstance(value, Vector) else constant(self._kind, value)
        self._builder.store(new, self._place)

    def get(self) -> Vector:
        """The value."""
        return Vector(self._builder, self._builder.load(self._place))
