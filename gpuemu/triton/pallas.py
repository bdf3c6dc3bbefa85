"""Pallas on a Device: JAX runs on the CPU, and the Triton kernels of `pallas_call` run on the Device.

JAX lowers a kernel to Triton's intermediate representation also without a GPU. Triton's wheel compiles it for the
chosen chip. On the CPU, `pallas_call` becomes a call of the host, which launches the kernel on NumPy arrays.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton
from triton.backends.compiler import GPUTarget

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.triton.imports import after_import

if TYPE_CHECKING:
    from gpuemu.triton.emulated import Device

_MODULE = "jax._src.pallas.pallas_call"
_TARGET = "__gpu$xla.gpu.triton"
_WARP = 32
_PLACE = re.compile(r'loc\("([^"]*)":\d+[^)]*\)')
_FUNCTION = re.compile(r".* at (.+):(\d+)$")


@contextmanager
def pallas_on(device: Device) -> Iterator[None]:
    """A context in which a program's `pallas_call` runs on a Device. It imports nothing of JAX itself."""
    with ExitStack() as stack:
        stack.enter_context(after_import(_MODULE, lambda module: stack.callback(*_replace(module, device))))
        yield


def _replace(module: Any, device: Device) -> tuple[Any, ...]:
    """Lower `pallas_call` on the CPU to a launch, and return how to undo it."""
    import jax
    from jax._src.interpreters import mlir

    primitive = module.pallas_call_p
    rules = mlir._platform_specific_lowerings["cpu"]
    usual = mlir._lowerings[primitive]

    def lowered(ctx: Any, *operands: Any, interpret: Any, **words: Any) -> Any:
        if interpret:
            return usual.rule(ctx, *operands, interpret=interpret, **words)
        results = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in ctx.avals_out]
        kernel = _compiled(device, primitive, ctx.avals_in, {**words, "interpret": interpret})

        def launched(*arrays: Any) -> Any:
            return jax.pure_callback(kernel.launch, results, *arrays)

        return mlir.lower_fun(launched, multiple_results=True)(ctx, *operands)

    mlir.register_lowering(primitive, lowered, platform="cpu")
    return rules.pop, primitive, None


@dataclass
class _Kernel:
    """A compiled kernel with its launch; `aliases` maps operands to results in the same memory."""

    device: Device
    compiled: Any
    grid: tuple[int, int, int]
    results: list[tuple[tuple[int, ...], np.dtype[Any]]]
    aliases: Mapping[int, int]

    def launch(self, *operands: Any) -> list[np.ndarray[Any, Any]]:
        arrays = [np.array(one) for one in operands]
        sources = {result: arrays[operand] for operand, result in self.aliases.items()}
        results = [sources.get(k, np.zeros(shape, kind)) for k, (shape, kind) in enumerate(self.results)]
        metadata, cubin = self.compiled.metadata, read_cubin(self.compiled.asm["cubin"], f"{self.compiled.name}.cubin")
        kernel = cubin.kernel(metadata.name)
        arguments: list[Any] = [one.reshape(-1).view(np.uint8) for one in (*arrays, *results)]
        arguments += [np.uint64(0)] * (len(kernel.parameters) - len(arguments))
        config = LaunchConfig(
            cubin, metadata.name, self.grid, (_WARP * metadata.num_warps, 1, 1), None, metadata.shared, arguments
        )  # fmt: skip
        self.device.launch(config, kernel.registers_per_thread)
        return results


def _compiled(device: Device, primitive: Any, operands: Any, words: dict[str, Any]) -> _Kernel:
    """Compile one `pallas_call` for the Device's chip. Raises GpuemuError for a kernel of another back end."""
    import jax
    from jax.experimental.pallas.triton import CompilerParams

    name = words["jaxpr"].debug_info.func_name
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in operands]
    called = jax.jit(lambda *arrays: primitive.bind(*arrays, **words))
    if not isinstance(words["compiler_params"], CompilerParams):
        right = "Use compiler_params=jax.experimental.pallas.triton.CompilerParams()"
        raise GpuemuError.one("pallas_call", None, name, "a kernel that is not for the Triton back end", right)
    module = called.trace(*shapes).lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo")
    found = next(filter(None, map(_call, _operations(module.operation))))
    text = with_file(_text(found["ir"]), words["jaxpr"].debug_info.func_src_info)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.ttir"
        file.write_text(text, encoding="utf-8")
        target = GPUTarget("cuda", int(device.arch.code_name.removeprefix("sm_")), _WARP)
        options = {"num_warps": found["num_warps"], "num_stages": found["num_stages"]}
        compiled = triton.compile(str(file), target=target, options=options)
    results = [(tuple(one.shape), np.dtype(one.dtype)) for one in words["out_avals"]]
    grid = (found["grid_x"], found["grid_y"], found["grid_z"])
    return _Kernel(device, compiled, grid, results, dict(words["input_output_aliases"]))


def _operations(operation: Any) -> Iterator[Any]:
    yield operation
    for region in operation.regions:
        for inner in itertools.chain.from_iterable(region):
            yield from _operations(inner.operation)


def _call(operation: Any) -> dict[str, Any] | None:
    """The configuration of a call of Triton's kernel."""
    if operation.name != "stablehlo.custom_call" or operation.attributes["call_target_name"].value != _TARGET:
        return None
    given = operation.attributes["mhlo.backend_config"]
    return {one.name: getattr(one.attr, "value_bytes", None) or one.attr.value for one in given if one.name != "debug"}


def _text(code: bytes) -> str:
    """Triton's intermediate representation as text, with places in the source."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.triton import dialect

    with mlir.make_ir_context() as context:
        dialect.register_dialect(context)
        return str(ir.Module.parse(code).operation.get_asm(enable_debug_info=True))


def with_file(text: str, function: str) -> str:
    """The representation with the kernel's own place for what has no place, or one in another file.

    JAX writes no place for the kernel, from which the compiler takes the file of all lines. `function` is JAX's
    description of the Python function: its name, file and line.
    """
    found = _FUNCTION.match(function)
    if found is None:
        return text
    own = f'loc("{found[1]}":{found[2]}:0)'
    text = _PLACE.sub(lambda place: place[0] if place[1] == found[1] else own, text)
    return text.replace("loc(unknown)", own)
