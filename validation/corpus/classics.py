"""Kernels that people write: transposes, reductions, products, scans, stencils, sorts, histograms."""

from __future__ import annotations

from validation.corpus.kernel import Kernel, kernel

TILE = 32


def _virtual(n: int, width: str, t: str) -> str:
    """`docs/layouts.md`, virtual threads: v(t) = (t mod (W/n)) n + t div (W/n)."""
    return f"((({t}) % ({width} / {n}u)) * {n}u + ({t}) / ({width} / {n}u))"


def transpose(layout: str, warps: int, ctas: int = 1) -> Kernel:
    """A 32x32 float tile, written by rows and read by columns; each thread moves 1024 / threads elements."""
    threads = 32 * warps
    rounds = TILE * TILE // threads
    lines = []
    n = int(layout[1:]) if layout[0] == "v" else 1
    for write in (True, False):
        for r in range(rounds):
            t = f"(tid + {r * threads}u)"
            v = _virtual(n, "1024u", t) if n > 1 else t
            x, y = f"({v} % 32u)", f"({v} / 32u)"
            row, column = (y, x) if write else (x, y)
            if layout == "padded":
                word = f"{row} * 33u + {column}"
            elif layout == "swizzled":
                word = f"{row} * 32u + ({column} ^ {row})"
            else:
                word = f"{row} * 32u + {column}"
            if write:
                lines.append(f"sts32(base + 4u * ({word}), x[{r % 8}] + {r}u);")
            else:
                lines.append(f"x[{r % 8}] ^= lds32(base + 4u * ({word}));")
        lines.append("__syncthreads();")
    suffix = f"_x{ctas}" if ctas > 1 else ""
    return kernel(
        f"transpose_{layout}_w{warps}{suffix}", "transpose" if ctas == 1 else "residents", warps,
        {1: 2, 4: 4}.get(warps, 6), "\n".join(lines),
        setup="u32 x[8]; for (u32 j = 0; j < 8u; ++j) x[j] = tid + j;",
        sink=" ^ ".join(f"x[{j}]" for j in range(8)), fill_bytes=4352, ctas=ctas,
    )  # fmt: skip


def _reduction(how: str, warps: int) -> Kernel:
    """The sum over the block, by halving strides, doubling strides, virtual threads or shuffles."""
    threads = 32 * warps
    lines = []
    if how == "shuffle":
        lines.append("float s = v;")
        lines += [f"s += __shfl_down_sync(0xffffffffu, s, {1 << (4 - j)});" for j in range(5)]
        lines += [
            "if (lane == 0u) sts32(base + 4u * warp, __float_as_uint(s));",
            "__syncthreads();",
            f"if (warp == 0u) {{ s = lane < {warps}u ? __uint_as_float(lds32(base + 4u * lane)) : 0.0f;",
            *[f"s += __shfl_down_sync(0xffffffffu, s, {1 << (4 - j)});" for j in range(5)],
            "v += s * 1e-3f; }",
            "__syncthreads();",
        ]
    else:
        me = _virtual(4, f"{threads}u", "tid") if how == "virtual" else "tid"
        lines += [f"const u32 me = {me};", "sts32(base + 4u * me, __float_as_uint(v));", "__syncthreads();"]
        stride = threads // 2
        while stride:
            if how == "doubling":
                s = threads // 2 // stride
                lines.append(f"if (tid < {stride}u) {{ const u32 at = base + {8 * s}u * tid; "
                             f"sts32(at, __float_as_uint(__uint_as_float(lds32(at)) + __uint_as_float(lds32(at + {4 * s}u)))); }}")  # fmt: skip
            else:
                lines.append(f"if (tid < {stride}u) {{ const u32 at = base + 4u * me; const u32 far = base + 4u * "
                             f"({_virtual(4, f'{threads}u', f'(tid + {stride}u)') if how == 'virtual' else f'(tid + {stride}u)'}); "
                             "sts32(at, __float_as_uint(__uint_as_float(lds32(at)) + __uint_as_float(lds32(far)))); }")  # fmt: skip
            lines.append("__syncthreads();")
            stride //= 2
        lines.append("v += __uint_as_float(lds32(base)) * 1e-3f;")
    return kernel(
        f"reduction_{how}_w{warps}", "reduction", warps, 4 if warps < 16 else 2, "\n".join(lines),
        setup="float v = (float)in[tid & 1023u];", sink="__float_as_uint(v)", fill_bytes=4096,
    )  # fmt: skip


def matmul(layout: str, warps: int) -> Kernel:
    """The inner product over a pair of float tiles, Ms[ty][k] Ns[k][tx], 16 or 32 wide."""
    threads = 32 * warps
    width = 16 if "16" in layout else 32
    row = width + 1 if "padded" in layout else width
    lines = []
    for k in range(width):
        y, x = f"((tid / {width}u) % {width}u)", f"(tid % {width}u)"
        if "virtual" in layout:
            v = _virtual(4, f"{width}u", x)
            x = v
        first, second = f"{y} * {row}u + {k}u", f"{k * row}u + {x}"
        if "conflict" in layout:
            first, second = f"{x} * {row}u + {k}u", f"{k * row}u + {y}"
        lines.append(f"s[{k % 4}] += __uint_as_float(lds32(base + 4u * ({first}))) * "
                     f"__uint_as_float(lds32(base + {4 * width * row}u + 4u * ({second})));")  # fmt: skip
    return kernel(
        f"matmul_{layout}_w{warps}", "matmul", warps, max(1, 256 // threads), "\n".join([*lines, "__syncthreads();"]),
        setup="float s[4] = {0.0f, 1.0f, 2.0f, 3.0f};",
        sink=" ^ ".join(f"__float_as_uint(s[{j}])" for j in range(4)), fill_bytes=8 * width * row // 16 * 16 + 16,
    )  # fmt: skip


def _register_tiled(warps: int, wide: bool) -> Kernel:
    """SGEMM's inner loop: 4x4 or 8x4 outputs a thread from LDS.128."""
    rows = 8 if wide else 4
    lines = []
    for k in range(8):
        lines.append(f"{{ float a[{rows}], b[4]; uint4 q;")
        for part in range(rows // 4):
            lines.append(f"q = lds128(base + {512 * k + 128 * part}u + 16u * (lane / 8u));")
            lines += [f"a[{4 * part + j}] = __uint_as_float(q.{'xyzw'[j]});" for j in range(4)]
        lines.append(f"q = lds128(base + 4096u + {512 * k}u + 16u * (lane % 8u + 8u * (warp % 4u)));")
        lines += [f"b[{j}] = __uint_as_float(q.{'xyzw'[j]});" for j in range(4)]
        lines += [f"s[{4 * i + j}] += a[{i}] * b[{j}];" for i in range(rows) for j in range(4)]
        lines.append("}")
    return kernel(
        f"matmul_registers{rows}x4_w{warps}", "matmul", warps, 2, "\n".join([*lines, "__syncthreads();"]),
        setup=f"float s[{4 * rows}]; for (u32 j = 0; j < {4 * rows}u; ++j) s[j] = (float)j;",
        sink=" ^ ".join(f"__float_as_uint(s[{j}])" for j in range(4 * rows)), fill_bytes=8192,
    )  # fmt: skip


def _others() -> list[Kernel]:
    made = []
    for warps in (1, 4, 8, 16):
        threads = 32 * warps
        x = "u32 x = in[tid & 1023u], y = tid;"
        for label, bins in (("spread", "((x ^ (tid * 7u)) & 1023u)"), ("hot", "(x & 3u)"), ("own", "tid & 1023u")):
            lines = []
            for r in range(4):
                lines.append(
                    f'asm volatile("red.shared.add.u32 [%0], %1;" :: "r"(base + 4u * ({bins})), "r"(1u) : "memory");'
                )
                lines.append(f"x = x * 1664525u + {1013904223 + r}u;")
            made.append(kernel(f"histogram_{label}_w{warps}", "classics", warps, 4, "\n".join([*lines, "__syncthreads();"]),
                               setup=x, sink="x", fill_bytes=4096))  # fmt: skip
        scan = ["sts32(base + 4u * tid, x);", "__syncthreads();"]
        step = 1
        while step < threads:
            scan += [f"y = tid >= {step}u ? lds32(base + 4u * (tid - {step}u)) : 0u;", "__syncthreads();",
                     "x += y; sts32(base + 4u * tid, x);", "__syncthreads();"]  # fmt: skip
            step *= 2
        made.append(
            kernel(f"scan_w{warps}", "classics", warps, 2, "\n".join(scan), setup=x, sink="x ^ y", fill_bytes=2048)
        )
        stencil = [
            "{ const u32 at = base + 4u * (tid + 32u);",
            "y = lds32(at - 4u) + 2u * lds32(at) + lds32(at + 4u) + lds32(at - 128u) + lds32(at + 128u);",
            "__syncthreads(); sts32(at, y); __syncthreads(); }",
        ]
        made.append(kernel(f"stencil_w{warps}", "classics", warps, 6, "\n".join(stencil), setup=x, sink="x ^ y",
                           fill_bytes=4096))  # fmt: skip
        sort = []
        for j in (16, 8, 4, 2, 1):
            sort += [f"y = __shfl_xor_sync(0xffffffffu, x, {j}); x = ((lane & {j}u) == 0u) ? min(x, y) : max(x, y);"]
        made.append(kernel(f"sort_shuffle_w{warps}", "classics", warps, 6, "\n".join([*sort, "x = x * 5u + 3u;"]), setup=x,
                           sink="x ^ y", fill_bytes=0))  # fmt: skip
        merge = ["sts32(base + 4u * tid, x);", "__syncthreads();"]
        for j in (64, 16, 4, 1) if threads > 64 else (16, 4, 1):
            merge += [f"{{ const u32 far = base + 4u * (tid ^ {j}u); y = lds32(far); __syncthreads();",
                      f"x = ((tid & {j}u) == 0u) ? min(x, y) : max(x, y); sts32(base + 4u * tid, x); __syncthreads(); }}"]  # fmt: skip
        made.append(kernel(f"sort_shared_w{warps}", "classics", warps, 2, "\n".join(merge), setup=x, sink="x ^ y",
                           fill_bytes=4096))  # fmt: skip
        lookup = ["x = lds32(base + 4u * (x & 2047u)) + y;"] * 4
        made.append(
            kernel(f"lookup_w{warps}", "classics", warps, 4, "\n".join(lookup), setup=x, sink="x", fill_bytes=8192)
        )
        softmax = ["float m = v;"]
        softmax += [f"m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, {j}));" for j in (16, 8, 4, 2, 1)]
        softmax += ["float e = exp2f(v - m), s = e;"]
        softmax += [f"s += __shfl_xor_sync(0xffffffffu, s, {j});" for j in (16, 8, 4, 2, 1)]
        softmax += ["v = __fdividef(e, s) + 0.25f * v;"]
        made.append(kernel(f"softmax_w{warps}", "classics", warps, 4, "\n".join(softmax),
                           setup="float v = (float)in[tid & 1023u] * 1e-3f;", sink="__float_as_uint(v)", fill_bytes=0))  # fmt: skip
    return made


def kernels() -> list[Kernel]:
    """All of them, for lone CTAs."""
    made = [
        transpose(layout, warps)
        for layout in ("plain", "padded", "swizzled", "v2", "v4", "v8", "v16") for warps in (1, 4, 8, 16)
    ]  # fmt: skip
    made += [_reduction(how, warps) for how in ("halving", "doubling", "virtual", "shuffle") for warps in (2, 4, 8, 16)]
    made += [
        matmul(layout, warps)
        for layout in ("straight16", "conflict16", "conflict16_padded", "straight32", "virtual32", "conflict32",
                       "conflict32_padded")
        for warps in (4, 8)
    ]  # fmt: skip
    made += [_register_tiled(warps, wide) for warps in (1, 4, 8) for wide in (False, True)]
    return made + _others()
