"""Random CUDA kernels: what a compiler makes of them is right, so that whoever accuses it is wrong.

    python tests/studies/check/random_kernels.py sm_80 0-399     # compile, execute, count what controlcheck says

Each seed is a kernel of one CTA over integers, floats, doubles and halves: arithmetic, branches that part a warp,
loops, switches, calls, shared and local memory, shuffles, votes, atomics, asynchronous copies, and tensor instructions
by wmma and by PTX. Addresses are bounded and loops end; its values mean nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
THREADS = 64
WORDS = 1024
"""Of each of the kernel's two buffers."""
_HEAD = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
typedef unsigned u32;
__device__ __noinline__ u32 turn(u32 a, u32 b) { return (a ^ b) * 2654435761u + (a >> 7); }
__device__ __noinline__ float bend(float a, float b) { return a > b ? sqrtf(fabsf(a)) + b : a / (fabsf(b) + 1.0f); }
"""
_PTX = {
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32": (75, 4, 2, 1, "f"),
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16": (75, 2, 2, 1, "r"),
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32": (75, 2, 1, 1, "r"),
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": (80, 4, 4, 2, "f"),
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16": (80, 2, 4, 2, "r"),
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": (80, 4, 4, 2, "f"),
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (80, 4, 4, 2, "f"),
    "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32": (80, 4, 2, 1, "r"),
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32": (80, 4, 4, 2, "r"),
    "mma.sync.aligned.m16n8k64.row.col.s32.u4.u4.s32": (80, 4, 4, 2, "r"),
}
"""First architecture, registers of C, A and B, and the kind of C."""


class _Writer:
    def __init__(self, seed: int, arch: str):
        self.pick = random.Random(seed)
        self.number = int(arch.removeprefix("sm_"))
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}_"

    def one(self, kind: str) -> str:
        """A variable of the kind u, f, d or h."""
        return f"{kind}{self.pick.randrange(4 if kind in 'uf' else 2)}"

    def condition(self) -> str:
        a, b = self.one("u"), self.one("u")
        return self.pick.choice(
            [
                f"{a} & {1 << self.pick.randrange(5)}u", f"{a} > {b}", f"{self.one('f')} < {self.one('f')}",
                f"tid < {self.pick.randrange(1, THREADS)}", f"(tid ^ {a}) & 3u", f"({a} & 31u) == {self.pick.randrange(32)}u",
                f"{self.one('d')} > 0.5", f"(n & {1 << self.pick.randrange(4)}) && ({a} & 2u)",
                f"__hgt(__low2half({self.one('h')}), __high2half({self.one('h')}))",
            ]
        )  # fmt: skip

    def statement(self, converged: bool, level: int) -> None:
        kinds = [self.integer] * 5 + [self.floating] * 4 + [self.double] * 1 + [self.half] * 2
        kinds += [self.memory] * 4 + [self.atomic] * 1 + [self.vote] * 1 + [self.call] * 1
        if level < 3:
            kinds += [self.branch] * 4 + [self.loop] * 2 + [self.switch] * 1
        if converged:
            kinds += [self.exchange] * 3 + [self.tensor] * 3 + [self.shuffle] * 2 + [self.copy] * 1
        chosen = self.pick.choice(kinds)
        if chosen in (self.branch, self.loop, self.switch):
            chosen(level)  # type: ignore[call-arg]
        else:
            chosen()  # type: ignore[call-arg]

    def block(self, level: int, most: int = 4) -> None:
        self.depth += 1
        for _ in range(self.pick.randint(1, most)):
            self.statement(False, level + 1)
        self.depth -= 1

    def integer(self) -> None:
        a, b, c = self.one("u"), self.one("u"), self.one("u")
        self.say(
            self.pick.choice(
                [
                    f"{a} = {b} * {c} + {a};", f"{a} += ({b} << {self.pick.randrange(1, 31)}) ^ {c};",
                    f"{a} = __umulhi({b}, {c}) + tid;", f"{a} = __popc({b}) + __clz({c} | 1u);",
                    f"{a} = {b} / (({c} & 255u) + 1u);", f"{a} = {b} % 7u + {c};", f"{a} = min({b}, max({c}, 77u));",
                    f"{a} = __byte_perm({b}, {c}, 0x{self.pick.randrange(0x7777):04x});",
                    f"{{ unsigned long long w = (unsigned long long){b} * {c} + {a}; {a} = (u32)(w >> 13); }}",
                    f"{a} = __dp4a((int){b}, (int){c}, (int){a});", f"{a} = __funnelshift_l({b}, {c}, {a} & 31u);",
                    f"{a} = ({self.condition()}) ? {b} : {c} + 5u;", f"{a} = __brev({b}) | __ffs({c});",
                    f"{a} = (u32)(int){self.one('f')} + {b};", f"{a} = abs((int){b} - (int){c});",
                    f"{a} = ({b} & 0xffu) * 3u + ({c} >> 24);", f"{a} = __usad({b}, {c}, {a});",
                ]
            )
        )  # fmt: skip

    def floating(self) -> None:
        a, b, c = self.one("f"), self.one("f"), self.one("f")
        self.say(
            self.pick.choice(
                [
                    f"{a} = fmaf({b}, {c}, {a});", f"{a} = {b} * 0.5f - {c};", f"{a} = {b} / ({c} * {c} + 1.0f);",
                    f"{a} = sqrtf(fabsf({b})) + {c};", f"{a} = __expf(-fabsf({b}));", f"{a} = sinf({b}) * {c};",
                    f"{a} = fminf({b}, fmaxf({c}, -3.0f));", f"{a} = rsqrtf(fabsf({b}) + 1.0f);",
                    f"{a} = (float){self.one('u')} * 1e-9f;", f"{a} = __logf(fabsf({b}) + 1.0f);",
                    f"{a} = ({self.condition()}) ? {b} : -{c};", f"{a} = floorf({b}) + truncf({c});",
                    f"{a} = tanhf({b});", f"{a} = (float){self.one('d')} + {b};", f"{a} = powf(fabsf({b}), 0.3f);",
                ]
            )
        )  # fmt: skip

    def double(self) -> None:
        a, b = self.one("d"), self.one("d")
        self.say(
            self.pick.choice(
                [
                    f"{a} = fma({b}, {a}, 0.25);", f"{a} = {b} * {a} + (double){self.one('f')};", f"{a} += {b};",
                    f"{a} = {b} / ({a} * {a} + 1.0);", f"{a} = fmin({a}, {b});", f"{a} = sqrt(fabs({b}));",
                    f"{a} = (double){self.one('u')};", f"{a} = rint({b});",
                ]
            )
        )  # fmt: skip

    def half(self) -> None:
        a, b, c = self.one("h"), self.one("h"), self.one("h")
        self.say(
            self.pick.choice(
                [
                    f"{a} = __hfma2({b}, {c}, {a});", f"{a} = __hadd2({b}, {c});", f"{a} = __hmul2({b}, {c});",
                    f"{a} = __float2half2_rn({self.one('f')});", f"{self.one('f')} += __low2float({a});",
                    f"{a} = __hmin2({b}, {c});" if self.number >= 80 else f"{a} = __hsub2({b}, {c});",
                    f"{a} = __lowhigh2highlow({b});", f"{self.one('f')} = __half2float(__high2half({b}));",
                    f"{a} = h2exp({b});", f"{self.one('u')} ^= *(u32 *)&{a};", f"*(u32 *)&{a} = {self.one('u')};",
                ]
            )
        )  # fmt: skip

    def memory(self) -> None:
        u, f = self.one("u"), self.one("f")
        at = self.pick.choice([f"({u} & {WORDS - 1}u)", "tid", f"((tid * 5u + {u}) & {WORDS - 1}u)"])
        quad = self.new("q")
        self.say(
            self.pick.choice(
                [
                    f"{u} += in[{at}];", f"{f} += __uint_as_float(in[{at}] & 0x3fffffffu);", f"out[tid] = {u};",
                    f"s[tid] = {u};", f"{u} ^= s[tid];", f"s[256 + tid] = __float_as_uint({f});",
                    f"{{ uint4 {quad} = *(const uint4 *)(in + ({u} & {WORDS - 4}u)); {u} = {quad}.x + {quad}.z; {f} += {quad}.w; }}",
                    f"{{ uint4 {quad} = make_uint4({u}, 1u, {self.one('u')}, tid); *(uint4 *)(s + 256 + tid * 4) = {quad}; }}",
                    f"{{ uint2 {quad} = *(uint2 *)(s + 256 + ({u} & 254u)); {u} = {quad}.x ^ {quad}.y; }}",
                    f"{u} += ((const unsigned char *)in)[{at}];", f"((unsigned short *)out)[256 + tid] = (unsigned short){u};",
                    f"local[{u} & 7u] += {self.one('u')};", f"{u} = local[tid & 7u];",
                    f"{self.one('d')} += ((const double *)in)[{at} >> 1] * 1e-300;", f"{u} += __ldg(in + {at});",
                    f"((float2 *)out)[300 + (tid & 31u)] = make_float2({f}, {self.one('f')});",
                    f"out[{at}] = {u}; __threadfence();", f"{u} += *(volatile u32 *)(s + tid);",
                ]
            )
        )  # fmt: skip

    def atomic(self) -> None:
        u = self.one("u")
        self.say(
            self.pick.choice(
                [
                    f"atomicAdd(s + ({u} & 63u), {self.one('u')});", f"{u} = atomicAdd(out + 512 + ({u} & 63u), 1u);",
                    f"{u} += atomicMax(s + (tid & 7u), {u});", f"atomicAdd((float *)out + 700, {self.one('f')});",
                    f"{u} ^= atomicCAS(s + 64 + (tid & 15u), {u}, tid);", f"atomicXor(out + 600 + (tid & 7u), {u});",
                    f"{u} = atomicExch(s + 80 + (tid & 3u), {u});",
                ]
            )
        )  # fmt: skip

    def vote(self) -> None:
        u = self.one("u")
        self.say(
            self.pick.choice(
                [
                    f"{u} += __ballot_sync(__activemask(), {self.condition()});",
                    f"{u} += __any_sync(__activemask(), {self.condition()});", f"{u} += __activemask();",
                    f"{u} += (u32)clock();",
                ]
            )
        )  # fmt: skip

    def call(self) -> None:
        u, f = self.one("u"), self.one("f")
        self.say(self.pick.choice([f"{u} = turn({u}, {self.one('u')});", f"{f} = bend({f}, {self.one('f')});"]))

    def branch(self, level: int) -> None:
        self.say(f"if ({self.condition()}) {{")
        self.block(level)
        if self.pick.random() < 0.7:
            self.say("} else {")
            self.block(level)
        self.say("}")

    def loop(self, level: int) -> None:
        i = self.new("i")
        most = self.pick.choice([str(self.pick.randrange(2, 6)), f"({self.one('u')} & 3u) + 1u", "(u32)n & 7u"])
        if self.pick.random() < 0.3:
            self.say("#pragma unroll 1")
        self.say(f"for (u32 {i} = 0; {i} < {most}; ++{i}) {{")
        self.block(level)
        if self.pick.random() < 0.4:
            self.say(f"    if ({self.condition()}) {self.pick.choice(['break', 'continue'])};")
            self.block(level, 2)
        self.say("}")

    def switch(self, level: int) -> None:
        count = self.pick.choice([3, 4, 8])
        self.say(f"switch ({self.one('u')} & {count - 1 if count != 3 else 3}u) {{")
        for case in range(count - 1):
            self.say(f"case {case}:")
            self.block(level, 2)
            if self.pick.random() < 0.8:
                self.say("    break;")
        self.say("default:")
        self.block(level, 2)
        self.say("}")

    def exchange(self) -> None:
        u = self.one("u")
        self.say(f"s[tid] = {u};")
        self.say("__syncthreads();")
        self.say(f"{u} += s[(tid + {self.pick.randrange(1, THREADS)}) % {THREADS}];")
        self.say("__syncthreads();")

    def shuffle(self) -> None:
        u, f = self.one("u"), self.one("f")
        more = [f"{u} += __reduce_add_sync(0xffffffffu, {u});"] if self.number >= 80 else []
        self.say(
            self.pick.choice(
                [
                    f"{u} += __shfl_xor_sync(0xffffffffu, {u}, {self.pick.choice([1, 2, 16])});",
                    f"{f} += __shfl_down_sync(0xffffffffu, {f}, 4);", f"{u} = __shfl_sync(0xffffffffu, {u}, {u} & 31u);",
                    f"{u} += __match_any_sync(0xffffffffu, {u} & 3u);", f"{self.one('d')} += __shfl_xor_sync(0xffffffffu, d0, 1);",
                    f"{u} += __syncthreads_count({self.condition()});", f"{u} ^= __ballot_sync(0xffffffffu, {self.condition()});",
                    *more,
                ]
            )
        )  # fmt: skip

    def tensor(self) -> None:
        self.pick.choice([self._wmma, self._mma, self._mma, self._matrix])()

    def _wmma(self) -> None:
        a, b, c = self.new("a"), self.new("b"), self.new("c")
        of = self.pick.choice(["float", "half"])
        where = self.pick.choice(["s", "out"])
        self.say("{")
        self.depth += 1
        self.say(f"nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> {a};")
        self.say(f"nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> {b};")
        self.say(f"nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, {of}> {c};")
        self.say(f"nvcuda::wmma::fill_fragment({c}, {of}(0));")
        source = self.pick.choice(["(const half *)in", "(const half *)s"])
        for _ in range(self.pick.randint(1, 3)):
            self.say(f"nvcuda::wmma::load_matrix_sync({a}, {source}, 16);")
            self.say(f"nvcuda::wmma::load_matrix_sync({b}, (const half *)in + 256, 16);")
            self.say(f"nvcuda::wmma::mma_sync({c}, {a}, {b}, {c});")
        if self.pick.random() < 0.5:
            self.say(f"for (int i = 0; i < {c}.num_elements; ++i) {c}.x[i] = {c}.x[i] * {of}(0.5f) + {of}(1.0f);")
        if self.pick.random() < 0.8:
            self.say(
                f"nvcuda::wmma::store_matrix_sync(({of} *){where} + 256, {c}, 16, nvcuda::wmma::mem_{self.pick.choice(['row', 'col'])}_major);"
            )
            if where == "s":
                self.say("__syncthreads();")
        else:
            self.say(f"{self.one('f')} += (float){c}.x[{self.pick.randrange(4)}];")
        self.depth -= 1
        self.say("}")

    def _mma(self) -> None:
        forms = [(name, form) for name, form in _PTX.items() if form[0] <= self.number]
        name, (_, c, a, b, kind) = self.pick.choice(forms)
        acc = [self.new("c") for _ in range(c)]
        self.say("{")
        self.depth += 1
        of, letter = ("float", "f") if kind == "f" else ("u32", "u")
        self.say(f"{of} " + ", ".join(f"{x} = {self.one(letter)}" for x in acc) + ";")
        for _ in range(self.pick.randint(1, 4)):
            results = ", ".join(f"%{k}" for k in range(c))
            left = ", ".join(f"%{c + k}" for k in range(a))
            right = ", ".join(f"%{c + a + k}" for k in range(b))
            sources = ", ".join(f'"r"({self.one("u")})' for _ in range(a + b))
            self.say(
                f'asm volatile("{name} {{{results}}}, {{{left}}}, {{{right}}}, {{{results}}};" : '
                + ", ".join(f'"+{kind}"({x})' for x in acc) + f" : {sources});"
            )  # fmt: skip
        use = self.pick.randrange(5)
        if use == 0:
            self.say(f"s[256 + tid] = *(u32 *)&{acc[-1]};")
        elif use == 1:
            self.say(f"out[tid * 4] = *(u32 *)&{acc[0]}; out[tid * 4 + 1] = *(u32 *)&{acc[-1]};")
        elif use == 2 and kind == "f":
            self.say(f"{self.one('f')} = {acc[0]} + {acc[1]}; h0 = __floats2half2_rn({acc[0]}, {acc[-1]});")
        elif use == 3:
            self.say(f"{self.one('u')} += __shfl_xor_sync(0xffffffffu, *(u32 *)&{acc[0]}, 1);")
        else:
            self.say(f"{self.one('u')} += *(u32 *)&{acc[0]} ^ *(u32 *)&{acc[-1]};")
        self.depth -= 1
        self.say("}")

    def _matrix(self) -> None:
        """ldmatrix, a transpose, and one of mma that takes both."""
        x = [self.new("x") for _ in range(4)]
        self.say("{")
        self.depth += 1
        at = self.new("p")
        self.say(f"u32 {', '.join(x)}, {at} = (u32)__cvta_generic_to_shared(s) + (tid & 31u) * 16u;")
        trans = self.pick.choice(["", ".trans"])
        self.say(
            f'asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0,%1,%2,%3}}, [%4];" : '
            + ", ".join(f'"=r"({r})' for r in x) + f' : "r"({at}));'
        )  # fmt: skip
        if self.pick.random() < 0.5:
            for r in x[: self.pick.randint(1, 4)]:
                self.say(f'asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"({r}));')
        for r in x:
            self.say(f"{self.one('u')} += {r};")
        self.depth -= 1
        self.say("}")

    def copy(self) -> None:
        if self.number < 80:
            self.exchange()
            return
        size = self.pick.choice([4, 8, 16])
        how = "cg" if size == 16 and self.pick.random() < 0.5 else "ca"
        groups = self.pick.randint(1, 3)
        for group in range(groups):
            self.say(
                f'asm volatile("cp.async.{how}.shared.global [%0], [%1], {size};" :: '
                f'"r"((u32)__cvta_generic_to_shared(s) + {256 + 1024 * group}u % 3072u + tid * {size}u), '
                f'"l"((const char *)in + ({self.one("u")} & 127u) * {size}u));'
            )
            self.say('asm volatile("cp.async.commit_group;");')
        for left in range(groups - 1, -1, -1):
            self.say(f'asm volatile("cp.async.wait_group {left};" ::: "memory");')
            self.say("__syncthreads();")
            self.say(f"{self.one('u')} += s[64 + tid];")
        self.say("__syncthreads();")


def source(seed: int, arch: str) -> str:
    """The kernel `k<seed>(const u32 *in, u32 *out, int n)`, with what it needs before it left to `sources`."""
    writer = _Writer(seed, arch)
    for _ in range(writer.pick.randint(4, 14)):
        writer.statement(True, 0)
    body = "\n".join(writer.lines)
    return f"""\
extern "C" __global__ void k{seed}(const u32 *in, u32 *out, int n)
{{
    __shared__ alignas(128) u32 s[{WORDS}];
    u32 tid = threadIdx.x, local[8];
    for (int i = 0; i < 8; ++i) local[i] = in[i * 8 + (tid & 7u)];
    for (u32 i = tid; i < {WORDS}u; i += {THREADS}u) s[i] = in[i] * 3u;
    u32 u0 = in[tid], u1 = tid, u2 = in[tid + 64] >> 3, u3 = (u32)n;
    float f0 = (float)tid, f1 = 0.5f, f2 = (float)u0 * 1e-9f, f3 = -1.0f;
    double d0 = 0.75, d1 = (double)tid;
    __half2 h0 = __floats2half2_rn(f2, 1.0f), h1 = __floats2half2_rn(0.5f, f0);
    __syncthreads();
{body}
    __syncthreads();
    u32 sum = 0;
    for (int i = 0; i < 8; ++i) sum ^= local[i];
    out[{WORDS // 2} + tid] = u0 + u1 * 3u + u2 + u3 + sum + s[tid ^ 1u];
    ((float *)out)[tid * 2] = f0 + f1 * f2 + f3 + (float)d0 + (float)d1;
    ((__half2 *)out)[tid * 2 + 1] = __hadd2(h0, h1);
}}
"""


def sources(seeds: list[int], arch: str) -> str:
    """One file of CUDA with the kernels of these seeds."""
    return _HEAD + "\n".join(source(seed, arch) for seed in seeds)


def arguments() -> list[object]:
    """What each kernel is launched with, THREADS threads."""
    values = np.random.default_rng(7).integers(0, 1 << 32, WORDS, dtype=np.uint32)
    return [values, np.zeros(WORDS, np.uint32), 5]


def accused(arch: str, seeds: Iterable[int], folder: Path) -> tuple[list[str], list[str]]:
    """What controlcheck says of kernels, and those that the executor refuses, a sentence each. Needs nvcc."""
    chosen = list(seeds)
    found, refused = [], []
    for k in range(0, len(chosen), 20):
        part = chosen[k : k + 20]
        file = folder / f"random_{arch}_{k}.cu"
        file.write_text(sources(part, arch), encoding="utf-8")
        cubin = read_cubin(compile_cuda(file, arch, "nvcc"), str(file))
        for seed in part:
            launch = {"kernel": f"k{seed}", "block": (THREADS, 1, 1), "args": arguments(), "tools": ["controlcheck"]}
            try:
                report = gpuemu.check(cubin, **launch)
            except gpuemu.GpuemuError as error:
                refused.append(f"{seed}: {error}")
                continue
            for one in report.findings:
                at = "; ".join(f"{p.instruction.offset:#06x} {p.instruction}" for p in one.points)
                found.append(f"{seed}: {one.title}: {one.sentence} ({at})")
    return found, refused


def main(arch: str, seeds: str) -> int:
    """Print what is said of kernels that are right; 1 if anything is."""
    first, _, last = seeds.partition("-")
    chosen = range(int(first), int(last or first) + 1)
    with tempfile.TemporaryDirectory() as folder:
        found, refused = accused(arch, chosen, Path(folder))
    print(*found, *refused, f"{arch}: {len(found)} findings in {len(chosen) - len(refused)} kernels", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
