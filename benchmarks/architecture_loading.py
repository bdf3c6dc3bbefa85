"""How long an architecture file takes to load: python benchmarks/architecture_loading.py

Beside it, in the same run, what PyYAML's C loader alone takes to read the file, neither checked nor with lines.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import yaml
from timing import seconds

import gpuemu

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--runs", type=int, default=51)
    options = parser.parse_args()
    path = CONFIGS / f"{options.arch}.yaml"
    text = path.read_text(encoding="utf-8")
    pairs = [
        (seconds(lambda: gpuemu.load_arch(str(path))), seconds(lambda: yaml.load(text, Loader=yaml.CSafeLoader)))
        for _ in range(options.runs + 1)
    ][1:]  # the first load builds what all others share
    print(f"load_arch     {1e3 * statistics.median(load for load, _ in pairs):6.1f} ms")
    print(f"YAML alone    {1e3 * statistics.median(bare for _, bare in pairs):6.1f} ms")
    print(f"ratio         {statistics.median(load / bare for load, bare in pairs):6.1f}")


if __name__ == "__main__":
    main()
