"""Accesses that run from one array of static shared memory into the next, which the machine code cannot show.

A cubin with line information has the kernel's PTX, where each array has a name. gpuemu assembles it again with gaps
between the arrays, and executes it. An access to a gap was made with an address of an array that does not reach there.
Everything that is computed from the address of an array moves with it, so no access within an array is in a gap.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.image.ptx_text import Ptx
from gpuemu.sass.machine.memory.spaces import counted, past
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.sass.tools.toolchain import assemble_ptx
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.shuffles import left_in
from gpuemu.trace.model import Instruction

_MERGED = "gpuemu_arrays"
_DECLARED = re.compile(
    r"[ \t]*(?:\.(?:visible|weak|common)\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?"
    r"\.[bfsu](\d+)\s+([\w$]+)(?:\[(\d+)\])?;\s*"
)
_SHARED = re.compile(r"[ \t]*(?:\.\w+\s+)*\.shared\s.*;")
_EXTERN = re.compile(r"[ \t]*\.extern\s+\.shared\s.*?([\w$]+)\[\]")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_TARGET = re.compile(r"[ \t]*\.target\s+(sm_\w+)")
_VERSION = re.compile(r"Unsupported \.version .*current version is '([\d.]+)'")
_SIZE = re.compile(r"[ \t]*\.address_size\s")
_MOST_STATIC = 48 << 10
"""The most bytes of static shared memory that a kernel may have."""
_GAPS = [1 << bits for bits in range(12, 3, -1)]
_FILLS = 0x5A, 0xC3
_ACCESSES = {"load": "read", "store": "write", "atomic": "atomic access"}


@dataclass(frozen=True)
class _Array:
    """An array of the PTX, and its start once there are gaps."""

    name: str
    size: int
    start: int = 0


@dataclass(frozen=True)
class Apart:
    """A kernel with gaps between its arrays, and its PTX."""

    cubin: bytes
    ptx: Ptx
    arrays: tuple[_Array, ...]
    end: int
    """The start of dynamic shared memory: after the last gap."""
    base: int = 0
    """The address of the byte from which these places count."""


def set_apart(ptx: Ptx, kernel: str, shared_base: int) -> Apart | str:
    """A kernel with gaps between its arrays of shared memory. Otherwise the reason why there is none, "" for no
    need.
    """
    target = next((match[1] for line in ptx.text if (match := _TARGET.match(line))), None)
    laid_out = _laid_out(ptx.text, shared_base)
    if laid_out is None or target is None:
        return ""
    unseen = "accesses from one array of shared memory into the next are not looked for"
    if shutil.which("ptxas") is None:
        return f"{unseen}: that takes ptxas on the PATH"
    text, arrays, end = laid_out
    cubin = _assembled("\n".join(text), target)
    if cubin is None:
        return f"{unseen}: ptxas does not take the kernel's PTX with its arrays apart"
    return Apart(cubin, Ptx(cubin, kernel), arrays, end, shared_base)


def _assembled(ptx: str, target: str) -> bytes | None:
    """The cubin of PTX. PTX that is newer than ptxas gets the version of ptxas."""
    with tempfile.TemporaryDirectory(prefix="gpuemu-") as folder:
        path = Path(folder) / "apart.ptx"
        for _ in range(2):
            path.write_text(ptx)
            try:
                return assemble_ptx(path, target)
            except GpuemuError as error:
                known = _VERSION.search(str(error))
                if known is None:
                    return None
                ptx = re.sub(r"(?m)^(\s*\.version\s+)[\d.]+", rf"\g<1>{known[1]}", ptx, count=1)
    return None


def _laid_out(text: list[str], shared_base: int) -> tuple[list[str], tuple[_Array, ...], int] | None:
    """The PTX with one array for all, the place of each, and the end of the last gap; None if that is not possible.

    The text also declares arrays of the module's other kernels. They have no place in this kernel's shared memory.
    """
    text, found = text.copy(), dict[str, tuple[int, int]]()
    used = Counter(name for line in text if line for name in _NAME.findall(line))
    dynamic = any(used[match[1]] > 1 for line in text if (match := _EXTERN.match(line)))
    for number, line in enumerate(text):
        if ".shared" not in line:
            continue
        match = _DECLARED.fullmatch(line)
        if match is None:
            if _SHARED.match(line) and not _EXTERN.match(line):
                return None
            continue
        align, width, name, count = match.groups()
        if name in found:
            return None
        if used[name] == 1:
            text[number] = ""
            continue
        size = int(width) // 8 * int(count or 1)
        found[name] = size, max(int(align or 1), int(width) // 8)
        text[number] = ""
    if len(found) + dynamic < 2 or not found:
        return None
    for gap in _GAPS:
        most = max(align for _, align in found.values())
        arrays, end = [], 0
        for name, (size, align) in found.items():
            start = _rounded(end, max(align, min(gap, 1024)))
            arrays.append(_Array(name, size, start))
            end = start + size + gap
        most = max(most, min(gap, 1024))
        if end + most <= _MOST_STATIC:
            break
    else:
        return None
    starts = {array.name: array.start for array in arrays}
    names = re.compile(rf"(?<![\w$.%])({'|'.join(map(re.escape, starts))})(?![\w$])(?:\s*\+\s*(-?\d+))?")
    text = [names.sub(lambda m: f"{_MERGED}+{starts[m[1]] + int(m[2] or 0)}", line) for line in text]
    place = next((number for number, line in enumerate(text) if _SIZE.match(line)), None)
    if place is None:
        return None
    text[place] += f" .shared .align {most} .b8 {_MERGED}[{end}];"
    first = _rounded(shared_base, most) - shared_base
    return text, tuple(_Array(a.name, a.size, a.start + first) for a in arrays), end + first


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True)
class _Miss:
    """An access to a gap: its kind and bytes, its place in shared memory, the first lane, and the number of lanes."""

    instruction: Instruction
    access: str
    size: int
    at: int
    lane: int
    cta: int
    times: int


class Gaps(Observer):
    """Listens to a kernel with gaps between its arrays, and keeps the first access of each instruction to a gap.

    Gaps begin with bytes of `fill`.
    """

    def __init__(self, apart: Apart, fill: int):
        self._apart, self._fill, self._failed = apart, fill, False
        self._starts = [array.start for array in apart.arrays]
        self._cta = 0
        self.found: dict[int, _Miss] = {}
        """The accesses by the offset of the instruction."""
        ends = np.array([array.start + array.size for array in apart.arrays])
        self._ends, self._begins = ends, np.array(self._starts)

    def launches(self, environment: Any) -> None:
        self._every = np.arange(environment.lanes.count)
        self._memory = environment.memory
        self._system = self._apart.base - self._memory.shared_base

    def starts(self, cta: int) -> None:
        self._cta = cta
        ends = [*self._starts[1:], self._apart.end]
        for array, end in zip(self._apart.arrays, ends, strict=True):
            first = self._system + array.start + array.size
            self._memory.shared[1][first : self._system + end] = self._fill

    def resumes(self, cta: int) -> None:
        self._cta = cta

    def access(self, space: Any, place: Place) -> None:
        if space.name == "shared":
            lanes = self._every if place.pattern.lanes is None else place.pattern.lanes
            at = place.base + place.pattern.offsets
            self._look(space.site.instruction, space.purpose.value, space.size, at, lanes)

    def reaches(self, space: Any, place: Place, rank: int) -> None:
        self.access(space, place)

    def block(self, site: Any, lane: int, places: NDArray[np.int64], store: bool, ranks: Sequence[int]) -> None:
        self._look(site.instruction, "store" if store else "load", 1, places, np.full(len(places), lane))

    def _look(
        self, instruction: Instruction, access: str, size: int, at: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> None:
        at = at - self._system  # Code with tensor memory also uses what the system reserves before the arrays.
        array = np.searchsorted(self._begins, at, side="right") - 1
        missed = (array < 0) | (at + size > self._ends[np.maximum(array, 0)])
        missed &= (at >= 0) & (at < self._apart.end)
        if not missed.any() or instruction.offset in self.found:
            return
        k = int(missed.argmax())
        many = 1 if size == 1 else int(missed.sum())
        self.found[instruction.offset] = _Miss(instruction, access, size, int(at[k]), int(lanes[k]), self._cta, many)

    def fails(self, error: Any) -> None:
        self._failed = True

    @property
    def places(self) -> NDArray[np.uint8]:
        """Which bytes of shared memory belong to no array [bytes]: 1, or 0 for those of arrays."""
        found = np.ones(self._apart.end, np.uint8)
        for array in self._apart.arrays:
            found[array.start : array.start + array.size] = 0
        return found

    @property
    def outcome(self) -> bytes | None:
        """A digest of the memory after the launch; None if the launch could not go on."""
        return None if self._failed else left_in(self._memory)

    def sentence(self, at: int, size: int) -> tuple[str, str]:
        """The array that an access to a gap misses, and the fix."""
        k = bisect_right(self._starts, at) - 1
        arrays = self._apart.arrays
        end = arrays[k].start + arrays[k].size
        if k + 1 < len(arrays) and arrays[k + 1].start - at < at + size - end:
            array = arrays[k + 1]
            return f"{counted(array.start - at)} before the start of", _named(array)
        return f"{past(at, size, end)} the end of", _named(arrays[k])


def _named(array: _Array) -> str:
    """The name of an array as in the source, and its size. For a mangled name, its last part."""
    parts, at = [array.name], 0
    for match in re.finditer(r"(\d+)", array.name):
        if match.start() >= at and (length := int(match[1])) and match.end() + length <= len(array.name):
            parts.append(array.name[match.end() : match.end() + length])
            at = match.end() + length
    return f"{parts[-1]} ({array.size} bytes)"


def look_between_arrays(
    function: DecodedFunction, ptx: Ptx, launch: Callable[[Gaps, Cubin], None], findings: Findings,
    point: Callable[..., Point],
) -> list[str]:  # fmt: skip
    """Report the accesses to gaps, at the instructions of the original kernel. Returns the notes.

    `launch` executes a kernel of a cubin with a listener.
    """
    apart = set_apart(ptx, function.name, function.shared_base)
    if not isinstance(apart, Apart):
        return [apart] if apart else []
    cubin = read_cubin(apart.cubin)
    gaps, again = (Gaps(apart, fill) for fill in _FILLS)
    with suppress(GpuemuError):  # Shared memory has no room for the gaps.
        launch(gaps, cubin)
    # A read whose value is unused does no harm. CUB's merge sort has such reads.
    if any(miss.access == "load" for miss in gaps.found.values()) and gaps.outcome is not None:
        launch(again, cubin)
        if again.outcome == gaps.outcome:
            gaps.found = {offset: miss for offset, miss in gaps.found.items() if miss.access != "load"}
    for miss in gaps.found.values():
        line, mnemonic = apart.ptx.line(miss.instruction), miss.instruction.mnemonic
        own = next((i for i in function.code if i.mnemonic == mnemonic and line == ptx.line(i) > 0), None)
        missed, array = gaps.sentence(miss.at, miss.size)
        does = f"{_ACCESSES[miss.access]} of {miss.size} bytes"
        here = Point(miss.instruction, miss.lane, miss.cta, None, does)
        findings.add(
            Finding(
                "memcheck", Severity.ERROR, f"Invalid __shared__ {does.replace(' of ', ' of size ', 1)}",
                f"an address of one array of shared memory runs into another: it is {missed} {array}",
                (here if own is None else point(own, miss.lane, miss.cta, does),), "", miss.times,
                f"keep the index within {array}",
            )
        )  # fmt: skip
    return []
