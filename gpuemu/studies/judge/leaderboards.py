"""A problem of a public leaderboard as the judge uses it; see gpuemu.triton.leaderboard."""

from __future__ import annotations

import ast
import importlib.util
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.base.shown import shown_in_a_line
from gpuemu.studies.judge import box
from gpuemu.studies.judge.comparing import wrong
from gpuemu.studies.judge.kernels import Found, JudgedDraw, bytes_of, checked_solution
from gpuemu.studies.judge.problem import Draw, ProblemError, chance
from gpuemu.triton.structure import TensorView, Tree, leaves
from gpuemu.triton.taking import Buffer

if TYPE_CHECKING:
    from gpuemu.triton.leaderboard import Leaderboard

TASK = "task.yml"
_MOST_LETTERS = 500
_WEIGHTS = 4
"""Distinguishes the seed of a model's weights, which a candidate knows, from those of inputs."""
_MEANS: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda times: times[-1], "mean": statistics.fmean, "geom": lambda times: math.exp(
        statistics.fmean(math.log(max(one, 1e-9)) for one in times)
    ),
}  # fmt: skip
"""How a leaderboard makes one time of those of its benchmarks, by its name for it."""


def folder_of(file: str) -> str:
    """The folder of a problem of gpu-mode if `file` is such a folder or one of its files; otherwise `file`."""
    path = Path(file)
    if path.name in (TASK, "reference.py") and (path.parent / TASK).is_file():
        return str(path.parent)
    return file


def is_leaderboard(file: str) -> bool:
    """Whether a folder or a file is a problem of a public leaderboard."""
    path = Path(folder_of(file))
    if path.is_dir():
        return (path / TASK).is_file()
    if not path.is_file() or path.suffix != ".py":
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    names = {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    return {"Model", "get_inputs"} <= names


@dataclass(frozen=True)
class LeaderboardDraw(Draw):
    """`given` and `before` are the memory of the inputs; `tree` has the tensors in it.

    `changed`: the numbers of the memory that the reference changes. `output`: what the reference returns.
    """

    tree: Tree
    output: Tree
    changed: frozenset[int]


class LeaderboardProblem:
    """The interface of OwnProblem for a problem of a leaderboard."""

    def __init__(self, file: str, arch: Architecture, settings: Mapping[str, Any], draws: int, seed: int):
        if importlib.util.find_spec("torch") is None:
            raise GpuemuError.one(file, None, "", "this problem needs PyTorch", "Install it with pip install torch")
        from gpuemu.triton.leaderboard import read_leaderboard

        self.file, self._seed = file, seed
        weights = int(chance(seed, _WEIGHTS).integers(1 << 31))
        with self._its_own("the file"):
            self._board: Leaderboard = read_leaderboard(folder_of(file), arch, settings, draws, weights)
        with self._its_own("the reference"):
            self._board.verify(int(chance(seed).integers(1 << 31)))

    @property
    def compared(self) -> int:
        """The number of draws that are only compared."""
        return self._board.compared

    @property
    def timed(self) -> range:
        """The numbers of the draws that are timed, too."""
        return range(self._board.compared, len(self._board.cases))

    def case(self, number: int) -> dict[str, Any]:
        """The arguments of a draw, without its seed."""
        return {name: value for name, value in self._board.cases[number].items() if name != "seed"}

    def one_time(self, nanoseconds: Sequence[float]) -> float:
        """The leaderboard's time for those of its benchmarks."""
        return _MEANS.get(self._board.ranking_by, _MEANS["geom"])(nanoseconds)

    def launches(self, kernel: str, arch: Architecture, memory_bytes: int) -> Found:
        """The launches of a solution for each draw. Raises GpuemuError, RefusedError and LimitError."""
        if not kernel.endswith(".py"):
            raise GpuemuError.one(kernel, None, "", "this is no Python file", "Give the solution of this problem")
        draws = []
        for number in range(len(self._board.cases)):
            memory, tree = self._inputs(number)
            draws.append(([Buffer((len(one),), (1,), "|u1", len(one)) for one in memory], tree))
        solution = self._board.solution()
        reads = [path for _, path in solution.modules]
        found, lacks = box.ask("solution", (kernel, arch, solution, draws), kernel, memory_bytes, reads)
        return checked_solution(found, kernel, [buffers for buffers, _ in draws]), lacks

    def draw(self, number: int) -> LeaderboardDraw:
        """A draw with the results of the reference. Raises GpuemuError."""
        memory, tree = self._inputs(number)
        with self._its_own("the reference"):
            output, changed = self._board.outputs(memory, tree)
        return LeaderboardDraw([one.copy() for one in memory], memory, [], tree, output, frozenset(changed))

    def _inputs(self, number: int) -> tuple[list[NDArray[np.uint8]], Tree]:
        with self._its_own("the inputs"):
            return self._board.inputs(number, int(chance(self._seed, number).integers(1 << 31)))

    def differences(
        self, draw: Draw, candidate: JudgedDraw, scratch: Sequence[NDArray[np.uint8]]
    ) -> list[dict[str, Any]]:  # fmt: skip
        """How the outputs differ from the reference's, and which inputs a solution has changed."""
        from gpuemu.triton.leaderboard import built_on

        assert isinstance(draw, LeaderboardDraw)
        memory = [bytes_of(one) for one in draw.given]
        output = built_on(candidate.output, [*memory, *scratch])
        found = []
        right = self._compared(draw, output)
        if right is not None:
            found.append(right)
        returned = {one.memory for one in leaves(candidate.output) if isinstance(one, TensorView)}
        for number, (now, before) in enumerate(zip(memory, draw.before, strict=True)):
            if number not in returned | draw.changed and not np.array_equal(now, before):
                wrongly = int((now != before).sum())
                found.append(_told(number, f"input {number} is changed", elements=wrongly, of=len(now)))
        return found

    def _compared(self, draw: LeaderboardDraw, output: Tree) -> dict[str, Any] | None:
        """The first output that differs. If the problem has a check of its own, that decides."""
        pairs = [list(leaves(tree)) for tree in (output, draw.output)]
        counts = [len(one) for one in pairs]
        differences = [_told(0, f"{counts[0]} outputs; expected {counts[1]}")] if counts[0] != counts[1] else []
        for number, (got, right) in enumerate(zip(*pairs, strict=False)):
            told = _different(number, got, right)
            differences += [] if told is None else [told]
        if not self._board.checks:
            return differences[0] if differences else None
        try:
            message = self._board.wrong(draw.before, draw.tree, output, draw.output)
        except MemoryError:
            raise
        except Exception as error:  # for example because the output has another shape
            message = f"{type(error).__name__}: {error}"
        if not message:
            return None
        return {**(differences or [_told(0, "")])[0], "message": shown_in_a_line(message)[:_MOST_LETTERS]}

    @contextmanager
    def _its_own(self, function: str) -> Iterator[None]:
        """Turn an exception within into an error of the problem."""
        try:
            yield
        except (GpuemuError, MemoryError):
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise ProblemError.one(self.file, None, function, found, "Fix the problem") from None


def _told(number: int, message: str, elements: int = 1, of: int = 1) -> dict[str, Any]:
    return {
        "argument": number, "elements": elements, "of": of, "first": [], "found": "", "right": "", "unchanged": False,
        "message": message,
    }  # fmt: skip


def _different(number: int, got: Any, right: Any) -> dict[str, Any] | None:
    """How an output differs from the reference's; None if it does not."""
    from gpuemu.triton.leaderboard import kind, numbers

    if kind(got) != kind(right):
        return _told(number, f"output {number} is {kind(got)}; expected {kind(right)}")
    found, reference = numbers(got), numbers(right)
    if found is None or reference is None:
        return None
    (values, share), (expected, _) = found, reference
    told = wrong(values, values, expected, share)
    if told is None:
        return None
    place = "".join(f"[{n}]" for n in told["first"])
    what = f"{told['elements']:,} of {told['of']:,} elements {'is' if told['elements'] == 1 else 'are'} wrong"
    message = f"output {number}: {what}; {place} = {told['found']}, expected {told['right']}"
    return {**told, "argument": number, "unchanged": False, "message": message}
