"""The requests to a confined process: the machine code of a CUDA source, or the launches of a Python file.

The answer is JSON, which its reader does not trust:

    {"cubins": [BASE64, ...], "launches": [[LAUNCH, ...], ...], "scratch": [[SCRATCH, ...], ...]}
    {"refused": "a sentence"}, or {"memory": true} if the memory did not suffice

Launches and scratch memory are listed for each draw. A LAUNCH has `cubin` (a number), `kernel`, `grid`, `block`,
`cluster`, `shared_bytes` and `args`. Each argument is {"input": N, "offset": BYTES}, {"scratch": N, "offset": BYTES},
{"type": "int32", "bits": HEX}, {"bits": HEX}, or a structure {"members": [ARGUMENT, ...]}. A SCRATCH has `bytes`, and
`zeros` if the host filled it with zeros, or `values`, the number of its contents in the answer's `values` (BASE64).

The solution of a leaderboard also has `outputs`, one tree per draw: a list of trees, {"named": {NAME: TREE}},
{"value": VALUE}, or a tensor: {"input": N} or {"scratch": N} with `offset`, `shape`, `strides` and `dtype`.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_source
from gpuemu.base.shown import shown_in_a_line

MOST_LETTERS = 2000
"""The most characters of a sentence in an answer."""


def answer(request: bytes) -> bytes:
    """The answer to a request of the judge's own, a pickle of (name, words)."""
    name, words = pickle.loads(request)
    try:
        found = _ANSWERS[name](*words)
    except GpuemuError as error:
        found = {"refused": str(error.problems[0])}
    except MemoryError:
        found = {"memory": True}
    except BaseException as error:
        found = {"refused": f"{type(error).__name__}: {_text(error)}"}
    return json.dumps(found).encode()


def _text(error: BaseException) -> str:
    """The message of an exception, whose class may be code of the candidate."""
    try:
        return shown_in_a_line(str(error))[:MOST_LETTERS]
    except BaseException:
        return "it says nothing"


def _compile(file: str, arch: str, options: list[str], kernel: str | None) -> dict[str, Any]:
    if is_source(file) and "<" not in (kernel or ""):  # the judge reads the code: this process need not load a reader
        from gpuemu.sass.tools.toolchain import compile_cuda

        return {"cubins": [_plain(compile_cuda(file, arch, options=options))]}
    from gpuemu.sass.tools.disassembly import load_cubin

    return {"cubins": [_plain(load_cubin(file, arch, options=options, kernel=kernel).content)]}


def _launches(file: str, arch: Any, draws: list[list[Any]]) -> dict[str, Any]:
    from gpuemu.triton.taking import take

    found = take(file, arch, draws)
    return {**found, "cubins": [_plain(content) for content in found["cubins"]]}


def _solution(file: str, arch: Any, solution: Any, draws: list[Any]) -> dict[str, Any]:
    from gpuemu.triton.taking_tensors import take_solution

    found = take_solution(file, arch, solution, draws)
    return {**found, "cubins": [_plain(content) for content in found["cubins"]]}


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "compile": _compile, "launches": _launches, "solution": _solution,
}  # fmt: skip


def _plain(content: bytes) -> str:
    return base64.b64encode(content).decode()
