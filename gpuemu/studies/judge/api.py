"""`gpuemu.judge`: a kernel that nobody trusts, against a reference.

judgement = gpuemu.judge("kernel.cu", "problem.py", chips=["RTX 4090", "H100"])
judgement["verdict"], judgement["reason"], judgement["times"][0]["nanoseconds"]
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.strict_yaml import path_text
from gpuemu.studies.elsewhere import cores
from gpuemu.studies.judge.judging import LIMIT, judge_one
from gpuemu.studies.judge.sandbox import LimitError, in_a_sandbox
from gpuemu.studies.rank.api import Arch, hardware

BUDGET = 20_000_000
SECONDS = 60.0
MEMORY_BYTES = 8 << 30
FORMAT = 1
"""Of the JSON: judgement.schema.json describes it."""


def judge(
    kernel: str | os.PathLike[str],
    against: str | os.PathLike[str],
    arch: Arch | Sequence[Arch] | None = None,
    *,
    chips: str | Iterable[str] = (),
    draws: int = 3,
    budget: int = BUDGET,
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Judge a .cu, a .cubin, or a Triton file with `launch(...)`, against a problem; JSON of judgement.schema.json.

    The problem's `inputs(rng)` are drawn `draws` times, and once more for the time; what has no values yet
    (`gpuemu.empty`) gets bits of chance. Every argument has to be what `reference(...)` makes of it. All tools of
    `gpuemu.check` look on. Times are those of the emulator, on each chip. The verdict is right, wrong (values), cheats
    (a clock is read), faulty (an error was found), refused (it cannot be compiled or executed, or takes more than
    `budget` warp instructions of a CTA) or limit (more than `seconds` or `memory_bytes`).

    Everything runs in a process that is ended at its limits, and lives on for the next judgement. Raises GpuemuError
    for a problem that is wrong in itself.
    """
    if draws < 1:
        raise GpuemuError.one("judge()", None, "draws", str(draws), "at least 1 is right")
    archs = hardware(arch, chips)
    box = f"judge {threading.current_thread().name}"
    files = [path_text(one, "judge()", "the path of a file is right") for one in (kernel, against)]
    words = (*files, archs, draws, budget, seconds, tuple(options))
    try:
        found: dict[str, Any] = in_a_sandbox(box, judge_one, words, seconds, memory_bytes)
    except LimitError as error:
        found = {
            "kernel": words[0], "against": words[1], "verdict": LIMIT, "reason": str(error), "draws": draws,
            "values": [], "findings": [], "cheats": [], "times": [],
        }  # fmt: skip
    return {"format": FORMAT, **found}


def judge_many(
    kernels: Sequence[str | os.PathLike[str]], against: str | os.PathLike[str], *words: Any, jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None, **named: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """The judgements of several kernels, in their order; `jobs` at a time, one for each core by default."""
    told = progress or (lambda done, total: None)
    found = []
    with ThreadPoolExecutor(min(jobs or cores(), len(kernels)) or 1, "box") as threads:
        for one in threads.map(lambda kernel: judge(kernel, against, *words, **named), kernels):
            found.append(one)
            told(len(found), len(kernels))
    return found
