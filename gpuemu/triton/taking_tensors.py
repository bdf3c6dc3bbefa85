"""Record the launches of a leaderboard's solution: `custom_kernel(data)`, or the object of a class `ModelNew`.

Tensors are torch's, in protected memory: the host gets shapes and types, and no contents. Memory that the solution
fills before it is called (weights, tables) keeps its values, which go into the answer.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import torch

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.triton.inline_cuda import loading_inline
from gpuemu.triton.left_to_torch import watched
from gpuemu.triton.script import run_script
from gpuemu.triton.structure import Solution, TensorView, Tree, mapped
from gpuemu.triton.taking import Buffer
from gpuemu.triton.tensor_recorder import TensorRecorder, tensor_in


def built(tree: Tree, storages: Sequence[Any]) -> Tree:
    """The tree with torch's tensors in place of TensorViews."""

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, TensorView):
            return leaf
        dtype = getattr(torch, leaf.dtype)
        if 0 in leaf.shape:
            return torch.empty(leaf.shape, dtype=dtype)
        return tensor_in(storages[leaf.memory], dtype, leaf.offset, leaf.shape, leaf.strides)

    return mapped(tree, one)


def take_solution(
    file: str, arch: Architecture, solution: Solution, draws: Sequence[tuple[Sequence[Buffer], Tree]]
) -> dict[str, Any]:
    """The launches and outputs of a solution for each draw, in the form of `gpuemu.studies.judge.inside`.

    A draw is the buffers of its memory, and the tree of its arguments. Raises GpuemuError.
    """
    from gpuemu.triton.driver import active

    device = TensorRecorder(arch, file)
    taken, outputs = [], []
    with active(device), _modules(solution), loading_inline(device):
        torch.manual_seed(solution.seed)
        with device.seen:
            names = run_script(file, name="judged")
            found = _called(file, names, solution)
        for one in found.buffers() if isinstance(found, torch.nn.Module) else ():
            device.seen.keep(one)
        for buffers, tree in draws:
            data = built(tree, device.begin(buffers))
            arguments = (data,) if solution.call == "custom_kernel" else tuple(data)
            with torch.no_grad(), watched(file, device.allocate, lambda one: device.zeroed(one.data_ptr(), one.nbytes)):
                answered = found(*arguments)
            outputs.append(_plain(answered, device))
            taken.append(device.draw)
    return {
        "cubins": device.cubins, "launches": [one.launches for one in taken], "scratch": [one.scratch for one in taken],
        "outputs": outputs, "values": [base64.b64encode(one.tobytes()).decode() for one in device.values],
    }  # fmt: skip


def _called(file: str, names: dict[str, Any], solution: Solution) -> Any:
    found = names.get(solution.call)
    if not callable(found):
        right = f"Define {solution.call}, as the leaderboard asks"
        raise GpuemuError.one(file, None, "", f"there is no {solution.call}", right)
    return found if solution.call == "custom_kernel" else found(*solution.init)


def _plain(answered: Any, device: TensorRecorder) -> Any:
    """The tree of what a solution returned, in JSON."""
    if isinstance(answered, torch.Tensor):
        return device.output(answered)
    if type(answered) in (list, tuple):
        return [_plain(one, device) for one in answered]
    if type(answered) is dict:
        return {"named": {str(name): _plain(one, device) for name, one in answered.items()}}
    if answered is None or type(answered) in (bool, int, float, str):
        return {"value": answered}
    found = f"found that it returns an object of {type(answered).__module__}.{type(answered).__qualname__}"
    raise GpuemuError.one(device.file, None, "", found, "Return torch.Tensors")


@contextmanager
def _modules(solution: Solution) -> Iterator[None]:
    """A context in which the problem's files can be imported by their names."""
    with ExitStack() as stack:
        for name, path in solution.modules:
            spec = spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            before = sys.modules.get(name)
            sys.modules[name] = module
            stack.callback(_restore, name, before)
            spec.loader.exec_module(module)
        yield


def _restore(name: str, before: Any) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before
