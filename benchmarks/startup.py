"""What `gpuemu run` of a saved trace takes beside importing its libraries: python benchmarks/startup.py

Of traces/v5_swizzle.yaml, and of a tile loop, K = 4096, by compiled code that is kept (gpuemu engine build). Whole
processes, in turn; the ratio is the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tile_loop import saved

TRACE = Path(__file__).resolve().parent.parent / "traces" / "v5_swizzle.yaml"
GPUEMU = [sys.executable, "-m", "gpuemu"]
IMPORT = [sys.executable, "-c", "import numpy, simpy, yaml, pydantic, click, rich"]


def seconds(command: list[str]) -> float:
    """Of the command, with modules that Python has read once before, as users have them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    subprocess.run([*GPUEMU, "engine", "build"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        tile_loop, instructions = saved(Path(folder), 4096)
        for name, path in (("v5_swizzle", TRACE), (f"tile loop of {instructions:,}", tile_loop)):
            command = [*GPUEMU, "run", str(path)]
            for once in (command, IMPORT):
                seconds(once)
            pairs = [(seconds(command), seconds(IMPORT)) for _ in range(runs)]
            print(name)
            print(f"  gpuemu run   {statistics.median(run for run, _ in pairs):6.3f} s")
            print(f"  bare imports {statistics.median(bare for _, bare in pairs):6.3f} s")
            print(f"  ratio        {statistics.median(run / bare for run, bare in pairs):6.2f}")


if __name__ == "__main__":
    main()
