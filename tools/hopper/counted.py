"""Holds counters of measured kernels against the emulator's: python tools/hopper/counted.py FOLDER [NAME]

FOLDER has kernels.json (how each is launched, what an H100's profiler counted) and kernels.npz (code, inputs). Prints a
line a kernel with what wgmma reads of shared memory, the sectors that come from L2 and words of banks, where they are
counted, emulated and measured, and how many kernels have all right. NAME: those whose name has it.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gpuemu

COUNTERS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__data_bank_reads.sum",
    "l1tex__data_bank_writes.sum",
)
_NOT_ALWAYS = COUNTERS[3:]


def counted(kernel: dict[str, Any], arrays: Any) -> list[tuple[int, int]]:
    """Each of COUNTERS, emulated and measured; none that the emulator does not count."""
    name, ctas = kernel["name"], math.prod(kernel["grid"])
    numbers = {"f32": np.float32, "i32": int}
    args = [
        arrays[f"{name}/in{value}"].copy() if kind == "buffer" else numbers[kind](value)
        for kind, value, *_ in kernel["args"]
    ]
    args += [np.zeros(max(4096, kernel["scratch"] * ctas), np.uint8) for _ in range(2)]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(arrays[f"{name}/cubin"].tobytes())
        file.flush()
        trace = gpuemu.trace_kernel(
            file.name, kernel["kernel"], tuple(kernel["grid"]), (32 * kernel["num_warps"], 1, 1), kernel["shared"],
            args, ctas=[0],
        )  # fmt: skip
    found = gpuemu.run(trace, "sm_90").counters
    known = [counter for counter in COUNTERS if counter in found or counter not in _NOT_ALWAYS]
    return [(found.get(counter, 0) * ctas, int(kernel["measured"][counter])) for counter in known]


def main(folder: Path, chosen: str = "") -> int:
    """The command: 1 if any differs."""
    kernels = [k for k in json.loads((folder / "kernels.json").read_text()) if chosen in k["name"]]
    equal = 0
    with np.load(folder / "kernels.npz") as arrays:
        for kernel in kernels:
            both = counted(kernel, arrays)
            equal += all(emulated == measured for emulated, measured in both)
            print(f"{kernel['name']:44}", *(f"{emulated:7,} {measured:7,}" for emulated, measured in both), flush=True)
    print(f"equal: {equal} of {len(kernels)}")
    return int(equal < len(kernels))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
