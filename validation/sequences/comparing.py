"""Emulates built sequences, and prints measured clocks beside emulated ones.

    two_warps/3    8 warps  same     measured 10 18 on each sub-core
    two_warps/4    8 warps  DIFFERS  measured 12 21 on each sub-core; emulated 12 22 on each sub-core

The figures (here of no GPU) are the clocks that the warps of a sub-core read at their ends, in rising order, because
another warp comes first in every launch. The measured clocks are those of most launches; `in 3 of 5 launches` appears
if not all agree. If the body reads clocks, `ABAB` before the figures is the order of the warps that read them, A being
the first. Two runs are the same if all of the clocks are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

import numpy as np

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.sass.tools.disassembly import load_cubin
from validation import records
from validation.build import Report
from validation.corpus.kernel import OUTPUT_WORDS, input_words
from validation.sequences.files import Snippet, read_sequences
from validation.sequences.forms import recorded_forms
from validation.sequences.frame import ARCH, build_all, clock_registers
from validation.sequences.running import (
    KERNEL,
    SHARED_BYTES,
    Built,
    Clocks,
    read_built,
    read_clocks,
    write_built,
)

Progress = Callable[[int, int], None]
_SUB_CORES = 4
Times = tuple[tuple[tuple[int, ...], ...], ...]
"""For each sub-core its warps, the first to read one first, with all clocks except the one before the body."""


def times_of(clocks: Clocks) -> Times:
    """The clocks by sub-core, whichever warp comes first."""
    return tuple(
        tuple(sorted(tuple(warp[1:]) for warp in clocks[s::_SUB_CORES])) for s in range(min(_SUB_CORES, len(clocks)))
    )


def order_of(warps: tuple[tuple[int, ...], ...]) -> str:
    """The order in which a sub-core's warps read clocks in the body, a letter for each warp."""
    reads = sorted((clock, letter) for letter, warp in zip(ascii_uppercase, warps, strict=False) for clock in warp[:-1])
    return "".join(letter for _, letter in reads)


def shown(times: Times) -> str:
    """The order of the clocks read in the body, and the last clocks, as text."""
    parts = [" ".join([order_of(one), *map(str, sorted(warp[-1] for warp in one))]).strip() for one in times]
    return f"{parts[0]} on each sub-core" if len(parts) > 1 and len(set(parts)) == 1 else " | ".join(parts)


def emulated(cubin: bytes, warps: int, arch: Architecture, reads: int = 0) -> Clocks:
    """The clocks of a sequence's second pass on the emulator; `reads`: how many its body reads."""
    trace = gpuemu.trace_kernel(
        load_cubin(cubin), kernel=KERNEL, grid=(1, 1, 1), block=(32 * warps, 1, 1), dynamic_shared_bytes=SHARED_BYTES,
        args=[np.zeros(OUTPUT_WORDS, dtype=np.uint32), input_words(), 1],
    )  # fmt: skip
    clocks = [warp.clock_reads[-2 - reads :] for warp in gpuemu.run(trace, arch).warps]
    first = min(warp[0] for warp in clocks)
    return [[clock - first for clock in warp] for warp in clocks]


def assembled(file: Path, gpu: str, progress: Progress | None = None) -> list[tuple[Snippet, bytes]]:
    """The sequences of a file with their cubins."""
    snippets = read_sequences(file)
    forms = recorded_forms(records.data_folder(gpu) / records.CODE_FILE)
    return list(zip(snippets, build_all(snippets, forms, str(file), progress), strict=True))


def build(found: Sequence[tuple[Snippet, bytes]], folder: Path, report: Report = print) -> None:
    """Write assembled sequences into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    built = [
        Built(one.name, one.warps, f"{number:04d}.cubin", len(clock_registers(one)))
        for number, (one, _) in enumerate(found)
    ]
    for one, (_, cubin) in zip(built, found, strict=True):
        (folder / one.file).write_bytes(cubin)
    write_built(folder, ARCH, built)
    report(f"{len(built)} sequences, to {folder}")


def emulate(found: Sequence[tuple[Snippet, bytes]], arch: Architecture) -> Iterator[str]:
    """A line for each assembled sequence: the clocks on the emulator."""
    width = _width([one.name for one, _ in found])
    for one, cubin in found:
        times = times_of(emulated(cubin, one.warps, arch, len(clock_registers(one))))
        yield f"{one.name:{width}} {one.warps:3} warps  {shown(times)}"


def compare(folder: Path, arch: Architecture) -> Iterator[str]:
    """A line for each sequence of a folder that was run, and a last one that counts."""
    _, built = read_built(folder)
    measured = read_clocks(folder)
    width = _width([one.name for one in built])
    same = 0
    for one in built:
        times, launches = Counter(map(times_of, measured[one.name])).most_common(1)[0]
        on_emulator = times_of(emulated((folder / one.file).read_bytes(), one.warps, arch, one.reads))
        same += times == on_emulator
        line = f"{one.name:{width}} {one.warps:3} warps  {'same   ' if times == on_emulator else 'DIFFERS'}  "
        line += f"measured {shown(times)}"
        if launches < len(measured[one.name]):
            line += f" in {launches} of {len(measured[one.name])} launches"
        yield line if times == on_emulator else f"{line}; emulated {shown(on_emulator)}"
    yield f"{same} of {len(built)} the same"


def _width(names: Sequence[str]) -> int:
    return max(map(len, names))
