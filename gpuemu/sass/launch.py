"""Launches a kernel functionally: every CTA of the grid executes, in order, and those asked for are recorded.

    trace = trace_kernel("k.cubin", kernel="name", grid=(1, 1, 1), block=(128, 1, 1), args=[array, array, 64])

Arrays passed as arguments are the kernel's buffers: what it stores is in them afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture, load_arch
from gpuemu.errors import GpuemuError
from gpuemu.program import residency
from gpuemu.sass.cta import CtaExecutor
from gpuemu.sass.cubin import Cubin, Section
from gpuemu.sass.disassembly import DecodedFunction, decode_function, without_padding
from gpuemu.sass.environment import Environment, ExecutionError
from gpuemu.sass.lanes import WARP, Lanes
from gpuemu.sass.memory import LOCAL_WINDOW, SHARED_WINDOW, Memory
from gpuemu.sass.operands import UnsupportedError
from gpuemu.sass.recorder import Recorder
from gpuemu.trace.model import Launch, Trace, WarpTrace

if TYPE_CHECKING:
    pass

Extent = tuple[int, int, int]
DEFAULT_BUDGET = 100_000_000
"""Warp instructions of one CTA before it is taken for endless."""
LEAST_STACK_BYTES = 1024
"""A thread's stack where the assembler asks for less: the driver's default, which recursion lives on."""
_BLOCK_DIMENSIONS = 0x0
_GRID_DIMENSIONS = 0xC
_SHARED_WINDOW = 0x18
_LOCAL_WINDOW = 0x20
_STACK_POINTER = 0x28


def trace_kernel(
    path: str | os.PathLike[str] | Cubin,
    kernel: str | None = None,
    grid: Extent = (1, 1, 1),
    block: Extent = (32, 1, 1),
    dynamic_shared_bytes: int = 0,
    args: Sequence[Any] = (),
    *,
    arch: str | Architecture | None = None,
    ctas: Iterable[int] | None = None,
    budget: int = DEFAULT_BUDGET,
    progress: Callable[[int, int], None] | None = None,
    watch: Callable[[Callable[[], int]], None] | None = None,
) -> Trace:
    """Execute a kernel of a .cu or .cubin file (or of a Cubin already read) and return the trace of its CTAs.

    `grid` in CTAs, `block` in threads. `args` in the kernel's order: NumPy arrays are device buffers, updated in
    place; ints and floats are scalars. `arch` names the architecture that a .cu is compiled for, and whose
    rules count. `ctas` are the CTAs to keep in the trace, by default those resident on one SM at once. `budget`: warp
    instructions of one CTA before it is taken for endless. `progress` is called with the CTAs done and all,
    `watch` once with a function that tells the warp instructions executed so far, also from another thread.

    Raises GpuemuError: for arguments that do not fit, an instruction the executor does not know, and everything
    a kernel must not do, naming the instruction, warp, lane and source line.
    """
    # A what-if architecture of the user's own is compiled for as the chip that it says it is.
    name = f"sm_{arch.compute_capability.replace('.', '')}" if isinstance(arch, Architecture) else arch
    function = decode_function(path, kernel, name)
    hardware = arch if isinstance(arch, Architecture) else load_arch(name or function.arch)
    code = without_padding(function.code)
    launch = Launch(
        grid, block, max(1, function.registers_per_thread), function.static_shared_bytes, dynamic_shared_bytes
    )
    file = function.cubin.file
    head = Trace(
        function.source_name,
        function.arch,
        launch,
        code,
        (),
        np.zeros((0, WARP), np.int64),
        np.zeros((0, WARP), np.bool_),
        file=file,
    )
    resident = min(residency(head, hardware).values())
    kept = range(min(launch.ctas, resident)) if ctas is None else sorted(set(ctas))
    for cta in kept:
        if not 0 <= cta < launch.ctas:
            raise GpuemuError.one("--cta", None, "", f"CTA {cta}", f"the grid has CTAs 0 to {launch.ctas - 1}")
    lanes = Lanes(launch.threads_per_cta)
    memory = Memory(
        shared_bytes=launch.shared_bytes,
        shared_base=function.shared_base,
        local_bytes_per_lane=max(function.local_bytes, LEAST_STACK_BYTES),
        lanes=lanes,
    )
    constants = _constant_banks(function, launch, memory, args, file)
    environment = Environment(hardware, launch, lanes, memory, constants, code)
    executor = CtaExecutor(environment)
    if watch is not None:
        watch(executor.instructions)
    warps: list[WarpTrace] = []
    addresses = [np.zeros((0, WARP), np.int64)]
    active = [np.zeros((0, WARP), np.bool_)]
    rows = 0
    wanted = set(kept)
    for cta in range(launch.ctas):
        environment.cta = (cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1]))
        memory.new_cta()
        recorder = Recorder(lanes, code)
        try:
            executor.run(recorder, cta in wanted, budget)
        except ExecutionError as error:
            raise _explained(error, function, file, cta, launch) from None
        except UnsupportedError as error:
            raise GpuemuError.one(
                file, None, function.name, f"{error}", "an instruction that the executor knows"
            ) from None
        if cta in wanted:
            parts = recorder.trace_parts(cta, rows)
            warps += parts[0]
            addresses.append(parts[1])
            active.append(parts[2])
            rows += len(parts[1])
        if progress is not None:
            progress(cta + 1, launch.ctas)
    return Trace(
        function.source_name,
        function.arch,
        launch,
        code,
        tuple(warps),
        np.concatenate(addresses),
        np.concatenate(active),
        file=file,
    )


def _constant_banks(
    function: DecodedFunction, launch: Launch, memory: Memory, args: Sequence[Any], file: str
) -> dict[int, NDArray[np.uint8]]:
    """The constant banks of the launch: the cubin's, and in bank 0 the launch and its arguments."""
    addresses: dict[str, int] = {}
    contents: list[tuple[Section, NDArray[np.uint8]]] = []
    for section in function.cubin.global_sections:
        # Variables of the module are buffers, too; where they lie is known only once all have a place.
        buffer = np.zeros(max(1, len(section.data)), dtype=np.uint8)
        addresses |= section.addresses(memory.add_buffer(section.name, buffer))
        contents.append((section, buffer))
    for section, buffer in contents:
        buffer[: len(section.data)] = np.frombuffer(section.placed(addresses, file), dtype=np.uint8)
    placed = function.placed_constant_banks(addresses)
    banks = {number: np.frombuffer(data, dtype=np.uint8).copy() for number, data in placed.items()}
    end = function.parameter_base + function.parameter_bytes
    zero = np.zeros(max(end, 0x240, len(banks.get(0, b""))), dtype=np.uint8)
    if 0 in banks:
        zero[: len(banks[0])] = banks[0]
    banks[0] = zero

    def put(offset: int, data: bytes) -> None:
        zero[offset : offset + len(data)] = np.frombuffer(data, dtype=np.uint8)

    put(_BLOCK_DIMENSIONS, np.array(launch.block, dtype=np.uint32).tobytes())
    put(_GRID_DIMENSIONS, np.array(launch.grid, dtype=np.uint32).tobytes())
    put(_SHARED_WINDOW, np.uint64(SHARED_WINDOW).tobytes())
    put(_LOCAL_WINDOW, np.uint64(LOCAL_WINDOW).tobytes())
    put(_STACK_POINTER, np.uint32(memory.local_bytes).tobytes())
    parameters = function.parameters
    if len(args) != len(parameters):
        raise GpuemuError.one(
            file, None, function.name, f"{len(args)} arguments", f"the kernel takes {len(parameters)}"
        )
    for number, (argument, parameter) in enumerate(zip(args, parameters, strict=True)):
        put(
            function.parameter_base + parameter.offset,
            _argument_bytes(argument, parameter.size, number, memory, file),
        )
    return banks


def _argument_bytes(argument: Any, size: int, number: int, memory: Memory, file: str) -> bytes:
    """An argument as the kernel reads it."""
    field = f"argument {number}"
    if isinstance(argument, np.ndarray) and argument.ndim:
        if size != 8:
            raise GpuemuError.one(file, None, field, "an array", f"the kernel takes a value of {size} bytes there")
        return np.uint64(memory.add_buffer(field, argument)).tobytes()
    if isinstance(argument, np.generic | np.ndarray):
        data = argument.tobytes()
        if len(data) == size:
            return data
        argument = argument.item()
    if isinstance(argument, bool | int):
        low, high = -(1 << (8 * size - 1)), 1 << (8 * size)
        if not low <= argument < high:
            raise GpuemuError.one(file, None, field, str(argument), f"a number that fits {size} bytes is right")
        return (int(argument) % high).to_bytes(size, "little")
    if isinstance(argument, float) and size in (2, 4, 8):
        return np.array(argument, dtype=f"f{size}").tobytes()
    if isinstance(argument, bytes) and len(argument) == size:
        return argument
    raise GpuemuError.one(
        file,
        None,
        field,
        f"{type(argument).__name__} for {size} bytes",
        "an array, a number, or the bytes themselves are right",
    )


def _explained(error: ExecutionError, function: DecodedFunction, file: str, cta: int, launch: Launch) -> GpuemuError:
    """The error as a kernel's author wants it: source line, instruction, CTA, warp, lane."""
    instruction = error.instruction
    source = function.source_line(instruction.offset)
    where = f"{function.name} at {instruction.offset:#06x}, {instruction}, CTA {cta}"
    if error.lane is not None:
        x, y, _ = launch.block
        thread = error.lane
        where += f", warp {error.lane // WARP}, lane {error.lane % WARP}"
        where += f", thread ({thread % x}, {thread // x % y}, {thread // (x * y)})"
    if source is not None:
        return GpuemuError.one(source[0], source[1], where, error.found, error.right)
    return GpuemuError.one(file, None, where, error.found, error.right)
