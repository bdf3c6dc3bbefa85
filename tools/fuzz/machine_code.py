"""Damages the cubins of a few kernels, bit by bit and field by field, and hands each to all that executes machine code.

A mutant is fine if each command runs it or refuses it, and if both engines replay it alike.
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.engine import building
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.tools import toolchain
from gpuemu.trace.files import load_trace

SUMS = """
extern "C" __global__ void sums(const float *x, float *y, int n) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) sum += x[i];
    s[t] = sum;
    __syncthreads();
    for (int d = 64; d >= 32; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        float r = s[t];
        for (int d = 16; d; d /= 2) r += __shfl_down_sync(0xffffffff, r, d);
        if (t == 0) y[blockIdx.x] = r;
    }
}
"""
MIXED = """
__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter;
__device__ __noinline__ float twice(float x) { return x + x; }
__device__ __noinline__ float half_of(float x) { return x / 2; }
__device__ float (*const functions[2])(float) = {twice, half_of};
extern "C" __global__ void mixed(const float *x, float *y, int n, double by) {
    extern __shared__ float s[];
    const int t = threadIdx.x;
    float local[16];
    for (int i = 0; i < 16; i++) local[i] = x[(t + i * n) % 256];
    const float4 wide = reinterpret_cast<const float4 *>(x)[t % 64];
    s[t] = local[n % 16] * table[t % 8] + wide.z;
    const int before = atomicAdd(&counter, 1);
    atomicMax(reinterpret_cast<int *>(s) + (t ^ 2), before);
    __syncwarp();
    const unsigned all = __ballot_sync(0xffffffff, s[t] > 0);
    const double d = by * s[t ^ 1] + sqrt(by);
    switch (n & 7) {
        case 0: y[t] = __sinf(s[t]); break;
        case 1: y[t] = t / n; break;
        case 2: y[t] = rsqrtf(s[t]); break;
        case 3: y[t] = functions[t % 2](all % 7); break;
        case 4: y[t] = float(d); break;
        case 5: y[t] = __popc(all) + clock(); break;
        default: y[t] = d > 0 ? exp2f(s[t]) : __fdividef(s[t], 3.f);
    }
    if (t == 40) printf("%d\\n", n);
}
"""
TENSOR = """
#include <cuda_fp16.h>
extern "C" __global__ void tensor(const half *a, float *c, int steps) {
    __shared__ alignas(128) half s[2][256];
    const int t = threadIdx.x;
    float d[4] = {};
    for (int i = 0; i < steps; i++) {
        const unsigned to = (unsigned)__cvta_generic_to_shared(s[i % 2]) + 16 * t;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(a + i * 256 + 8 * t));
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        __syncwarp();
        unsigned f[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(to));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%4, %5}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]));
    }
    reinterpret_cast<float4 *>(c)[t] = make_float4(d[0], d[1], d[2], d[3]);
}
"""
HOPPER = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) group(const char *in, float *out, int n) {
    __shared__ alignas(1024) char tile[8192];
    __shared__ unsigned long long bar;
    const unsigned b = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;" ::"r"(b) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];"
                         ::"r"(to), "l"(in + 8192 * k), "r"(b) : "memory");
        }
        asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W%=; }"
                     ::"r"(b), "r"(k & 1) : "memory");
    }
    float d[4] = {};
    const unsigned long long m = 1ull << 62 | 64ull << 32 | 1ull << 16 | (to & 0x3ffff) >> 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(m), "l"(m));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    out[threadIdx.x + 128 * blockIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


@dataclass(frozen=True)
class Subject:
    """A kernel that is damaged: its source, the architecture, and the options of a launch of it."""

    source: str
    arch: str
    launch: str
    options: tuple[str, ...] = ()


_OF_SUMS = "--grid 2 --block 128 --arg random:f32:256 --arg zeros:f32:256 --arg 251"
_OF_MIXED = "--block 64 --dynamic-shared 512 --arg random:f32:256 --arg zeros:f32:64 --arg {} --arg 1.5"
_OF_TENSOR = "--arg random:f16:1024 --arg zeros:f32:128 --arg 3"
_OF_HOPPER = "--grid 2 --block 128 --arg zeros:u8:16384 --arg zeros:f32:256 --arg 2"
SUBJECTS = (
    *(Subject(SUMS, arch, _OF_SUMS) for arch in ("sm_75", "sm_89", "sm_90", "sm_120")),
    *(Subject(MIXED, f"sm_{sm}", _OF_MIXED.format(n)) for n, sm in enumerate((86, 80, 90, 89, 90, 120))),
    *(Subject(TENSOR, arch, _OF_TENSOR) for arch in ("sm_80", "sm_90", "sm_120")),
    *(Subject(HOPPER, "sm_90", _OF_HOPPER, ("-arch=sm_90a",)) for _ in range(3)),
)
BUDGET = 2_000
"""Warp instructions of a CTA; the whole kernels take a few hundred."""
TOOL_SECONDS = 10
NUMBERS = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, 1 << 31, (1 << 31) - 1, (1 << 32) - 1)
_INSTRUCTION, _CONTROL_BITS, _HEADER, _SECTION_HEADER = 16, range(105, 126), 64, struct.Struct("<IIQQQQIIQQ")
_REGION = {"executed": 40, "control": 15, "text": 10, "header": 5, "info": 12, "constant": 8, "table": 5, "any": 5}
_TABLES = (".symtab", ".strtab", ".shstrtab", ".rel", ".nv.callgraph", ".nv.global", ".debug_line")


@lru_cache
def _regions(content: bytes, executed: tuple[int, ...]) -> dict[str, list[tuple[int, int]]]:
    """The first byte and the length of what a cubin has, by kinds. `executed`: instructions, by their first bytes."""
    (table,), (entry, count, names) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<3H", content, 58)
    sections = [_SECTION_HEADER.unpack_from(content, table + n * entry) for n in range(count)]
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in _REGION}
    found["any"], found["header"] = [(0, len(content))], [(0, _HEADER), (table, entry * count)]
    found["executed"] = found["control"] = [(first, _INSTRUCTION) for first in executed]
    for name_at, kind, _, _, offset, size, *_ in sections:
        at = sections[names][4] + name_at
        name = content[at : content.index(0, at)].decode()
        if kind == 8 or not size:  # without bytes in the file
            continue
        for region, beginnings in (
            ("text", (".text",)), ("info", (".nv.info",)), ("constant", (".nv.constant",)), ("table", _TABLES),
        ):  # fmt: skip
            if name.startswith(beginnings):
                found[region].append((offset, size))
    return found


def mutant(choose: random.Random, original: bytes, executed: tuple[int, ...]) -> bytes:
    """The cubin with one to five fields changed, most of them in the code that is executed."""
    content, regions = bytearray(original), _regions(original, executed)
    for _ in range(choose.choice((1, 1, 1, 1, 2, 5))):
        (region,) = choose.choices(list(_REGION), list(_REGION.values()))
        first, size = choose.choice(regions[region] or regions["any"])
        _change(choose, content, region, first, size)
    return bytes(content)


def _change(choose: random.Random, content: bytearray, region: str, first: int, size: int) -> None:
    at = first + choose.randrange(size)
    how = choose.random()
    if region == "control":
        bit = choose.choice(_CONTROL_BITS)
        content[first + bit // 8] ^= 1 << bit % 8
    elif how < 0.6:
        content[at] ^= 1 << choose.randrange(8)
    elif how < 0.8:
        content[at] = choose.randrange(256)
    elif how < 0.93 or size < 2 * _INSTRUCTION:
        at -= (at - first) % 4
        number = choose.choice(NUMBERS).to_bytes(4, "little")
        content[at : at + 4] = number[: len(content) - at]
    else:
        to, source = (first + choose.randrange(size // _INSTRUCTION) * _INSTRUCTION for _ in range(2))
        content[to : to + _INSTRUCTION] = content[source : source + _INSTRUCTION]


_executed: dict[Subject, tuple[int, ...]] = {}


@lru_cache
def _compiled(source: Path, subject: Subject) -> bytes:
    from gpuemu.sass.tools.disassembly import load_cubin

    return load_cubin(source, subject.arch, "nvrtc", subject.options).content


def _told(result: str | None) -> object:
    """What a run of machine code and one of its trace have in common; None where it was refused."""
    if result is None:
        return None
    whole = json.loads(result)
    return whole["cycles"], whole["counters"], whole["stalls"]


class MachineCode:
    """A kind of inputs beside those of `Inputs`, which has the folder."""

    folder: Path
    _file: Callable[[str, str | bytes], Path]

    def machine_code(self, choose: random.Random) -> None:
        """A damaged cubin, executed, checked, recorded and replayed, by SimPy and by compiled code."""
        subject = choose.choice(SUBJECTS)
        self.damaged(subject, mutant(choose, self.whole(subject), self.executed(subject)))

    def whole(self, subject: Subject) -> bytes:
        """The cubin of a subject."""
        return _compiled(self._file("subject.cu", subject.source), subject)

    def executed(self, subject: Subject) -> tuple[int, ...]:
        """Where in the cubin the instructions are that a launch executes."""
        if subject not in _executed:
            content = self.whole(subject)
            self.damaged(subject, content)
            trace = load_trace(self.folder / "m.yaml")
            code = read_cubin(content).kernel(None).machine_code
            path = {index for warp in trace.warps for index in warp.path.tolist()}
            first = content.index(code)
            _executed[subject] = tuple(first + trace.code[index].offset for index in sorted(path))
        return _executed[subject]

    def damaged(self, subject: Subject, content: bytes) -> dict[str, str]:
        """What each command says of a cubin; what it refuses is not there. Raises what should not be raised."""
        toolchain.DISASSEMBLY_S = TOOL_SECONDS
        cubin, trace = self._file("m.cubin", content), self.folder / "m.yaml"
        launch = [*subject.launch.split(), "--budget", str(BUDGET)]
        found: dict[str, str] = {}
        self._say(found, "check", "check", cubin, *launch, "--format", "json")
        if "check" in found:  # it forgives what a kernel does: what it refuses, everybody does
            self._say(found, "trace", "trace", cubin, *launch, "-o", trace)
        if "trace" in found:
            engine = "compiled" if building.is_possible() else "simpy"
            self._say(found, "run", "run", cubin, *launch, "--engine", engine, "--format", "json")
            self._say(found, "replay", "run", trace, "--engine", "simpy", "--format", "json")
            told = [_told(found.get(name)) for name in ("run", "replay")]
            assert told[0] == told[1], f"machine code, {engine}, and its trace, simpy, differ"
        return found

    @staticmethod
    def _say(found: dict[str, str], name: str, *words: object) -> None:
        from gpuemu.cli.main import cli

        said = io.StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(io.StringIO()):
                cli.main([str(word) for word in words], standalone_mode=False)
        except (GpuemuError, click.ClickException):
            return
        except SystemExit as error:
            if error.code not in (0, 1):
                raise
        found[name] = said.getvalue()
