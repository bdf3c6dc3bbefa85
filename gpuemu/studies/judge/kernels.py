"""The launches of a candidate's machine code, for each draw of a problem's inputs.

A .cu or .cubin is one launch. A first line `// launch: grid=16 block=256 dynamic_shared_bytes=1024` describes it;
otherwise the problem does. A Triton file defines `launch(...)`. Compilers and Triton files run in a confined process
(see `box`), whose output is checked here before it is used.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import ending, is_machine_code
from gpuemu.base.reading import read_whole
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.judge import box
from gpuemu.trace.launch_limits import extent
from gpuemu.triton.structure import ELEMENT_BYTES, TensorView
from gpuemu.triton.taking import Buffer

_LAUNCH = re.compile(r"^[ \t]*//[ \t]*launch:(.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+=[\d,x]+")
_WORDS = ("grid", "block", "dynamic_shared_bytes")
_MOST_DIGITS = 12
_MOST_LAUNCHES = 64
_MOST_CUBINS = 256
_MOST_DIMENSIONS = 16
_MOST_BYTES = 1 << 34
"""The most bytes of scratch memory."""
_SCALARS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".ipp")
"""The most files beside a source that it may include."""


@dataclass(frozen=True)
class Scratch:
    """Memory of the host code's own: zeros, random bits, or `values`."""

    size: int
    zeros: bool
    values: bytes | None = None


@dataclass(frozen=True)
class InBuffer:
    """A parameter that points into the buffer of an argument, or into scratch memory (`scratch`)."""

    number: int
    offset: int
    scratch: bool


@dataclass(frozen=True)
class JudgedLaunch:
    """`args`: InBuffer, or numbers with a type. None: the problem's own arguments."""

    cubin: Cubin = field(compare=False)
    code: bytes
    kernel: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    cluster: tuple[int, int, int] | None = None
    args: tuple[Any, ...] | None = None
    zero_shared: bool = False

    def config(self, args: Sequence[Any], arch: Architecture, budget: int, noise: int | None = None) -> LaunchConfig:
        """The launch with these arguments, with at most `budget` warp instructions per CTA."""
        return LaunchConfig(
            self.cubin, self.kernel, self.grid, self.block, self.cluster, self.dynamic_shared_bytes, args, arch,
            budget=budget, zero_shared=self.zero_shared, noise=noise,
        )  # fmt: skip


@dataclass(frozen=True)
class JudgedDraw:
    """A candidate's launches on the inputs of one draw.

    `output`: what the solution of a leaderboard returns, as a tree of TensorViews. Their memory is that of the inputs,
    and then the scratch memory.
    """

    launches: tuple[JudgedLaunch, ...]
    scratch: tuple[Scratch, ...] = ()
    output: Any = field(default=None, hash=False)


Found = tuple[list[JudgedDraw], tuple[str, ...]]
"""The launches for each draw, and what the system lacks to confine a candidate."""
Signature = list[Any]
"""The arguments of a draw in the form for a candidate's host code: Buffers and numbers."""


def launches_of(
    kernel: str, arch: Architecture, told: Mapping[str, Any], options: Sequence[str],
    draws: Sequence[Callable[[], list[Any]]], memory_bytes: int,
) -> Found:  # fmt: skip
    """The launches of a file, for each draw. Raises GpuemuError, RefusedError and LimitError if it has none.

    `draws`: functions that return the arguments of a draw.
    """
    if Path(kernel).is_symlink() or not Path(kernel).is_file():
        found_there = "this is a symbolic link" if Path(kernel).is_symlink() else "no such file"
        raise GpuemuError.one(kernel, None, "", found_there, "Give a regular file")
    if kernel.endswith(".py"):
        signatures = [_without_contents(given()) for given in draws]
        found, lacks = box.ask("launches", (kernel, arch, signatures), kernel, memory_bytes)
        return _checked(found, kernel, signatures), lacks
    launch, lacks = dict(told), tuple[str, ...]()
    if is_machine_code(kernel) and ending(kernel) != ".cubin":
        launch |= _written(kernel)
        cubin, lacks = _compiled(kernel, arch.code_name, list(options), launch.get("kernel"), memory_bytes)
    else:
        cubin = load_cubin(kernel, arch.code_name, options=options, kernel=launch.get("kernel"))
    one = JudgedLaunch(
        cubin, cubin.content, launch.get("kernel"), extent("grid", launch.get("grid", 1), kernel),
        extent("block", launch.get("block", 32), kernel), int(launch.get("dynamic_shared_bytes", 0)),
    )  # fmt: skip
    return [JudgedDraw((one,))] * len(draws), lacks


def _compiled(
    kernel: str, arch: str, options: list[str], name: str | None, memory_bytes: int
) -> tuple[Cubin, tuple[str, ...]]:
    folder = Path(kernel).parent
    reads = [str(path) for path in folder.iterdir() if path.suffix in _HEADERS and not path.is_symlink()]
    folders = [option[2:] for option in options if option.startswith("-I")]
    found, lacks = box.ask("compile", (kernel, arch, options, name), kernel, memory_bytes, [*reads, *folders])
    for content in _cubins(found, kernel, 1):
        return read_cubin(content, kernel), lacks
    raise box.RefusedError(f"{kernel}: found that its process hands over no machine code")


def _written(kernel: str) -> dict[str, Any]:
    """The launch that the first lines of the source describe."""
    match = _LAUNCH.search(read_whole(kernel)[:4096].decode("utf-8", "replace"))
    found: dict[str, Any] = {}
    for word in match[1].split() if match else ():
        if _WORD.fullmatch(word) is None:
            return {}  # it is prose
        name, _, value = word.partition("=")
        parts = [part for part in re.split("[,x]", value) if part]
        sizes = tuple(int(part) for part in parts if len(part) <= _MOST_DIGITS)
        most = 1 if name == _WORDS[2] else 3
        if name not in _WORDS or not 0 < len(parts) <= most or len(sizes) < len(parts):
            right = "expected // launch: grid=X[,Y[,Z]] block=X[,Y[,Z]] dynamic_shared_bytes=N"
            raise GpuemuError.one(kernel, None, "// launch:", f"'{word[:80]}'", right)
        found[name] = sizes if most > 1 else sizes[0]
    return found


def _without_contents(given: Sequence[Any]) -> Signature:
    """Arguments without the contents of arrays, and scalars as Python's own numbers."""
    found: Signature = []
    for one in given:
        if isinstance(one, np.ndarray) and one.ndim:
            found.append(Buffer(one.shape, one.strides, one.dtype.str, one.nbytes))
        else:
            found.append(np.asarray(one).item() if isinstance(one, np.ndarray | np.generic) else one)
    return found


class _NoLaunchError(Exception):
    """The answer of a process describes no launch."""


def _checked(found: Mapping[str, Any], file: str, signatures: Sequence[Signature]) -> list[JudgedDraw]:
    """Check the answer of an untrusted process. Raises GpuemuError and RefusedError unless it describes launches."""
    try:
        cubins = [(read_cubin(content, Path(file).name), content) for content in _cubins(found, file, _MOST_CUBINS)]
        launches, scratch = _listed(found["launches"]), _listed(found["scratch"])
        values = [base64.b64decode(one) for one in _listed(found.get("values", []))]
        draws = zip(signatures, launches, scratch, strict=True)
        return [_draw(file, cubins, values, *told) for told in draws]
    except GpuemuError:
        raise
    except (_NoLaunchError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise box.RefusedError(f"{file}: found that its process hands over what is no launch") from None


def checked_solution(found: Mapping[str, Any], file: str, signatures: Sequence[Signature]) -> list[JudgedDraw]:
    """Check the answer for the solution of a leaderboard, with its outputs. Raises as `_checked` does."""
    draws = _checked(found, file, signatures)
    try:
        trees = zip(draws, signatures, _listed(found["outputs"]), strict=True)
        return [replace(draw, output=_output(told, signature, draw.scratch)) for draw, signature, told in trees]
    except (_NoLaunchError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise box.RefusedError(f"{file}: found that its process hands over what is no output") from None


def _output(told: Any, signature: Signature, scratch: Sequence[Scratch]) -> Any:
    """A tree of TensorViews and plain values."""
    if isinstance(told, list):
        return tuple(_output(one, signature, scratch) for one in told)
    if "named" in told:
        return {str(name): _output(one, signature, scratch) for name, one in told["named"].items()}
    if "value" in told:
        if type(told["value"]) not in (bool, int, float, str, type(None)):
            raise _NoLaunchError
        return told["value"]
    shape, strides = (tuple(_whole(n, _MOST_BYTES) for n in _listed(told[name])) for name in ("shape", "strides"))
    dtype = told["dtype"]
    if dtype not in ELEMENT_BYTES or len(shape) != len(strides) or len(shape) > _MOST_DIMENSIONS:
        raise _NoLaunchError
    if 0 in shape:
        return TensorView(0, 0, shape, strides, dtype)
    of_scratch = "scratch" in told
    listed: Sequence[Any] = scratch if of_scratch else signature
    number = _whole(told["scratch" if of_scratch else "input"], len(listed) - 1)
    memory = number + len(signature) * of_scratch
    view = TensorView(memory, _whole(told["offset"], _MOST_BYTES), shape, strides, dtype)
    if math.prod(shape) > _MOST_BYTES or view.end * ELEMENT_BYTES[dtype] > listed[number].size:
        raise _NoLaunchError
    return view


def _scratch(told: Mapping[str, Any], values: Sequence[bytes]) -> Scratch:
    size = _whole(told["bytes"], _MOST_BYTES)
    if "values" not in told:
        return Scratch(size, told["zeros"] is True)
    content = values[_whole(told["values"], len(values) - 1)]
    if len(content) != size:
        raise _NoLaunchError
    return Scratch(size, False, content)


def _draw(
    file: str, cubins: Sequence[tuple[Cubin, bytes]], values: Sequence[bytes], signature: Signature, launches: Any,
    scratch: Any,
) -> JudgedDraw:  # fmt: skip
    if not 0 < len(_listed(launches)) <= _MOST_LAUNCHES:
        raise GpuemuError.one(file, None, "launch", f"{len(launches)} launches", f"expected 1 to {_MOST_LAUNCHES}")
    memory = tuple(_scratch(one, values) for one in _listed(scratch))
    if sum(one.size for one in memory) > _MOST_BYTES:
        raise _NoLaunchError
    return JudgedDraw(tuple(_launch(one, cubins, signature, memory) for one in launches), memory)


def _launch(
    told: Mapping[str, Any], cubins: Sequence[tuple[Cubin, bytes]], signature: Signature, scratch: Sequence[Scratch]
) -> JudgedLaunch:
    cubin, code = cubins[_whole(told["cubin"], len(cubins) - 1)]
    name, cluster = told["kernel"], told["cluster"]
    if not isinstance(name, str):
        raise _NoLaunchError
    return JudgedLaunch(
        cubin, code, name, _sizes(told["grid"]), _sizes(told["block"]), _whole(told["shared_bytes"], 1 << 20),
        None if cluster is None else _sizes(cluster),
        tuple(_argument(one, signature, scratch) for one in _listed(told["args"])), zero_shared=True,
    )  # fmt: skip


def _argument(told: Mapping[str, Any], signature: Signature, scratch: Sequence[Scratch]) -> Any:
    if "type" in told:
        if told["type"] not in _SCALARS:
            raise _NoLaunchError
        (value,) = np.frombuffer(bytes.fromhex(told["bits"]), told["type"])
        return value
    if "members" in told:
        return tuple(_argument(one, signature, scratch) for one in _listed(told["members"]))
    if "bits" in told:
        return bytes.fromhex(told["bits"])
    of_scratch = "scratch" in told
    listed: Sequence[Any] = scratch if of_scratch else signature
    number = _whole(told["scratch" if of_scratch else "input"], len(listed) - 1)
    return InBuffer(number, _whole(told["offset"], listed[number].size), of_scratch)


def _listed(told: Any) -> list[Any]:
    if not isinstance(told, list):
        raise _NoLaunchError
    return told


def _sizes(told: Any) -> tuple[int, int, int]:
    x, y, z = (_whole(one, (1 << 31) - 1) for one in _listed(told))
    return x, y, z


def _whole(told: Any, most: int) -> int:
    """An integer from 0 to `most`."""
    if type(told) is not int or not 0 <= told <= most:
        raise _NoLaunchError
    return told


def _cubins(found: Mapping[str, Any], file: str, most: int) -> list[bytes]:
    listed = found.get("cubins")
    if not isinstance(listed, list) or len(listed) > most or not all(isinstance(one, str) for one in listed):
        raise box.RefusedError(f"{file}: found that its process hands over no machine code")
    try:
        return [base64.b64decode(one) for one in listed]
    except ValueError:
        raise box.RefusedError(f"{file}: found that its process hands over no machine code") from None


def memory_of(draw: JudgedDraw, chance: np.random.Generator) -> list[NDArray[np.uint8]]:
    """The scratch memory of a draw in its state before the first launch."""
    return [
        np.frombuffer(one.values, np.uint8).copy() if one.values is not None
        else np.zeros(one.size, np.uint8) if one.zeros else chance.integers(0, 256, one.size, dtype=np.uint8)
        for one in draw.scratch
    ]  # fmt: skip


def bound(launch: JudgedLaunch, given: Sequence[Any], scratch: Sequence[NDArray[np.uint8]]) -> list[Any]:
    """The arguments of a launch, with the problem's arrays and the scratch memory in them."""
    if launch.args is None:
        return [one.T if isinstance(one, np.ndarray) and not one.flags.c_contiguous else one for one in given]

    def with_arrays(one: Any) -> Any:
        if isinstance(one, tuple):
            return tuple(map(with_arrays, one))
        if not isinstance(one, InBuffer):
            return one
        return Pointer(scratch[one.number] if one.scratch else bytes_of(given[one.number]), one.offset)

    return list(map(with_arrays, launch.args))


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """A view of an array's bytes in the order of memory; writing to it writes to the array."""
    return np.asarray(array).ravel(order="K").view(np.uint8)
