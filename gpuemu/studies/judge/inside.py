"""What is asked of a confined process: the machine code of a CUDA source, or the launches of a Triton file.

The answer is JSON, whose reader believes none of it:

    {"cubins": [BASE64, ...], "launches": [[LAUNCH, ...], ...], "scratch": [[SCRATCH, ...], ...]}
    {"refused": "a sentence"}, or {"memory": true} where the memory did not suffice

Launches and scratch memory are listed for each draw. A LAUNCH has `cubin` (a number), `kernel`, `grid`, `block`,
`cluster`, `shared_bytes` and `args`; each of these is {"input": N, "offset": BYTES}, {"scratch": N, "offset": BYTES} or
{"type": "int32", "bits": HEX}. SCRATCH has `bytes`, and `zeros` where the host filled it with zeros.
"""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.shown import shown_in_a_line

MOST_LETTERS = 2000
"""Of a sentence that an answer may have."""


def answer(request: bytes) -> bytes:
    """The answer to a request of the judge's own, a pickle of (name, words)."""
    name, words = pickle.loads(request)
    try:
        found = _compile(*words) if name == "compile" else _launches(*words)
    except GpuemuError as error:
        found = {"refused": str(error.problems[0])}
    except MemoryError:
        found = {"memory": True}
    except BaseException as error:
        found = {"refused": f"{type(error).__name__}: {_text(error)}"}
    return json.dumps(found).encode()


def _text(error: BaseException) -> str:
    """What an exception says, which is code of whoever wrote it."""
    try:
        return shown_in_a_line(str(error))[:MOST_LETTERS]
    except BaseException:
        return "it says nothing"


def _compile(file: str, arch: str, options: list[str], kernel: str | None) -> dict[str, Any]:
    from gpuemu.sass.tools.disassembly import load_cubin

    return {"cubins": [_plain(load_cubin(file, arch, options=options, kernel=kernel).content)]}


def _launches(file: str, arch: Any, draws: list[list[Any]]) -> dict[str, Any]:
    from gpuemu.triton.taking import take

    found = take(file, arch, draws)
    return {**found, "cubins": [_plain(content) for content in found["cubins"]]}


def _plain(content: bytes) -> str:
    return base64.b64encode(content).decode()
