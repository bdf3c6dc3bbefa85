"""Write a trace in the format of Accel-Sim's tracer, plain or .xz; the module `form` describes the format.

Equal traces give equal bytes. The format has no room for control words, guards, immediates, and registers other than
general ones, which are lost. A trace does not know the mask of an instruction that accesses no memory, which is written
as all threads of the warp. A trace may not know where an asynchronous copy reads, and then that is made up; `made_up`
reports it.
"""

from __future__ import annotations

import lzma
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.base.packed_lines import MOST_BYTES
from gpuemu.base.whole_files import whole_file
from gpuemu.isa.opcodes import Row
from gpuemu.isa.warp import LANES
from gpuemu.trace.accel_sim.form import EACH, LEAST_BINARY, PACKED, STRIDE, VERSIONS
from gpuemu.trace.accel_sim.instructions import bytes_of, immediate_of, registers_of
from gpuemu.trace.model import GLOBAL, LOCAL, SHARED, Instruction, Trace

_WINDOWS_APART = 1 << 32
"""Distance between windows, larger than a window."""
_FIRST_WINDOW = 0x7F00_0000_0000
_COPIED_FROM = 0x7E00_0000_0000
"""Assumed source of asynchronous copies: each access reads a piece of memory of its own."""
_MOST_STRIDE = (1 << 31) - 1
"""Maximum stride, because a reader may store it in 32 bits."""
_BATCH = 1 << 12
_MOST_KNOWN = 1 << 16
"""Maximum number of access lines that are remembered to be written again."""


def write_traceg(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to a file in one step, as .xz if its name ends so. Raises GpuemuError and OSError."""
    total = 0
    with whole_file(path) as raw:
        packed = os.fspath(path).endswith(PACKED)
        with lzma.LZMAFile(raw, "wb", preset=6) if packed else nullcontext(raw) as file:
            for piece in _pieces(traceg_lines(trace, os.fspath(path))):
                total += len(piece)
                if total > MOST_BYTES:
                    right = "Record fewer CTAs with --cta; a larger file could not be read back"
                    raise GpuemuError.one(os.fspath(path), None, "", f"more than {MOST_BYTES:,} bytes of text", right)
                file.write(piece)


def made_up(trace: Trace) -> str:
    """Return a sentence about the values in the file that the trace does not know, or ""."""
    copies = any(i.operation.row is Row.COPY for i in trace.code)
    told = "asynchronous copies (LDGSTS) have no shared address in such a file, and the trace has no global one: it is"
    return f"{told} written as if each read a piece of memory of its own, without gaps" if copies else ""


def _pieces(lines: Iterator[str]) -> Iterator[bytes]:
    """Join lines, some thousand at a time."""
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH:
            yield "\n".join([*batch, ""]).encode()
            batch.clear()
    yield "\n".join([*batch, ""]).encode()


def traceg_lines(trace: Trace, file: str) -> Iterator[str]:
    """Yield the lines of a trace, without their ends; messages call the file `file`. Raises GpuemuError."""
    binary = re.match(r"sm_(\d{2,3})[a-z]?\Z", trace.arch)
    if binary is None or int(binary[1]) < LEAST_BINARY:
        right = f"expected a trace of code for sm_{LEAST_BINARY} or newer"
        raise GpuemuError.one(file, None, "binary version", f"code for '{trace.arch}'", right)
    if not trace.name.isprintable() or trace.name != trace.name.strip():
        raise GpuemuError.one(file, None, "kernel name", repr(trace.name[:40]), "expected a name on one line")
    bases = _windows(trace)
    launch = trace.launch
    has_lines = any(i.source for i in trace.code)
    header: dict[str, object] = {
        "kernel name": trace.name, "kernel id": 1, "grid dim": _extent(launch.grid), "block dim": _extent(launch.block),
        "shmem": launch.shared_bytes, "nregs": launch.registers_per_thread, "binary version": binary[1],
        "cuda stream id": 0, "shmem base_addr": f"{bases[SHARED]:#018x}",
        "local mem base_addr": f"{bases[LOCAL]:#018x}", "nvbit version": "gpuemu",
        "accelsim tracer version": VERSIONS[0], "enable lineinfo": int(has_lines),
    }  # fmt: skip
    yield from (f"-{key} = {value}" for key, value in header.items())
    yield ""
    yield "#traces format = [source line] PC mask ND [R] opcode NS [R] width [mode addresses] immediate"
    yield from _ctas(trace, bases, has_lines)


def _extent(sizes: tuple[int, int, int]) -> str:
    return f"({sizes[0]},{sizes[1]},{sizes[2]})"


def _windows(trace: Trace) -> dict[int, int]:
    """Choose the windows of shared and local memory in generic addresses, apart from the global addresses."""
    taken: set[int] = set()
    if trace.spaces is not None:
        of_global = trace.addresses[trace.active & (trace.spaces == GLOBAL)]
        taken = set(np.unique(of_global // _WINDOWS_APART).tolist())
    free = (place for place in range(_FIRST_WINDOW // _WINDOWS_APART, 1 << 31) if place not in taken)
    return {GLOBAL: 0, SHARED: next(free) * _WINDOWS_APART, LOCAL: next(free) * _WINDOWS_APART}


def _ctas(trace: Trace, bases: dict[int, int], has_lines: bool) -> Iterator[str]:
    launch, memory = trace.launch, [bytes_of(i) for i in trace.code]
    before = [_before(i, has_lines) for i in trace.code]
    behind = [_behind(i, width) for i, width in zip(trace.code, memory, strict=True)]
    known: dict[tuple[int, int], str] = {}
    cta = -1
    for warp in sorted(trace.warps, key=lambda w: (w.cta, w.warp)):
        if warp.cta != cta:
            if cta >= 0:
                yield "#END_TB"
            cta = warp.cta
            rest, x = divmod(cta, launch.grid[0])
            yield from ("", "#BEGIN_TB", "", f"thread block = {x},{rest % launch.grid[1]},{rest // launch.grid[1]}")
        yield from ("", f"warp = {warp.warp}", f"insts = {len(warp.path)}")
        threads = min(LANES, launch.threads_per_cta - LANES * warp.warp)
        everyone = f"{(1 << threads) - 1:08x}"
        rows = iter(warp.rows.tolist())
        for index in warp.path.tolist():
            if not memory[index]:
                yield f"{before[index]} {everyone} {behind[index]}"
                continue
            key = (index, next(rows))
            line = known.get(key)
            if line is None:
                line = f"{before[index]} {_access(trace, *key, behind[index], bases)}"
                if len(known) < _MOST_KNOWN:
                    known[key] = line
            yield line
    yield "#END_TB"


def _before(instruction: Instruction, has_lines: bool) -> str:
    """Return the words before the mask. For inlined code, the line is that of the outermost call."""
    line = f"{instruction.source[-1][1] if instruction.source else 0} " if has_lines else ""
    return f"{line}{instruction.offset:04x}"


def _behind(instruction: Instruction, width: int) -> str:
    """Return the words between the mask and the addresses, or to the end of a line without addresses."""
    destination, sources = registers_of(instruction)
    words: list[object] = ["0"] if destination is None else ["1", f"R{destination}"]
    words += [instruction.opcode, len(sources), *(f"R{source}" for source in sources), width]
    if not width:
        words.append(immediate_of(instruction))
    return " ".join(map(str, words))


def _access(trace: Trace, index: int, row: int, behind: str, bases: dict[int, int]) -> str:
    """Return the mask, registers and addresses of an access."""
    instruction, active = trace.code[index], trace.active[row]
    mask = int(active @ (np.int64(1) << np.arange(LANES, dtype=np.int64)))
    addresses = trace.addresses[row].tolist()
    if instruction.operation.row is Row.COPY:
        width = bytes_of(instruction)
        addresses = [_COPIED_FROM + (row * LANES + lane) * width for lane in range(LANES)]
    elif instruction.takes_generic_addresses and trace.spaces is not None:
        addresses = [bases[space] + a for space, a in zip(trace.spaces[row].tolist(), addresses, strict=True)]
    return f"{mask:08x} {behind} {_form(addresses, active)} 0"


def _form(addresses: list[int], active: NDArray[np.bool_]) -> str:
    """Return the mode and addresses: a base and a stride if possible, otherwise each address.

    The mode of differences is never used, because some readers misread it.
    """
    lanes = np.flatnonzero(active).tolist()
    if len(lanes) > 1 and lanes[-1] - lanes[0] == len(lanes) - 1:
        first, stride = addresses[lanes[0]], addresses[lanes[1]] - addresses[lanes[0]]
        if abs(stride) <= _MOST_STRIDE and all(addresses[lane] == first + stride * k for k, lane in enumerate(lanes)):
            return f"{STRIDE} {first:#018x} {stride}"
    return " ".join([str(EACH), *(f"{addresses[lane]:#018x}" for lane in lanes)])
