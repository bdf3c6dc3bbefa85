"""Compare the kernels of two folders of cubins: cycles, and the cause of each difference with its source line.

    compared = compare_folders("before", "after", launches=read, jobs=2)
    compared[0].kernel, compared[0].change, compared[0].cause        # "gemm", 0.09, "spills at gemm.cu:41"

Kernels with equal code are not executed. A kernel without a launch, and without a default one, is compared by its code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpuemu.arch import Architecture, load_arch
from gpuemu.base.cores import cores
from gpuemu.base.errors import GpuemuError
from gpuemu.chip.tracing import execute_launch
from gpuemu.emulate import replay
from gpuemu.program.lowering import lower
from gpuemu.sass.image.cubin import Cubin, Kernel
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.sass.machine.memory.arguments import default_arguments
from gpuemu.sass.tools.disassembly import decode_function, load_cubin
from gpuemu.studies.elsewhere import Lost, Workers
from gpuemu.trace.launch_limits import extent
from gpuemu.views.costly_lines import place_of
from gpuemu.views.json_result import as_data
from gpuemu.views.metrics import metrics
from gpuemu.views.source import instructions

BUDGET = 20_000_000
_BLOCK = 128
_LEAST = 0.005
"""A change of cycles below this share has no cause worth naming."""
_SPILLS = ("LDL", "STL")
EQUAL, TIMED, CODE, ADDED, REMOVED, REFUSED = "equal", "timed", "code", "added", "removed", "refused"
"""The kinds of comparison: the same code; executed; by the code only; only in B; only in A; B cannot run."""
Figures = dict[str, int]


@dataclass(frozen=True)
class Compared:
    """A kernel in both folders. `a` and `b` are figures by the names of `gpuemu diff`; `note` is a sentence, or ""."""

    file: str
    kernel: str
    kind: str
    a: Figures = field(default_factory=dict)
    b: Figures = field(default_factory=dict)
    cause: str = ""
    note: str = ""

    @property
    def change(self) -> float | None:
        """The growth of the cycles as a share of A's, or None if they are not known."""
        before, after = self.a.get("cycles"), self.b.get("cycles")
        if self.kind == EQUAL:
            return 0.0
        return None if not before or after is None else after / before - 1


@dataclass(frozen=True)
class LaunchOf:
    """The launch of the kernels whose file and name match; the fields are those of a configuration of `rank`."""

    path: str
    kernel: str | None
    words: Mapping[str, Any]

    def fits(self, file: str, kernel: Kernel) -> bool:
        """Whether this is the launch of a kernel. `path` may be a pattern such as "gemm_*.cubin"."""
        return fnmatchcase(file, self.path) and self.kernel in (None, kernel.name, kernel.source_name)


@dataclass(frozen=True)
class _Job:
    """The shared part of all tasks. A task is a file's path relative to both folders."""

    folders: tuple[str, str]
    arch: Architecture | None
    launches: tuple[LaunchOf, ...]

    def run(self, file: str) -> list[Compared]:
        """The comparisons of a file's kernels."""
        paths = [Path(one, file) for one in self.folders]
        try:
            cubins = [load_cubin(str(path)) if path.is_file() else None for path in paths]
        except GpuemuError as error:
            return [Compared(file, "", REFUSED, note=str(error.problems[0]))]
        named = [{} if one is None else {kernel.name: kernel for kernel in one.kernels.values()} for one in cubins]
        found = []
        for name in sorted({*named[0], *named[1]}):
            a, b = (one.get(name) for one in named)
            if a is None or b is None:
                found.append(Compared(file, name, ADDED if a is None else REMOVED))
            else:
                assert cubins[0] is not None
                assert cubins[1] is not None
                found.append(self._compared(file, (cubins[0], a), (cubins[1], b)))
        return found

    def _compared(self, file: str, a: tuple[Cubin, Kernel], b: tuple[Cubin, Kernel]) -> Compared:
        name = b[1].source_name
        if _same(a[1], b[1]):
            return Compared(file, name, EQUAL)
        launch = next((one for one in self.launches if one.fits(file, b[1])), None)
        sides = []
        for cubin, kernel in (a, b):
            try:
                sides.append(self._run(cubin, kernel, launch))
            except GpuemuError as error:
                told = str(error.problems[0])
                if launch is None:
                    codes = [_code_figures(*one) for one in (a, b)]
                    return Compared(file, name, CODE, codes[0].figures, codes[1].figures, _cause(*codes), told)
                kind = REFUSED if kernel is b[1] else ADDED
                return Compared(file, name, kind, note=told)
        return Compared(file, name, TIMED, sides[0].figures, sides[1].figures, _cause(*sides))

    def _run(self, cubin: Cubin, kernel: Kernel, given: LaunchOf | None) -> _Side:
        arch = self.arch or load_arch(cubin.arch.rstrip("af"))
        words: dict[str, Any] = {"block": kernel.required_block or _BLOCK, **(given.words if given is not None else {})}
        args = words.get("args") or default_arguments(decode_function(cubin, kernel.name))
        config = LaunchConfig(
            cubin, kernel.name, extent("grid", words.get("grid", 1), cubin.file),
            extent("block", words.get("block", _BLOCK), cubin.file), None, int(words.get("dynamic_shared_bytes", 0)),
            [one.copy() if hasattr(one, "copy") else one for one in args], arch, timed_only=True, budget=BUDGET,
            zero_shared=True,
        )  # fmt: skip
        trace = execute_launch(config)
        program = lower(trace, arch)
        result = replay(trace, arch, program)
        side = _code_figures(cubin, kernel)
        side.figures = {**metrics(as_data(result)), **side.figures}
        side.lines = _lines(zip(instructions(program, result.log), program.code, strict=True))
        return side


@dataclass
class _Side:
    """The figures of one side, and counts by source line: name → place → number."""

    figures: Figures
    lines: dict[str, Counter[str]]


def _same(a: Kernel, b: Kernel) -> bool:
    needs = (
        "machine_code", "registers_per_thread", "static_shared_bytes", "local_bytes", "constant_banks", "parameters",
    )  # fmt: skip
    return all(getattr(a, name) == getattr(b, name) for name in needs)


def _code_figures(cubin: Cubin, kernel: Kernel) -> _Side:
    """The figures of the code alone."""
    function = decode_function(cubin, kernel.name)
    lines: dict[str, Counter[str]] = {"spills": Counter(), "instructions": Counter()}
    for one in function.code:
        place = _place(one)
        lines["instructions"][place] += 1
        lines["spills"][place] += one.mnemonic in _SPILLS
    figures = {
        "registers": kernel.registers_per_thread, "spilled_bytes": kernel.local_bytes,
        "static_shared_bytes": kernel.static_shared_bytes, "code_instructions": len(function.code),
        "spill_instructions": sum(lines["spills"].values()),
    }  # fmt: skip
    return _Side(figures, lines)


def _place(instruction: Any) -> str:
    """The source line of an instruction, or its mnemonic in code without lines."""
    place, _ = place_of(instruction, "", {})
    if place.line is None or not place.file:
        return str(instruction.mnemonic)
    return f"{Path(place.file).name}:{place.line}"


def _lines(rows: Iterable[tuple[Any, Any]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {
        name: Counter() for name in ("spills", "bank conflicts", "uncoalesced accesses", "instructions", "cycles")
    }
    for row, instruction in rows:
        place = _place(instruction)
        found["spills"][place] += row.executed if instruction.mnemonic in _SPILLS else 0
        found["bank conflicts"][place] += row.excess_wavefronts
        found["uncoalesced accesses"][place] += row.excess_sectors
        found["instructions"][place] += row.executed
        found["cycles"][place] += row.cycles
    return found


def _cause(a: _Side, b: _Side) -> str:
    """The cause of a difference in words: the first of the known causes that changed as the cycles did."""
    before, after = a.figures.get("cycles"), b.figures.get("cycles")
    if before and after is not None and abs(after / before - 1) < _LEAST:
        return ""
    known = before is not None and after is not None
    slower = after > before if known else _totals(b) > _totals(a)  # type: ignore[operator]
    worse, better = (b, a) if slower else (a, b)
    fewer = "" if slower else "fewer "
    for name in ("spills", "bank conflicts", "uncoalesced accesses"):
        grown = worse.lines.get(name, Counter()) - better.lines.get(name, Counter())
        if sum(grown.values()):
            return f"{fewer}{name} at {_most(grown)}"
    ctas = [one.figures.get("resident_ctas", 0) for one in (worse, better)]
    if ctas[0] < ctas[1]:
        registers = [one.figures["registers"] for one in (a, b)]
        counts = [one.figures["resident_ctas"] for one in (a, b)]
        return f"{counts[1]} resident CTAs instead of {counts[0]} (registers {registers[0]} to {registers[1]})"
    grown = worse.lines["instructions"] - better.lines["instructions"]
    total = sum(better.lines["instructions"].values()) or 1
    if sum(worse.lines["instructions"].values()) > total * (1 + _LEAST):
        return f"{'more' if slower else 'fewer'} instructions at {_most(grown)}"
    stalls = Counter({n[6:]: v for n, v in worse.figures.items() if n.startswith("stall.")})
    stalls.subtract({n[6:]: v for n, v in better.figures.items() if n.startswith("stall.")})
    waits = worse.lines.get("cycles", Counter()) - better.lines.get("cycles", Counter())
    if not stalls or not waits:
        return ""
    return f"{'more' if slower else 'fewer'} stalls ({_most(stalls)}) at {_most(waits)}"


def _totals(side: _Side) -> tuple[int, int]:
    return sum(side.lines["spills"].values()), sum(side.lines["instructions"].values())


def _most(counts: Counter[str]) -> str:
    """The name with the largest count; the first by name if several have it."""
    return min(counts, key=lambda name: (-counts[name], name))


def compare_folders(
    a: str, b: str, arch: Architecture | None = None, launches: Sequence[LaunchOf] = (), jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Compared]:  # fmt: skip
    """The comparisons of all kernels, by file and name. Raises GpuemuError if a folder has no cubins."""
    files = [{path.relative_to(one).as_posix() for path in Path(one).rglob("*.cubin")} for one in (a, b)]
    for folder, names in zip((a, b), files, strict=True):
        if not names:
            raise GpuemuError.one(folder, None, "", "there are no cubins in it", "Give a folder with .cubin files")
    tasks = sorted(files[0] | files[1])
    told = progress or (lambda done, total: None)
    found: dict[int, list[Compared]] = {}
    with Workers(_Job((a, b), arch, tuple(launches)), min(jobs or cores(), len(tasks))) as workers:
        for number, outcome in workers.run(tasks):
            lost = isinstance(outcome, Lost)
            found[number] = [Compared(tasks[number], "", REFUSED, note=str(outcome))] if lost else outcome
            told(len(found), len(tasks))
    return [one for number in range(len(tasks)) for one in found[number]]


def worst_first(compared: Iterable[Compared]) -> list[Compared]:
    """Comparisons in the order of a report: those that cannot run, then the slowest ones, then those without cycles."""
    order = {REFUSED: 0, REMOVED: 1, TIMED: 2, CODE: 3, ADDED: 4, EQUAL: 5}
    return sorted(compared, key=lambda one: (order[one.kind], -(one.change or 0.0), one.file, one.kernel))
