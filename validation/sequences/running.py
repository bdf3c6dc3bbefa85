"""Launches built sequences on the GPU of this machine and keeps every launch's clocks; CuPy and NumPy suffice.

    FOLDER/sequences.json       what `build` wrote: architecture, and of each sequence its name, warps and cubin
    FOLDER/clocks.json          what `run` adds: the device, and of each sequence and launch the clocks of each warp

The clocks of the second of a launch's passes are kept, as `measure` does.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from validation import measure
from validation.build import Report
from validation.corpus.kernel import OUTPUT_WORDS, input_words
from validation.measure import MeasureError

KERNEL = "sequence"
WORDS_PER_THREAD = 128
SHARED_BYTES = 32768
SEQUENCES_FILE, CLOCKS_FILE = "sequences.json", "clocks.json"
LAUNCHES = 5
_LANES = 32

Clocks = list[list[int]]
"""For each warp the clock before the body, the clocks that the body reads, and the clock after it, counted from the
earliest.
"""


@dataclass(frozen=True)
class Built:
    """A sequence of a folder; `file` is its cubin, and `reads` how many clocks its body reads."""

    name: str
    warps: int
    file: str
    reads: int = 0


def write_built(folder: Path, arch: str, built: list[Built]) -> None:
    """Write sequences.json."""
    _write(folder / SEQUENCES_FILE, {"arch": arch, "sequences": [asdict(one) for one in built]})


def read_built(folder: Path) -> tuple[str, list[Built]]:
    """The architecture and the sequences of a folder; MeasureError where there are none."""
    path = folder / SEQUENCES_FILE
    if not path.is_file():
        raise MeasureError(f"{folder} holds no {SEQUENCES_FILE}; `python -m validation sequences build` writes it")
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["arch"], [Built(**one) for one in found["sequences"]]


def read_clocks(folder: Path) -> dict[str, list[Clocks]]:
    """By name the clocks of every launch; MeasureError where the folder was not run."""
    path = folder / CLOCKS_FILE
    if not path.is_file():
        raise MeasureError(f"{folder} holds no {CLOCKS_FILE}; `python -m validation sequences run` writes it")
    clocks: dict[str, list[Clocks]] = json.loads(path.read_text(encoding="utf-8"))["clocks"]
    return clocks


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, sort_keys=True) + "\n", encoding="utf-8")


def run(folder: Path, report: Report = print) -> Path:
    """Launch every sequence of a folder; returns the file written. Raises MeasureError."""
    arch, built = read_built(folder)
    cp = measure.cupy()
    facts = measure.device_facts(cp)
    if arch != "sm_" + facts["compute_capability"].replace(".", ""):
        raise MeasureError(f"{folder} holds code for {arch}, and this GPU has {facts['compute_capability']}")
    out, inputs = cp.zeros(OUTPUT_WORDS, dtype=cp.uint32), cp.asarray(input_words())

    refusals = (cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError)  # launching, loading

    def launch(one: Built) -> Clocks:
        try:
            function = cp.RawModule(path=str(folder / one.file)).get_function(KERNEL)
            function((1,), (_LANES * one.warps,), (out, inputs, np.int32(1)), shared_mem=SHARED_BYTES)
            cp.cuda.runtime.deviceSynchronize()
        except refusals as error:
            raise MeasureError(f"{one.name}: {error}") from None
        words = cp.asnumpy(out[: WORDS_PER_THREAD * _LANES * one.warps]).reshape(one.warps, _LANES, WORDS_PER_THREAD)
        clocks: Clocks = measure.from_zero(words[:, 0, : 2 + one.reads]).tolist()
        return clocks

    end = time.monotonic() + measure.WARM_UP_SECONDS
    while time.monotonic() < end:
        launch(built[0])
    clocks = {one.name: [launch(one) for _ in range(LAUNCHES)] for one in built}
    path = folder / CLOCKS_FILE
    _write(path, {"device": facts, "clocks": clocks})
    report(f"{len(clocks)} sequences, {LAUNCHES} launches each, to {path}")
    return path
