"""What executing one instruction of machine code costs, in additions of 512 numbers: python benchmarks/step_cost.py

A step is one instruction for all warps that stand at it, its record in the trace included. Its cost is given in
calls of np.add on two uint32 arrays of 512 elements, timed in turn with it in the same run: of both the fastest
round counts, for on a busy machine all others tell of the neighbours. Each row is straight code of one instruction
many times over, with other offsets or registers from one to the next. Registers are filled anew, with other numbers,
before each round, so that nothing is remembered from the last. At most 20 additions a step is the aim; rows above it
are marked.

Behind that, the whole example kernels of traces/src/, if pip install "gpuemu-sm[sass]" is there to compile them:
warp instructions a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.sass.cta import CtaExecutor
from gpuemu.sass.environment import Environment
from gpuemu.sass.lanes import WARP, Lanes
from gpuemu.sass.memory import Memory
from gpuemu.sass.recorder import Recorder
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Launch

AIM = 20
SHARED_BYTES = 1 << 17
BUFFER_BYTES = 1 << 22
CONTROL = "[B------:R-:W-:-:S01]"
NUMBERS, FLOATS, HALVES, DOUBLES = 16, 32, 48, 64
"""First of the registers that hold whole numbers, float32, pairs of float16, float64."""
SHARED, WIDE_SHARED, ROWS, GLOBAL, ATOMIC = 2, 3, 4, 6, 5
"""Registers with addresses: 4 bytes a lane, 16 bytes a lane, rows of matrices, global memory, a few counters."""
A, B, C, D = 80, 144, 176, 208
"""First registers of the matrices."""


@dataclass(frozen=True)
class Kind:
    """A row of the table: `text` is the instruction; {i} in it counts by 16, {a}, {b} and {c} are registers."""

    name: str
    text: str
    matrices: str = ""
    full: bool = True
    counts: tuple[int, int, int] = (4, 2, 4)
    arch: str = "sm_90"


KINDS = [
    Kind("IADD3", "IADD3 R8, R16, R17, R18"),
    Kind("IADD3 with carry", "IADD3 R8, P0, R16, R17, RZ"),
    Kind("IADD3.X", "IADD3.X R8, R16, R17, RZ, P0, !PT"),
    Kind("IMAD", "IMAD R8, R16, R17, R18"),
    Kind("IMAD.WIDE", "IMAD.WIDE R8, R16, 0x4, R18"),
    Kind("IMAD.HI.U32", "IMAD.HI.U32 R8, R16, R17, RZ"),
    Kind("LOP3.LUT", "LOP3.LUT R8, R16, R17, R18, 0x96, !PT"),
    Kind("SHF.R.U32.HI", "SHF.R.U32.HI R8, RZ, 0x5, R16"),
    Kind("LEA.HI", "LEA.HI R8, R16, R17, RZ, 0x3"),
    Kind("PRMT", "PRMT R8, R16, 0x5410, R17"),
    Kind("SEL", "SEL R8, R16, R17, P0"),
    Kind("IMNMX", "IMNMX R8, R16, R17, PT"),
    Kind("POPC", "POPC R8, R16"),
    Kind("FLO", "FLO.U32 R8, R16"),
    Kind("MOV", "MOV R8, R16"),
    Kind("IADD3, guarded", "@P0 IADD3 R8, R16, R17, R18"),
    Kind("ISETP", "ISETP.GE.AND P1, PT, R16, R17, PT"),
    Kind("PLOP3", "PLOP3.LUT P1, PT, P0, P2, P3, 0x80, 0x0"),
    Kind("P2R", "P2R R8, PR, RZ, 0x7f"),
    Kind("R2P", "R2P PR, R16, 0x3"),
    Kind("UIADD3", "UIADD3 UR8, UR16, UR17, URZ"),
    Kind("ULOP3.LUT", "ULOP3.LUT UR8, UR16, UR17, URZ, 0xc0, !UPT"),
    Kind("UISETP", "UISETP.GE.AND UP1, UPT, UR16, UR17, UPT"),
    Kind("R2UR", "R2UR UR8, R16"),
    Kind("S2R", "S2R R8, SR_TID.X"),
    Kind("CS2R", "CS2R R8, SR_CLOCKLO"),
    Kind("FADD", "FADD R8, R32, R33"),
    Kind("FMUL", "FMUL R8, R32, R33"),
    Kind("FFMA", "FFMA R8, R32, R33, R34"),
    Kind("FFMA.FTZ", "FFMA.FTZ R8, R32, R33, R34"),
    Kind("FSETP", "FSETP.GEU.AND P1, PT, R32, R33, PT"),
    Kind("FMNMX", "FMNMX R8, R32, R33, PT"),
    Kind("FSEL", "FSEL R8, R32, R33, P0"),
    Kind("DADD", "DADD R8, R64, R66"),
    Kind("DFMA", "DFMA R8, R64, R66, R68"),
    Kind("HADD2", "HADD2 R8, R48, R49"),
    Kind("HMUL2", "HMUL2 R8, R48, R49"),
    Kind("HFMA2", "HFMA2 R8, R48, R49, R50"),
    Kind("HFMA2.BF16_V2", "HFMA2.BF16_V2 R8, R48, R49, R50"),
    Kind("HSETP2", "HSETP2.GE.AND P1, PT, R48, R49, PT"),
    Kind("I2F", "I2F.U32 R8, R16"),
    Kind("F2I", "F2I.TRUNC.NTZ R8, R32"),
    Kind("F2FP", "F2FP.F16.F32.PACK_AB R8, R32, R33"),
    Kind("F2F.F64.F32", "F2F.F64.F32 R8, R32"),
    Kind("FRND", "FRND.FLOOR R8, R32"),
    Kind("MUFU.RCP", "MUFU.RCP R8, R32"),
    Kind("MUFU.EX2", "MUFU.EX2 R8, R32"),
    Kind("MUFU.SIN", "MUFU.SIN R8, R32"),
    Kind("MUFU.RSQ", "MUFU.RSQ R8, R35"),
    Kind("SHFL.BFLY", "SHFL.BFLY PT, R8, R16, 0x10, 0x1f"),
    Kind("SHFL.UP", "SHFL.UP P1, R8, R16, 0x1, RZ"),
    Kind("SHFL.IDX", "SHFL.IDX PT, R8, R16, R19, 0x1f"),
    Kind("VOTE.ANY", "VOTE.ANY R8, PT, P0"),
    Kind("MATCH.ANY", "MATCH.ANY R8, R20"),
    Kind("REDUX", "REDUX.SUM UR8, R16"),
    Kind("BRA, not taken", "@!PT BRA 0x0"),
    Kind("BRA, taken by all", "BRA {next}"),
    Kind("BSSY and BSYNC", "BSSY B0, {next}\nBSYNC B0"),
    Kind("BAR.SYNC", "BAR.SYNC.DEFER_BLOCKING 0x0"),
    Kind("WARPSYNC", "WARPSYNC 0xffffffff"),
    Kind("NOP", "NOP"),
    *(
        Kind(f"{name}{'' if full else ', unwritten rest'}", f"{text}", full=full)
        for full in (True, False)
        for name, text in (
            ("LDS", "LDS R8, [R2+{i}]"),
            ("LDS.64", "LDS.64 R8, [R3+{i}]"),
            ("LDS.128", "LDS.128 R8, [R3+{i}]"),
            ("LDS.U16", "LDS.U16 R8, [R2+{i}]"),
            ("STS", "STS [R2+{i}], R16"),
            ("STS.64", "STS.64 [R3+{i}], R16"),
            ("STS.128", "STS.128 [R3+{i}], R16"),
            ("LDSM.16.M88.4", "LDSM.16.M88.4 R8, [R4+{i}]"),
            ("LDSM.16.MT88.4", "LDSM.16.MT88.4 R8, [R4+{i}]"),
            ("LDSM.16.M88.2", "LDSM.16.M88.2 R8, [R4+{i}]"),
            ("STSM.16.M88.4", "STSM.16.M88.4 [R4+{i}], R16"),
        )
    ),
    Kind("LDS, guarded", "@P0 LDS R8, [R2+{i}]"),
    Kind("STS, guarded", "@P0 STS [R2+{i}], R16"),
    Kind("LDS, one address", "LDS.128 R8, [UR4+{i}]"),
    Kind("LDG.E", "LDG.E R8, [R6.64+{i}]"),
    Kind("LDG.E.128", "LDG.E.128 R8, [R6.64+{i}]"),
    Kind("LDG.E, descriptor", "LDG.E R8, desc[UR10][R6.64+{i}]"),
    Kind("LDG.E, guarded", "@P0 LDG.E R8, [R6.64+{i}]"),
    Kind("STG.E", "STG.E [R6.64+{i}], R16"),
    Kind("STG.E.128", "STG.E.128 [R6.64+{i}], R16"),
    Kind("LDGSTS.E.BYPASS.128", "LDGSTS.E.BYPASS.128 [R3+{i}], [R6.64+{i}]"),
    Kind("LDL", "LDL R8, [{i}]"),
    Kind("STL", "STL [{i}], R16"),
    Kind("LD.E", "LD.E R8, [R6.64+{i}]"),
    Kind("ATOMS.ADD", "ATOMS.ADD R8, [R2+{i}], R16"),
    Kind("ATOMS.ADD, shared", "ATOMS.ADD RZ, [R5+{i}], R16"),
    Kind("ATOMS.POPC.INC", "ATOMS.POPC.INC.32 RZ, [R5+{i}]"),
    Kind("RED.E.ADD", "RED.E.ADD.STRONG.GPU [R6.64+{i}], R16"),
    *(
        Kind(f"{name}, {data}", f"{name} {{d}}, {{a}}, {{b}}, {{c}}", data, counts=counts)
        for name, counts, exact in (
            ("HMMA.16816.F32", (4, 2, 4), "f16"),
            ("HMMA.16816.F16", (4, 2, 2), "f16"),
            ("HMMA.16816.F32.BF16", (4, 2, 4), "bf16"),
            ("HMMA.1688.F32", (2, 1, 4), "f16"),
            ("HMMA.1688.F32.TF32", (4, 2, 4), "tf32"),
            ("HMMA.1684.F32.TF32", (2, 1, 4), "tf32"),
        )
        for data in (f"{exact} whole numbers", f"{exact} normal", f"{exact} normal, blocked")
    ),
    Kind("HMMA.16816.F32, sm_80, normal", "HMMA.16816.F32 {d}, {a}, {b}, {c}", "f16 normal", arch="sm_80"),
    Kind("IMMA.16832.S8.S8", "IMMA.16832.S8.S8 {d}, {a}.ROW, {b}.COL, {c}", "s8"),
    Kind("IMMA.16816.S8.S8", "IMMA.16816.S8.S8 {d}, {a}.ROW, {b}.COL, {c}", "s8", counts=(2, 1, 4)),
]


def bits_of(matrices: str, count: int, lanes: int, numbers: np.random.Generator) -> np.ndarray:
    """Registers [count, lanes] of random elements."""
    kind = matrices.partition(" ")[0]
    if kind == "s8" or not matrices:
        return numbers.integers(0, 1 << 32, (count, lanes), dtype=np.uint32)
    per = 1 if kind in ("tf32", "f32") else 2
    whole = "whole" in matrices
    drawn = numbers.integers(-4, 5, (count, lanes, per)) if whole else numbers.standard_normal((count, lanes, per))
    if kind == "f16":
        return drawn.astype(np.float16).view(np.uint32)[:, :, 0]
    words = drawn.astype(np.float32).view(np.uint32)
    return (words >> 16).astype(np.uint16).view(np.uint32)[:, :, 0] if kind == "bf16" else words[:, :, 0]


@dataclass
class Bench:
    """A CTA that executes one kind of instruction over and over."""

    kind: Kind
    warps: int
    copies: int
    numbers: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        lines = list(self._lines())
        self.steps = len(lines)
        text = "".join(f"{CONTROL} {line}\n" for line in [*lines, "EXIT"])
        code = parse_listing(text, "benchmark", None)
        arch = gpuemu.load_arch(self.kind.arch)
        launch = Launch(grid=(1, 1, 1), block=(WARP * self.warps, 1, 1))
        self.lanes = Lanes(WARP * self.warps)
        self.memory = Memory(SHARED_BYTES, 0, 8192, self.lanes)
        self.start = self.memory.add_buffer("buffer", np.zeros(BUFFER_BYTES, np.uint8))
        constants = {0: np.zeros(1024, np.uint8)}
        environment = Environment(arch, launch, self.lanes, self.memory, constants, code)
        self.executor = CtaExecutor(environment)
        self.code = code
        self.lanes.reset = lambda: None  # type: ignore[method-assign]
        self._lanes_ready()

    def _lines(self) -> Iterator[str]:
        """The instructions, offsets and registers going round."""
        here = 0
        a_count, b_count, c_count = self.kind.counts
        for i in range(self.copies):
            if "blocked" in self.kind.matrices:  # tiles of 4 x 4, as products in shared memory have them
                a, b = i // 4 % 4, i % 4
            else:
                a, b = i % (64 // a_count), i % (32 // b_count)
            text = self.kind.text.replace("{i}", hex(16 * (i % 64)))
            registers = {
                "a": A + a_count * a,
                "b": B + b_count * b,
                "c": C + c_count * (i % 8),
                "d": C + c_count * (i % 8),
            }
            for name, number in registers.items():
                text = text.replace(f"{{{name}}}", f"R{number}")
            for line in text.splitlines():
                here += 16
                yield line.replace("{next}", hex(here))

    def _lanes_ready(self) -> None:
        """Fill the registers for a round, with numbers that no round had before."""
        files, numbers, count = self.lanes, self.numbers, self.lanes.count
        files.registers[:-1] = numbers.integers(0, 1 << 20, (len(files.registers) - 1, count), dtype=np.uint32)
        files.registers[FLOATS : FLOATS + 16] = numbers.standard_normal((16, count)).astype(np.float32).view(np.uint32)
        files.registers[FLOATS + 3] &= np.uint32(0x7FFFFFFF)
        halves = numbers.standard_normal((16, count, 2)).astype(np.float16)
        files.registers[HALVES : HALVES + 16] = halves.view(np.uint32)[:, :, 0]
        doubles = numbers.standard_normal((8, count)).view(np.uint32).reshape(8, count, 2)
        files.registers[DOUBLES : DOUBLES + 16] = doubles.transpose(0, 2, 1).reshape(16, count)
        lane = np.arange(count, dtype=np.uint32)
        files.registers[SHARED] = 4 * lane + 4096 * (lane // WARP)
        files.registers[WIDE_SHARED] = 16 * lane + 4096 * (lane // WARP)
        files.registers[ROWS] = (64 * (lane % WARP) + 4096 * (lane // WARP)) ^ (16 * (lane % 8 // 2))
        files.registers[ATOMIC] = 4 * (lane % 4)
        files.registers[20] = lane % 4
        files.registers[19] = numbers.integers(0, WARP, count)
        files.registers[GLOBAL : GLOBAL + 2] = (
            (np.uint64(self.start) + 16 * lane.astype(np.uint64)).view(np.uint32).reshape(-1, 2).T
        )
        files.uniform_registers[:-1] = np.arange(63)[:, None]
        files.uniform_registers[4] = 64
        files.predicates[:7] = numbers.integers(0, 2, (7, count))
        files.predicates[7] = files.uniform_predicates[7] = True
        if self.kind.matrices:
            files.registers[A:C] = bits_of(self.kind.matrices, C - A, count, numbers)
            kind = "f16" if ".F16" in self.kind.text and "BF16" not in self.kind.text else "f32"
            values = self.kind.matrices.partition(" ")[2]
            files.registers[C:D] = bits_of(f"{kind} {values}" if values else "", D - C, count, numbers)
        self.memory.new_cta()
        written = self.memory.written[1]
        written[:] = 0xFF
        if not self.kind.full:
            written[-1] = 0
        self.memory.all_written = self.kind.full

    def seconds(self) -> float:
        """One round: the time of a step."""
        self._lanes_ready()
        # A new CTA forgets what is in shared memory; this one has been given its contents.
        recorder = Recorder(self.lanes, self.code)
        start = time.perf_counter()
        self.executor.run(recorder, True, 1 << 30)
        return (time.perf_counter() - start) / self.steps


def addition_seconds() -> float:
    """The yardstick: np.add of two arrays of 512 numbers."""
    left, right, add = np.arange(512, dtype=np.uint32), np.arange(512, dtype=np.uint32), np.add
    start = time.perf_counter()
    for _ in range(400):
        add(left, right)
    return (time.perf_counter() - start) / 400


def cost(kind: Kind, warps: int, rounds: int) -> float:
    """Additions that a step takes."""
    bench = Bench(kind, warps, 128)
    bench.seconds()
    pairs = [(bench.seconds(), addition_seconds()) for _ in range(rounds)]
    step, addition = (min(times) for times in zip(*pairs, strict=True))
    return step / addition


def kernel_rates(rounds: int) -> Iterable[tuple[str, int, float]]:
    """(kernel, warps, warp instructions a second) of example kernels."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    from example_kernels import EXAMPLES
    from record_traces import cubin

    from gpuemu.sass.launch import trace_kernel

    for example in EXAMPLES:
        if example.kernel not in KERNELS:
            continue
        code = cubin(example.source, "sm_89")

        def once(example=example, code=code) -> float:  # type: ignore[no-untyped-def]
            arguments, _, _ = example.arguments()
            start = time.perf_counter()
            trace = trace_kernel(
                code, example.kernel, example.grid, example.block, example.dynamic_shared_bytes, arguments
            )
            return trace.executed_instructions / (time.perf_counter() - start)

        once()
        warps = example.block[0] * example.block[1] * example.block[2] // WARP
        yield example.kernel, warps, statistics.median(once() for _ in range(rounds))


KERNELS = (
    "v5_swizzle",
    "gemm_tile_swizzled",
    "transpose_v4",
    "matmul_plain",
    "reduction_plain",
    "tiled_row_major_async",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    print(f"{'additions of 512 numbers that a step takes':46}{'1 warp':>10}{'16 warps':>10}")
    above: list[str] = []
    for kind in KINDS:
        if options.only not in kind.name:
            continue
        found = [cost(kind, warps, options.rounds) for warps in (1, 16)]
        mark = "  above" if max(found) > AIM else ""
        if mark:
            above.append(kind.name)
        print(f"{kind.name:46}{found[0]:10.1f}{found[1]:10.1f}{mark}", flush=True)
    print(f"above {AIM}: {len(above)} rows of {len(KINDS)}" if not options.only else "")


if __name__ == "__main__":
    main()
