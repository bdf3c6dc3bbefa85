"""How much memory a run takes beyond its trace, for each replayed instruction: python benchmarks/memory.py

The mix of engine_speed.py. Counted is what Python and NumPy allocate from lowering to the finished result, at the
peak, the trace itself not among it.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc

from engine_speed import mix_trace

import gpuemu


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of 12 instructions for each warp")
    trace = mix_trace(parser.parse_args().rounds)
    arch = gpuemu.load_arch("sm_90")
    gpuemu.run(mix_trace(1), arch)
    gc.collect()
    tracemalloc.start()
    result = gpuemu.run(trace, arch)
    after_run, _ = tracemalloc.get_traced_memory()
    assert result.counters
    assert result.warps
    assert result.bounds
    _, peak = tracemalloc.get_traced_memory()
    count = trace.executed_instructions
    print(f"instructions replayed     {count:10,}")
    print(f"after the run             {after_run / count:10.1f} bytes an instruction")
    print(f"at the peak, with report  {peak / count:10.1f} bytes an instruction")


if __name__ == "__main__":
    main()
