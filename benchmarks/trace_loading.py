"""How long a trace of 10,000 instructions takes to load: python benchmarks/trace_loading.py

Straight code, a third of it memory instructions, each with an address expression of its own; beside it, in the same
run, what PyYAML's C loader alone takes to compose the file.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import yaml
from timing import seconds

import gpuemu


def write_trace(path: Path, instructions: int) -> None:
    trace = gpuemu.TraceBuilder("long", arch="sm_89", static_shared_bytes=49152)
    for i in range(instructions):
        control = "B------:R-:W-:-:S04"
        if i % 3 == 0:
            trace.emit(
                f"LDS.128 R{i % 60 * 4}, [R2+{16 * (i % 64):#x}]", lanes=f"16*lane + {16 * i % 4096}", control=control
            )
        else:
            trace.emit(f"IADD3 R{i % 250}, R1, R2, R3", control=control)
    trace.write(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--instructions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.yaml")
        write_trace(path, options.instructions)
        text = path.read_text(encoding="utf-8")
        pairs = [
            (seconds(lambda: gpuemu.load_trace(path)), seconds(lambda: yaml.compose(text, Loader=yaml.CSafeLoader)))
            for _ in range(options.runs)
        ]
    print(f"load_trace    {statistics.median(load for load, _ in pairs):6.3f} s")
    print(f"YAML alone    {statistics.median(bare for _, bare in pairs):6.3f} s")
    print(f"ratio         {statistics.median(load / bare for load, bare in pairs):6.1f}")


if __name__ == "__main__":
    main()
