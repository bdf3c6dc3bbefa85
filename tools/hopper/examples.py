"""Measures the example kernels of Hopper on a GPU, and holds the figures against the emulator's.

    python tools/hopper/examples.py measure OUT     # an H100 or H200, CuPy, cuda-bindings, nvcc, ncu
    python tools/hopper/examples.py compare         # no GPU: what their traces give beside h100/examples.csv

`measure` checks every result against NumPy and writes OUT/examples.csv: a row a kernel, whether its result is right,
the profiler's `sm__cycles_active.max` from the launch to the last store, the median of 15 launches behind a first one
(`warm`) and with all caches flushed before each (`flushed`), and counters. `run` is what the profiler starts.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE.parent), str(HERE)]

from example_kernels import EXAMPLES, HOPPER, SOURCES, Boxed, Example  # noqa: E402

LAUNCHES = 16
CYCLES = "sm__cycles_active.max"
COUNTERS = (
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("gmma", "ld", "st")),
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("gmma", "ld", "st")),
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
)
MEASURED = HERE / "h100" / "examples.csv"


def examples() -> list[Example]:
    """Those for Hopper alone."""
    return [example for example in EXAMPLES if example.architectures == HOPPER]


def launch(example: Example, cubin: Path, times: int) -> bool:
    """Launch an example, and whether its result is right."""
    import cupy
    from cuda.bindings import driver
    from measure import tensor_map

    function = cupy.RawModule(path=str(cubin)).get_function(example.kernel)
    function.max_dynamic_shared_size_bytes = example.dynamic_shared_bytes
    given, output, expected = example.arguments()
    buffers = [cupy.asarray(getattr(x, "array", x)) if not np.isscalar(x) else x for x in given]
    held: list[Any] = []
    for x, buffer in zip(given, buffers, strict=True):
        if isinstance(x, Boxed):
            held.append(tensor_map(buffer, x.array.shape[::-1], x.box[::-1], str(x.swizzle)))
        elif np.isscalar(x):
            held.append(np.array([x], np.float32 if isinstance(x, float) else np.int32))
        else:
            held.append(np.array([buffer.data.ptr], np.uint64))
    pointers = np.array([one.ctypes.data for one in held], np.uint64)
    for _ in range(times):
        (error,) = driver.cuLaunchKernel(
            driver.CUfunction(function.kernel.ptr), *example.grid, *example.block, example.dynamic_shared_bytes, 0,
            pointers.ctypes.data, 0,
        )  # fmt: skip
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(error)
        cupy.cuda.runtime.deviceSynchronize()
    return bool(np.allclose(cupy.asnumpy(buffers[output]), expected, rtol=0, atol=example.tolerance))


def profiled(command: list[str], metrics: tuple[str, ...], caches: str) -> list[dict[str, str]]:
    """The profiler's row of each launch of ours."""
    ncu = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
    ncu += ["--cache-control", caches, "--clock-control", "none"]
    done = subprocess.run([*ncu, *command], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    return [row for row in csv.DictReader(io.StringIO("\n".join(lines))) if row["ID"].isdigit()]


def measure(output: Path) -> None:
    """All of `measure`."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for example in examples():
            cubin = Path(folder) / f"{Path(example.source).stem}.cubin"
            if not cubin.exists():
                command = ["nvcc", "-cubin", "-lineinfo", *example.options, "-o", str(cubin)]
                subprocess.run([*command, str(SOURCES / example.source)], check=True)
            run = [sys.executable, __file__, "run", example.kernel, str(cubin)]
            row: dict[str, Any] = {"kernel": example.kernel, "right": launch(example, cubin, 1)}
            for name, caches in (("warm", "none"), ("flushed", "all")):
                found = profiled([*run, str(LAUNCHES)], (CYCLES,), caches)
                cycles = [int(r[CYCLES].replace(",", "")) for r in found if r["Kernel Name"].startswith(example.kernel)]
                row[name] = int(statistics.median(cycles[1:]))
            (counted,) = (
                r for r in profiled([*run, "1"], COUNTERS, "none") if r["Kernel Name"].startswith(example.kernel)
            )
            rows.append(row | {name: counted.get(name, "").replace(",", "") for name in COUNTERS})
    output.mkdir(parents=True, exist_ok=True)
    with (output / "examples.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def emulated(kernel: str) -> dict[str, int]:
    """The same figures of a kernel's trace, as far as the emulator has them."""
    import gpuemu

    arch = gpuemu.load_arch("sm_90")
    found = {}
    for name, first_touch in (("flushed", "dram"), ("warm", "l2")):
        result = gpuemu.run(kernel, arch.with_overrides({"global_memory.first_touch": first_touch}))
        found[name] = result.cycles
    example = next(e for e in EXAMPLES if e.kernel == kernel)
    each = math.prod(example.grid) // (example.timed_ctas or math.prod(example.grid))
    return found | {name: each * result.counters[name] for name in COUNTERS if name in result.counters}


def table() -> str:
    """Return the table of validation/accuracy.md: measured figures beside emulated ones."""
    with MEASURED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = ["| kernel | warm: emulated, H100 | | flushed: emulated, H100 | | counters equal |", "|---" * 6 + "|"]
    for row in rows:
        found = emulated(row["kernel"])
        cells = [row["kernel"] if row["right"] == "True" else f"{row['kernel']}: WRONG on the GPU"]
        for name in ("warm", "flushed"):
            measured = int(row[name])
            cells += [f"{found[name]:,}, {measured:,}", f"{found[name] / measured - 1:+.1%}"]
        counted = [name for name in COUNTERS if row[name] and name in found]
        other = [name for name in counted if int(row[name]) != found[name]]
        told = "".join(f"; `{name}`: {found[name]:,}, {int(row[name]):,}" for name in other)
        lines.append(f"| {' | '.join(cells)} | {len(counted) - len(other)} of {len(counted)}{told} |")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """The command."""
    what, *rest = sys.argv[1:] or ["compare"]
    if what == "measure":
        measure(Path(rest[0]))
    elif what == "run":
        kernel, cubin, times = rest
        launch(next(e for e in EXAMPLES if e.kernel == kernel), Path(cubin), int(times))
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
