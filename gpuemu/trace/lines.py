"""Facts about instructions beside the code: source lines, and the number of threads that took part.

`source` has file and line of each instruction, by ranges of byte offsets:

    source:
      0x0000-0x0030: v2_shared_memory.cu:27
      0x0040: [mma.cuh:12, v2_shared_memory.cu:33]

A list has the innermost place first, then the calls that inlined it. Files are relative to the kernel's own.

`source_text` has the text of these files, if it was requested.

`threads` has, by offset, the number of threads that executed an instruction, summed over all executions: `threads:
{0x0120: 48}`. Only instructions that some threads of the executing warps skipped are listed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.trace.model import Instruction, Trace

PLACE = r"[^\x00-\x1f]+:[0-9]{1,9}"
RIGHT = "expected file and line such as kernel.cu:12, or a list of them, the innermost first"
_Places = tuple[tuple[str, int], ...]


def parse_places(value: Any) -> _Places | None:
    """Return the places of an entry, or None if it is invalid."""
    items = value if isinstance(value, list) else [value]
    if not items or not all(isinstance(item, str) and re.fullmatch(PLACE, item) for item in items):
        return None
    return tuple((file, int(line)) for file, _, line in (item.rpartition(":") for item in items))


def with_lines(code: Sequence[Instruction], source: Mapping[tuple[int, int], _Places]) -> tuple[Instruction, ...]:
    """Return the code with the places of `source`, whose keys are the first and last byte offset of a range.

    If several ranges contain an instruction, the last one applies. The offsets of the code ascend.
    """
    offsets = [i.offset for i in code]
    of: dict[int, _Places] = {}
    for (first, last), places in source.items():
        of.update(dict.fromkeys(offsets[bisect_left(offsets, first) : bisect_right(offsets, last)], places))
    return tuple(replace(i, source=of[i.offset]) if i.offset in of else i for i in code)


def with_threads_of(code: Sequence[Instruction], threads: Mapping[int, int]) -> tuple[Instruction, ...]:
    """Return the code with the number of threads by byte offset."""
    return tuple(replace(i, threads=threads[i.offset]) if i.offset in threads else i for i in code)


def ranges(code: Sequence[Instruction]) -> dict[str, str | list[str]]:
    """Return the places of the code as in the form; neighbors of one place share a range."""
    found: list[tuple[int, int, _Places]] = []
    for instruction in code:
        if not instruction.source:
            continue
        if found and found[-1][2] == instruction.source and instruction.offset == found[-1][1] + 16:
            found[-1] = found[-1][0], instruction.offset, instruction.source
        else:
            found.append((instruction.offset, instruction.offset, instruction.source))
    written: dict[str, str | list[str]] = {}
    for first, last, places in found:
        key = f"{first:#06x}" if first == last else f"{first:#06x}-{last:#06x}"
        texts = [f"{file}:{line}" for file, line in places]
        written[key] = texts if len(texts) > 1 else texts[0]
    return written


def paths_of(trace: Trace, places: Iterable[Path]) -> dict[str, Path]:
    """Find the source files that the code names in `places`, which are files and folders.

    A file that was compiled from a folder below a place is found by the end of its path.
    """
    found: dict[str, Path] = {}
    among = tuple(places)
    for name in sorted({file for instruction in trace.code for file, _ in instruction.source}):
        compiled = Path(trace.source_paths.get(name, name))
        endings = [Path(*compiled.parts[k:]) for k in range(compiled.is_absolute(), len(compiled.parts))]
        candidates = [
            path
            for place in among
            for path in ([place / name, *(place / ending for ending in endings)] if place.is_dir() else [place])
            if path.name == compiled.name and path.is_file()
        ]
        # Prefer the file that was compiled, if it still exists, to others of that name.
        same = [path for path in candidates if compiled.is_file() and path.samefile(compiled)]
        found.update((name, path) for path in (same or candidates)[:1])
    return found


def texts_of(trace: Trace, places: Iterable[Path]) -> dict[str, str]:
    """Return the text of the source files that the code names, as found in `places`, which are files and folders."""
    paths = paths_of(trace, places)
    return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in paths.items()}


def of_whole_warps(trace: Trace) -> NDArray[np.int64]:
    """Return thread instructions [code] if every thread of a warp takes part in everything the warp executes."""
    found = np.zeros(len(trace.code), dtype=np.int64)
    for warp in trace.warps:
        lanes = min(LANES, trace.launch.threads_per_cta - LANES * warp.warp)
        found += lanes * np.bincount(warp.path, minlength=len(trace.code))
    return found


def with_threads(trace: Trace, threads: NDArray[np.int64]) -> tuple[Instruction, ...]:
    """Return a trace's code with these numbers of threads, which may cover only its first part; the rest had none."""
    whole = of_whole_warps(trace).tolist()
    counted = [*threads.tolist(), *([0] * (len(whole) - len(threads)))]
    return tuple(
        replace(i, threads=None if n == every else n) for i, n, every in zip(trace.code, counted, whole, strict=True)
    )
