"""Barriers, loops, branches and instruction fetch."""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel

_ALU = 'asm volatile("lop3.b32 %0, %0, %1, %2, 0xe8;" : "+r"(x[{j}]) : "r"(k[{a}]), "r"(k[{b}]));'
_FMA = 'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(f[{j}]) : "f"(f[8]), "f"(f[9]));'
_SETUP = (
    "u32 x[8], k[4]; float f[10];\n"
    "for (u32 j = 0; j < 8u; ++j) { x[j] = tid * 3u + j; f[j] = (float)x[j] * 1e-3f; }\n"
    "for (u32 j = 0; j < 4u; ++j) k[j] = in[lane + j];\n"
    "f[8] = 0.5f + (float)lane * 1e-3f; f[9] = (float)k[0] * 1e-3f;"
)
_SINK = " ^ ".join(f"x[{j}] ^ (u32)f[{j}]" for j in range(8))


def _alu(count: int, chains: int = 4) -> list[str]:
    return [_ALU.format(j=i % chains, a=i % 4, b=(i + 1) % 4) for i in range(count)]


def _fma(count: int, chains: int = 8) -> list[str]:
    return [_FMA.format(j=i % chains) for i in range(count)]


def _long_fma(count: int) -> list[str]:
    """As _fma, in blocks of 64: compilers are slow on thousands of statements."""
    block = " ".join(f"fma.rn.f32 %{i % 8}, %{i % 8}, %8, %9;" for i in range(64))
    chains = ", ".join(f'"+f"(f[{j}])' for j in range(8))
    return [f'asm volatile("{block}" : {chains} : "f"(f[8]), "f"(f[9]));'] * (count // 64)


def _barriers() -> list[Kernel]:
    made = []
    for warps in (1, 2, 4, 8, 16):
        for between in (0, 1, 2, 3, 4, 6, 8, 12, 16):
            steps = (["__syncthreads();", *_alu(between)]) * 4
            made.append(
                kernel(
                    f"bar_alu{between}_w{warps}",
                    "barrier",
                    warps,
                    4,
                    "\n".join(steps),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=0,
                )
            )
        for between in (0, 4):
            steps = (["__syncthreads();", *_alu(between)]) * 8
            made.append(
                kernel(
                    f"bar_alu{between}_twice_w{warps}",
                    "barrier",
                    warps,
                    4,
                    "\n".join(steps),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=0,
                )
            )
        for label, between_steps in (
            ("lds", ["x[0] ^= lds32(base + 4u * lane);"]),
            ("lds2", ["x[0] ^= lds32(base + 4u * lane);", "x[1] ^= lds32(base + 4u * lane + 512u);"]),
            ("sts", ["sts32(base + 4u * tid, x[0]);"]),
            ("sts2", ["sts32(base + 4u * tid, x[0]);", "sts32(base + 4u * tid + 4096u, x[1]);"]),
            ("lds_late", ["const u32 y = lds32(base + 4u * lane);", "__syncthreads();", "x[0] ^= y;"]),
            ("shfl", ["x[0] ^= __shfl_xor_sync(0xffffffffu, x[0], 1);"]),
        ):
            steps = ["__syncthreads(); {", *between_steps, "}"] * 4
            made.append(
                kernel(
                    f"bar_{label}_w{warps}",
                    "barrier",
                    warps,
                    4,
                    "\n".join(steps),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=8192,
                )
            )
        exchange = ["sts32(base + 4u * tid, x[0]);", "__syncthreads();",
                    f"x[0] ^= lds32(base + 4u * ((tid + 32u) & {32 * warps - 1}u));", "__syncthreads();"] * 2  # fmt: skip
        made.append(
            kernel(
                f"bar_exchange_w{warps}",
                "barrier",
                warps,
                4,
                "\n".join(exchange),
                setup=_SETUP,
                sink=_SINK,
                fill_bytes=8192,
            )
        )
    for skew in (1, 4, 16):
        steps = [f"if (warp == 0u) {{ {' '.join(_alu(skew))} }}", "__syncthreads();"] * 2
        made += [
            kernel(
                f"bar_skew{skew}_w{warps}",
                "barrier",
                warps,
                4,
                "\n".join(steps),
                setup=_SETUP,
                sink=_SINK,
                fill_bytes=0,
            )
            for warps in (4, 16)
        ]
    for groups in (2, 4):
        warps = 8
        named = []
        for g in range(groups):
            branch = "if" if g == 0 else "else if"
            named.append(f"{branch} (warp % {groups}u == {g}u) {{ " + " ".join(
                [f'asm volatile("bar.sync {1 + g}, {32 * warps // groups};" ::: "memory");', *_alu(2)] * 2) + " }")  # fmt: skip
        made.append(
            kernel(
                f"bar_named{groups}_w{warps}",
                "barrier",
                warps,
                4,
                "\n".join(named),
                setup=_SETUP,
                sink=_SINK,
                fill_bytes=0,
            )
        )
    return made


def _loops() -> list[Kernel]:
    made = []
    for warps in (1, 2, 4, 8, 16):
        for count in (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64):
            made.append(
                kernel(
                    f"loop_fma{count}_w{warps}",
                    "loop",
                    warps,
                    8,
                    "\n".join(_fma(count)),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=0,
                )
            )
        for count in (1, 4, 8, 16, 32, 64):
            # More turns of the same loop: the difference excludes the code before and after it.
            made.append(
                kernel(
                    f"loop_fma{count}_longer_w{warps}",
                    "loop",
                    warps,
                    16,
                    "\n".join(_fma(count)),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=0,
                )
            )
        for count in (4, 16, 64):
            made.append(
                kernel(
                    f"loop_alu{count}_w{warps}",
                    "loop",
                    warps,
                    8,
                    "\n".join(_alu(count, 8)),
                    setup=_SETUP,
                    sink=_SINK,
                    fill_bytes=0,
                )
            )
        inner = ["#pragma unroll 1", "for (int j = 0; j < 4; ++j) {", *_fma(4), "}"]
        made.append(
            kernel(f"loop_nested_w{warps}", "loop", warps, 4, "\n".join(inner), setup=_SETUP, sink=_SINK, fill_bytes=0)
        )
        uniform = ["if ((i & 1) == 0) {", *_fma(4), "} else {", *_alu(4), "}"]
        made.append(
            kernel(
                f"loop_branch_w{warps}", "loop", warps, 8, "\n".join(uniform), setup=_SETUP, sink=_SINK, fill_bytes=0
            )
        )
        divergent = ["if (lane < 16u) {", *_fma(4), "} else {", *_alu(4), "}"]
        made.append(
            kernel(
                f"loop_diverge_w{warps}", "loop", warps, 8, "\n".join(divergent), setup=_SETUP, sink=_SINK, fill_bytes=0
            )
        )
    return made


def _fetch() -> list[Kernel]:
    made = []
    for count, warps in (
        *((n, 1) for n in (64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)),
        *((n, 4) for n in (64, 128, 256, 512, 768, 1024, 2048)),
        *((n, 8) for n in (64, 128, 256, 512, 1024)),
        *((n, 16) for n in (64, 128, 256, 512)),
    ):  # fmt: skip
        made.append(
            kernel(
                f"fetch_{count}_w{warps}",
                "fetch",
                warps,
                2,
                "\n".join(_long_fma(count)),
                setup=_SETUP,
                sink=_SINK,
                fill_bytes=0,
            )
        )
    return made


def kernels() -> list[Kernel]:
    """All of them."""
    return [*_barriers(), *_loops(), *_fetch()]
