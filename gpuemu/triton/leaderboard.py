"""Problems of public leaderboards as they are: gpu-mode's folders, and KernelBench's files.

A folder of gpu-mode has task.yml, which names its files, and reference.py with `generate_input`, `ref_kernel` and
`check_implementation`. A file of KernelBench has `Model`, `get_inputs` and `get_init_inputs`. torch on the CPU computes
the references. The judge's seeds replace those that a problem publishes.
"""

from __future__ import annotations

import ast
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.triton.emulated import Device
from gpuemu.triton.on_the_cpu import on_the_cpu
from gpuemu.triton.structure import Solution, TensorView, Tree, leaves, mapped
from gpuemu.triton.taking_tensors import built

Storages = list[NDArray[np.uint8]]
TOLERANCES = (
    (("float16", "bfloat16"), 1e-2),
    (("float8_e4m3fn", "float8_e4m3fnuz"), 1 / 8),
    (("float8_e5m2", "float8_e5m2fnuz"), 1 / 4),
)
"""The tolerance of types that are compared as float32, as a share of a magnitude."""
_SEEDS = 1 << 31
_HIDDEN = ("submission", "reference", "eval")
"""Files of a gpu-mode problem that a solution does not import."""
_TASK = "task.yml"


class Leaderboard(ABC):
    """A problem. `cases` has the arguments of each draw; those from number `compared` on are timed, too."""

    ranking_by = "last"
    checks = False
    """Whether the problem has a check of its own. Otherwise outputs are compared with the reference's."""

    def __init__(self, file: str, arch: Architecture, cases: Sequence[Mapping[str, Any]], compared: int):
        self.file, self.cases, self.compared = file, list(cases), compared
        self._device = Device(arch, False, False, 1)
        self._modules: dict[str, ModuleType] = {}

    @abstractmethod
    def solution(self) -> Solution:
        """The description of a solution for a confined process, which calls it."""

    @abstractmethod
    def _make(self, number: int, seed: int) -> Tree: ...

    @abstractmethod
    def _reference(self, data: Tree) -> Tree: ...

    def inputs(self, number: int, seed: int) -> tuple[Storages, Tree]:
        """The inputs of a draw: its memory, and the tree of views into it."""
        with self.running(), _defined_memory():
            seed_everything(seed)
            return flattened(self._make(number, seed))

    def outputs(self, memory: Storages, tree: Tree) -> tuple[Tree, set[int]]:
        """The reference's output, and the numbers of the memory that the reference changes."""
        copies = [one.copy() for one in memory]
        with self.running():
            found = self._reference(built_on(tree, copies))
        changed = {n for n, (a, b) in enumerate(zip(memory, copies, strict=True)) if not np.array_equal(a, b)}
        return found, changed

    def wrong(self, memory: Storages, tree: Tree, output: Tree, expected: Tree) -> str:
        """Why the problem's own check refuses an output, or "". `memory`: before the call. A problem may have none."""
        return ""

    def verify(self, seed: int) -> None:
        """Raise GpuemuError if inputs do not depend on the seed, or outputs do not depend on the inputs."""
        draws = [self.inputs(0, seed), self.inputs(0, seed + 1)]
        first, second = (memory for memory, _ in draws)
        if all(np.array_equal(a, b) for a, b in zip(first, second, strict=False)):
            raise self._flaw("its inputs are equal for all seeds", "Draw them from the seed")
        expected = [self.outputs(*draw)[0] for draw in draws]
        values = [[one for one in leaves(tree) if isinstance(one, torch.Tensor)] for tree in expected]
        if all(torch.equal(a, b) for a, b in zip(*values, strict=False)):
            raise self._flaw("its output is equal for all inputs", "Use a problem whose output depends on its inputs")
        zeros = mapped(expected[0], lambda one: torch.zeros_like(one) if isinstance(one, torch.Tensor) else one)
        if self.checks and any(bool(one.any()) for one in values[0]) and not self.wrong(*draws[0], zeros, expected[0]):
            raise self._flaw("its check accepts an output of zeros", "Make its tolerances relative to the output")

    def _flaw(self, found: str, right: str) -> GpuemuError:
        return GpuemuError.one(self.file, None, "", found, right)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context for the problem's own code: "cuda" is the CPU, and its files can be imported."""
        before = {name: sys.modules.get(name) for name in self._modules}
        sys.modules.update(self._modules)
        try:
            with on_the_cpu(self._device), torch.no_grad():
                yield
        finally:
            for name, module in before.items():
                if module is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module

    def _import(self, name: str, path: Path, code: Any = None) -> ModuleType:
        """Import one of the problem's files under a name."""
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        self._modules[name] = module = module_from_spec(spec)
        with self.running():
            if code is None:
                spec.loader.exec_module(module)
            else:
                exec(code, module.__dict__)
        return module


class GpuMode(Leaderboard):
    """A folder with task.yml."""

    checks = True

    def __init__(self, file: str, arch: Architecture, settings: Mapping[str, Any]):
        task = strict_yaml.load(str(Path(file) / _TASK)).value
        tests, timed = (self._cases(task, name, settings) for name in ("tests", "benchmarks"))
        super().__init__(file, arch, [*tests, *timed], len(tests))
        if not tests or not timed:
            raise self._flaw(f"{_TASK} has no tests or no benchmarks", "Add both")
        self.ranking_by = str(task.get("ranking_by", "last"))
        self._paths = {
            Path(one["name"]).stem: Path(file) / one["source"]
            for one in task.get("files", ())
            if str(one["name"]).endswith(".py") and not str(one["source"]).startswith("@")
        }
        for name in sorted(self._paths, key=lambda name: name == "reference"):
            if name != "eval":
                self._import(name, self._paths[name])
        self._names = vars(self._modules["reference"]) if "reference" in self._modules else {}
        for name in ("generate_input", "ref_kernel", "check_implementation"):
            if not callable(self._names.get(name)):
                raise self._flaw(f"reference.py has no {name}", "Define it")

    @staticmethod
    def _cases(task: Any, name: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The cases, with `settings` in place of their values. Equal ones remain once."""
        found: list[dict[str, Any]] = []
        for one in task.get(name) or ():
            case = {**one, **{key: value for key, value in settings.items() if key in one}}
            if not any({**case, "seed": 0} == {**other, "seed": 0} for other in found) or not settings:
                found.append(case)
        return found

    def solution(self) -> Solution:
        given = [(name, str(path)) for name, path in self._paths.items() if name not in _HIDDEN]
        return Solution("custom_kernel", modules=tuple(given))

    def _make(self, number: int, seed: int) -> Tree:
        case = dict(self.cases[number])
        if "seed" in case:
            case["seed"] = seed
        return self._names["generate_input"](**case)

    def _reference(self, data: Tree) -> Tree:
        return self._names["ref_kernel"](data)

    def wrong(self, memory: Storages, tree: Tree, output: Tree, expected: Tree) -> str:
        told = _not_finite(output, expected)
        if told:
            return told
        with self.running():
            found = self._names["check_implementation"](built_on(tree, [one.copy() for one in memory]), output)
        good, message = found if isinstance(found, tuple) else (not found or found is True, found)
        return "" if good else str(message or "check_implementation says that it is wrong")


class KernelBench(Leaderboard):
    """A file with a class Model."""

    def __init__(self, file: str, arch: Architecture, settings: Mapping[str, Any], draws: int, seed: int):
        super().__init__(file, arch, [{}] * (draws + 1), draws)
        module = self._import("problem", Path(file), _with_constants(file, settings))
        self._names = vars(module)
        self._seed = seed
        init = self._names.get("get_init_inputs", list)
        with self.running():
            self._init = tuple(init())
        if any(isinstance(one, torch.Tensor) for one in leaves(self._init)):
            raise self._flaw("get_init_inputs returns tensors", "Return numbers, strings and lists of them")

    def solution(self) -> Solution:
        return Solution("ModelNew", self._init, seed=self._seed)

    def _make(self, number: int, seed: int) -> Tree:
        return list(self._names["get_inputs"]())

    def _reference(self, data: Tree) -> Tree:
        seed_everything(self._seed)
        return self._names["Model"](*self._init)(*data)


def read_leaderboard(file: str, arch: Architecture, settings: Mapping[str, Any], draws: int, seed: int) -> Leaderboard:
    """The problem of a file or folder. `draws` and the weights' `seed` are for KernelBench. Raises GpuemuError."""
    if Path(file).is_dir():
        return GpuMode(file, arch, settings)
    return KernelBench(file, arch, settings, draws, seed)


def _with_constants(file: str, settings: Mapping[str, Any]) -> Any:
    """The code of a file, with other values for its constants. Raises GpuemuError."""
    tree = ast.parse(Path(file).read_bytes(), file)
    missing = dict(settings)
    for one in tree.body:
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
            name = one.targets[0].id
            if name in settings:
                one.value = ast.copy_location(ast.Constant(settings[name]), one.value)
                missing.pop(name, None)
    if missing:
        raise GpuemuError.one("--set", None, next(iter(missing)), f"{file} has no such constant", "Choose another")
    return compile(tree, file, "exec")


@contextmanager
def _defined_memory() -> Iterator[None]:
    """A context in which torch.empty holds no numbers (NaN), instead of what was there."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def seed_everything(seed: int) -> None:
    """Seed the random numbers of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # the names that problems use
    torch.manual_seed(seed)


def flattened(tree: Tree) -> tuple[Storages, Tree]:
    """The memory of all tensors of a tree, and the tree with TensorViews in their place."""
    memory: Storages = []
    known: dict[int, int] = {}

    def view(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        storage = leaf.untyped_storage()
        if storage.data_ptr() not in known or not storage.nbytes():
            known[storage.data_ptr()] = len(memory)
            content = torch.empty(0, dtype=torch.uint8).set_(storage)
            memory.append(content.numpy().copy())
        dtype = str(leaf.dtype).removeprefix("torch.")
        shape, strides = tuple(leaf.shape), tuple(leaf.stride())
        return TensorView(known[storage.data_ptr()], leaf.storage_offset(), shape, strides, dtype)

    return memory, mapped(tree, view)


def built_on(tree: Tree, memory: Storages) -> Tree:
    """The tree with torch's tensors on the memory."""
    return built(tree, [torch.from_numpy(one).untyped_storage() for one in memory])


def kind(leaf: Any) -> str:
    """The type and shape of a tensor, or another value itself."""
    if not isinstance(leaf, torch.Tensor):
        return str(leaf)
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"


def numbers(tensor: Any) -> tuple[NDArray[Any], float | None] | None:
    """The elements of a tensor as an array, and the tolerance of its type. None: the judge's own tolerance.

    None for another value.
    """
    if not isinstance(tensor, torch.Tensor):
        return None
    tolerance = next((share for names, share in TOLERANCES if str(tensor.dtype).removeprefix("torch.") in names), None)
    return (tensor.float() if tolerance is not None else tensor).detach().numpy(), tolerance


def _not_finite(output: Tree, expected: Tree) -> str:
    """A check may accept a NaN, because it is neither too large nor too small."""
    found = [one for one in leaves(output) if isinstance(one, torch.Tensor) and one.is_floating_point()]
    if all(bool(torch.isfinite(one.float()).all()) for one in found):
        return ""
    right = [one for one in leaves(expected) if isinstance(one, torch.Tensor)]
    if any(not bool(torch.isfinite(one.float()).all()) for one in right):
        return ""
    return "the output has elements that are no finite numbers, and the reference's has none"
