"""What `gpuemu run traces/v5_swizzle.yaml` takes beside importing its libraries: python benchmarks/startup.py

Whole processes, in turn; the ratio is the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

TRACE = Path(__file__).resolve().parent.parent / "traces" / "v5_swizzle.yaml"
RUN = [sys.executable, "-m", "gpuemu", "run", str(TRACE)]
IMPORT = [sys.executable, "-c", "import numpy, simpy, yaml, pydantic, click, rich"]


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    for command in (RUN, IMPORT):
        seconds(command)
    pairs = [(seconds(RUN), seconds(IMPORT)) for _ in range(runs)]
    print(f"gpuemu run   {statistics.median(run for run, _ in pairs):6.3f} s")
    print(f"bare imports {statistics.median(bare for _, bare in pairs):6.3f} s")
    print(f"ratio        {statistics.median(run / bare for run, bare in pairs):6.2f}")


if __name__ == "__main__":
    main()
