"""Records the loops of the published tensor-core measurements: python -m validation.published_kernels

The measurement (SUN) times 1,024 iterations of a loop with one to four independent mma.sync in it and a
`__syncwarp()` at its end, by one, four or eight warps of one CTA, and divides by 1,024: what the compiler puts between
the mma and at the loop's end is in its figures. So the emulator is given the same: a loop of the same form,
compiled for the chip, executed, and written as a trace below validation/published/traces/. Only this module needs
the CUDA tools.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.chip.tracing import trace_kernel
from gpuemu.trace.recorded import write_trace
from validation.published_probes import TRACES

ITERATIONS = 1024


@dataclass(frozen=True)
class Mma:
    """A PTX mma.sync: its name behind `mma.sync.aligned.`, and 32-bit registers of C and D, A, B."""

    ptx: str
    accumulators: int
    a: int
    b: int

    @property
    def in_floats(self) -> bool:
        """Whether C and D are f32 to PTX."""
        return self.ptx.endswith("f32")


MMA = {
    "m16n8k16_f32_f16": Mma("m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2),
    "m16n8k16_f16_f16": Mma("m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2),
    "m16n8k8_f32_f16": Mma("m16n8k8.row.col.f32.f16.f16.f32", 4, 2, 1),
    "m16n8k8_f16_f16": Mma("m16n8k8.row.col.f16.f16.f16.f16", 2, 2, 1),
    "m16n8k8_f32_tf32": Mma("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2),
    "m16n8k32_s32_s8": Mma("m16n8k32.row.col.s32.s8.s8.s32", 4, 4, 2),
    "m8n8k16_s32_s8": Mma("m8n8k16.row.col.s32.s8.s8.s32", 2, 1, 1),
}
RECORDED = {
    "sm_75": [
        ("m16n8k8_f32_f16", 1, 1), ("m16n8k8_f32_f16", 2, 8), ("m16n8k8_f16_f16", 1, 1), ("m16n8k8_f16_f16", 3, 8),
        ("m8n8k16_s32_s8", 4, 8),
    ],
    "sm_80": [
        ("m16n8k16_f32_f16", 1, 1), ("m16n8k16_f32_f16", 3, 4), ("m16n8k16_f32_f16", 2, 8),
        ("m16n8k8_f32_f16", 1, 1), ("m16n8k8_f32_f16", 4, 4), ("m16n8k8_f32_f16", 3, 8),
        ("m16n8k16_f16_f16", 1, 1), ("m16n8k16_f16_f16", 2, 8), ("m16n8k8_f16_f16", 1, 1), ("m16n8k8_f16_f16", 3, 8),
        ("m16n8k8_f32_tf32", 1, 1), ("m16n8k8_f32_tf32", 2, 8), ("m16n8k32_s32_s8", 1, 1), ("m16n8k32_s32_s8", 2, 8),
    ],
}  # fmt: skip
"""Mode, independent mma in an iteration, warps."""


def source(mma: Mma, independent: int) -> str:
    """The kernel, as CUDA C++."""
    kind, constraint = ("float", "f") if mma.in_floats else ("unsigned", "r")
    ends = np.cumsum([mma.accumulators, mma.a, mma.b]).tolist()
    d, a, b = (",".join(f"%{i}" for i in range(first, last)) for first, last in zip([0, *ends[:2]], ends, strict=True))

    def operands(name: str, what: str, count: int, index: int) -> str:
        return ", ".join(f'"{what}"({name}[{count * index + i}])' for i in range(count))

    body = "\n".join(
        f'    asm volatile("mma.sync.aligned.{mma.ptx} {{{d}}}, {{{a}}}, {{{b}}}, {{{d}}};"\n'
        f"        : {operands('d', '+' + constraint, mma.accumulators, i)}\n"
        f"        : {operands('a', 'r', mma.a, i)}, {operands('b', 'r', mma.b, i)});"
        for i in range(independent)
    )
    return f"""extern "C" __global__ void loop(unsigned long long *cycles, const unsigned *in, {kind} *out) {{
  unsigned a[{mma.a * independent}], b[{mma.b * independent}];
  {kind} d[{mma.accumulators * independent}];
  for (int i = 0; i < {mma.a * independent}; i++) a[i] = in[i * blockDim.x + threadIdx.x];
  for (int i = 0; i < {mma.b * independent}; i++) b[i] = in[640 + i * blockDim.x + threadIdx.x];
  for (int i = 0; i < {mma.accumulators * independent}; i++) d[i] = 0;
  unsigned long long start, stop;
  asm volatile("bar.sync 0;");
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(start) :: "memory");
  for (int j = 0; j < {ITERATIONS}; j++) {{
{body}
    __syncwarp();
  }}
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(stop) :: "memory");
  for (int i = 0; i < {mma.accumulators * independent}; i++) out[i * blockDim.x + threadIdx.x] = d[i];
  cycles[threadIdx.x] = stop - start;
}}
"""


def record(arch: str, mode: str, independent: int, warps: int) -> gpuemu.Trace:
    """Compile one loop for `arch`, execute it, and return its trace."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "loop.cu"
        file.write_text(source(MMA[mode], independent), encoding="utf-8")
        arguments = [np.zeros(256, np.uint64), np.zeros(16384, np.uint32), np.zeros(16384, np.uint32)]
        trace = trace_kernel(file, "loop", (1, 1, 1), (32 * warps, 1, 1), 0, arguments, arch=arch)
    about = f"{ITERATIONS} iterations of {independent} independent {mode.replace('_', '.')} and a __syncwarp()"
    return dataclasses.replace(trace, about=about)


def main() -> None:
    """Write every loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=TRACES, help="folder to write to")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for arch, loops in RECORDED.items():
        for mode, independent, warps in loops:
            path = folder / f"{arch}_{mode}_{independent}x{warps}.yaml"
            print(*write_trace(record(arch, mode, independent, warps), path))


if __name__ == "__main__":
    main()
